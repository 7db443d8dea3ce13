"""Marking as a teacher does: each number against the right one, then against what follows from the hand's own numbers.

The steps are marked in the order of the pipeline, and what the hand wrote in a step is what the later ones start from:
as written, within half a unit, or, for a hand that kept more digits than it wrote, as computed since the last slip.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

from attncli.lazy import Array, np
from attncli.problem.problem import Problem
from attncli.verify.boxes import Boxes, BoxFlow
from attncli.verify.flow import Hand
from attncli.verify.frame import Frame
from attncli.verify.habitual import habit_of
from attncli.verify.inputs import half_units
from attncli.verify.intervals import Box
from attncli.verify.sheet import Entry, entries_of
from attncli.verify.verdicts import AGREES, BLANK, FOLLOWS, LAST_PLACE, TRUNCATED, VERDICTS, WRONG, CellMark, StepMark
from attncli.verify.written import Written, near, room_of, together

_SINGLE = 2.0**-22  # of the largest number of a row: what single precision may be off
_SIX = 6  # significant digits, from which on a number may have been computed in single precision


@dataclass
class Bases:
    """What the later steps start from. points: as written; boxes: within half a unit; slips: the wrong cells alone.

    A hand that kept all digits and wrote fewer goes on from its slips, and from nothing else that it wrote.
    """

    points: dict[str, Hand[Array]] = field(default_factory=dict)
    boxes: dict[str, Hand[Box]] = field(default_factory=dict)
    slips: dict[str, Hand[Array]] = field(default_factory=dict)
    exactly: bool = True  # whether nothing written so far is anything but the right number in full


class Marking:
    """The marks of one problem, and what they were made from (for whoever searches the mistake).

    frame: the problem. entries: what the hand wrote. bases: what follows a step is computed from.
    marks: one a entry, in order. first_wrong: the name of the first wrong step, or None. adjusted: by address, where a
    number follows only because its row is written so as to sum to 1.
    """

    def __init__(self, problem: Problem) -> None:
        self.frame = Frame(problem)
        self.entries = entries_of(self.frame, problem.expect)
        self.problem = problem
        self.bases = Bases()
        self.notes: list[str] = []
        self.first_wrong: str | None = None
        self.adjusted: dict[str, Array] = {}
        self._exact = BoxFlow(self.frame, Boxes(), {})
        self._as_written = BoxFlow(self.frame, Boxes(), {})
        self._within = BoxFlow(self.frame, Boxes(self.uncertain if problem.rounded_inputs else None), self.bases.boxes)
        self._kept = BoxFlow(self.frame, Boxes(), {})
        self._earlier: list[Entry] = []
        self.marks: list[StepMark] = []
        for step, entries in groupby(self.entries, key=lambda entry: entry.step):
            self._mark(step, list(entries))

    @cached_property
    def uncertain(self) -> dict[str, Array]:
        """Half a unit for each input that was written with a decimal point."""
        return half_units(self.problem, self.frame)

    def hand(self, step: str) -> Array | None:
        """The hand's numbers of a step as they were written, in the form of `Frame`; NaN where blank."""
        base = self.bases.points.get(step)
        return None if base is None else np.where(base.written, base.numbers, np.nan)

    def _mark(self, step: str, entries: list[Entry]) -> None:
        """Mark all parts of one step, and let the later ones start from it."""
        exact = self.frame.exact(step)
        wrong = np.zeros(exact.shape, dtype=bool)
        for entry in entries:
            codes, reason = self._codes(entry, exact)
            self.marks.append(self._step_mark(entry, codes, exact, reason))
            wrong |= codes == WRONG
        self._go_on_from(step, entries, exact, wrong)

    def _codes(self, entry: Entry, exact: Array) -> tuple[Array, str]:
        """The verdict of each cell as an index of VERDICTS, and what explains `follows`."""
        written = entry.written
        codes = np.where(written.agrees(exact), AGREES, WRONG)
        codes[written.blank] = BLANK
        if (codes <= AGREES).all():
            return codes, ""
        room = _room(exact, self._exact.target(entry.step))
        codes[(codes > AGREES) & written.agrees(exact, room)] = AGREES
        is_cut = written.truncated(exact, room) | self._short_of_one(entry, exact, room)
        codes[(codes > AGREES) & is_cut] = TRUNCATED
        if (codes <= TRUNCATED).all():
            return codes, ""
        codes[(codes > TRUNCATED) & self._follows(entry, codes > TRUNCATED)] = FOLLOWS
        reason = ""
        if (codes > FOLLOWS).any():
            habit = habit_of(self, entry, codes > FOLLOWS)
            if habit is not None:
                codes[codes > FOLLOWS] = FOLLOWS
                reason = habit.told("column" if self.frame.trace.layout == "columns" else "row")
            else:
                codes[(codes > FOLLOWS) & _last_place(written, exact, room)] = LAST_PLACE
        return codes, reason

    def _short_of_one(self, entry: Entry, exact: Array, room: Array) -> Array | bool:
        """Where h is 1 - 1e-20 cut to 0.99: a softmax over several keys never reaches 1, though its double does."""
        if entry.step != "weights" or self.frame.normalizer.name != "softmax":
            return False
        h, u = entry.written.value, entry.written.unit
        several = np.broadcast_to(self.frame.counts, exact.shape).sum(axis=-1, keepdims=True) > 1
        with np.errstate(invalid="ignore"):
            short: Array = several & (exact >= 1 - room_of(u, h, exact) - room) & (np.abs(h + u - 1) <= 1e-6 * u)
        return short

    def _follows(self, entry: Entry, asked: Array) -> Array:
        """Where h is what the hand's own numbers give: within half a unit, as written, or kept in full.

        Or one unit off in a row that is written so as to sum to 1; such cells are kept in `adjusted`.
        """
        written = entry.written
        flows = [self._within]
        if self.bases.points:
            flows.append(self._as_written)
        if self.bases.slips:
            flows.append(self._kept)
        rows = self.adjusted_rows(entry.step, written)
        follows = ~asked
        adjusted = np.zeros_like(follows)
        for flow in flows:
            box = flow.target(entry.step)
            follows = follows | written.meets(box.low, box.high)
            if rows is not None:
                adjusted = adjusted | (rows & near(written, box.low, box.high))
            if follows.all():
                break
        self.adjusted[entry.address] = adjusted & ~follows
        return follows | adjusted

    def adjusted_rows(self, step: str, written: Written) -> Array | None:
        """Weights, hidden ones aside, whose row is written so as to sum to exactly 1; None where there are none."""
        if step not in ("weights", "weights_back") or not self.frame.sums_to_one:
            return None
        total = written.value.sum(axis=-1, keepdims=True)
        adjusted: Array = np.abs(total - 1) < 1e-6 * written.unit.max(axis=-1, keepdims=True)
        hidden = self.frame.is_hidden(step)  # has weight 0, which nobody rounds
        if hidden is not None:
            adjusted = adjusted & ~hidden
        return adjusted if adjusted.any() else None

    def _go_on_from(self, step: str, entries: list[Entry], exact: Array, wrong: Array) -> None:
        """The hand's numbers of this step are what the later steps start from."""
        written = together([entry.written for entry in entries])
        value, unit = written.value, written.unit
        points = written.fits(exact)
        hidden = self.frame.is_hidden(step)
        half = unit / 2 if hidden is None else np.where(hidden, 0, unit / 2)
        marked = ~written.blank
        box = Box.of(value) if points else _bounded(step, value, half, self.frame.sums_to_one)
        self.bases.points[step] = Hand(value, marked)
        self.bases.boxes[step] = Hand(box, marked)
        self._as_written.hand[step] = Hand(Box.of(value), marked)
        if wrong.any():
            self.bases.slips[step] = Hand(value, wrong)
            self._kept.hand[step] = Hand(Box.of(value), wrong)
            self.first_wrong = self.first_wrong or step
        self.bases.exactly &= points and not wrong.any()
        self._earlier += entries

    @property
    def earlier(self) -> list[Entry]:
        """The entries that are marked so far."""
        return self._earlier

    def _step_mark(self, entry: Entry, codes: Array, exact: Array, reason: str) -> StepMark:
        trace = self.frame.trace
        shown = {"hand": entry.written.value, "unit": entry.written.unit, "exact": exact, "codes": codes}
        shown |= {"low": exact, "high": exact}
        if (codes > AGREES).any():
            from_hand = self._within.target(entry.step)
            shown |= {name: np.broadcast_to(end, exact.shape) for name, end in vars(from_hand).items()}
        shown = {name: entry.shown(array) for name, array in shown.items()}
        rows, columns = trace.axes(entry.address)
        row_labels, column_labels = trace.labels(entry.address)
        marked = np.argwhere(shown["codes"] > AGREES)
        numbers = [shown[name][tuple(marked.T)].tolist() for name in ("codes", "hand", "unit", "exact", "low", "high")]
        cells = [
            CellMark(
                (*entry.indices, *(i + 1 for i in at)), row_labels[at[-2]], column_labels[at[-1]], VERDICTS[code],
                hand, right, _told(low, high, right), unit,
            )
            for at, code, hand, unit, right, low, high in zip(marked.tolist(), *numbers, strict=True)
        ]  # fmt: skip
        verdict = VERDICTS[max(AGREES, int(codes.max(initial=AGREES)))]
        return StepMark(
            entry.address, verdict, rows, columns, row_labels, column_labels, cells,
            shown["hand"], shown["unit"], shown["exact"], shown["low"], shown["high"], shown["codes"], reason,
        )  # fmt: skip

    def explained_by_rounded_inputs(self) -> bool:
        """Whether the first wrong step would follow if every input with a decimal point were rounded."""
        if self.first_wrong is None or self.problem.rounded_inputs or not self.uncertain:
            return False
        order = [entry.step for entry in self.entries]
        first = order.index(self.first_wrong)
        before = {step: base for step, base in self.bases.boxes.items() if order.index(step) < first}
        box = BoxFlow(self.frame, Boxes(self.uncertain), before).target(self.first_wrong)
        entries = [entry for entry in self.entries if entry.step == self.first_wrong]
        exact = self.frame.exact(self.first_wrong)
        return all(
            bool(np.all(entry.written.meets(box.low, box.high) | entry.written.reproduced(exact))) for entry in entries
        )


def _told(low: float, high: float, exact: float) -> tuple[float, float]:
    """The bounds as they are told: one number where nothing but float noise lies between them."""
    if high - low > 1e-11 * max(1.0, abs(low)):
        return low, high
    point = exact if low <= exact <= high else (low + high) / 2
    return point, point


def _room(exact: Array, box: Box) -> Array:
    """What float arithmetic may be off the right numbers."""
    with np.errstate(invalid="ignore"):
        room = np.maximum(box.high - exact, exact - box.low)
        # More than this is no float noise but a jump (the edge of a kernel), where the core's own number counts.
        return np.where(np.isfinite(room), np.clip(room, 0, 1e-6 * np.maximum(1, np.abs(exact))), 0)


def _last_place(written: Written, exact: Array, room: Array) -> Array:
    """Six or more digits, and one unit off in the last place, or single precision's noise."""
    h, u = written.value, written.unit
    with np.errstate(invalid="ignore"):
        one_off = np.abs(h - written.to_unit(exact)) <= u * (1 + 1e-6) + room
        finite = np.where(np.isfinite(exact), np.abs(exact), 0)
        noise = np.abs(h - exact) <= _SINGLE * finite.max(axis=-1, keepdims=True, initial=0) + room
        found: Array = (written.digits >= _SIX) & (one_off | noise)
    return found


def _bounded(step: str, value: Array, half: Array, sums_to_one: bool) -> Box:
    """Half a unit around each number, but not beyond what the step can hold."""
    box = Box(value - half, value + half)
    if step in ("kernel", "exp", "sum"):
        box = Box(np.where(value >= 0, np.maximum(box.low, 0), box.low), box.high)
    if step in ("weights", "weights_back") and sums_to_one:
        inside = (value >= 0) & (value <= 1)
        box = Box(
            np.where(inside, np.maximum(box.low, 0), box.low), np.where(inside, np.minimum(box.high, 1), box.high)
        )
    return box
