"""What a hand may have rounded without writing it down, simplest first, and how that is said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from attncli.arithmetic.habits import Habit, Habits, habits_of

_MOST = 6  # from seven places on it was no hand, but single precision, that rounded on the way
_HOWS = ("half-even", "half-up", "cut")
_NO_TIES = ("half-even", "cut")
_E_PLACES = (4, 3, 2)  # 2.7183, 2.718, 2.72
# Everything that is not written, as far as somebody thinks of it.
_ALIKE = (
    (("steps",), "the steps in between"),
    (("steps", "sum"), "the steps in between and the sum"),
    (("steps", "exponentials"), "the steps in between and the exponentials"),
    (("root", "steps"), "the root of d_k and the steps in between"),
    (("root", "steps", "exponentials", "inside"), "all that is not written"),
)


@dataclass(frozen=True)
class RoundingHypothesis:
    """A habit, and in words what it rounds. plain: whether a whole step is rounded as it would have been written.

    sums: whether it rounds the terms of sums, which excuses no slip beside it.
    """

    habit: Habit
    what: str
    sums: bool = False
    plain: bool = False
    before: RoundingHypothesis | None = None

    def told(self, row: str = "row") -> str:
        """`the exponentials cut to 2 places`; row: what a query's numbers are, as displayed."""
        how = "cut" if self.habit.how == "cut" else "rounded"
        p = self.habit.places
        own = f"{self.what.replace('row', row)} {how} to {p} place{'s' * (p != 1)}"
        return own if self.before is None else f"{own}, and {self.before.told(row)}"

    def goes_with(self, way: RoundingHypothesis) -> bool:
        """Whether somebody may do both: what they round alike, in other places."""
        own, other = self.habit, way.habit
        return own.how in (other.how, "half-even") and not any(other.at(site) for site in own.what)

    def on(self, way: RoundingHypothesis) -> RoundingHypothesis:
        """This on top of what was found before: one way of working for the whole sheet."""
        mine, other = self.habit, way.habit
        both = Habit(mine.what, mine.how, mine.places, mine.shifted or other.shifted, also=other)
        return RoundingHypothesis(both, self.what, self.sums, self.plain, before=way)


def _together(e_places: Sequence[int]) -> Iterator[RoundingHypothesis]:
    """One way of working, with a root, e and places of its own for what is not written."""

    def one(site: str, p: int, what: str) -> RoundingHypothesis:
        return RoundingHypothesis(Habit(frozenset({site}), "half-even", p), what)

    roots = [one("root", p, "the root of d_k") for p in (3, 2)]
    steps = [one("steps", p, "the steps in between") for p in (4, 3, 2)]
    for e in (one("e", p, "e") for p in e_places):
        yield from (e.on(root) for root in roots)
        yield from (step.on(e) for step in steps)
    yield from (step.on(root) for root in roots for step in steps if step.habit.places != root.habit.places)


class Hypotheses(tuple[RoundingHypothesis, ...]):
    """Habits in the order in which they are tried."""

    @cached_property
    def habits(self) -> Habits:
        """To be computed at once."""
        return habits_of([each.habit for each in self])


@lru_cache(maxsize=256)
def hypotheses(places: int, way: RoundingHypothesis | None = None) -> Hypotheses:
    """The habits of a step that is written to so many places: more places before fewer, rounding before cutting.

    way: the habit found so far, which is tried first, and what goes with it last.
    """
    if way is None:
        return Hypotheses(_hypotheses(places))
    alone = hypotheses(places)
    return Hypotheses([way, *alone, *(each.on(way) for each in alone if each.goes_with(way))])


def _hypotheses(places: int) -> Iterator[RoundingHypothesis]:
    fewest = max(1, min(2, places))

    def ways(
        *sites: str, what: str, least: int = fewest, hows: Sequence[str] = _HOWS, shifted: bool = False, **facts: bool
    ) -> Iterator[RoundingHypothesis]:
        for how in hows:
            for p in range(_MOST, least - 1, -1):
                habit = Habit(frozenset(sites), how, p, shifted)
                plain = facts.get("plain", False) and p == places and how != "cut"
                yield RoundingHypothesis(habit, what, facts.get("sums", False), plain)

    # A root keeps two significant digits: 1.7, and never 2. What is no decimal has no ties.
    yield from ways("root", what="the root of d_k", least=1, hows=_NO_TIES)
    yield from ways("scale", what="the scale", least=1, hows=_NO_TIES)
    for p in _E_PLACES:
        yield RoundingHypothesis(Habit(frozenset({"e"}), "half-even", p), "e")
    yield from _together(_E_PLACES)
    yield from ways("inside", what="the values inside the score", hows=_NO_TIES)
    yield from ways("exponentials", what="the exponentials", hows=_NO_TIES)
    yield from ways("exponentials", what="the exponentials, shifted by the row's maximum,", hows=_NO_TIES, shifted=True)
    yield from ways("sum", what="the sum of the exponentials", hows=_NO_TIES)
    for sites, what in _ALIKE:
        yield from ways(*sites, what=what, plain=True)
    what = "all that is not written, the exponentials shifted by the row's maximum,"
    yield from ways("steps", "exponentials", what=what, shifted=True)
    yield from ways("reciprocal", what="the reciprocal of the sum", least=2, hows=_HOWS[:1])
    yield from ways("terms", what="the terms of each sum", sums=True)
