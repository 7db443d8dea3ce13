"""Numbers as somebody has them who rounds on the way, by many habits at once.

One axis in front, which no formula sees, has a line for each habit; it stays of size 1 as long as all habits agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attncli.arithmetic.habits import Habits
from attncli.arithmetic.parts import Parts
from attncli.errors import Opaque
from attncli.lazy import Array, np


class Rounded(Parts):
    """value: (1 or so many habits, *shape)."""

    kind = "rounded numbers"
    lead = 1

    def __init__(self, value: Array, habits: Habits) -> None:
        self.value, self.habits = value, habits

    @classmethod
    def given(cls, x: Array, habits: Habits) -> Rounded:
        """Numbers that are the same for all habits."""
        return cls(np.asarray(x)[None], habits)

    def _plain(self, x: Array) -> Rounded:
        return Rounded(x[None], self.habits)

    @property
    def parts(self) -> tuple[Array, ...]:
        return (self.value,)

    def _of(self, value: Array) -> Rounded:  # type: ignore[override]
        return Rounded(value, self.habits)

    @property
    def lines(self) -> Array:
        """The numbers by every habit, (habits, *shape)."""
        return np.broadcast_to(self.value, (len(self.habits), *self.shape))

    def at(self, site: str) -> Rounded:
        """Rounded by the habits that round there."""
        return self._replaced(site, lambda lines: self._some(lines))

    def _some(self, lines: Array) -> Array:
        """The numbers by some habits; one line where all agree."""
        return self.value if len(self.value) == 1 else self.value[lines]

    def _replaced(
        self, site: str, numbers: Callable[[Array], Array], then: Callable[[Array], Array] | None = None
    ) -> Rounded:
        """This, but what the habits of a site make of it: their numbers, rounded, and what comes of these then."""
        lines = self.habits.lines(site)
        if not lines.size:
            return self
        value = np.array(self.lines, dtype=float)
        with np.errstate(all="ignore"):
            found = self.habits.rounded(numbers(lines), site)
            value[lines] = found if then is None else then(found)
        return self._of(value)

    def _joined(self, values: Sequence[Rounded], axis: int) -> Rounded:
        count = max(len(x.value) for x in values)
        return self._of(np.concatenate([np.broadcast_to(x.value, (count, *x.shape)) for x in values], axis=axis))

    def _with(self, function: Callable[..., Any], *others: Rounded) -> Rounded:
        """A function number by number."""
        operands = (self, *others)
        ndim = max(x.value.ndim for x in operands) - self.lead
        with np.errstate(all="ignore"):
            return self._of(np.asarray(function(*(x.padded(ndim).value for x in operands))))

    # -- where something is rounded --------------------------------------------------------------------------------

    def _tanh(self) -> Rounded:
        return self._with(np.tanh).at("inside")

    def _sqrt(self) -> Rounded:
        return self._with(np.sqrt).at("inside")

    def _exp(self) -> Rounded:
        logs = self.habits.logarithms_of_e(self.ndim)
        return self._with(np.exp if logs is None else lambda x: np.exp(x * logs))

    def _divide(self, other: Rounded) -> Rounded:
        quotients = self._with(np.true_divide, other)
        lines = self.habits.lines("reciprocal")
        if not lines.size or other.shape[-1:] != (1,):
            return quotients
        one, total = (x.padded(quotients.ndim) for x in (self, other))
        return quotients._replaced(
            "reciprocal", lambda _: 1 / total._some(lines), lambda reciprocals: one._some(lines) * reciprocals
        )

    def _product(self, other: Rounded) -> Rounded:
        products = self._with(np.matmul, other)
        lines = self.habits.lines("terms")
        if not lines.size:
            return products
        a, b = (x.padded(products.ndim) for x in (self, other))
        return products._replaced(
            "terms",
            lambda _: a._some(lines)[..., :, :, None] * b._some(lines)[..., None, :, :],
            lambda terms: terms.sum(axis=-2),
        )

    # -- the same by every habit -----------------------------------------------------------------------------------

    def _add(self, other: Rounded) -> Rounded:
        return self._with(np.add, other)

    def _subtract(self, other: Rounded) -> Rounded:
        return self._with(np.subtract, other)

    def _multiply(self, other: Rounded) -> Rounded:
        return self._with(np.multiply, other)

    def _power(self, other: Rounded) -> Rounded:
        return self._with(np.power, other)

    def _maximum(self, other: Rounded) -> Rounded:
        return self._with(np.maximum, other)

    def _minimum(self, other: Rounded) -> Rounded:
        return self._with(np.minimum, other)

    def _negative(self) -> Rounded:
        return self._with(np.negative)

    def _absolute(self) -> Rounded:
        return self._with(np.absolute)

    def _square(self) -> Rounded:
        return self._with(np.square)

    def _log(self) -> Rounded:
        return self._with(np.log)

    def _log1p(self) -> Rounded:
        return self._with(np.log1p)

    def _sum(self, axes: tuple[int, ...], keepdims: bool) -> Rounded:
        return self._moved(lambda value: np.asarray(value.sum(axis=axes, keepdims=keepdims)))

    def _max(self, axes: tuple[int, ...], keepdims: bool, **initial: Any) -> Rounded:
        return self._moved(lambda value: np.asarray(np.max(value, axis=axes, keepdims=keepdims, **initial)))

    def _where(self, mask: Rounded, elsewhere: Rounded) -> Rounded:
        return mask._with(lambda mask, x, y: np.where(mask, x, y), self, elsewhere)

    def _np_sort(self, x: Rounded, axis: int = -1) -> Rounded:
        return x._moved(lambda value: np.sort(value, axis=x._axis(axis)))

    def _np_cumsum(self, x: Rounded, axis: int) -> Rounded:
        return x._moved(lambda value: np.cumsum(value, axis=x._axis(axis)))

    def _np_take_along_axis(self, x: Any, indices: Any, axis: int) -> Rounded:
        along, places = self._lifted(x), self._lifted(indices)
        at = along._axis(axis)
        count = max(len(along.value), len(places.value))
        values, where = (np.broadcast_to(part.value, (count, *part.shape)) for part in (along, places))
        return self._of(np.take_along_axis(values, where.astype(int), axis=at))

    # -- truth ---------------------------------------------------------------------------------------------------

    def _less(self, other: Rounded) -> Rounded:
        return self._with(np.less, other)

    def _less_equal(self, other: Rounded) -> Rounded:
        return self._with(np.less_equal, other)

    def _equal(self, other: Rounded) -> Rounded:
        return self._with(np.equal, other)

    def _bitwise_and(self, other: Rounded) -> Rounded:
        return self._with(np.bitwise_and, other)

    def _bitwise_or(self, other: Rounded) -> Rounded:
        return self._with(np.bitwise_or, other)

    def _invert(self) -> Rounded:
        return self._with(np.invert)

    def _all(self, axes: tuple[int, ...], keepdims: bool) -> Rounded:
        return self._moved(lambda value: np.asarray(np.all(value, axis=axes, keepdims=keepdims)))

    def __bool__(self) -> bool:
        answers = {bool(answer) for answer in self.value.flat}
        if len(answers) != 1:
            raise Opaque("a branch on which habits disagree cannot be read in rounded numbers")
        return answers.pop()

    def _isnan(self) -> Any:
        return self._agreed(np.isnan(self.value))

    def _isneginf(self) -> Any:
        return self._agreed(np.isneginf(self.value))

    def _isfinite(self) -> Any:
        return self._agreed(np.isfinite(self.value))

    def _agreed(self, answers: Array) -> Any:
        """Plain booleans where all habits agree, as they do of what is hidden."""
        return answers[0] if np.array_equal(answers, np.broadcast_to(answers[:1], answers.shape)) else self._of(answers)


_ENORMOUS = 700  # beyond, e^s leaves what a double holds, and everybody shifts


def shift(x: Rounded, over: Any) -> Any:
    """What e^s is shifted by, (..., n, 1): the row's largest, for those who do so, and nothing for the others."""
    largest = x._np_where(over, x, -np.inf).max(axis=-1, keepdims=True, initial=-np.inf)
    shifts = np.abs(largest.value) > _ENORMOUS
    shifted = x.habits.shifted(x.ndim)
    shifts = shifts if shifted is None else shifts | shifted
    return x._of(np.where(shifts & np.isfinite(largest.value), largest.value, 0.0))
