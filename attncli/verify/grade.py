"""The verdict of each cell of one step, from what it should be and what follows from the hand's own numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from attncli.lazy import Array, np
from attncli.verify.carried import Base
from attncli.verify.verdicts import AGREES, BLANK, FOLLOWS, LAST_PLACE, TRUNCATED, WRONG
from attncli.verify.written import CALCULATOR, Written, room_of

_SINGLE = 2.0**-22  # of the largest number of a row: what single precision may be off
_JUMP = 1e-6  # of a number: what is farther off is no noise of floats but a jump, where the core's own number counts
_SIX = 6  # significant digits, from which on a number may have been computed in single precision


@dataclass
class Grade:
    """One step that is being marked. codes: an index of VERDICTS for each cell, WRONG as long as nothing explains it.

    exact: the right numbers. noise: computes what these may be off in floats, which takes longer than most tests.
    shares: whether its rows sum to 1 (of `hidden` cells, which nobody rounds, apart). base: what explains the step,
    where that is not the right numbers. adjusted: where a number is one unit off so that its row sums to 1.
    """

    written: Written
    exact: Array
    hidden: Array | None
    shares: bool
    noise: Callable[[], Array]
    codes: Array = field(init=False)
    base: Base | None = None

    def __post_init__(self) -> None:
        self.codes = np.where(self.written.agrees(self.exact), AGREES, WRONG)
        self.codes[self.written.blank] = BLANK
        self.adjusted = np.zeros(self.exact.shape, dtype=bool)

    @property
    def open(self) -> Array:
        """The cells that nothing explains so far."""
        found: Array = self.codes == WRONG
        return found

    @property
    def is_done(self) -> bool:
        return not self.open.any()

    @cached_property
    def room(self) -> Array:
        """What the right numbers may be off in floats: at most _JUMP of each."""
        room = self.noise()
        return np.where(np.isfinite(room), np.clip(room, 0, self._most), 0)

    @cached_property
    def _most(self) -> Array:
        return _JUMP * np.maximum(1, np.abs(self.exact))

    def with_room(self, test: Callable[[Array | float], Array]) -> Array:
        """A test that takes what numbers may be off; this is computed only where it may change the answer."""
        without = test(0.0)
        return without if np.array_equal(without, test(self._most)) else test(self.room)

    def agree(self) -> None:
        """Take into account what the right numbers may be off in floats."""
        agrees = self.with_room(lambda room: self.written.agrees(self.exact, room))
        self.codes[self.open & agrees] = AGREES

    def follow(self, bases: Iterator[Base], *, adjusts: bool) -> None:
        """Cells that one base for the whole step gives; adjusts: or all but one of a row that was made to sum to 1."""
        asked = self.open
        best: tuple[Base, Array, Array] | None = None
        for base in bases:
            given, adjusted = self.given_by(base), self.adjusted_by(base.low) if adjusts and base.is_point else None
            explained = given if adjusted is None else given | adjusted
            if best is None or (asked & ~explained).sum() < (asked & ~best[1]).sum():
                best = base, explained, explained & ~given
            if not (asked & ~explained).any():
                break
        if best is None or not (asked & best[1]).any():
            return
        base, explained, adjusted = best
        self.codes[asked & explained] = FOLLOWS
        self.adjusted |= asked & adjusted
        self.base = base

    def given_by(self, base: Base) -> Array:
        """Where a base gives what is written."""
        if base.is_point:
            agrees = self.with_room(lambda room: self.written.agrees(base.low, room))
            if self.written.half is not None:
                agrees = agrees | ((self.written.half > 0) & self.written.meets(base.low, base.high))
            return agrees
        return self.written.meets(base.low, base.high)

    def adjusted_by(self, x: Array) -> Array | None:
        """The one cell of a row that is one unit off what x rounded is, where only so the row sums to exactly 1.

        x may have more leading axes. No other cell of the row may be off, and none blank.
        """
        if not self.shares:
            return None
        h, u = self.written.value, self.written.unit
        coarsest = u.max(axis=-1, keepdims=True, initial=0)
        is_one = np.abs(h.sum(axis=-1, keepdims=True) - 1) < 1e-6 * coarsest
        if not is_one.any():
            return None
        agrees = self.with_room(lambda room: self.written.agrees(x, room))
        rounded = np.where(agrees, h, self.written.to_unit(x))
        was_off = np.abs(rounded.sum(axis=-1, keepdims=True) - 1) > 0.5 * u.min(axis=-1, keepdims=True, initial=1)
        one_off = ~agrees & (np.abs(np.abs(h - rounded) - u) <= 1e-6 * u)
        if self.hidden is not None:
            one_off &= ~self.hidden
        alone = (~agrees).sum(axis=-1, keepdims=True) == 1
        found: Array = one_off & alone & is_one & was_off
        return found

    def cut(self, bases: list[Base], *, rounds_up: bool) -> None:
        """Cells that are cut towards zero from one base for the whole step.

        No cell may lie above the base (one slip aside, where others show the cut), and two must show the cut, unless
        nothing on the sheet was rounded up.
        """
        asked, h, u = self.open, self.written.value, self.written.unit
        best: Array | None = None
        for base in bases:
            x = base.low
            near = np.abs(h - x) <= 2 * u + self._most
            if not base.is_point or not (asked & near).any():
                continue
            is_cut = self.written.truncated(x, self.room) & ~self.written.blank
            above = np.sign(x) * h > np.abs(x) + room_of(u, h, x) + self.room + CALCULATOR * u
            above &= ~self.written.blank
            shown = int((is_cut & ~self.written.agrees(x, self.room)).sum())
            beyond = int(above.sum())
            aside = beyond == 1 and bool((above & asked).any())
            fits = (shown >= 2 and (aside or beyond == 0)) or (beyond == 0 and not rounds_up)
            better = best is None or (asked & is_cut).sum() > (asked & best).sum()
            if fits and better and (asked & is_cut).any():
                best, self.base = is_cut, base
        if best is not None:
            self.codes[asked & best] = TRUNCATED

    def short_of_one(self, counts: Array) -> None:
        """Where h is 1 - 1e-20 cut to 0.99: a softmax over several keys never reaches 1, though its double does."""
        h, u = self.written.value, self.written.unit
        several = np.broadcast_to(counts, self.exact.shape).sum(axis=-1, keepdims=True) > 1
        short = self.open & several & (np.abs(h + u - 1) <= 1e-6 * u)
        if short.any():
            is_one = self.exact >= 1 - room_of(u, h, self.exact) - self.room
            self.codes[short & is_one] = TRUNCATED

    def last_place(self) -> None:
        """Six or more digits, and one unit off in the last place, or single precision's noise."""
        h, u, exact = self.written.value, self.written.unit, self.exact
        long = self.open & (self.written.digits >= _SIX)
        if not long.any():
            return
        one_off = np.abs(h - self.written.to_unit(exact)) <= u * (1 + 1e-6) + self.room
        finite = np.where(np.isfinite(exact), np.abs(exact), 0)
        noise = np.abs(h - exact) <= _SINGLE * finite.max(axis=-1, keepdims=True, initial=0) + self.room
        self.codes[long & (one_off | noise)] = LAST_PLACE
