"""Habits: what somebody rounds on the way without writing it down, how, and to how many places.

A habit names the places in a formula where it rounds (`SITES`). Some of them an operation knows itself: the terms of a
matrix product, what comes of tanh or a root, the number e, the reciprocal of a row's sum. The others are numbers that
the formula names, and whoever computes it says so: `value.at("root")`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from attncli.lazy import Array, np
from attncli.pipeline.by_hand import NOISE, half_up

SITES = ("steps", "root", "scale", "e", "inside", "exponentials", "sum", "terms", "reciprocal")
HOWS = ("half-even", "half-up", "cut")

# Of these at least two significant digits are kept: nobody goes on with 2 for the root of 3, or with 0 for a scale.
_TWO_DIGITS = ("root", "scale")


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


class Habits:
    """Several habits, computed at once: one line for each."""

    def __init__(self, habits: tuple[Habit, ...]) -> None:
        self.habits = habits
        self._lines: dict[str, Array] = {}
        self._ways: dict[str, list[tuple[str, Array, Array]]] = {}

    def __len__(self) -> int:
        return len(self.habits)

    def lines(self, site: str) -> Array:
        """Which habits round there, by their numbers."""
        if site not in self._lines:
            self._lines[site] = np.array([i for i, habit in enumerate(self.habits) if habit.at(site)], dtype=int)
        return self._lines[site]

    def _by_how(self, site: str) -> list[tuple[str, Array, Array]]:
        """How it is rounded there, by which of its lines, and to which multiple of 1 they do."""
        if site not in self._ways:
            ways = [way for habit in self.habits if (way := habit.at(site))]
            self._ways[site] = [
                (how, np.flatnonzero([way.how == how for way in ways]),
                 10.0 ** np.array([way.places for way in ways if way.how == how]))
                for how in sorted({way.how for way in ways})
            ]  # fmt: skip
        return self._ways[site]

    def rounded(self, x: Array, site: str) -> Array:
        """x, (1 or as many as `lines`, ...), as each habit that rounds there does it: (lines, ...)."""
        x = np.broadcast_to(x, (len(self.lines(site)), *x.shape[1:]))
        result = np.empty(x.shape)
        for how, chosen, units in self._by_how(site):
            units = units.reshape((-1,) + (1,) * (x.ndim - 1))
            result[chosen] = rounded(x[chosen], units, how, digits=2 if site in _TWO_DIGITS else 0)
        return result

    @cached_property
    def _shifts(self) -> Array:
        return np.array([habit.shifted for habit in self.habits])

    def shifted(self, ndim: int) -> Array | None:
        """Which habits shift exponentials, (lines, 1, ...) before so many axes; None if none does."""
        return self._shifts.reshape((-1,) + (1,) * ndim) if self._shifts.any() else None

    @cached_property
    def _logarithms(self) -> Array:
        logs = np.ones(len(self))
        logs[self.lines("e")] = np.log(self.rounded(np.full(1, math.e), "e"))
        return logs

    def logarithms_of_e(self, ndim: int) -> Array | None:
        """The logarithm of each habit's e, (lines, 1, ...) before so many axes; None where all take e itself."""
        return self._logarithms.reshape((-1,) + (1,) * ndim) if self.lines("e").size else None


def habits_of(habits: Sequence[Habit]) -> Habits:
    """These habits, to be computed at once."""
    return Habits(tuple(habits))


def rounded(x: Array, unit: Array, how: str, digits: int = 0) -> Array:
    """x to whole multiples of 1/unit. digits: what would keep fewer significant digits stays as it is."""
    with np.errstate(all="ignore"):
        in_units = x * unit
        if how == "cut":
            found = np.trunc(in_units * (1 + NOISE))
        elif how == "half-up":
            found = half_up(in_units)
        else:
            found = np.rint(in_units)
            ties = np.abs(np.abs(in_units - found) - 0.5) < NOISE * np.maximum(np.abs(in_units), 1)
            if ties.any():
                found = np.where(ties, 2 * np.rint(in_units / 2), found)
        result = found / unit
        if digits:
            result = np.where(np.abs(found) >= 10 ** (digits - 1), result, x)
        return np.asarray(result)
