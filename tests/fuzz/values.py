"""Values at random: numbers, matrices, and text for every setting, nearly right."""

from __future__ import annotations

import random
from typing import Any

from attncli.pipeline.masks import MASKS
from attncli.pipeline.normalizers import NORMALIZERS
from attncli.pipeline.scores import SCORES
from attncli.pipeline.trace import NAMED_STEPS as STEPS
from attncli.problem.settings import FIELDS

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

    def value(self, name: str) -> str:
        """Text for one setting, nearly right."""
        field = FIELDS[name]
        plain = {
            "number": self.number,
            "integer": lambda: self.pick("1", "2", "3", "4", "0", "-1", "1.5", "17", "9" * 30),
            "matrix": lambda: self.matrix(self.size(), self.size()),
            "masks": self.mask,
            "tokens": lambda: " ".join("abcd"[: self.size()]),
            "flag": lambda: "true",
            "parameters": lambda: self.pick(
                "sigma=2",
                "radius=1",
                "map=relu",
                f"W={self.matrix(2, 2)}",
                f"w_v={self.matrix(2)}",
                f"W_k={self.matrix(2, 2)}",
                "sigma=0",
                "W_k=2",
            ),
            "steps": lambda: ",".join(self.step() for _ in range(self.size())),
            "expect": lambda: f"{self.step()}={self.matrix(2, 2)}",
            "score": lambda: self.chance.choice(SCORES.names()),
            "text": lambda: self.pick(";", ",", "tab", "x", "|"),
        }
        if field.choices is not None and self.often(0.95) and field.choices():
            text = self.chance.choice(field.choices())
        else:
            text = plain.get(field.kind, self.number)()
        if name == "normalizer":
            text = self.chance.choice(NORMALIZERS.names()) + self.pick("", "", ":2", ":1.5", ":0", ":x")
        if name == "mask":
            text = self.mask()
        if name == "output":
            text = self.pick("", f"{self.step()}=") + self.pick(
                "o.npy", "o.npz", "o.csv", "o.json", "o.yaml", "o.txt", "o.svg"
            )
        if name == "save_problem":
            text = self.pick("s.yaml", "s.json", "-", "s.csv")
        return self.mutated(text, 1) if self.often(0.08) else text

    def step(self) -> str:
        step = self.chance.choice([*STEPS])
        return step + self.pick("", "", "", "[1]", "[2]", "[1,1]", "[0]", "[" + "9" * self.pick(1, 30, 5000) + "]")

    def mask(self) -> str:
        name = self.chance.choice(MASKS.names())
        arguments = (
            "",
            "",
            ":1",
            ":2",
            ":3,2",
            ":1,0",
            ":*,1",
            ":0,0,1",
            ":1,1,0",
            ":top-left",
            ":bottom-right",
            ":[[1,0],[1,1]]",
            ":0",
            ":-1",
            ":1.5",
            ":x",
            ":1 1 0",
            ":2,0:bottom-right",
            ":0,1/0,0,1",
        )
        return name + self.chance.choice(arguments)

    def options(self, names: list[str], most: int = 4) -> list[str]:
        arguments: list[str] = []
        for name in self.chance.sample(names, min(len(names), self.chance.randint(0, most))):
            field = FIELDS[name]
            if field.flag and name not in ("stdin_format",):
                arguments += [field.flag] if field.kind == "flag" else [field.flag, self.value(name)]
        return arguments
