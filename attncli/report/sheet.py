"""One matrix of a Trace as text: a title, labels and cells, before any renderer draws it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from attncli.lazy import Array, np
from attncli.pipeline.trace import NAMED_STEPS, Trace, parse_address
from attncli.report.heat import shares
from attncli.report.look import Look
from attncli.report.numbers import spell

MANY = 60
ENDS = 5
# Sums of rounded weights that a person gave (0.67 + 0.33) count as 1 as well.
_SUM_TOLERANCE = 1e-3
_WEIGHTS = ("weights", "weights_back")
_PLURAL = {"query": "queries", "key": "keys", "feature": "features"}


class Sheet(NamedTuple):
    """A matrix ready to be drawn.

    title: `weights[2], head 2`. size: `3 queries x 3 keys`. caption: what the numbers are. labels and cells: as shown.
    rows, columns: the positions that are shown, counted from 0, None where some are left out; of: their counts in all.
    styles: the cells that are hidden, the largest of their query, wrong or follows; empty without colour.
    heat: how far a cell's number lies between the lowest and the highest, 0 to 1, where that is to be seen.
    """

    title: str
    size: str
    caption: str
    row_labels: list[str]
    column_labels: list[str]
    cells: list[list[str]]
    rows: list[int | None]
    columns: list[int | None]
    of: tuple[int, int]
    styles: Mapping[tuple[int, int], str] = {}
    heat: Mapping[tuple[int, int], float] = {}

    @property
    def heading(self) -> str:
        """`weights[2], head 2 (3 queries x 3 keys): each row sums to 1`"""
        return f"{self.title} ({self.size}): {self.caption}"

    def left_out(self) -> str | None:
        """A note of the rows and columns that are left out, or None."""
        parts = [
            f"{name} {ENDS + 1}-{total - ENDS} of {total}"
            for name, shown, total in zip(("rows", "columns"), (self.rows, self.columns), self.of, strict=True)
            if None in shown
        ]
        return f"{' and '.join(parts)} not shown; --format csv and -o give them all" if parts else None


def expand(trace: Trace, steps: Sequence[str]) -> list[str]:
    """The addresses of all matrices of the steps: `weights` of two heads is weights[1] and weights[2]."""
    return [
        part
        for step in steps
        for part in (trace.parts(parse_address(step)[0]) if not parse_address(step)[1] else [step])
    ]


def sheets(trace: Trace, steps: Sequence[str], look: Look, *, elide: bool = True) -> Iterator[Sheet]:
    """A sheet for each matrix of the steps; of many rows or columns only the ends if `elide`.

    Raises InputError for a step or part that the trace does not have.
    """
    for address in expand(trace, steps):
        yield sheet(trace, address, look, elide=elide)


def sheet(trace: Trace, address: str, look: Look, *, elide: bool = True) -> Sheet:
    """The sheet of one matrix, with labels as they can be shown and numbers as the precision asks."""
    array = trace[address]
    whole = _whole_shape(trace, address, array.shape)
    rows, columns = (_shown(count, elide) for count in whole)
    # Of many queries a trace may hold those alone that are shown: the positions in the array, for both axes.
    at = [
        [*range(held)] if held < count else [i for i in shown if i is not None]
        for shown, held, count in zip((rows, columns), array.shape, whole, strict=True)
    ]
    row_labels, column_labels = trace.labels(address)
    kept = np.ix_(*at)
    dots = _dots(trace, address, array, look.precision)
    hidden = dots[kept]
    cells = spell(array[kept], look.precision, look.rounding)
    for i, j in np.argwhere(hidden).tolist():
        cells[i][j] = look.hidden
    for row in cells:
        _insert_gap(row, columns, look.gap)
    if None in rows:
        cells.insert(rows.index(None), [look.gap] * len(columns))
    return Sheet(
        title=", ".join(filter(None, (address, part_name(trace, address)))),
        size=counted(address, whole, trace.axes(address)),
        caption=_caption(trace, address, array, look),
        row_labels=_labels(rows, [row_labels[i] for i in at[0]], look),
        column_labels=_labels(columns, [column_labels[j] for j in at[1]], look),
        cells=cells,
        rows=rows,
        columns=columns,
        of=whole,
        styles=_styles(hidden, _largest(trace, address, array)[kept], rows, columns) if look.color else {},
        heat=_heat(shares(array, dots)[kept], rows, columns) if _is_heated(address, look) else {},
    )


def _whole_shape(trace: Trace, address: str, shape: tuple[int, ...]) -> tuple[int, int]:
    """How many rows and columns the step has, of which the trace may hold some queries only."""
    rows, columns = (
        count if trace.held is None or axis != "query" else trace.held.of
        for axis, count in zip(trace.axes(address), shape, strict=True)
    )
    return rows, columns


def _labels(positions: list[int | None], labels: list[str], look: Look) -> list[str]:
    """The labels as they are shown, with the mark of those that are left out."""
    shown = [look.label(label) for label in labels]
    _insert_gap(shown, positions, look.gap)
    return shown


def _shown(count: int, elide: bool) -> list[int | None]:
    if count <= MANY or not elide:
        return list(range(count))
    return [*range(ENDS), None, *range(count - ENDS, count)]


def _insert_gap(row: list[str], columns: list[int | None], gap: str) -> None:
    if None in columns:
        row.insert(columns.index(None), gap)


def _dots(trace: Trace, address: str, array: Array, precision: int) -> Array:
    """The cells shown as hidden. A hidden key that got a weight (in an empty row, say) is a number like any other."""
    hidden = trace.hidden(address)
    if hidden is None:
        return np.zeros(array.shape, dtype=bool)
    if parse_address(address)[0] in _WEIGHTS:
        return np.asarray(hidden & (np.abs(array) < 0.5 * 10.0**-precision))
    return hidden


def _is_heated(address: str, look: Look) -> bool:
    """Whether its numbers are to be seen as colours: weights where there are colours, all steps where asked for."""
    return look.ramp and parse_address(address)[0] in _WEIGHTS if look.heat is None else look.heat


def _styles(
    hidden: Array, largest: Array, rows: list[int | None], columns: list[int | None]
) -> dict[tuple[int, int], str]:
    return dict.fromkeys(_positions(largest, rows, columns), "largest") | dict.fromkeys(
        _positions(hidden, rows, columns), "hidden"
    )


def _heat(share: Array, rows: list[int | None], columns: list[int | None]) -> dict[tuple[int, int], float]:
    known = ~np.isnan(share)
    return dict(zip(_positions(known, rows, columns), share[known].tolist(), strict=True))


def _positions(where: Array, rows: list[int | None], columns: list[int | None]) -> list[tuple[int, int]]:
    """The true cells, as positions in the table, where the mark of what is left out takes a row and a column."""
    row_at = [i for i, row in enumerate(rows) if row is not None]
    column_at = [j for j, column in enumerate(columns) if column is not None]
    return [(row_at[i], column_at[j]) for i, j in np.argwhere(where).tolist()]


def _largest(trace: Trace, address: str, array: Array) -> Array:
    """Where a query's largest weights are."""
    if parse_address(address)[0] not in _WEIGHTS or not array.size:
        return np.zeros(array.shape, dtype=bool)
    highest = array.max(axis=_summed_axis(trace, address), keepdims=True)
    return np.asarray((array == highest) & (highest > 0))


def _summed_axis(trace: Trace, address: str) -> int:
    """The displayed axis along which weights are normalized."""
    return 0 if trace.layout == "columns" else 1


def part_name(trace: Trace, address: str) -> str:
    """`sequence 1, head 2` for weights[1,2]; empty for a step that is a single matrix."""
    name, indices = parse_address(address)
    leading = trace.leading_names(name)
    indices = (1,) * (len(leading) - len(indices)) + indices
    return ", ".join(f"{what} {index}" for what, index in zip(leading, indices, strict=True))


def counted(address: str, shape: Sequence[int], axes: Sequence[str]) -> str:
    """`3 queries x 4 keys`; of a step that is one number for each query, `3 queries`."""
    single = NAMED_STEPS[parse_address(address)[0]].shape.endswith("x 1")
    return " x ".join(
        f"{count} {axis if count == 1 else _PLURAL[axis]}"
        for count, axis in zip(shape, axes, strict=True)
        if not (single and axis == "feature")
    )


def _caption(trace: Trace, address: str, array: Array, look: Look) -> str:
    name = parse_address(address)[0]
    if name not in _WEIGHTS:
        return NAMED_STEPS[name].about
    axis = _summed_axis(trace, address)
    line = ("column", "row")[axis] + " shown" * (trace.held is not None)
    lines = ("columns", "rows")[axis]
    known = trace.sums_to_one
    if not known:
        return f"{lines} need not sum to 1"
    with np.errstate(invalid="ignore", over="ignore"):
        others = np.flatnonzero(~(np.abs(array.sum(axis=axis, dtype=np.float64) - 1) <= _SUM_TOLERANCE)).tolist()
    count = array.shape[1 - axis]
    if not others:
        return f"each {line} sums to 1"
    if len(others) == count:
        return f"no {line} sums to 1"
    if len(others) > 3:
        return f"each {line} sums to 1, except {len(others)} of {count}"
    labels = trace.labels(address)[1 - axis]
    return f"each {line} sums to 1, except {', '.join(look.label(labels[i]) for i in others)}"
