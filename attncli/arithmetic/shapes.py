"""Shapes alone: what a formula would give of arrays of these sizes. Nothing is allocated, whatever the sizes are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attncli.arithmetic.base import Value
from attncli.errors import Opaque, ShapeError
from attncli.lazy import Array, np
from attncli.pipeline import tight
from attncli.pipeline.heads import broadcast_leading


class Shape(Value):
    """An array of which only the shape is known. Its numbers count as finite, which is told in one boolean for all."""

    kind = "shapes"

    def __init__(self, *shape: int) -> None:
        self.shape = shape

    def __repr__(self) -> str:
        return f"Shape{self.shape}"

    def _plain(self, x: Array) -> Shape:
        return Shape(*x.shape)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__":
            raise self._opaque(f"np.{ufunc.__name__}.{method}")
        lifted = [self._lifted(x) for x in inputs]
        if ufunc in (np.isfinite, np.isnan):
            return np.full((1,) * lifted[0].ndim, ufunc is np.isfinite)
        if ufunc is np.matmul:
            return lifted[0]._matmul(lifted[1])
        # Whatever the function is, it goes number by number.
        return Shape(*broadcast(f"np.{ufunc.__name__}", *(x.shape for x in lifted)))

    def __bool__(self) -> bool:
        raise Opaque("a branch that depends on numbers cannot be read in shapes")

    # -- the primitives ------------------------------------------------------------------------------------------

    def _permuted(self, order: tuple[int, ...]) -> Shape:
        if sorted(order) != list(range(-self.ndim, 0)):
            raise ShapeError(f"{order} does not order the axes of an array of shape {self.shape}")
        return Shape(*(self.shape[a] for a in order))

    def _reshaped(self, shape: tuple[int, ...]) -> Shape:
        return Shape(*shape)

    def _broadcast(self, shape: tuple[int, ...]) -> Shape:
        if broadcast("np.broadcast_to", self.shape, shape) != shape:
            raise ShapeError(f"an array of shape {self.shape} does not broadcast to {shape}")
        return Shape(*shape)

    def _taken(self, indices: Array, axis: int) -> Shape:
        before, after = self.shape[: self.ndim + axis], self.shape[self.ndim + axis + 1 :]
        _within(indices, self.shape[axis], self.shape)
        return Shape(*before, *indices.shape, *after)

    def _np_repeat(self, x: Shape, repeats: int, axis: int | None = None) -> Shape:
        if axis is None:
            return Shape(x.size * repeats)
        at = x._axis(axis)
        return _changed(x.shape, at, x.shape[at] * repeats)

    def _np_take_along_axis(self, x: Any, indices: Any, axis: int) -> Shape:
        return Shape(*np.shape(indices))

    def _joined(self, values: Sequence[Shape], axis: int) -> Shape:
        first = values[0].shape
        for x in values[1:]:
            other = x.shape
            if len(other) != len(first) or _changed(other, axis, 0).shape != _changed(first, axis, 0).shape:
                raise ShapeError(f"arrays of shapes {first} and {other} cannot be joined along axis {axis}")
        return _changed(first, axis, sum(x.shape[axis] for x in values))

    def __getitem__(self, index: Any) -> Shape:
        parts = list(index) if isinstance(index, tuple) else [index]
        used = sum(part is not None and part is not Ellipsis for part in parts)
        if used > self.ndim:
            raise ShapeError(f"{used} indices for an array of shape {self.shape}")
        at = next((i for i, part in enumerate(parts) if part is Ellipsis), len(parts))
        parts[at : at + 1] = [slice(None)] * (self.ndim - used)
        return self._picked(parts)

    def _picked(self, parts: list[Any]) -> Shape:
        """One index for each axis: a slice, None, an integer or an array of integers."""
        sizes, kept = iter(self.shape), list[int]()
        places: list[tuple[int, int, tuple[int, ...]]] = []  # of integers: which index, where its axis stood, its shape
        for at, part in enumerate(parts):
            if part is None:
                kept.append(1)
            elif isinstance(part, slice):
                kept.append(len(range(*part.indices(next(sizes)))))
            else:
                chosen = np.asarray(part)
                if chosen.dtype == bool:
                    raise self._opaque("an index of booleans")
                _within(chosen, next(sizes), self.shape)
                places.append((at, len(kept), chosen.shape))
        if not any(shape for _, _, shape in places):
            return Shape(*kept)
        # Where one is an array, they stand together where the first one does, or in front if something lies between.
        together = places[-1][0] - places[0][0] == len(places) - 1
        start = places[0][1] if together else 0
        return Shape(*kept[:start], *broadcast("an index", *(shape for _, _, shape in places)), *kept[start:])

    # -- functions of several numbers ----------------------------------------------------------------------------

    def _product(self, other: Shape) -> Shape:
        if self.shape[-1] != other.shape[-2]:
            raise ShapeError(f"{self.shape} @ {other.shape}: {self.shape[-1]} columns meet {other.shape[-2]} rows")
        lead = broadcast("@", self.shape[:-2], other.shape[:-2])
        return Shape(*lead, self.shape[-2], other.shape[-1])

    def _sum(self, axes: tuple[int, ...], keepdims: bool) -> Shape:
        kept = ((1 if a in axes else size) for a, size in zip(range(-self.ndim, 0), self.shape, strict=True))
        if keepdims:
            return Shape(*kept)
        return Shape(*(size for a, size in zip(range(-self.ndim, 0), self.shape, strict=True) if a not in axes))

    _all = _sum

    def mean(self, axis: Any = None, keepdims: bool = False) -> Shape:
        return self._sum(self._axes(axis), keepdims)

    def _max(self, axes: tuple[int, ...], keepdims: bool, **initial: Any) -> Shape:
        if not initial and any(self.shape[a] == 0 for a in axes):
            raise ShapeError(f"there is no largest number along an empty axis of an array of shape {self.shape}")
        return self._sum(axes, keepdims)

    def _where(self, mask: Shape, elsewhere: Shape) -> Shape:
        return Shape(*broadcast("np.where", mask.shape, self.shape, elsewhere.shape))

    def _isneginf(self) -> Array:
        return np.zeros((1,) * self.ndim, dtype=bool)

    def _same(self, x: Any, *_: Any, **__: Any) -> Shape:
        """A function that keeps the shape."""
        return Shape(*x.shape)

    _np_sort = _np_argsort = _np_cumsum = _np_zeros_like = _np_ones_like = _np_nan_to_num = _same


def broadcast(what: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape. Raises ShapeError where there is none. what: the operation, for the message."""
    try:
        return broadcast_leading(*shapes)
    except ValueError as error:
        raise ShapeError(f"{what}: shapes {error}") from None


def _changed(shape: tuple[int, ...], axis: int, size: int) -> Shape:
    at = len(shape) + axis
    return Shape(*shape[:at], size, *shape[at + 1 :])


def _within(indices: Array, size: int, shape: tuple[int, ...]) -> None:
    if indices.size and not -size <= indices.min() <= indices.max() < size:
        raise ShapeError(f"{indices.min()} to {indices.max()} lies beyond an axis of an array of shape {shape}")


# The forms of `pipeline.tight`: whatever the sizes are, nothing goes through the numbers of a mask.


@tight.distances.register
def _(q: Shape, k: Any) -> Any:
    return (q[..., :, None, :] - k[..., None, :, :]).sum(axis=-1)


@tight.normalized.register
def _(x: Shape, over: Any, entry: Any) -> Shape:
    return Shape(*x.shape)


@tight.averaged.register
def _(weights: Shape, v: Any, contributing: Any) -> Any:
    return weights @ v


@tight.logarithm_of_sum.register
def _(logits: Shape, over: Any) -> Any:
    return logits.sum(axis=-1, keepdims=True)
