"""Habits: what somebody rounds on the way without writing it down, how, and to how many places.

A habit names the places in a formula where it rounds (`SITES`). Some of them an operation knows itself: the terms of a
matrix product, what comes of tanh or a root, the number e, the reciprocal of a row's sum. The others are numbers that
the formula names, and whoever computes it says so: `value.at("root")`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from attncli.lazy import Array, np

SITES = ("steps", "root", "scale", "e", "inside", "exponentials", "sum", "terms", "reciprocal")
HOWS = ("half-even", "half-up", "cut")

# Of these at least two significant digits are kept: nobody goes on with 2 for the root of 3, or with 0 for a scale.
_TWO_DIGITS = ("root", "scale")
_NOISE = 64 * 2.0**-52  # a tie that float arithmetic missed by a few round-offs is a tie


@dataclass(frozen=True)
class Habit:
    """what: the sites where it rounds, none for somebody who keeps all digits. how: one of `HOWS`. places: after the
    point. shifted: exponentials are those of s minus the row's largest. also: how other sites are rounded, besides."""

    what: frozenset[str] = frozenset()
    how: str = "half-even"
    places: int = 4
    shifted: bool = False
    also: Habit | None = None

    def at(self, site: str) -> Habit | None:
        """What is rounded there, and how; None where all digits are kept."""
        if site in self.what:
            return self
        return None if self.also is None else self.also.at(site)


@dataclass(frozen=True, eq=False)
class Habits:
    """Several habits, computed at once: one line for each."""

    habits: tuple[Habit, ...]
    _lines: dict[str, Array] = field(default_factory=dict)

    def lines(self, site: str) -> Array:
        """Which habits round there, by their numbers."""
        if site not in self._lines:
            self._lines[site] = np.array([i for i, habit in enumerate(self.habits) if habit.at(site)], dtype=int)
        return self._lines[site]

    def rounded(self, x: Array, lines: Array, site: str) -> Array:
        """x, (1 or so many lines, ...), as each of these habits rounds it: (lines, ...)."""
        x = np.broadcast_to(x, (len(lines), *x.shape[1:]))
        result = np.empty(x.shape)
        ways = [self.habits[line].at(site) or self.habits[line] for line in lines]
        for how in HOWS:
            chosen = np.array([i for i, way in enumerate(ways) if way.how == how], dtype=int)
            if chosen.size:
                places = [ways[i].places for i in chosen]
                units = (10.0 ** np.array(places)).reshape((-1,) + (1,) * (x.ndim - 1))
                result[chosen] = rounded(x[chosen], units, how, digits=2 if site in _TWO_DIGITS else 0)
        return result

    def shifted(self, ndim: int) -> Array | None:
        """Which habits shift exponentials, (lines, 1, ...) before so many axes; None if none does."""
        found = np.array([habit.shifted for habit in self.habits])
        return found.reshape((-1,) + (1,) * ndim) if found.any() else None

    def logarithms_of_e(self, ndim: int) -> Array | None:
        """The logarithm of each habit's e, (lines, 1, ...) before so many axes; None where all take e itself."""
        lines = self.lines("e")
        if not lines.size:
            return None
        logs = np.ones(len(self.habits))
        logs[lines] = np.log(self.rounded(np.full(1, math.e), lines, "e"))
        return logs.reshape((-1,) + (1,) * ndim)


def habits_of(habits: Sequence[Habit]) -> Habits:
    """These habits, to be computed at once."""
    return Habits(tuple(habits))


def rounded(x: Array, unit: Array, how: str, digits: int = 0) -> Array:
    """x to whole multiples of 1/unit. digits: what would keep fewer significant digits stays as it is."""
    with np.errstate(all="ignore"):
        in_units = x * unit
        if how == "cut":
            found = np.trunc(in_units * (1 + _NOISE))
        elif how == "half-up":
            found = np.trunc(in_units * (1 + _NOISE) + np.copysign(0.5, in_units))
        else:
            found = np.rint(in_units)
            ties = np.abs(np.abs(in_units - found) - 0.5) < _NOISE * np.maximum(np.abs(in_units), 1)
            if ties.any():
                found = np.where(ties, 2 * np.rint(in_units / 2), found)
        result = found / unit
        if digits:
            result = np.where(np.abs(found) >= 10 ** (digits - 1), result, x)
        return np.asarray(result)
