"""Numbers that know the arithmetic they come from, each as a tree over cells of earlier steps (`trees`).

The numbers themselves are computed beside it, all at once; they decide which branch a number takes (the largest of a
row, a mask). A tree is built only for a number that is asked for: each value holds the place of its numbers in the
operation they come from (`at`), and how that operation makes the tree of one of them (`source`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from attncli.arithmetic import trees
from attncli.arithmetic.parts import Decided
from attncli.arithmetic.trees import Cell, Number, Term, op
from attncli.errors import Opaque
from attncli.lazy import Array, np

Source: TypeAlias = Callable[[int], Term]

# What a number is: a cell of something earlier, a number of the formula itself, or one that is made of others.
CELL, NUMBER, MADE = range(3)


class Terms(Decided):
    """value: the numbers. at: for each its place in `source`, which gives the tree of a number at a place.

    nature: what each is, CELL, NUMBER or MADE, told without its tree.
    """

    kind = "terms"

    def __init__(self, value: Array, at: Array, nature: Array, source: Source) -> None:
        self.value, self.at, self.nature, self.source = value, at, nature, source

    @classmethod
    def cells(cls, step: str, value: Array) -> Terms:
        """The numbers of a step or an input, each a cell of it."""
        return cls._made(value, lambda i: _cell(step, i, value.shape), CELL)

    @classmethod
    def numbers(cls, value: Array) -> Terms:
        """Numbers of the formula itself."""
        return cls._made(value, lambda i: Number(float(value.flat[i])), NUMBER)

    @classmethod
    def _made(cls, value: Array, source: Source, nature: int = MADE) -> Terms:
        value = np.asarray(value)
        return cls(value, np.arange(value.size).reshape(value.shape), np.full(value.shape, nature, np.int8), source)

    def cut(self, step: str, value: Array, kept: tuple[int, ...] = (CELL,)) -> Terms:
        """These numbers as what later steps start from: cells of this step. kept: natures of numbers that stay."""
        new = ~np.isin(self.nature, kept)
        source = lambda i: _cell(step, i, value.shape) if new.flat[i] else self._flat(i)  # noqa: E731
        return Terms(value, np.arange(value.size).reshape(value.shape), np.where(new, CELL, self.nature), source)

    def term(self, *index: int) -> Term:
        """The tree of one number."""
        return self.source(int(self.at[index]))

    def _flat(self, i: int) -> Term:
        return self.source(int(self.at.flat[i]))

    def _plain(self, x: Array) -> Terms:
        return Terms.numbers(x)

    @property
    def parts(self) -> tuple[Array, ...]:
        return self.value, self.at, self.nature

    def _of(self, value: Array, at: Array, nature: Array) -> Terms:  # type: ignore[override]
        return Terms(value, at, nature, self.source)

    def _joined(self, values: Sequence[Terms], axis: int) -> Terms:
        which = np.concatenate([np.full(x.shape, i) for i, x in enumerate(values)], axis=axis)
        parts = [np.concatenate(parts, axis=axis) for parts in zip(*(x.parts for x in values), strict=True)]
        return _gathered(values, which, *parts)

    # -- arithmetic ----------------------------------------------------------------------------------------------

    def _add(self, other: Terms) -> Terms:
        return _applied(np.add, lambda a, b: trees.total((a, b)), self, other)

    def _subtract(self, other: Terms) -> Terms:
        return _applied(np.subtract, trees.difference, self, other)

    def _multiply(self, other: Terms) -> Terms:
        return self._square() if other is self else _applied(np.multiply, trees.product, self, other)

    def _divide(self, other: Terms) -> Terms:
        return _applied(np.true_divide, trees.quotient, self, other)

    def _negative(self) -> Terms:
        return _applied(np.negative, trees.negative, self)

    def _positive(self) -> Terms:
        return self

    def _square(self) -> Terms:
        return _applied(np.square, trees.square, self)

    def _sqrt(self) -> Terms:
        return _applied(np.sqrt, lambda a: op("sqrt", a), self)

    def _exp(self) -> Terms:
        return _applied(np.exp, lambda a: op("exp", a), self)

    def _log(self) -> Terms:
        return _applied(np.log, lambda a: op("log", a), self)

    def _log1p(self) -> Terms:
        return _applied(np.log1p, lambda a: op("log", trees.total((trees.ONE, a))), self)

    def _tanh(self) -> Terms:
        return _applied(np.tanh, lambda a: op("tanh", a), self)

    def _power(self, other: Terms) -> Terms:
        exponent = float(other.value) if not other.ndim else 0.0
        if exponent == 0.5:
            return self._sqrt()
        if exponent == 2:
            return self._square()
        if exponent < 1 or exponent != int(exponent):
            raise Opaque("np.power with an exponent that is not a whole number above 0 cannot be read in terms")
        count = int(exponent)
        return _applied(lambda x: np.power(x, count), lambda a: trees.product(*[a] * count), self)

    def _product(self, other: Terms) -> Terms:
        with np.errstate(all="ignore"):
            value = self.value @ other.value
        lead = value.shape[:-2]
        left: Any = self._broadcast((*lead, *self.shape[-2:])).at
        right: Any = other._broadcast((*lead, *other.shape[-2:])).at

        def source(i: int) -> Term:
            *head, row, column = np.unravel_index(i, value.shape)
            pairs = zip(left[(*head, row)], right[(*head, slice(None), column)], strict=True)
            return trees.total(trees.product(self.source(int(a)), other.source(int(b))) for a, b in pairs)

        return Terms._made(value, source)

    def _sum(self, axes: tuple[int, ...], keepdims: bool) -> Terms:
        rows = self._rows(axes).at
        value = np.asarray(self.value.sum(axis=axes, keepdims=keepdims))
        return Terms._made(value, lambda i: trees.total(self.source(int(a)) for a in rows[i]))

    def _rows(self, axes: tuple[int, ...]) -> Terms:
        """What is reduced along these axes, a row for each result."""
        kept = [a for a in range(-self.ndim, 0) if a not in axes]
        count = int(np.prod([self.shape[a] for a in kept], dtype=int))
        return self._permuted((*kept, *axes))._reshaped((count, self.size // count if count else 0))

    # -- choices, by the numbers -----------------------------------------------------------------------------------

    def _where(self, mask: Terms, elsewhere: Terms) -> Terms:
        shape = np.broadcast_shapes(mask.shape, self.shape, elsewhere.shape)
        chosen = np.broadcast_to(mask.value.astype(bool), shape)
        one, other = self._broadcast(shape), elsewhere._broadcast(shape)
        parts = [np.where(chosen, a, b) for a, b in zip(one.parts, other.parts, strict=True)]
        return _gathered((other, one), chosen.astype(int), *parts)

    def _absolute(self) -> Terms:
        return _applied(np.absolute, lambda a: op("absolute", a), self)

    def _maximum(self, other: Terms) -> Terms:
        return _applied(np.maximum, trees.largest, self, other)

    def _minimum(self, other: Terms) -> Terms:
        with np.errstate(invalid="ignore"):
            return self._where(Terms.numbers(~(self.value > other.value)), other)

    def _np_clip(self, x: Any, a_min: Any = None, a_max: Any = None, **bounds: Any) -> Any:
        low, high = bounds.get("min", a_min), bounds.get("max", a_max)
        x = x if low is None else np.where(np.less(x, low), low, x)
        return x if high is None else np.where(np.greater(x, high), high, x)

    def _max(self, axes: tuple[int, ...], keepdims: bool, **initial: Any) -> Terms:
        value = np.asarray(np.max(self.value, axis=axes, keepdims=keepdims, **initial))
        rows = self._rows(axes)
        if not rows.shape[-1]:
            return Terms.numbers(value)
        best = rows.value.argmax(axis=-1)
        found, at, nature = (part[np.arange(len(best)), best].reshape(value.shape) for part in rows.parts)
        largest, reached = Terms(value, at, nature, self.source), value == found
        return largest._where(Terms.numbers(reached | np.isnan(value)), Terms.numbers(value))

    def _np_sort(self, x: Terms, axis: int = -1) -> Terms:
        return self._np_take_along_axis(x, np.argsort(x.value, axis=axis, kind="stable"), axis)

    def _np_argsort(self, x: Terms, axis: int = -1, **_: Any) -> Array:
        return np.argsort(x.value, axis=axis, kind="stable")

    def _np_take_along_axis(self, x: Any, indices: Any, axis: int) -> Terms:
        places = indices.value.astype(int) if isinstance(indices, Terms) else indices
        lifted: Terms = self._lifted(x)
        return lifted._moved(lambda part: np.take_along_axis(part, places, axis=axis))

    def _np_cumsum(self, x: Terms, axis: int) -> Any:
        turned: Terms = self._np_moveaxis(x, axis, -1)
        rows, width = turned._rows((-1,)).at, max(1, turned.shape[-1])
        sums = Terms._made(
            np.cumsum(turned.value, axis=-1),
            lambda i: trees.total(x.source(int(a)) for a in rows[i // width, : i % width + 1]),
        )
        return sums._np_moveaxis(sums, -1, axis)

    def _less_equal(self, other: Terms) -> Terms:
        return _applied(np.less_equal, lambda a, b: op("within", a, b), self, other)


def _applied(function: Callable[..., Any], build: Callable[..., Term], *operands: Terms) -> Terms:
    """A function number by number; `build` makes the tree of one result of the trees of its operands."""
    with np.errstate(all="ignore"):
        value = np.asarray(function(*(x.value for x in operands)))
    wide = [x._broadcast(value.shape) for x in operands]
    return Terms._made(value, lambda i: build(*(x._flat(i) for x in wide)))


def _gathered(values: Sequence[Terms], which: Array, value: Array, at: Array, nature: Array) -> Terms:
    """Numbers that come unchanged from several values: from which one, and their place there."""
    found = Terms._made(value, lambda i: values[int(which.flat[i])].source(int(at.flat[i])))
    found.nature = nature
    return found


def _cell(step: str, place: int, shape: tuple[int, ...]) -> Cell:
    index: tuple[int, ...] = ()
    for size in reversed(shape):
        place, own = divmod(place, size)
        index = (own, *index)
    return Cell(step, index)


# -- forms of their own ------------------------------------------------------------------------------------------------

_LARGE = 200  # e^200 is still a number for a calculator, more or less


def shift(x: Terms, over: Array) -> Array:
    """What e^s is shifted by, (..., n, 1): nothing, unless it would leave what a calculator holds."""
    seen = np.where(over & np.isfinite(x.value), x.value, 0)
    large = np.max(np.abs(seen), axis=-1, keepdims=True, initial=0) > _LARGE
    largest = np.max(np.where(over, x.value, -np.inf), axis=-1, keepdims=True, initial=-np.inf)
    return np.where(large & np.isfinite(largest), largest, 0)
