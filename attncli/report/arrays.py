"""What a check says of an engineer's array: the cells that are farthest off, and what is to be said of all."""

from __future__ import annotations

import math

from attncli.report.look import Look, told_apart
from attncli.report.numbers import percent
from attncli.report.sheet import Sheet
from attncli.verify.verdicts import ArrayMark, CellMark, StepMark
from attncli.verify.written import fixed, places_of

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
        row_labels=[look.label(where(step, cell)) for cell in worst],
        column_labels=COLUMNS,
        cells=[_cells(step, cell) for cell in worst],
        rows=list(range(len(worst))),
        columns=list(range(len(COLUMNS))),
        of=(len(worst), len(COLUMNS)),
    )


def whole(step: StepMark) -> str:
    """`wrong, 3 of 4096 numbers (0.0732 %) outside the tolerance; only in head 3 of 4; the worst are`"""
    array = step.array
    assert array is not None
    if array.outside:
        return "; ".join([f"{step.verdict}, {_outside(array)} outside the tolerance", *array.where, "the worst are"])
    if step.verdict == "follows":
        return "follows, from the array of the step that is wrong"
    return f"{step.verdict}, all of {array.size} numbers within the tolerance" + (
        "; the farthest are" * bool(array.worst)
    )


def first_wrong(step: StepMark, cell: CellMark, look: Look) -> str:
    """The first wrong cell of an array in a sentence, and how many there are."""
    assert step.array is not None
    array, right, *_ = _cells(step, cell)
    told = f"{step.step} has {array} at {look.label(where(step, cell))}, where {right} is right"
    are = "is" if step.array.outside == 1 else "are"
    told += f"; {_outside(step.array)} {are} outside the tolerance"
    if step.array.largest < math.inf:
        told += f", by up to {step.array.largest:.3g} times"
    return "; ".join([told, *step.array.where])


def _outside(array: ArrayMark) -> str:
    return f"{array.outside} of {array.size} numbers ({percent(array.outside, array.size)})"


def where(step: StepMark, cell: CellMark) -> str:
    """`cat, sat`; in front of it sequence and head where there are any."""
    *leading, row, column = cell.at
    place = f"{told_apart(step.row_labels)[row - 1]}, {told_apart(step.column_labels)[column - 1]}"
    return f"{','.join(map(str, leading))} {place}" if leading else place


def _cells(step: StepMark, cell: CellMark) -> list[str]:
    room = (cell.from_hand[1] - cell.from_hand[0]) / 2
    error = cell.hand - cell.exact
    share = f"{abs(error) / room:.3g}" if room > 0 else "-" if error == 0 else "inf"
    unit = float(step.unit.flat[0])
    return [*_apart(cell.hand, cell.exact, unit), f"{error:.2e}", share]


def _apart(hand: float, right: float, unit: float) -> list[str]:
    """Both numbers with one place more than the tolerance has, and two digits more than they share."""
    error = abs(hand - right)
    if 0 < error < math.inf:
        unit = min(unit, 10.0 ** math.floor(math.log10(error))) if unit > 0 else 0.0
    shown = [_number(x, unit) for x in (hand, right)]
    return shown if shown[0] != shown[1] or error == 0 else [repr(hand), repr(right)]


def _number(x: float, unit: float) -> str:
    """One place more than the tolerance has; all of a small number, and of one that is exact."""
    places = places_of(unit) + 1
    return fixed(x, places) if unit > 0 and places <= _MOST_PLACES else f"{x:.9g}"
