"""Values that are made of arrays of one shape: bounds, a number and its error, a number and where it comes from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

from attncli.arithmetic.base import Value
from attncli.lazy import Array, np


class Parts(Value):
    """A change of shape moves every part alike. `lead` axes in front of each part are no axes of the value."""

    lead: ClassVar[int] = 0

    @property
    def parts(self) -> tuple[Array, ...]:
        raise NotImplementedError

    def _of(self, *parts: Array) -> Self:
        """A value of other parts, with what else this one knows."""
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.parts[0].shape[self.lead :]

    @property
    def ndim(self) -> int:
        return self.parts[0].ndim - self.lead

    def _moved(self, change: Callable[[Array], Array]) -> Self:
        return self._of(*map(change, self.parts))

    def _permuted(self, order: tuple[int, ...]) -> Self:
        fixed = tuple(range(self.lead))
        return self._moved(lambda part: part.transpose(*fixed, *order))

    def _reshaped(self, shape: tuple[int, ...]) -> Self:
        return self._moved(lambda part: part.reshape(part.shape[: self.lead] + shape))

    def _broadcast(self, shape: tuple[int, ...]) -> Self:
        padded = self.padded(len(shape))
        return padded._moved(lambda part: np.broadcast_to(part, part.shape[: self.lead] + shape))

    def _taken(self, indices: Array, axis: int) -> Self:
        if indices.ndim != 1:
            at = self.ndim + axis
            return self._moved(lambda part: np.take(part, indices, axis=at + self.lead))
        return self._moved(lambda part: np.take(part, indices, axis=axis))

    def _np_take_along_axis(self, x: Any, indices: Any, axis: int) -> Self:
        if isinstance(indices, Value):
            raise self._opaque("np.take_along_axis by what depends on numbers")
        places = indices.reshape((1,) * self.lead + indices.shape)
        return self._lifted(x)._moved(lambda part: np.take_along_axis(part, places, axis=x._axis(axis)))  # type: ignore[no-any-return]

    def _joined(self, values: Sequence[Any], axis: int) -> Any:
        return self._of(*(np.concatenate(parts, axis=axis) for parts in zip(*(x.parts for x in values), strict=True)))

    def __getitem__(self, index: Any) -> Any:
        index = index if isinstance(index, tuple) else (index,)
        places = [part for part in index if not (part is None or part is Ellipsis or isinstance(part, slice))]
        if self.lead and len(places) > 1 and not all(isinstance(place, int) for place in places):
            raise self._opaque("an index of several arrays (np.take is)")
        whole = (slice(None),) * self.lead + index
        return self._moved(lambda part: np.asarray(part[whole]))

    def padded(self, ndim: int) -> Self:
        """With axes of size 1 in front, up to so many."""
        missing = ndim - self.ndim
        if missing <= 0:
            return self
        return self._reshaped((1,) * missing + self.shape)


class Decided(Parts):
    """Values with one number each (`value`), which decides what is compared and which branch is taken."""

    value: Array

    def _truth(self, value: Any) -> Any:
        """Answers as a value of this kind."""
        return self._plain(np.asarray(value))

    def _less(self, other: Any) -> Any:
        return self._truth(self.value < other.value)

    def _less_equal(self, other: Any) -> Any:
        return self._truth(self.value <= other.value)

    def _equal(self, other: Any) -> Any:
        return self._truth(self.value == other.value)

    def _bitwise_and(self, other: Any) -> Any:
        return self._truth(self.value & other.value)

    def _bitwise_or(self, other: Any) -> Any:
        return self._truth(self.value | other.value)

    def _invert(self) -> Any:
        return self._truth(~self.value)

    def _all(self, axes: tuple[int, ...], keepdims: bool) -> Any:
        return self._truth(np.all(self.value, axis=axes, keepdims=keepdims))

    def __bool__(self) -> bool:
        return bool(self.value)

    def _isnan(self) -> Array:
        return np.asarray(np.isnan(self.value))

    def _isneginf(self) -> Array:
        return np.asarray(np.isneginf(self.value))

    def _isfinite(self) -> Array:
        return np.asarray(np.isfinite(self.value))
