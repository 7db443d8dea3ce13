"""What a check says of an engineer's array: the cells that are farthest off, and what is to be said of all."""

from __future__ import annotations

from attncli.report.look import Look
from attncli.report.sheet import Sheet
from attncli.verify.verdicts import CellMark, StepMark
from attncli.verify.written import places_of

_MOST_PLACES = 17
COLUMNS = ["array", "right", "error", "of tolerance"]


def sheet_of_array(step: StepMark, look: Look) -> Sheet:
    """The worst cells of an array one under the other; they are told by their errors in units of the tolerance."""
    assert step.array is not None
    worst = step.array.worst
    return Sheet(
        title=step.step,
        size=" x ".join(map(str, step.hand.shape)),
        caption=whole(step),
        row_labels=[look.label(where(cell)) for cell in worst],
        column_labels=COLUMNS,
        cells=[_cells(step, cell) for cell in worst],
        rows=list(range(len(worst))),
        columns=list(range(len(COLUMNS))),
        of=(len(worst), len(COLUMNS)),
        hidden=frozenset(),
        largest=frozenset(),
    )


def whole(step: StepMark) -> str:
    """`wrong, 12.3 % of 4096 numbers outside the tolerance; only in head 3 of 4; the worst are`"""
    array = step.array
    assert array is not None
    if array.outside:
        outside = f"{100 * array.share:.3g} % of {array.size} numbers outside the tolerance"
        return "; ".join([f"{step.verdict}, {outside}", *array.where, "the worst are"])
    if step.verdict == "follows":
        return "follows, from the array of the step that is wrong"
    return f"{step.verdict}, all of {array.size} numbers within the tolerance" + (
        "; the farthest are" * bool(array.worst)
    )


def first_wrong(step: StepMark, cell: CellMark, look: Look) -> str:
    """The first wrong cell of an array in a sentence."""
    assert step.array is not None
    array, right, *_ = _cells(step, cell)
    told = f"{step.step} has {array} at {look.label(where(cell))}, where {right} is right"
    return f"{told}; {100 * step.array.share:.3g} % of its numbers are outside the tolerance"


def where(cell: CellMark) -> str:
    """`cat, sat`; in front of it sequence and head where there are any."""
    leading = ",".join(map(str, cell.at[:-2]))
    return f"{leading + ' ' if leading else ''}{cell.row}, {cell.column}"


def _cells(step: StepMark, cell: CellMark) -> list[str]:
    room = (cell.from_hand[1] - cell.from_hand[0]) / 2
    error = cell.hand - cell.exact
    share = f"{abs(error) / room:.3g}" if room > 0 else "-" if error == 0 else "inf"
    unit = float(step.unit.flat[0])
    return [_number(cell.hand, unit), _number(cell.exact, unit), f"{error:.2e}", share]


def _number(x: float, unit: float) -> str:
    """One place more than the tolerance has; all of a small number, and of one that is exact."""
    places = places_of(unit) + 1
    return f"{x:.{places}f}" if unit > 0 and places <= _MOST_PLACES else f"{x:.9g}"
