"""Intervals, rounded outwards: every number is only known to lie between two bounds.

Every operation gives an interval that holds all that it could give of numbers within, in exact arithmetic and in
doubles (as long as nothing underflows). A comparison gives False to True where it is not certain, and `np.where` by it
gives the hull of both. What a formula uses twice is as wide as if it were two numbers: see `tight_intervals`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from attncli.arithmetic.parts import Parts
from attncli.errors import Opaque
from attncli.lazy import Array, np

EPSILON = 2.0**-52


class Box(Parts):
    """Intervals [low, high]; a box of points holds one array twice, so that this is seen at once."""

    kind = "intervals"

    def __init__(self, low: Array, high: Array) -> None:
        self.low, self.high = low, high

    @classmethod
    def of(cls, array: Array) -> Box:
        """Points."""
        return cls(array, array)

    @classmethod
    def around(cls, array: Array, half: Array | float) -> Box:
        """Numbers that are known to within so much."""
        return cls(array - half, array + half)

    def _plain(self, x: Array) -> Box:
        return Box.of(x)

    @property
    def parts(self) -> tuple[Array, ...]:
        return self.low, self.high

    def _of(self, low: Array, high: Array | None = None) -> Box:  # type: ignore[override]
        return Box(low, low if high is None else high)

    def _moved(self, change: Callable[[Array], Array]) -> Box:
        low = change(self.low)
        return Box(low, low if self.is_point else change(self.high))

    def _joined(self, values: Any, axis: int) -> Box:
        low = np.concatenate([x.low for x in values], axis=axis)
        if all(x.is_point for x in values):
            return Box.of(low)
        return Box(low, np.concatenate([x.high for x in values], axis=axis))

    @property
    def is_point(self) -> bool:
        """Whether nothing is uncertain."""
        return self.low is self.high

    @property
    def width(self) -> float:
        """The largest uncertainty."""
        if self.is_point or not self.low.size:
            return 0.0
        with np.errstate(invalid="ignore"):
            return float(np.nanmax(np.where(self.low == self.high, 0, self.high - self.low)))

    @property
    def middle(self) -> Array:
        """Points amid the bounds."""
        return self.low if self.is_point else (self.low + self.high) / 2

    # -- arithmetic ----------------------------------------------------------------------------------------------

    def _add(self, other: Box) -> Box:
        with np.errstate(invalid="ignore", over="ignore"):
            low = self.low + other.low
            if not (self.is_point and other.is_point):
                return widened(low, self.high + other.high, 1)
            return Box.of(low) if _whole(self.low) and _whole(other.low) else widened(low, low, 1)

    def _subtract(self, other: Box) -> Box:
        return self._add(other._negative())

    def _negative(self) -> Box:
        low = np.negative(self.high)
        return Box(low, low if self.is_point else np.negative(self.low))

    def _positive(self) -> Box:
        return self

    def _multiply(self, other: Box) -> Box:
        if other is self:
            return self._square()
        with np.errstate(invalid="ignore", over="ignore"):
            ends = [x * y for x in _ends(self) for y in _ends(other)]
            if len(ends) == 1 and _whole(self.low) and _whole(other.low):
                return Box.of(ends[0])
            nothing = _certain_zero(self) | _certain_zero(other)
            low, high = (np.where(nothing, 0, reduce(end, ends)) for end in (np.fmin, np.fmax))
        return widened(low, high, 1)

    def _divide(self, other: Box) -> Box:
        # An interval that ends at 0 is approached from its own side; one that goes through 0 says nothing.
        below = other.low if other.is_point else other.low + 0.0
        above = other.high if other.is_point else np.where(other.high == 0, -0.0, other.high)
        with np.errstate(all="ignore"):
            ends = [x / y for x in _ends(self) for y in ((below,) if other.is_point else (below, above))]
            low, high = reduce(np.fmin, ends), reduce(np.fmax, ends)
        through = (other.low < 0) & (other.high > 0)
        if through.any():
            low, high = np.where(through, -np.inf, low), np.where(through, np.inf, high)
        return widened(low, high, 1)

    def _square(self) -> Box:
        low, high = np.square(self.low), np.square(self.high)
        if self.is_point:
            return Box.of(low) if _whole(self.low) else widened(low, low, 1)
        through = (self.low <= 0) & (self.high >= 0)
        return widened(np.where(through, 0, np.minimum(low, high)), np.maximum(low, high), 1)

    def _power(self, other: Box) -> Box:
        exponent = other.low
        if not other.is_point or exponent.ndim:
            raise Opaque("np.power with an exponent that is not one certain number cannot be read in intervals")
        if exponent == 2:
            return self._square()
        if exponent == 0.5:
            return self._sqrt()
        raised = self if exponent == 1 else self._absolute() if exponent % 2 == 0 else self
        if exponent < 0 or (exponent != np.rint(exponent) and np.any(self.low < 0)):
            raise Opaque(f"np.power with the exponent {exponent} cannot be read in intervals")
        return raised._through(lambda x: np.power(x, exponent))

    def _product(self, other: Box) -> Box:
        """(..., n, k) (..., k, m). A zero that is certain wins over infinity and NaN."""
        finite = all(np.isfinite(end).all() for box in (self, other) for end in _ends(box))
        if not finite or not (self.is_point or other.is_point):
            return _product_by_terms(self, other)
        a, b, terms = self.low, other.low, self.shape[-1]
        if self.is_point and other.is_point:
            middle = a @ b
            if _whole(a) and _whole(b):
                return Box.of(middle)
            return widened(middle, middle, 0, (terms + 2) * EPSILON * (np.abs(a) @ np.abs(b)))
        if self.is_point:
            turned: Box = other.mT._product(self.mT).mT
            return turned
        above, below = np.maximum(b, 0), np.minimum(b, 0)
        noise = (terms + 4) * EPSILON * (np.maximum(np.abs(a), np.abs(self.high)) @ np.abs(b))
        return widened(a @ above + self.high @ below, self.high @ above + a @ below, 0, noise)

    def _sum(self, axes: tuple[int, ...], keepdims: bool) -> Box:
        with np.errstate(invalid="ignore", over="ignore"):
            low, sizes = self.low.sum(axes, keepdims=keepdims), np.maximum(np.abs(self.low), np.abs(self.high))
            if self.is_point and _whole(self.low):
                return Box.of(low)
            high = low if self.is_point else self.high.sum(axes, keepdims=keepdims)
            terms = self.low.size // max(1, low.size)
            return widened(low, high, 0, terms * EPSILON * sizes.sum(axes, keepdims=keepdims))

    # -- functions that never fall, and choices ------------------------------------------------------------------

    def _through(self, increasing: Callable[[Array], Array], accuracy: float = 4) -> Box:
        with np.errstate(all="ignore"):
            low = increasing(self.low)
            return widened(low, low if self.is_point else increasing(self.high), accuracy)

    def _tanh(self) -> Box:
        return self._through(np.tanh)

    def _exp(self) -> Box:
        return self._through(np.exp)

    def _log(self) -> Box:
        return self._from_zero()._through(np.log)

    def _log1p(self) -> Box:
        return self._through(np.log1p)

    def _sqrt(self) -> Box:
        found = self._from_zero()._through(np.sqrt, 1)
        return Box(np.maximum(found.low, 0), found.high)

    def _from_zero(self) -> Box:
        """Without the numbers below 0 that an uncertain one may be: 0 itself was widened, too."""
        return self if self.is_point else Box(np.maximum(self.low, 0), self.high)

    def _absolute(self) -> Box:
        low, high = np.abs(self.low), np.abs(self.high)
        if self.is_point:
            return Box.of(low)
        through = (self.low <= 0) & (self.high >= 0)
        return Box(np.where(through, 0, np.minimum(low, high)), np.maximum(low, high))

    def _maximum(self, other: Box) -> Box:
        low = np.maximum(self.low, other.low)
        return Box(low, low if self.is_point and other.is_point else np.maximum(self.high, other.high))

    def _max(self, axes: tuple[int, ...], keepdims: bool, **initial: Any) -> Box:
        return self._moved(lambda end: np.max(end, axes, keepdims=keepdims, **initial))

    def _where(self, mask: Box, elsewhere: Box) -> Box:
        low, high = np.where(mask.low, self.low, elsewhere.low), np.where(mask.low, self.high, elsewhere.high)
        if mask.is_point:
            return Box.of(low) if self.is_point and elsewhere.is_point else Box(low, high)
        unsure = mask.low != mask.high
        hull = np.minimum(self.low, elsewhere.low), np.maximum(self.high, elsewhere.high)
        return Box(np.where(unsure, hull[0], low), np.where(unsure, hull[1], high))

    # -- truth: False to True where it is not certain --------------------------------------------------------------

    def _less(self, other: Box) -> Box:
        return _truth(self.high < other.low, self.low < other.high)

    def _less_equal(self, other: Box) -> Box:
        return _truth(self.high <= other.low, self.low <= other.high)

    def _equal(self, other: Box) -> Box:
        same = (self.low == other.low) & (self.high == other.high) & (self.low == self.high)
        return _truth(same, (self.low <= other.high) & (other.low <= self.high))

    def _bitwise_and(self, other: Box) -> Box:
        return _truth(self.low & other.low, self.high & other.high)

    def _bitwise_or(self, other: Box) -> Box:
        return _truth(self.low | other.low, self.high | other.high)

    def _invert(self) -> Box:
        return _truth(~self.high, ~self.low)

    def _all(self, axes: tuple[int, ...], keepdims: bool) -> Box:
        return self._moved(lambda end: np.all(end, axes, keepdims=keepdims))

    def __bool__(self) -> bool:
        if self.low.size != 1 or bool(self.low.all()) != bool(self.high.all()):
            raise Opaque("a branch that depends on uncertain numbers cannot be read in intervals")
        return bool(self.low.all())

    def _isnan(self) -> Array:
        found: Array = np.isnan(self.low) & np.isnan(self.high)
        return found

    def _isneginf(self) -> Array:
        return np.asarray(np.isneginf(self.high))

    def _isfinite(self) -> Array:
        found: Array = np.isfinite(self.low) & np.isfinite(self.high)
        return found


def widened(low: Array, high: Array, accuracy: float | Array = 4, absolute: float | Array = 0.0) -> Box:
    """The bounds, moved outwards by what float arithmetic may be off: `accuracy` units of round-off, and `absolute`."""
    step = accuracy * EPSILON
    with np.errstate(invalid="ignore", over="ignore"):
        down = low - np.where(np.isinf(low), 0, np.abs(low) * step + absolute)
        return Box(down, high + np.where(np.isinf(high), 0, np.abs(high) * step + absolute))


def _truth(certain: Array, possible: Array) -> Box:
    """A box of points where all is certain, so that a mask by it leaves points as they are."""
    return Box.of(certain) if np.array_equal(certain, possible) else Box(certain, possible)


def _product_by_terms(a: Box, b: Box) -> Box:
    with np.errstate(invalid="ignore", over="ignore"):
        terms = [x[..., :, :, None] * y[..., None, :, :] for x in _ends(a) for y in _ends(b)]
        nothing = _certain_zero(a)[..., :, :, None] | _certain_zero(b)[..., None, :, :]
        low, high = (np.where(nothing, 0, reduce(end, terms)) for end in (np.fmin, np.fmax))
        noise = (a.shape[-1] + 2) * EPSILON * np.maximum(np.abs(low), np.abs(high)).sum(axis=-2)
        return widened(low.sum(axis=-2), high.sum(axis=-2), 0, noise)


def _certain_zero(x: Box) -> Array:
    zero: Array = (x.low == 0) & (x.high == 0)
    return zero


def _whole(array: Array) -> bool:
    """Whether these are whole numbers small enough that sums and products of a few are exact."""
    return bool(np.all((np.rint(array) == array) & (np.abs(array) < 2**20)))


def _ends(box: Box) -> tuple[Array, ...]:
    return (box.low,) if box.is_point else (box.low, box.high)
