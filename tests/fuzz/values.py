"""Values at random: numbers, matrices, and text with slips."""

from __future__ import annotations

import random
from typing import Any

NUMBERS = [
    "0",
    "1",
    "-1",
    "2",
    "3",
    "0.5",
    "-0.25",
    "1e3",
    "1e-3",
    "1e308",
    "-1e308",
    "1e-320",
    "inf",
    "-inf",
    "nan",
    "1/3",
    "sqrt(2)",
    "e^1",
    "27%",
    "-oo",
    "≈0.71",
    "2×10^3",
    "1,5",
    "1e400",
    "0x10",
    "1_0",
    "~",
    "_",
    "?",
    "null",
    "true",
    "x",
    "1/0",
    "1O",
]
SPLICES = [
    *NUMBERS,
    "",
    " ",
    ",",
    ";",
    "\t",
    "\n",
    "\r",
    ":",
    "[",
    "]",
    "{",
    "}",
    "[[",
    "]]",
    "#",
    '"',
    "'",
    "-",
    "- ",
    "&a ",
    "*a",
    "!!x ",
    "<<: ",
    "|",
    ">",
    "%",
    "\x00",
    "\x1b[31m",
    "\u202e",
    "\u200b",
    "\ufeff",
    "\ud7ff",
    "é",
    "漢",
    "🙂",
    "9" * 400,
    "[" * 70,
    "sep=",
    "{identity: 3}",
    "{file: a.npy}",
    "{stage: a, step: output}",
    "a.npz::Q",
    "::",
    "=",
]


class Values:
    """Values from one source of chance."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def often(self, share: float) -> bool:
        return self.chance.random() < share

    def pick(self, *values: Any) -> Any:
        return self.chance.choice(values)

    def size(self) -> int:
        return self.pick(1, 1, 2, 2, 2, 3, 3, 4)

    def number(self) -> str:
        if self.often(0.9):
            return self.pick(str(self.chance.randint(-3, 4)), f"{self.chance.gauss(0, 2):.2f}", "1", "0")
        return self.chance.choice(NUMBERS)

    def rows(self, n: int, m: int) -> list[list[str]]:
        return [[self.number() for _ in range(m)] for _ in range(n)]

    def matrix(self, *shape: int) -> str:
        """Text of nested lists."""
        if len(shape) == 1:
            return f"[{', '.join(self.number() for _ in range(shape[0]))}]"
        return f"[{', '.join(self.matrix(*shape[1:]) for _ in range(shape[0]))}]"

    def mutated(self, text: str, most: int = 3) -> str:
        for _ in range(self.chance.randint(0, most)):
            at = self.chance.randint(0, len(text))
            end = min(len(text), at + self.pick(0, 0, 1, 2, 8))
            text = text[:at] + self.pick("", self.chance.choice(SPLICES), text[at:end] * 2) + text[end:]
        return text
