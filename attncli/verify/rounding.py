"""The search for a habit: something unwritten that was rounded on the way, the same in every cell of a step."""

from __future__ import annotations

from dataclasses import dataclass

from attncli.errors import AttnError
from attncli.lazy import Array, np
from attncli.verify.carried import AS_WRITTEN, IN_FULL, Base, Carried, Start
from attncli.verify.grade import Grade
from attncli.verify.habits import Hypotheses, RoundingHypothesis, hypotheses
from attncli.verify.written import Written

_LARGEST = 20_000  # numbers of a step: beyond that no hand calculated it, and the search would take seconds
_DIGITS = 17


@dataclass(frozen=True)
class Found:
    """A habit that gives the numbers of a step; aside: a cell that it does not give, which is a slip."""

    hypothesis: RoundingHypothesis
    base: Base
    explained: Array
    adjusted: Array


def habit_of(
    carried: Carried,
    step: str,
    grade: Grade,
    earlier: dict[str, Written],
    way: RoundingHypothesis | None,
    *,
    adjusts: bool,
    cuts: bool,
    rounds_up: bool,
) -> Found | None:
    """The simplest habit by which the numbers of this step follow; None where there is none.

    Tried from the hand's numbers as written, and from the inputs (and slips) for a hand that kept all digits: then it
    must give what stands before, too (`earlier`). way: the habit found so far, tried first. cuts: whether this hand
    cuts what it writes; rounds_up: whether some number of its sheet was rounded up.
    """
    used = grade.written.unit[~grade.written.blank & (grade.written.unit > 0)]
    if not used.size or grade.exact.size > _LARGEST:
        return None
    places = int(np.rint(-np.log10(used.min())))
    if not 0 <= places <= _DIGITS:
        return None
    tried = hypotheses(places, way)
    asides: list[Found] = []
    for start in (AS_WRITTEN, IN_FULL) if carried.hand else (AS_WRITTEN,):
        consistent = {name: each for name, each in earlier.items() if start == IN_FULL}
        found = _search(carried, step, grade, tried, start, consistent, adjusts, cuts, rounds_up)
        if found and found[1]:
            return found[0]
        asides += [found[0]] if found else []
    return asides[0] if asides else None


def _search(
    carried: Carried,
    step: str,
    grade: Grade,
    tried: Hypotheses,
    start: Start,
    consistent: dict[str, Written],
    adjusts: bool,
    cuts: bool,
    rounds_up: bool,
) -> tuple[Found, bool] | None:
    """The simplest habit that gives every cell (True), else one that gives all but a slip (False)."""
    try:
        given = carried.by_habits(step, tried.habits, start, list(consistent))
    except AttnError:  # a function that cannot be read so
        return None
    x = given[step]
    if _is_far(grade.written, x):
        return None
    by_cutting = np.array([cuts or each.habit.how == "cut" for each in tried])
    match = _matches(grade.written, x, by_cutting, rounds_up)
    adjusted = grade.adjusted_by(x) if adjusts else None
    explained = match if adjusted is None else match | adjusted
    fits = np.ones(len(tried), dtype=bool)
    for name, written in consistent.items():
        cut = by_cutting.reshape(_axes(given[name])) & written.truncated(given[name])
        fits &= _every(written.agrees(given[name]) | cut)
    every = fits & _every(explained)
    chosen = int(np.argmax(every)) if every.any() else _all_but_one(grade, tried, explained & fits.reshape(_axes(x)))
    if chosen < 0:
        return None
    of_rows = np.zeros(grade.exact.shape, bool) if adjusted is None else adjusted[chosen] & ~match[chosen]
    base = Base(x[chosen], x[chosen], tried[chosen].habit)
    return Found(tried[chosen], base, explained[chosen], of_rows), bool(every.any())


def _is_far(written: Written, x: Array) -> bool:
    """Whether every habit leaves several numbers more than two units off, which nothing excuses: most mistakes do."""
    near = np.abs(written.value - x) <= 2 * written.unit + 1e-9 * np.abs(x)
    far = ~(near | written.blank) & np.isfinite(x)
    return bool((far.sum(axis=tuple(range(1, x.ndim))) > 1).all())


def _all_but_one(grade: Grade, tried: Hypotheses, explained: Array) -> int:
    """The first habit that gives every cell but one, a slip: where at least two others would else be wrong; or one,
    and whole steps were rounded to the very places of this one. -1 where there is none.
    """
    axes = tuple(range(1, explained.ndim))
    marked = grade.codes >= 0
    missed = (~explained & marked).sum(axis=axes)
    kept = ~np.any(~explained & marked & ~grade.open, axis=axes)
    gained = (explained & grade.open).sum(axis=axes)
    enough = np.array([2 - each.plain for each in tried])
    sums = np.array([each.sums for each in tried])
    fits = (missed == 1) & kept & (gained >= enough) & ~sums & (marked.sum() >= 3)
    return int(np.argmax(fits)) if fits.any() else -1


def _matches(written: Written, x: Array, by_cutting: Array, rounds_up: bool) -> Array:
    """Which habits give which cells, (habits, ...): all rounded, or, of somebody who cuts, all cut."""
    found = written.agrees(x)
    if by_cutting.any():
        cut = written.truncated(x) | (found & ~np.isfinite(x))
        shown = (cut & ~found).sum(axis=tuple(range(1, cut.ndim)))
        all_cut = by_cutting & _every(cut) & ((shown >= 2) | (not rounds_up))
        found = np.where(all_cut.reshape(_axes(x)), cut, found)
    return found


def _axes(x: Array) -> tuple[int, ...]:
    return (-1,) + (1,) * (x.ndim - 1)


def _every(match: Array) -> Array:
    every: Array = np.asarray(match.all(axis=tuple(range(1, match.ndim))))
    return every
