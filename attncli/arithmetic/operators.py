"""The operators of Python as NumPy's functions, so that a kind of value says once what each operation is."""

from __future__ import annotations

from typing import Any

from attncli.lazy import np


class Operators:
    """a + b is np.add(a, b), and so on; a plain array may stand on either side."""

    __array_priority__ = 1000.0
    __hash__ = None  # type: ignore[assignment]

    def __add__(self: Any, other: Any) -> Any:
        return np.add(self, other)

    def __radd__(self: Any, other: Any) -> Any:
        return np.add(other, self)

    def __sub__(self: Any, other: Any) -> Any:
        return np.subtract(self, other)

    def __rsub__(self: Any, other: Any) -> Any:
        return np.subtract(other, self)

    def __mul__(self: Any, other: Any) -> Any:
        return np.multiply(self, other)

    def __rmul__(self: Any, other: Any) -> Any:
        return np.multiply(other, self)

    def __truediv__(self: Any, other: Any) -> Any:
        return np.true_divide(self, other)

    def __rtruediv__(self: Any, other: Any) -> Any:
        return np.true_divide(other, self)

    def __matmul__(self: Any, other: Any) -> Any:
        return np.matmul(self, other)

    def __rmatmul__(self: Any, other: Any) -> Any:
        return np.matmul(other, self)

    def __pow__(self: Any, other: Any) -> Any:
        return np.power(self, other)

    def __neg__(self: Any) -> Any:
        return np.negative(self)

    def __abs__(self: Any) -> Any:
        return np.absolute(self)

    def __lt__(self: Any, other: Any) -> Any:
        return np.less(self, other)

    def __le__(self: Any, other: Any) -> Any:
        return np.less_equal(self, other)

    def __gt__(self: Any, other: Any) -> Any:
        return np.greater(self, other)

    def __ge__(self: Any, other: Any) -> Any:
        return np.greater_equal(self, other)

    def __eq__(self: Any, other: Any) -> Any:
        return np.equal(self, other)

    def __ne__(self: Any, other: Any) -> Any:
        return np.not_equal(self, other)

    def __and__(self: Any, other: Any) -> Any:
        return np.bitwise_and(self, other)

    def __rand__(self: Any, other: Any) -> Any:
        return np.bitwise_and(other, self)

    def __or__(self: Any, other: Any) -> Any:
        return np.bitwise_or(self, other)

    def __ror__(self: Any, other: Any) -> Any:
        return np.bitwise_or(other, self)

    def __invert__(self: Any) -> Any:
        return np.invert(self)
