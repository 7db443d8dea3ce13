"""Matrices of plain numbers, `[[1, 2], [3, 4]]`, kept out of a YAML text while it is parsed.

Most of the text of a problem is such matrices, and a node for each number costs twenty times what the number does. So
a matrix in brackets is taken out of the text before it is composed, and a word of the same length is left in its place,
which keeps every line and column. Where such a word turns up as anything but a value of its own (within quotes, say),
the text is composed as it is; so is what is no matrix of plain numbers after all. A `Literal` looks like the node that
the matrix would have become, and becomes it when somebody asks for more than its numbers.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

from attncli.lazy import pattern

MARK = "\ue000"  # of private use: what begins the word that stands for a matrix
_ROW = r"\[[0-9eE+\-., \r\n]+\]"
_MATRIX = pattern(rf"\[\s*{_ROW}(?:\s*,\s*{_ROW})*\s*\]")
_INK = pattern(r"[^\r\n]")


class Literal:
    """A matrix in brackets as it stands in the text: a node of YAML whose parts are composed when they are asked for.

    rows: its numbers. compose: gives the node of a text, as yaml.compose does.
    """

    id = "sequence"
    style = None
    flow_style = True

    def __init__(self, text: str, rows: list[list[float]], scalar: Any, compose: Callable[[str], Any]) -> None:
        self.text = text
        self.rows = rows
        self.tag = scalar.tag
        self.start_mark = scalar.start_mark
        self.end_mark = scalar.end_mark
        # An anchor may stand before the bracket.
        self._at = scalar.end_mark.line, scalar.end_mark.column - len(scalar.value)
        self._compose = compose

    @property
    def count(self) -> int:
        """How many nodes it stands for."""
        return 1 + sum(1 + len(row) for row in self.rows)

    @property
    def spelling(self) -> list[list[str]]:
        """Its numbers as they are written, row by row."""
        rows = self.text.strip()[1:-1].split("[")[1:]
        return [[cell.strip() for cell in row.partition("]")[0].split(",")] for row in rows]

    @cached_property
    def value(self) -> list[Any]:
        """The nodes of its rows, with the places that they have in the whole text."""
        import yaml

        first, column = self._at
        node = self._compose(" " * column + self.text)
        for row in node.value:
            for inner in (row, *row.value):
                mark = inner.start_mark
                inner.start_mark = yaml.Mark("", 0, first + mark.line, mark.column, None, 0)
        rows: list[Any] = node.value
        return rows


class Literals:
    """A text without its matrices, and the matrices by the words that stand for them."""

    def __init__(self, text: str) -> None:
        self.taken: dict[str, tuple[str, list[list[float]]]] = {}
        usable = MARK not in text and "\t" not in text and "[" in text
        self.text = _MATRIX.sub(self._word, text) if usable else text

    def _word(self, match: re.Match[str]) -> str:
        word, text = f"{MARK}{len(self.taken)}", match[0]
        lines = text.splitlines(keepends=True)
        rows = _numbers(text)
        if rows is None or len(word) > len(lines[0].rstrip("\r\n")):
            return text
        self.taken[word] = text, rows
        if len(lines) == 1:
            return word.ljust(len(text))
        return word + _INK.sub(" ", text[len(word) :])

    def node(self, scalar: Any, compose: Callable[[str], Any]) -> Literal | None:
        """The matrix that a scalar stands for; None where the word is part of something else."""
        taken = self.taken.get(scalar.value)
        return Literal(*taken, scalar, compose) if taken is not None and not scalar.style else None

    def straddles(self, found: Iterable[str]) -> bool:
        """Whether one that was not found in the tree has several lines: a comment ends with the first of them."""
        lost = Counter(text for text, _ in self.taken.values())
        lost.subtract(found)
        return any(count > 0 and len(text.splitlines()) > 1 for text, count in lost.items())


def _numbers(text: str) -> list[list[float]] | None:
    """Its rows; None where a closer look is needed: rows of unequal length, 1e400, what is no number after all."""
    cells = [row.partition("[")[2].split(",") for row in text[1:-1].split("]")[:-1]]
    try:
        rows = [list(map(float, row)) for row in cells]
    except ValueError:
        return None
    if len({len(row) for row in rows}) != 1 or any(math.inf in row or -math.inf in row for row in rows):
        return None
    return rows
