"""Marking as a teacher does: each number against the right one, then against what follows from the hand's own numbers.

The steps are marked in the order of the pipeline, and what the hand wrote in a step is what the later ones start from:
as written, or as it stood before it was rounded; behind a wrong step, from numbers within half a unit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import groupby

from attncli.lazy import Array, np
from attncli.problem.problem import Problem
from attncli.verify.carried import AS_WRITTEN, BEFORE, IN_FULL, Base, Carried, Numbers
from attncli.verify.frame import Frame
from attncli.verify.grade import Grade
from attncli.verify.habits import RoundingHypothesis
from attncli.verify.inputs import half_units
from attncli.verify.rounding import habit_of
from attncli.verify.sheet import Entry, entries_of
from attncli.verify.verdicts import (
    AGREES,
    BLANK,
    BY_HABIT,
    LAST_PLACE,
    NOT_MARKED,
    TRUNCATED,
    VERDICTS,
    WRONG,
    CellMark,
    StepMark,
)
from attncli.verify.written import CALCULATOR, Written, places_of, room_of, together

_SHARES = ("weights", "weights_back")


class Marking:
    """The marks of one problem, and what they were made from (for whoever searches the mistake).

    frame: the problem. entries: what the hand wrote, sheet: the same by step. marks: one an entry, in order.
    first_wrong: the name of the first wrong step, or None. slips: the wrong cells of each wrong step. adjusted: by
    step, where a number follows only because its row is written so as to sum to 1.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self.frame = problem, Frame(problem)
        self.entries = entries_of(self.frame, problem.expect)
        self.sheet = {
            step: together([entry.written for entry in entries])
            for step, entries in groupby(self.entries, key=lambda entry: entry.step)
        }
        self.marks: list[StepMark] = []
        self.notes: list[str] = [note for entry in self.entries for note in entry.notes]
        self.first_wrong: str | None = None
        self.slips: dict[str, Array] = {}
        self.adjusted: dict[str, Array] = {}
        self._carried = Carried(self.frame, self.uncertain if problem.rounded_inputs else {})
        self._way: RoundingHypothesis | None = None
        self._untold: dict[str, Array] = {}  # blank cells of wrong steps, which nobody can fill in
        self._cuts = False
        self._by_habit: set[str] = set()
        for step in self.sheet:
            self._mark(step)

    @cached_property
    def uncertain(self) -> dict[str, Array]:
        """Half a unit for each input that was written with a decimal point."""
        return half_units(self.problem, self.frame)

    @cached_property
    def rounded_up(self) -> set[str]:
        """The steps in which some number lies above what it should be, so that this hand does not cut."""
        everything = Carried(self.frame, {})
        for step, written in self.sheet.items():
            if not written.blank.all():
                everything.take(step, Numbers(np.where(written.blank, self.frame.exact(step), written.value)))
        found = set()
        for step, written in self.sheet.items():
            h, x, given = written.value, self.frame.exact(step), everything.base(step, AS_WRITTEN)
            nearest = [x] if given is None else [x, given.low]
            up = written.agrees(x) & ~written.blank
            for base in nearest:
                up &= np.sign(base) * h > np.abs(base) + CALCULATOR * written.unit + room_of(written.unit, h, base)
            if up.any():
                found.add(step)
        return found

    # -- one step ---------------------------------------------------------------------------------------------------

    def _mark(self, step: str) -> None:
        """Mark all parts of one step, and let the later ones start from it."""
        frame, written = self.frame, self.sheet[step]
        shares = step in _SHARES and frame.sums_to_one
        grade = Grade(written, frame.exact(step), frame.is_hidden(step), shares, lambda: self._carried.room(step))
        reason = "" if grade.is_done else self._explain(step, grade)
        if written.whole and not written.fits(grade.exact) and self._meant_as_points(step):
            off = np.abs(written.value - grade.exact) > room_of(written.unit, written.value, grade.exact)
            grade.codes[off & ~written.blank] = WRONG
        self._unmark(step, grade)
        for entry in self.entries:
            if entry.step == step:
                self.marks.append(self._step_mark(entry, grade, reason))
        self._go_on_from(step, grade)

    def _explain(self, step: str, grade: Grade) -> str:
        """Look for what gives the cells that are not right, simplest first; the habit that does, in words."""
        grade.agree()
        adjusts = self.first_wrong is None
        if not grade.is_done:
            grade.follow(self._bases(step, grade), adjusts=adjusts)
        if not grade.is_done and not self._carried.shifted:
            self._try_shifted(step, grade)
        if not grade.is_done:
            grade.cut([*self._bases(step, grade)], rounds_up=bool(self.rounded_up - self._by_habit))
            if step == "weights" and self.frame.normalizer.name == "softmax":
                grade.short_of_one(self.frame.counts)
        self._cuts |= bool((grade.codes == TRUNCATED).any())
        if grade.is_done:
            return ""
        earlier = {name: self._unadjusted(name) for name in self._carried.hand if name not in self.slips}
        rounds_up = not self._cuts and bool(self.rounded_up - self._by_habit - {step})
        found = habit_of(self._carried, step, grade, earlier, self._way, adjusts=adjusts, cuts=self._cuts,
                         rounds_up=rounds_up)  # fmt: skip
        if found is not None:
            grade.codes[grade.open & found.explained] = BY_HABIT
            grade.base, self._way = found.base, found.hypothesis
            self._by_habit.add(step)
            self.adjusted[step] = found.adjusted
            return found.hypothesis.told("column" if self.frame.trace.layout == "columns" else "row")
        grade.last_place()
        return ""

    def _unadjusted(self, step: str) -> Written:
        """What a habit must give of an earlier step: all but what was changed so that a row sums to 1."""
        written, adjusted = self.sheet[step], self.adjusted.get(step)
        return written if adjusted is None else replace(written, blank=written.blank | adjusted)

    def _bases(self, step: str, grade: Grade) -> Iterator[Base]:
        """What the step may have been made from, each for the whole of it."""
        yield Base(grade.exact, grade.exact)
        if not self._carried.hand and not self._carried.uncertain:
            return
        for start in (AS_WRITTEN, IN_FULL, BEFORE):
            base = self._carried.base(step, start)
            if base is not None:
                yield base

    def _try_shifted(self, step: str, grade: Grade) -> None:
        """Exponentials of s minus the row's largest are a way of writing, where they give more of the numbers."""
        if step not in ("exp", "sum"):
            return
        self._carried.shifted = True
        right = Carried(self.frame, {}, shifted=True).base(step, IN_FULL)
        other = Grade(grade.written, grade.exact, grade.hidden, False, grade.noise)
        if right is not None:
            other.follow((base for base in [right, *self._bases(step, grade)] if base), adjusts=False)
        gained = int(grade.open.sum()) - int(other.open.sum())
        if (other.is_done and gained) or gained >= 2:
            grade.codes, grade.base = other.codes, other.base
            self.notes.append(f"{step}: the exponentials are shifted by the {self._row}'s maximum")
        else:
            self._carried.shifted = False

    @property
    def _row(self) -> str:
        return "column" if self.frame.trace.layout == "columns" else "row"

    def _meant_as_points(self, step: str) -> bool:
        """Whether a later step is what these whole numbers give as written, and not what the right ones give."""
        after = [name for name in self.sheet if self._order(name) > self._order(step)]
        trial = Carried(self.frame, {}, dict(self._carried.hand))
        written = self.sheet[step]
        trial.take(step, Numbers(np.where(written.blank, self.frame.exact(step), written.value)))
        for name in after:
            given, later = trial.base(name, AS_WRITTEN), self.sheet[name]
            if given is None or later.blank.all() or later.whole:
                continue
            exact = self.frame.exact(name)
            if not np.allclose(given.low, exact, rtol=1e-12, atol=1e-12, equal_nan=True):
                return bool(later.agrees(given.low).all() and not later.agrees(exact).all())
        return False

    def _order(self, step: str) -> int:
        return list(self.sheet).index(step)

    # -- what is not marked -----------------------------------------------------------------------------------------

    def _unmark(self, step: str, grade: Grade) -> None:
        """Cells that would be wrong, but depend on a blank cell that nobody can fill in."""
        if not self._untold or grade.is_done:
            return
        one, other = (Carried(self.frame, {}, dict(self._carried.hand)) for _ in range(2))
        for name, blank in self._untold.items():
            value = self._carried.hand[name].value
            one.take(name, Numbers(value))
            other.take(name, Numbers(np.where(blank, 1.37 * value + 1.11, value)))
        bases = [each.base(step, AS_WRITTEN) for each in (one, other)]
        if bases[0] is None or bases[1] is None:
            return
        depends = ~((bases[0].low == bases[1].low) | (np.isnan(bases[0].low) & np.isnan(bases[1].low)))
        unmarked = grade.open & depends
        grade.codes[unmarked] = BLANK
        if unmarked.any():
            left = ", ".join(self._untold)
            self.notes.append(f"{step}: not marked where it depends on what was left blank in {left}")

    # -- what comes after -------------------------------------------------------------------------------------------

    def _go_on_from(self, step: str, grade: Grade) -> None:
        """The hand's numbers of this step are what the later steps start from."""
        written, wrong, blank = grade.written, grade.open, grade.written.blank
        if grade.adjusted.any():
            self.adjusted[step] = grade.adjusted
        if wrong.any():
            self.slips[step] = wrong
            self.first_wrong = self.first_wrong or step
        if blank.all():
            return
        value, half = written.value, np.zeros(written.value.shape)
        if blank.any():
            value, half = self._filled(step, grade)
            if wrong.any():
                self._untold[step] = blank
        single = bool((grade.codes == LAST_PLACE).any())  # a machine went on from more digits than it printed
        if (wrong.any() or single) and not written.whole:
            half = np.where(np.isfinite(value), np.maximum(half, written.unit / 2), 0.0)
        kept = grade.base.low if grade.base is not None and grade.base.is_point else None
        untold = blank.any() and not wrong.any()
        places = places_of(float(written.unit[~blank].min())) if untold else 0
        known = half if half.any() else None
        self._carried.take(step, Numbers(value, known, kept, blank if untold else None, places))

    def _filled(self, step: str, grade: Grade) -> tuple[Array, Array]:
        """The numbers with the blank cells filled in as this hand would: rounded to the step's places.

        And how far each is known: where it may have gone on from this or from that, both count.
        """
        written, blank = grade.written, grade.written.blank
        bases = [grade.base] if grade.base is not None else [*self._bases(step, grade)]
        unit = float(written.unit[~blank].min())
        # A tie goes either way.
        ends = [np.where(np.isfinite(x) & (unit > 0), np.rint(x / (unit or 1) + tie) * (unit or 1), x)
                for base in bases for x in (base.low, base.high) for tie in (-CALCULATOR, CALCULATOR)]  # fmt: skip
        low, high = np.minimum.reduce(ends), np.maximum.reduce(ends)
        x = grade.exact if grade.base is None else grade.base.low
        was_rounded = np.isfinite(x) & ((np.abs(x - low) > room_of(written.unit, x, x)) | (low != high))
        middle = np.where(low == high, low, (low + high) / 2)
        half = np.where(blank & was_rounded, (high - low + unit) / 2, 0.0)
        return np.where(blank, middle, written.value), half

    # -- what is told -----------------------------------------------------------------------------------------------

    def _step_mark(self, entry: Entry, grade: Grade, reason: str) -> StepMark:
        trace, exact = self.frame.trace, grade.exact
        codes = np.where(entry.written.blank, BLANK, grade.codes)
        shown = {"hand": entry.written.value, "unit": entry.written.unit, "exact": exact, "codes": codes}
        low, high = self._bounds(entry.step, grade) if (codes > AGREES).any() else (exact, exact)
        shown |= {"low": low, "high": high}
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
        worst = int(codes.max(initial=BLANK))
        verdict = NOT_MARKED if worst == BLANK else VERDICTS[worst]
        return StepMark(
            entry.address, verdict, rows, columns, row_labels, column_labels, cells,
            shown["hand"], shown["unit"], shown["exact"], shown["low"], shown["high"], shown["codes"], reason,
            is_checked=verdict != NOT_MARKED and not self.is_unchecked(entry),
        )  # fmt: skip

    def _bounds(self, step: str, grade: Grade) -> tuple[Array, Array]:
        """From where to where what follows from the hand's own numbers lies."""
        starts = (AS_WRITTEN, IN_FULL) if self._carried.hand or self._carried.uncertain else ()
        bases = [base for base in (self._carried.base(step, start) for start in starts) if base is not None]
        if grade.base is not None:
            bases.append(grade.base)
        if not bases:
            return grade.exact, grade.exact
        low, high = bases[0].low, bases[0].high
        for base in bases[1:]:
            low, high = np.minimum(low, base.low), np.maximum(high, base.high)
        return low, high

    def is_unchecked(self, entry: Entry) -> bool:
        """Whether weights are written as whole numbers, which the right ones are not."""
        return entry.step in _SHARES and entry.written.whole and not entry.written.fits(self.frame.exact(entry.step))

    def explained_by_rounded_inputs(self) -> bool:
        """Whether the first wrong step would follow if every input with a decimal point were rounded."""
        first = self.first_wrong
        if first is None or self.problem.rounded_inputs or not self.uncertain:
            return False
        before = {name: each for name, each in self._carried.hand.items() if self._order(name) < self._order(first)}
        trial, written = Carried(self.frame, self.uncertain, before), self.sheet[first]
        for start in (AS_WRITTEN, IN_FULL) if before else (IN_FULL,):
            base = trial.base(first, start)
            if base is None:
                continue
            if (written.meets(base.low, base.high) | written.reproduced(self.frame.exact(first))).all():
                return True
        return False


def _told(low: float, high: float, exact: float) -> tuple[float, float]:
    """The bounds as they are told: one number where nothing but float noise lies between them."""
    if high - low > 1e-11 * max(1.0, abs(low)):
        return low, high
    point = exact if low <= exact <= high else (low + high) / 2
    return point, point
