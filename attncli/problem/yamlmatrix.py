"""A matrix out of a YAML tree: nested lists of numbers, with the place and the spelling of each."""

from __future__ import annotations

from typing import Any

from attncli.errors import AttnError, InputError, Place, ShapeError, many, raise_all
from attncli.lazy import np, pattern
from attncli.problem.literals import Literal
from attncli.problem.matrix import Matrix
from attncli.problem.numbers import parse_number, quote
from attncli.problem.yamltree import BOOL, NULL, Node, is_plain, place_of

# All that plain decimals are made of: float() reads nothing else out of these characters.
_DECIMALS = pattern(r"[0-9.eE,+-]*")
_MOST_ERRORS = 10
_MOST_CELLS = 1000


def matrix_from_node(node: Node, file: str, *, blanks: bool = False) -> Matrix:
    """Nested lists of numbers as an array of as many axes; true and false alone give an array of bool.

    blanks: `~`, `_`, `?` and nothing are cells left out: NaN in the array, None in the spelling.
    Raises InputError for each cell that is no number (the first ten together), ShapeError for rows of unequal length.
    """
    if node.id != "sequence":
        found = f"the value {quote(node.value)}" if node.id == "scalar" else "a mapping"
        raise InputError(f"expected a list of numbers, found {found}", place=place_of(node, file))
    if isinstance(node, Literal):
        return _matrix(np.array(node.rows), node, file, blanks)
    shape = _shape(node, file)
    if 0 in shape:
        raise InputError(
            "the matrix has no rows" if shape[0] == 0 else "the matrix has empty rows",
            place=place_of(node, file),
            hint="a .npy file can hold a matrix without rows",
        )
    rows = _rows(node, shape, file)
    return _matrix(_array(rows, file, blanks).reshape(shape), node, file, blanks)


def _matrix(array: Any, node: Node, file: str, blanks: bool) -> Matrix:
    """The array with the spelling and the places of its numbers, which are looked up when they are asked for."""

    def spelling() -> list[Any]:
        return _spelled(node, blanks)

    def cell(index: tuple[int, ...]) -> Place:
        inner = node
        for i in index:
            inner = inner.value[i]
        return place_of(inner, file)

    return Matrix(array, spelling=spelling, place=place_of(node, file), cell=cell)


def _shape(node: Node, file: str) -> tuple[int, ...]:
    """The shape of nested lists, read along the first of each; `_rows` compares the others."""
    shape: list[int] = []
    while node.id == "sequence":
        shape.append(len(node.value))
        if not node.value:
            break
        node = node.value[0]
    return tuple(shape)


def _rows(node: Node, shape: tuple[int, ...], file: str) -> list[list[Node]]:
    """The innermost lists of an array, each a list of scalar nodes; ragged ones raise ShapeError."""
    level = [node]
    for depth, size in enumerate(shape):
        last = depth == len(shape) - 1
        for number, row in enumerate(level):
            if row.id != "sequence":
                raise ShapeError(_mixed(row, f"a row of {size}"), place=place_of(row, file))
            if len(row.value) != size:
                _refuse_odd_cells([level[0], row], file)
                raise _ragged(level, number, last, file)
        if last:
            break
        level = [child for row in level for child in row.value]
    for row in level:
        for child in row.value:
            if child.id != "scalar":
                raise ShapeError(_mixed(child, "a number"), place=place_of(child, file))
    return [row.value for row in level]


def _mixed(node: Node, expected: str) -> str:
    found = {"sequence": "a list", "mapping": "a mapping"}.get(node.id) or f"the single value {quote(node.value)}"
    return f"{found} stands where {expected} is expected"


def _refuse_odd_cells(rows: list[Node], file: str) -> None:
    """Rows of unlike length may come of what is no number: in [1 -2] a comma is missing."""
    cells = [child for row in rows for child in row.value if child.id == "scalar" and not _is_blank(child)]
    raise_all([error for child in cells[:_MOST_CELLS] if (error := _wrong(child, file)) is not None][:_MOST_ERRORS])


def _wrong(node: Node, file: str) -> AttnError | None:
    try:
        _cell(node, file, False)
    except AttnError as error:
        return error
    return None


def _ragged(level: list[Node], number: int, last: bool, file: str) -> ShapeError:
    first, other = level[0], level[number]
    kind = "value" if last else "row"
    lines = place_of(first, file).line, place_of(other, file).line
    return ShapeError(
        f"row {number + 1} (line {lines[1]}) has {many(len(other.value), kind)}, "
        f"row 1 (line {lines[0]}) has {len(first.value)}",
        place=place_of(other, file),
    )


def _array(rows: list[list[Node]], file: str, blanks: bool) -> Any:
    values: list[list[float]] = []
    errors: list[AttnError] = []
    truths = 0
    for row in rows:
        texts = [node.value for node in row]
        if _DECIMALS.fullmatch(",".join(texts)):
            try:
                values.append(list(map(float, texts)))
                continue
            except ValueError:
                pass  # an empty cell, or 1e or 2001-13-45: told below, with its place
        numbers = []
        for node in row:
            truths += is_plain(node) and node.value in BOOL
            try:
                numbers.append(_cell(node, file, blanks))
            except InputError as error:
                errors.append(error)
        values.append(numbers)
        if len(errors) >= _MOST_ERRORS:
            break
    raise_all(errors[:_MOST_ERRORS])
    array = np.array(values, dtype=float)
    if truths == array.size:
        return array.astype(bool)
    if truths:
        odd = next(node for row in rows for node in row if is_plain(node) and node.value in BOOL)
        raise InputError(f"{odd.value} stands among numbers", place=place_of(odd, file), hint="write 1 or 0")
    if np.isinf(array).any():
        _refuse_overflow(rows, file)
    return array


def _cell(node: Node, file: str, blanks: bool) -> float:
    """One cell that is not a plain decimal."""
    text = node.value
    if is_plain(node) and text in BOOL:
        return float(BOOL[text])
    if _is_blank(node):
        if blanks:
            return float("nan")
        shown = quote(text) if text else "nothing"
        raise InputError(
            f"{shown} stands where a number is expected",
            place=place_of(node, file),
            hint="cells are left out only under expect:",
        )
    return parse_number(text, place=place_of(node, file))


def _is_blank(node: Node) -> bool:
    return node.value.strip() in ("", "_", "?", "~") or (is_plain(node) and node.value in NULL)


def _refuse_overflow(rows: list[list[Node]], file: str) -> None:
    """Infinity that was not written as such: 1e400."""
    for row in rows:
        for node in row:
            if not _is_blank(node):
                parse_number(node.value, place=place_of(node, file))


def _spelled(node: Node, blanks: bool) -> list[Any]:
    if isinstance(node, Literal):
        return node.spelling
    return [
        _spelled(child, blanks) if child.id == "sequence" else None if blanks and _is_blank(child) else child.value
        for child in node.value
    ]
