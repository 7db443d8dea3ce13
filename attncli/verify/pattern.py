"""Where the cells lie that an array has wrong: in one sequence or head, along a diagonal, at an edge, in a block."""

from __future__ import annotations

from collections.abc import Sequence

from attncli.lazy import Array, np

_FEW = 3  # heads or sequences that are named; diagonals
_FULL = 0.9  # of a rectangle, from which on it is a block


def pattern(outside: Array, leading: Sequence[str], rows: str, columns: str, heads: int = 1) -> list[str]:
    """What is to be said of where the wrong cells lie; nothing where there are none.

    outside: (..., n, c), tokens as rows. leading: what the axes in front count. rows, columns: what those count.
    heads: how many lie side by side in the columns (of a joined output).
    """
    if not outside.any():
        return []
    if outside.mean() > 0.99:
        return ["everywhere"]
    if heads > 1:
        apart = outside.reshape(*outside.shape[:-1], heads, outside.shape[-1] // heads).swapaxes(-2, -3)
        return pattern(apart, [*leading, "head"], rows, columns)
    told = []
    for axis, name in enumerate(leading):
        others = tuple(i for i in range(outside.ndim) if i != axis)
        places = np.flatnonzero(outside.any(axis=others))
        if len(places) < outside.shape[axis]:
            told.append(f"only in {_counted(name, places, outside.shape[axis])}")
    matrix = np.asarray(outside.any(axis=tuple(range(outside.ndim - 2))))
    return told + _in_matrix(matrix, rows, columns)


def _counted(name: str, places: Array, count: int) -> str:
    if len(places) > _FEW:
        return f"{len(places)} of {count} {_plural(name)}"
    numbers = " and ".join(str(place + 1) for place in places)
    return f"{name if len(places) == 1 else _plural(name)} {numbers} of {count}"


def _in_matrix(wrong: Array, rows: str, columns: str) -> list[str]:
    """A diagonal, an edge or a block of a matrix (n, c)."""
    at = np.argwhere(wrong)
    if len(at) == 1:
        return ["a single cell"] if wrong.size > 1 else []
    if columns in ("key", "query"):
        offsets = np.unique(at[:, 1] - at[:, 0])
        if len(offsets) <= _FEW and len(np.unique(at[:, 0])) > len(offsets):
            return ["on the diagonal " + " and ".join(f"{columns} - {rows} = {offset}" for offset in offsets)]
    sides = [(rows, np.unique(at[:, 0]), wrong.shape[0]), (columns, np.unique(at[:, 1]), wrong.shape[1])]
    filled = len(at) / (len(sides[0][1]) * len(sides[1][1]))
    told = [text for name, places, count in sides if (text := _stretch(name, places, count))]
    if not told:
        return []
    if any(text.startswith("the ") for text in told):
        return [f"at the edge: {', '.join(told)}"]
    return [f"{'a block' if filled >= _FULL else 'within'}: {', '.join(told)}"]


def _stretch(name: str, places: Array, count: int) -> str | None:
    """One run of neighbours that is not all there is, as `the last 5 queries`, or `queries 3 to 8`."""
    first, last = int(places[0]), int(places[-1])
    length = last - first + 1
    if length != len(places) or length == count:
        return None
    plural = _plural(name) if length > 1 else name
    if first == 0 and length <= count / 2:
        return f"the first {length} {plural}" if length > 1 else f"the first {plural}"
    if last == count - 1 and length <= count / 2:
        return f"the last {length} {plural}" if length > 1 else f"the last {plural}"
    return f"{plural} {first + 1} to {last + 1}" if length > 1 else f"{plural} {first + 1}"


def _plural(name: str) -> str:
    return "queries" if name == "query" else f"{name}s"
