"""Numbers with how far a right machine computation may be off them, to first order.

A machine rounds what it stores to a unit round-off u, and holds sums with v; below `tiny` its numbers vanish. Each
operation hands on what its operands may be off, and adds its own rounding. Letters: k what a product sums over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attncli.arithmetic.parts import Decided
from attncli.errors import Opaque
from attncli.lazy import Array, np


@dataclass(frozen=True)
class Machine:
    """u: the unit round-off of what is stored. v: that of sums. tiny: below it numbers vanish. function: what exp,
    tanh and the like may be off, in u: good libraries in single precision are within three units of the last place."""

    u: float
    v: float
    tiny: float = 0.0
    function: float = 6.0


class Bounded(Decided):
    """value: the right numbers. bound: how far each may be off, at least 0."""

    kind = "numbers with error bounds"

    def __init__(self, value: Array, bound: Array, machine: Machine) -> None:
        self.value, self.bound, self.machine = value, bound, machine

    @classmethod
    def exact(cls, value: Array, machine: Machine) -> Bounded:
        """Numbers that the machine has as they are."""
        value = np.asarray(value, dtype=np.float64)
        return cls(value, np.broadcast_to(np.float64(0), value.shape), machine)

    @classmethod
    def stored(cls, value: Array, machine: Machine) -> Bounded:
        """Numbers that the machine had to round first."""
        return cls.exact(value, machine)._rounded(0.0)

    def _plain(self, x: Array) -> Any:
        return Bounded(x, np.broadcast_to(np.float64(0), x.shape), self.machine)

    @property
    def parts(self) -> tuple[Array, ...]:
        return self.value, self.bound

    def _of(self, value: Array, bound: Array) -> Bounded:  # type: ignore[override]
        return Bounded(value, bound, self.machine)

    def _rounded(self, bound: Array | float, value: Array | None = None, units: float = 1.0) -> Bounded:
        """The value with this bound and the rounding of what is stored."""
        value = self.value if value is None else np.asarray(value)
        own = units * self.machine.u * np.where(np.isfinite(value), np.abs(value), 0) + self.machine.tiny
        return self._of(value, np.asarray(bound + own))

    # -- arithmetic ----------------------------------------------------------------------------------------------

    def _add(self, other: Bounded) -> Bounded:
        with np.errstate(invalid="ignore", over="ignore"):
            return self._rounded(self.bound + other.bound, self.value + other.value)

    def _subtract(self, other: Bounded) -> Bounded:
        with np.errstate(invalid="ignore", over="ignore"):
            return self._rounded(self.bound + other.bound, self.value - other.value)

    def _multiply(self, other: Bounded) -> Bounded:
        a, b = np.abs(self.value), np.abs(other.value)
        with np.errstate(invalid="ignore", over="ignore"):
            off = a * other.bound + b * self.bound + self.bound * other.bound
            return self._rounded(np.where(np.isnan(off), np.inf, off), self.value * other.value)

    def _divide(self, other: Bounded) -> Bounded:
        with np.errstate(all="ignore"):
            value = self.value / other.value
            least = np.abs(other.value) - other.bound
            off = np.where(least > 0, (self.bound + np.abs(value) * other.bound) / least, np.inf)
            exact = (self.bound == 0) & (other.bound == 0)
            return self._rounded(np.where(exact, 0, np.where(np.isnan(off), np.inf, off)), value)

    def _square(self) -> Bounded:
        return self._multiply(self)

    def _power(self, other: Bounded) -> Bounded:
        exponent = other.value
        if exponent.ndim or other.bound.any():
            raise Opaque("np.power with an exponent that is not one number cannot be read in error bounds")
        if exponent == 2:
            return self._square()
        return self._through(lambda x: np.power(x, exponent))

    def _negative(self) -> Bounded:
        return self._of(np.negative(self.value), self.bound)

    def _absolute(self) -> Bounded:
        return self._of(np.abs(self.value), self.bound)

    def _product(self, other: Bounded) -> Bounded:
        """(..., n, k) (..., k, m). What does not count (an exact 0) adds nothing, whatever it multiplies."""
        a, b = (np.where(np.isfinite(x.value), np.abs(x.value), 0) for x in (self, other))
        terms = self.shape[-1]
        with np.errstate(invalid="ignore", over="ignore"):
            value = self.value @ other.value
            off = a @ (other.bound + terms * self.machine.v * b)
            if self.bound.any():
                off = off + self.bound @ (b + other.bound)
            return self._rounded(off, value)

    def _sum(self, axes: tuple[int, ...], keepdims: bool) -> Bounded:
        value = np.asarray(self.value.sum(axis=axes, keepdims=keepdims))
        terms = self.size // max(1, value.size)
        sizes = np.where(np.isfinite(self.value), np.abs(self.value), 0)
        off = (self.bound + terms * self.machine.v * sizes).sum(axis=axes, keepdims=keepdims)
        return self._rounded(off, value)

    # -- functions that never fall: as far as they go between the ends -----------------------------------------------

    def _through(self, function: Callable[[Array], Array]) -> Bounded:
        with np.errstate(all="ignore"):
            value = function(self.value)
            off = self._reach(function, value)
        return self._rounded(off, value, self.machine.function)

    def _reach(self, function: Callable[[Array], Array], value: Array) -> Array:
        if not self.bound.any():
            return np.zeros(value.shape)
        ends = [np.abs(function(end) - value) for end in (self.value - self.bound, self.value + self.bound)]
        off = np.maximum(*ends)
        return np.where(self.bound == 0, 0, np.where(np.isnan(off), np.where(np.isfinite(value), np.inf, 0), off))

    def _tanh(self) -> Bounded:
        return self._through(np.tanh)

    def _exp(self) -> Bounded:
        return self._through(np.exp)

    def _log(self) -> Bounded:
        return self._through(lambda x: np.log(np.where(x < 0, 0, x)))

    def _log1p(self) -> Bounded:
        return self._through(np.log1p)

    def _sqrt(self) -> Bounded:
        return self._through(lambda x: np.sqrt(np.where((x < 0) & (self.value >= 0), 0, x)))

    # -- choices, by the numbers; none moves a number by more than its operands are off -------------------------------

    def _maximum(self, other: Bounded) -> Bounded:
        return self._of(np.maximum(self.value, other.value), np.maximum(self.bound, other.bound))

    def _minimum(self, other: Bounded) -> Bounded:
        return self._of(np.minimum(self.value, other.value), np.maximum(self.bound, other.bound))

    def _max(self, axes: tuple[int, ...], keepdims: bool, **initial: Any) -> Bounded:
        value = np.asarray(np.max(self.value, axis=axes, keepdims=keepdims, **initial))
        return self._of(value, np.asarray(self.bound.max(axis=axes, keepdims=keepdims, initial=0)))

    def _where(self, mask: Bounded, elsewhere: Bounded) -> Bounded:
        chosen = mask.value.astype(bool)
        value, bound = (np.where(chosen, a, b) for a, b in zip(self.parts, elsewhere.parts, strict=True))
        return self._of(value, bound)


# -- forms of their own ------------------------------------------------------------------------------------------------


def shift(x: Bounded, over: Array) -> Array:
    """The largest number of each row, (..., n, 1), as a machine subtracts it: what is off of it cancels."""
    largest = np.max(np.where(over, x.value, -np.inf), axis=-1, keepdims=True, initial=-np.inf)
    return np.where(np.isfinite(largest), largest, 0)


def normalized(
    function: Callable[[Any, Array], Any], x: Bounded, over: Array, *, grows: str = "proportional"
) -> Bounded:
    """A normalizer's weights, (..., n, m). grows: how their error grows with that of the scores.

    proportional: shares of exponentials, off in proportion to themselves. as-scores: off by as much as the scores,
    however small they are. as-formula: as each operation of the formula has it.
    """
    if grows == "as-formula":
        composed: Bounded = x._lifted(function(x, over))
        return composed
    machine, m = x.machine, x.shape[-1]
    counts = over & np.isfinite(x.value)
    off = np.where(counts, x.bound, 0)
    with np.errstate(all="ignore"):
        weights = function(x.value, over)
        sizes = np.where(np.isfinite(weights), np.abs(weights), 0)
        if grows == "as-scores":
            largest = np.where(counts, np.abs(x.value), 0).max(axis=-1, keepdims=True, initial=0)
            absolute = off + np.max(off, axis=-1, keepdims=True, initial=0) + 2 * m * machine.v * largest
        else:
            # e^(s + off) over sum w e^(s - off), which is at least e^-(sum w off).
            absolute = sizes * np.expm1(off + (sizes * off).sum(axis=-1, keepdims=True))
    rounding = ((2 * machine.function + 4) * machine.u + (m + 8) * machine.v) * sizes + machine.tiny
    return x._of(weights, np.where(over, absolute + rounding, 0))
