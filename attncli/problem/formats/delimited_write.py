"""A matrix as delimited text that reads back as the same matrix with the same labels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from attncli.lazy import Array, np, pattern
from attncli.problem.formats.base import ByRows, Part
from attncli.problem.formats.cells import BLANKS
from attncli.problem.numbers import looks_like_number

_UNSAFE = pattern(r"[\s\",;]|^[#\ufeff]|^sep=|^$", re.IGNORECASE)


def by_rows(part: Part, separator: str, decimal: str = ".") -> ByRows:
    """The text of a matrix, (n, m), some rows at a time; its numbers are not looked at."""
    rows, columns = _labels(part)
    head = ""
    if columns is not None:
        corner = ['""' if separator == BLANKS else ""] if rows is not None else []
        head = separator.join(corner + [_quoted(label, separator) for label in columns]) + "\n"

    def text(array: Array, start: int) -> Iterator[bytes]:
        own = None if rows is None else rows[start : start + len(array)]
        return (line.encode() for line in _lines(array, own, separator, decimal))

    return ByRows(head.encode(), text)


def _labels(part: Part) -> tuple[Sequence[str] | None, Sequence[str] | None]:
    """The labels of rows and columns, None where there are none."""
    rows, columns = part.row_labels, part.column_labels
    if (rows is None) != (columns is None) and any(map(_is_ambiguous, rows or columns or [])):
        # Only an empty first cell makes labels of what looks like numbers, and it stands for both kinds.
        rows = rows or [str(i + 1) for i in range(part.array.shape[0])]
        columns = columns or [str(i + 1) for i in range(part.array.shape[1])]
    return rows, columns


def _lines(array: Array, labels: Sequence[str] | None, separator: str, decimal: str) -> Iterator[str]:
    """The rows, with their ends: shortest digits that read back exactly."""
    for i, row in enumerate(array):
        label = [_quoted(labels[i], separator)] if labels is not None else []
        numbers = list(map(repr, np.asarray(row, dtype=float).tolist()))
        if decimal != ".":
            numbers = [number.replace(".", decimal) for number in numbers]
        yield separator.join(label + numbers) + "\n"


def _is_ambiguous(label: str) -> bool:
    return not label.strip() or looks_like_number(label) or label.strip().lower() in ("true", "false")


def _quoted(label: str, separator: str) -> str:
    return '"' + label.replace('"', '""') + '"' if separator in label or _UNSAFE.search(label) else label
