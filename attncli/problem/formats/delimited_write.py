"""A matrix as delimited text that reads back as the same matrix with the same labels."""

from __future__ import annotations

import re
from collections.abc import Iterator

from attncli.lazy import np, pattern
from attncli.problem.formats.base import Part
from attncli.problem.formats.cells import BLANKS
from attncli.problem.numbers import looks_like_number

_UNSAFE = pattern(r"[\s\",;]|^[#\ufeff]|^sep=|^$", re.IGNORECASE)


def lines(part: Part, separator: str) -> Iterator[str]:
    """The lines of a matrix (a vector is one row), with their ends: shortest digits that read back exactly."""
    array = np.atleast_2d(np.asarray(part.array, dtype=float))
    rows, columns = part.row_labels, part.column_labels
    if (rows is None) != (columns is None) and any(map(_is_ambiguous, rows or columns or [])):
        # Only an empty first cell makes labels of what looks like numbers, and it stands for both kinds.
        rows = rows or [str(i + 1) for i in range(array.shape[0])]
        columns = columns or [str(i + 1) for i in range(array.shape[1])]
    if columns is not None:
        corner = ['""' if separator == BLANKS else ""] if rows is not None else []
        yield separator.join(corner + list(map(_quoted, columns))) + "\n"
    for i, row in enumerate(array):
        label = [_quoted(rows[i])] if rows is not None else []
        yield separator.join(label + list(map(repr, row.tolist()))) + "\n"


def _is_ambiguous(label: str) -> bool:
    return not label.strip() or looks_like_number(label) or label.strip().lower() in ("true", "false")


def _quoted(label: str) -> str:
    return '"' + label.replace('"', '""') + '"' if _UNSAFE.search(label) else label
