"""The mark of an engineer's array: its cells outside the tolerance, where they lie, and the tolerance in a sentence."""

from __future__ import annotations

from dataclasses import dataclass, replace

from attncli.lazy import Array, np
from attncli.pipeline.trace import NAMED_STEPS, Trace
from attncli.verify.pattern import pattern
from attncli.verify.precision import Precision
from attncli.verify.printed import Printed
from attncli.verify.right import Right
from attncli.verify.verdicts import AGREES, BLANK, FOLLOWS, VERDICTS, WRONG, ArrayMark, CellMark, StepMark

_LISTED = 50  # wrong cells that are told one by one
_WORST = 5
_TOLD = 0.1  # of the tolerance, from which on it is worth telling that numbers were rounded when they were printed


@dataclass(frozen=True)
class GivenArray:
    """An array as it was handed over. part: tokens as rows, shaped as the part of the step that it stands for.

    dtype: of its numbers. printed: what a program's text is taken for. blank: which cells of the part were left out
    (they hold the right numbers); None where none was.
    """

    address: str
    step: str
    index: tuple[int, ...]
    part: Array
    dtype: str
    printed: Printed | None = None
    blank: Array | None = None

    def filled(self, exact: Array) -> GivenArray:
        """The same, with the right numbers where nothing is to be marked."""
        return self if self.blank is None else replace(self, part=np.where(self.blank, exact, self.part))

    def half_unit(self) -> Array | float:
        """What printing rounded away."""
        return 0.0 if self.printed is None else self.printed.half_unit(self.part)


def mark_array(
    trace: Trace,
    given: GivenArray,
    right: Right,
    ratio: Array,
    codes: Array,
    precision: Precision,
    heads: int,
    asked: tuple[float, float] | None = None,
) -> StepMark:
    """right: of this part alone. ratio: how far each cell is off. heads: how many lie side by side in the columns."""
    columns = trace.layout == "columns"
    hand = given.part if given.blank is None else np.where(given.blank, np.nan, given.part)
    shown = [array.mT if columns else array for array in (hand, right.exact, ratio, codes)]
    hand, exact, shown_ratio, shown_codes = shown
    rows, names = trace.axes(given.address)
    labels = trace.labels(given.address)
    typical = right.typical()

    def cell(at: tuple[int, ...]) -> CellMark:
        off = abs(float(hand[at]) - float(exact[at]))
        share = float(shown_ratio[at])
        room = off / share if 0 < share < np.inf else 0.0
        x = float(exact[at])
        numbers = tuple(i + 1 for i in (*given.index, *at))
        return CellMark(numbers, labels[0][at[-2]], labels[1][at[-1]], VERDICTS[int(shown_codes[at])],
                        float(hand[at]), x, (x - room, x + room))  # fmt: skip

    leading = trace.leading_names(given.step)[len(given.index) :]
    array = ArrayMark(
        tolerance=_tolerance(given, precision, typical, asked),
        outside=int((codes == WRONG).sum()),
        size=int((codes != BLANK).sum()),
        largest=float(ratio.max(initial=0)),
        worst=[cell(at) for at in _largest(shown_ratio, shown_codes, _WORST)],
        where=pattern(codes == WRONG, leading, NAMED_STEPS[given.step].rows, NAMED_STEPS[given.step].columns, heads),
    )
    verdict = VERDICTS[max(AGREES, int(codes.max(initial=AGREES)))]
    cells = [cell(at) for at in _listed(shown_ratio, shown_codes)]
    # The last place worth telling is the power of ten below what a cell may be off.
    unit = np.broadcast_to(10.0 ** np.floor(np.log10(typical)) if typical > 1e-300 else 0.0, exact.shape)
    return StepMark(
        given.address, verdict, rows, names, *labels, cells, hand=hand, unit=unit, exact=exact,
        low=exact, high=exact, codes=shown_codes, array=array,
    )  # fmt: skip


def array_remark(mark: StepMark) -> str:
    """What an array was taken for, what its numbers may be off, and how close it is to that where it is right."""
    array = mark.array
    assert array is not None
    told = f"{mark.step}: {array.tolerance}"
    if mark.verdict == "agrees":
        return f"{told}; the largest error is {array.largest:.2g} of that"
    if mark.verdict == "follows":
        return f"{told}; not what is right, but what follows from the array of the step that is wrong"
    return told


def _tolerance(given: GivenArray, precision: Precision, typical: float, asked: tuple[float, float] | None) -> str:
    """The tolerance in a sentence: its size, and what it is for."""
    taken = f"an array of {given.dtype}"
    if asked is not None:
        return f"{taken}; a number may be off by {asked[0]:g} + {asked[1]:g} of its size, as was asked for"
    if given.printed is not None:
        taken = f"taken for {taken} ({given.printed.why})"
    parts = [
        f"rounding to {precision.name} ({precision.u:.3g} of its size)",
        f"sums in {precision.sums} ({precision.v:.3g} a term)",
    ]
    half = float(np.max(given.half_unit(), initial=0))
    if half > _TOLD * typical:
        parts.append(f"printing (half of its last place, at most {half:.2g})")
    return f"{taken}; a number may be off by about {typical:.2g}, for {', '.join(parts[:-1])} and {parts[-1]}"


def _largest(ratio: Array, codes: Array, count: int) -> list[tuple[int, ...]]:
    """The cells that are farthest off, the farthest first; none that follow from an earlier array."""
    if not ratio.size:
        return []
    ranked = np.where(codes == FOLLOWS, 0.0, np.minimum(ratio, 1e300))
    count = min(count, ranked.size)
    flat = np.argpartition(ranked.ravel(), -count)[-count:]
    flat = flat[np.argsort(ranked.ravel()[flat])[::-1]]
    return [_at(int(i), ratio.shape) for i in flat if ranked.ravel()[i] > 0]


def _listed(ratio: Array, codes: Array) -> list[tuple[int, ...]]:
    """The cells that do not agree, in reading order: of many the first and those that are farthest off."""
    flat = np.flatnonzero(codes > AGREES)
    if len(flat) > _LISTED:
        wrong = np.flatnonzero(codes == WRONG)
        first = wrong[:1] if len(wrong) else flat[:1]
        of_all = np.minimum(ratio.ravel()[flat], 1e300)
        flat = np.union1d(first, flat[np.argpartition(of_all, -_LISTED)[-_LISTED + 1 :]])
    return [_at(int(i), codes.shape) for i in flat]


def _at(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(flat, shape))
