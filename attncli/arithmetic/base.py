"""What all kinds of value share: NumPy's functions reach them by name, and changes of shape are six primitives.

A kind is a class with one method for each operation that it knows: `_add`, `_matmul`, `_tanh` ... for NumPy's ufuncs,
under NumPy's own names, and `_sum`, `_max` ... for reductions. What it does not know is told as `Opaque`.
Shapes may have axes in front that nobody sees (`lead`), so axes are counted from the end.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from attncli.arithmetic.operators import Operators
from attncli.errors import Opaque, ShapeError
from attncli.lazy import Array, np

Axis = int | Sequence[int] | None


class Value(Operators):
    """An array of numbers of some kind, as NumPy's functions see it."""

    kind: ClassVar[str]
    shape: tuple[int, ...]

    # -- what NumPy asks ---------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        rule = getattr(type(self), f"_{ufunc.__name__}", None)
        if rule is None or method != "__call__" or options:
            raise self._opaque(f"np.{ufunc.__name__}" + (f".{method}" if method != "__call__" else ""))
        return rule(*(self._lifted(x) for x in inputs))

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        rule = getattr(self, f"_np_{function.__name__}", None)
        if rule is None:
            raise self._opaque(f"np.{function.__name__}")
        return rule(*args, **options)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise self._opaque("making a plain array")

    def __float__(self) -> float:
        raise self._opaque("making a plain number")

    def __setitem__(self, index: Any, number: Any) -> None:
        raise self._opaque("writing into an array (np.where is)")

    def _opaque(self, what: str) -> Opaque:
        return Opaque(f"{what} cannot be read in {self.kind}")

    # -- what a kind says ----------------------------------------------------------------------------------------

    def _plain(self, x: Array) -> Any:
        """A plain array as this kind of value."""
        raise NotImplementedError

    def _permuted(self, order: tuple[int, ...]) -> Any:
        """The axes in another order, counted from the end."""
        raise NotImplementedError

    def _reshaped(self, shape: tuple[int, ...]) -> Any:
        raise NotImplementedError

    def _broadcast(self, shape: tuple[int, ...]) -> Any:
        raise NotImplementedError

    def _taken(self, indices: Array, axis: int) -> Any:
        raise NotImplementedError

    def _joined(self, values: Sequence[Any], axis: int) -> Any:
        """Values of this kind one after the other."""
        raise NotImplementedError

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError

    def _lifted(self, x: Any) -> Any:
        if isinstance(x, type(self)):
            return x
        if isinstance(x, Value):
            raise Opaque(f"{self.kind} and {x.kind} do not mix")
        return self._plain(np.asarray(x))

    # -- sizes ---------------------------------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def dtype(self) -> Any:
        return np.dtype(np.float64)

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        return self

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def _np_shape(self, x: Any) -> tuple[int, ...]:
        return tuple(x.shape)

    def _np_ndim(self, x: Any) -> int:
        return int(x.ndim)

    def _np_size(self, x: Any) -> int:
        return int(x.size)

    def _axis(self, axis: int, ndim: int | None = None) -> int:
        """The axis counted from the end."""
        ndim = self.ndim if ndim is None else ndim
        if not -ndim <= axis < ndim:
            raise ShapeError(f"there is no axis {axis} in an array of shape {self.shape}")
        return axis if axis < 0 else axis - ndim

    def _axes(self, axis: Axis) -> tuple[int, ...]:
        if axis is None:
            return tuple(range(-self.ndim, 0))
        return tuple(self._axis(a) for a in ([axis] if isinstance(axis, int) else axis))

    # -- changes of shape ----------------------------------------------------------------------------------------

    @property
    def mT(self) -> Any:
        return self.swapaxes(-1, -2)

    @property
    def T(self) -> Any:
        return self._permuted(tuple(range(-1, -self.ndim - 1, -1)))

    def swapaxes(self, one: int, other: int) -> Any:
        one, other = self._axis(one), self._axis(other)
        turned = {one: other, other: one}
        return self._permuted(tuple(turned.get(a, a) for a in range(-self.ndim, 0)))

    def reshape(self, *shape: Any) -> Any:
        sizes = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return self._reshaped(self._filled(tuple(int(size) for size in sizes)))

    def _filled(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape with its -1 worked out."""
        known = math.prod(size for size in shape if size != -1)
        unknown = shape.count(-1)
        fits = unknown == 1 and known and self.size % known == 0
        if not fits and (unknown or known != self.size):
            raise ShapeError(f"an array of shape {self.shape} cannot be reshaped to {shape}")
        return tuple(self.size // known if size == -1 else size for size in shape)

    def ravel(self) -> Any:
        return self.reshape(-1)

    def _np_reshape(self, x: Any, shape: Any, **_: Any) -> Any:
        return x.reshape(shape)

    def _np_ravel(self, x: Any) -> Any:
        return x.ravel()

    def _np_swapaxes(self, x: Any, axis1: int, axis2: int) -> Any:
        return x.swapaxes(axis1, axis2)

    def _np_matrix_transpose(self, x: Any) -> Any:
        return x.mT

    def _np_transpose(self, x: Any, axes: Sequence[int] | None = None) -> Any:
        return x.T if axes is None else x._permuted(x._axes(axes))

    def _np_moveaxis(self, x: Any, source: int, destination: int) -> Any:
        order = [a for a in range(-x.ndim, 0) if a != x._axis(source)]
        order.insert(x._axis(destination) + x.ndim, x._axis(source))
        return x._permuted(tuple(order))

    def _np_expand_dims(self, x: Any, axis: int) -> Any:
        at = x._axis(axis, x.ndim + 1) + x.ndim + 1
        return x._reshaped((*x.shape[:at], 1, *x.shape[at:]))

    def _np_squeeze(self, x: Any, axis: Axis = None) -> Any:
        ones = [a for a in range(-x.ndim, 0) if x.shape[a] == 1]
        dropped = ones if axis is None else x._axes(axis)
        if not set(dropped) <= set(ones):
            raise ShapeError(f"axis {axis} of an array of shape {x.shape} is not of size 1")
        return x._reshaped(tuple(x.shape[a] for a in range(-x.ndim, 0) if a not in dropped))

    def _np_broadcast_to(self, x: Any, shape: Any) -> Any:
        return x._broadcast((shape,) if isinstance(shape, int) else tuple(shape))

    def _np_atleast_2d(self, x: Any) -> Any:
        return x if x.ndim >= 2 else x._reshaped((1,) * (2 - x.ndim) + x.shape)

    def _np_take(self, x: Any, indices: Any, axis: int | None = None) -> Any:
        if axis is None:
            return x.ravel()._taken(np.asarray(indices), -1)
        return x._taken(np.asarray(indices), x._axis(axis))

    def _np_repeat(self, x: Any, repeats: int, axis: int | None = None) -> Any:
        if axis is None:
            return self._np_repeat(x.ravel(), repeats, 0)
        return x._taken(np.repeat(np.arange(x.shape[axis]), repeats), x._axis(axis))

    def _np_concatenate(self, values: Sequence[Any], axis: int = 0) -> Any:
        lifted = [self._lifted(x) for x in values]
        return self._joined(lifted, lifted[0]._axis(axis))

    def _np_stack(self, values: Sequence[Any], axis: int = 0) -> Any:
        lifted = [self._np_expand_dims(self._lifted(x), axis) for x in values]
        return self._joined(lifted, lifted[0]._axis(axis))

    # -- reductions ----------------------------------------------------------------------------------------------

    def sum(self, axis: Axis = None, keepdims: bool = False) -> Any:
        return self._known("_sum")(self._axes(axis), keepdims)

    def mean(self, axis: Axis = None, keepdims: bool = False) -> Any:
        count = math.prod(self.shape[a] for a in self._axes(axis))
        return self.sum(axis, keepdims) / count

    def max(self, axis: Axis = None, keepdims: bool = False, **initial: Any) -> Any:
        return self._known("_max")(self._axes(axis), keepdims, **initial)

    def min(self, axis: Axis = None, keepdims: bool = False, **initial: Any) -> Any:
        return -(-self).max(axis, keepdims, **{name: -value for name, value in initial.items()})

    def all(self, axis: Axis = None, keepdims: bool = False) -> Any:
        return self._known("_all")(self._axes(axis), keepdims)

    def any(self, axis: Axis = None, keepdims: bool = False) -> Any:
        return ~(~self).all(axis, keepdims)

    def _known(self, name: str) -> Any:
        rule = getattr(self, name, None)
        if rule is None:
            raise self._opaque(f"np.{name[1:]}")
        return rule

    def _np_sum(self, x: Any, axis: Axis = None, **options: Any) -> Any:
        return x.sum(axis, **options)

    def _np_mean(self, x: Any, axis: Axis = None, **options: Any) -> Any:
        return x.mean(axis, **options)

    def _np_max(self, x: Any, axis: Axis = None, **options: Any) -> Any:
        return x.max(axis, **options)

    def _np_min(self, x: Any, axis: Axis = None, **options: Any) -> Any:
        return x.min(axis, **options)

    _np_amax, _np_amin = _np_max, _np_min

    def _np_all(self, x: Any, axis: Axis = None, **options: Any) -> Any:
        return x.all(axis, **options)

    def _np_any(self, x: Any, axis: Axis = None, **options: Any) -> Any:
        return x.any(axis, **options)

    def _np_isneginf(self, x: Any) -> Any:
        return x._known("_isneginf")()

    # -- what follows from the rest ------------------------------------------------------------------------------

    def _where(self, mask: Any, elsewhere: Any) -> Any:
        """This where the mask is true."""
        raise self._opaque("np.where")

    def _np_where(self, mask: Any, x: Any, y: Any) -> Any:
        return self._lifted(x)._where(self._lifted(mask), self._lifted(y))

    def _np_clip(self, x: Any, a_min: Any = None, a_max: Any = None, **bounds: Any) -> Any:
        low, high = bounds.get("min", a_min), bounds.get("max", a_max)
        x = x if low is None else np.maximum(x, low)
        return x if high is None else np.minimum(x, high)

    def _np_dot(self, a: Any, b: Any) -> Any:
        if np.ndim(a) > 2 or np.ndim(b) > 2:
            raise self._opaque("np.dot of more than two axes")
        return np.matmul(a, b) if np.ndim(a) and np.ndim(b) else np.multiply(a, b)

    def _np_norm(self, x: Any, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Any:
        if ord not in (None, 2) or not (isinstance(axis, int) or x.ndim == 1):
            raise self._opaque("np.linalg.norm other than the Euclidean length along one axis")
        return np.sqrt(np.square(x).sum(axis, keepdims))

    def _minimum(self, other: Any) -> Any:
        return -np.maximum(-self, -other)

    def _greater(self, other: Any) -> Any:
        return other < self

    def _greater_equal(self, other: Any) -> Any:
        return other <= self

    def _not_equal(self, other: Any) -> Any:
        return ~(self == other)

    def _logical_and(self, other: Any) -> Any:
        return self & other

    def _logical_or(self, other: Any) -> Any:
        return self | other

    def _logical_not(self) -> Any:
        return ~self

    def _matmul(self, other: Any) -> Any:
        """The matrix product; a vector is a row on the left and a column on the right, as NumPy has it."""
        if not self.ndim or not other.ndim:
            raise ShapeError(f"a matrix product needs an axis on both sides: {self.shape} @ {other.shape}")
        left = self if self.ndim > 1 else self._reshaped((1, *self.shape))
        right = other if other.ndim > 1 else other._reshaped((*other.shape, 1))
        product = left._known("_product")(right)
        product = product if other.ndim > 1 else product[..., 0]
        if self.ndim > 1:
            return product
        return product[..., 0, :] if other.ndim > 1 else product[..., 0]
