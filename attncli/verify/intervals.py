"""Interval arithmetic, rounded outwards: every number is only known to lie between two bounds.

A `Box` is an array of intervals. It passes through each step of the pipeline as tightly as the step allows: products
term by term, monotone functions by their end points, normalizers by extreme points of the whole row (one score high and
all others low), never by dividing one interval by another that depends on it.
Letters: n queries, m keys, k what a product sums over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

from attncli.lazy import Array, np

EPSILON = 2.0**-52


@dataclass(frozen=True)
class Box:
    """Intervals [low, high]; a box of points holds one array twice, so that this is seen at once."""

    low: Array
    high: Array

    @classmethod
    def of(cls, array: Array) -> Box:
        """Points."""
        return cls(array, array)

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

    def __getitem__(self, index: Any) -> Box:
        return self.shaped(lambda array: array[index])

    def shaped(self, change: Callable[[Array], Array]) -> Box:
        """The box after a change of shape that moves numbers and computes nothing."""
        low = change(self.low)
        return Box(low, low if self.is_point else change(self.high))

    @property
    def mT(self) -> Box:
        """The box of the transposed matrices."""
        return self.shaped(lambda array: array.mT)

    def through(self, increasing: Callable[[Array], Array], accuracy: float = 4) -> Box:
        """A function that never falls, applied to each number."""
        with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
            low = increasing(self.low)
            return widened(low, low if self.is_point else increasing(self.high), accuracy)


def widened(low: Array, high: Array, accuracy: float | Array = 4, absolute: float | Array = 0.0) -> Box:
    """The bounds, moved outwards by what float arithmetic may be off: `accuracy` units of round-off, and `absolute`."""
    step = accuracy * EPSILON
    with np.errstate(invalid="ignore"):
        outward = [np.where(np.isinf(end), 0, np.abs(end) * step + absolute) for end in (low, high)]
    return Box(low - outward[0], high + outward[1])


def joined(mask: Array, where: Box, elsewhere: Box) -> Box:
    """The one box where the mask is true, the other elsewhere."""
    low = np.where(mask, where.low, elsewhere.low)
    both = where.is_point and elsewhere.is_point
    return Box(low, low if both else np.where(mask, where.high, elsewhere.high))


def added(a: Box, b: Box) -> Box:
    """a + b, of independent numbers."""
    with np.errstate(invalid="ignore"):
        low = a.low + b.low
        if a.is_point and b.is_point and _whole(low):
            return Box.of(low)
        return widened(low, low if a.is_point and b.is_point else a.high + b.high, 1)


def multiplied(a: Box, b: Box) -> Box:
    """a b, number by number."""
    with np.errstate(invalid="ignore", over="ignore"):
        ends = [x * y for x in _ends(a) for y in _ends(b)]
    return widened(reduce(np.fmin, ends), reduce(np.fmax, ends), 1)


def product(a: Box, b: Box) -> Box:
    """The matrix product a b: (..., n, k) (..., k, m). A zero that is certain wins over infinity and NaN."""
    finite = all(np.isfinite(end).all() for box in (a, b) for end in _ends(box))
    if not finite or not (a.is_point or b.is_point):
        return _product_by_terms(a, b)
    if a.is_point and b.is_point:
        middle = a.low @ b.low
        if _whole(a.low) and _whole(b.low):
            return Box.of(middle)
        return widened(middle, middle, 0, (a.low.shape[-1] + 2) * EPSILON * (np.abs(a.low) @ np.abs(b.low)))
    if a.is_point:
        return product(b.mT, a.mT).mT
    above, below = np.maximum(b.low, 0), np.minimum(b.low, 0)
    noise = (a.low.shape[-1] + 4) * EPSILON * (np.maximum(np.abs(a.low), np.abs(a.high)) @ np.abs(b.low))
    return widened(a.low @ above + a.high @ below, a.high @ above + a.low @ below, 0, noise)


def _product_by_terms(a: Box, b: Box) -> Box:
    with np.errstate(invalid="ignore", over="ignore"):
        terms = [x[..., :, :, None] * y[..., None, :, :] for x in _ends(a) for y in _ends(b)]
        low, high = reduce(np.fmin, terms), reduce(np.fmax, terms)
        nothing = ((a.low == 0) & (a.high == 0))[..., :, :, None] | ((b.low == 0) & (b.high == 0))[..., None, :, :]
        low, high = np.where(nothing, 0, low), np.where(nothing, 0, high)
        noise = (a.low.shape[-1] + 2) * EPSILON * np.maximum(np.abs(low), np.abs(high)).sum(axis=-2)
        return widened(low.sum(axis=-2), high.sum(axis=-2), 0, noise)


def normalized(
    function: Callable[[Array, Array], Array],
    logits: Box,
    visible: Array,
    *,
    monotone: bool = True,
    bounded: bool = True,
) -> Box:
    """Weights by the extreme points of each row: one number at an end, all the others at the opposite one.

    function: a normalizer of the core. visible broadcasts to (..., n, m). monotone: a weight grows with its own number
    and falls with the others; where that is not sure (negative numbers shared by their sum) all four corners are tried.
    bounded: weights are made of exponentials, and are as accurate however large the scores are.
    """
    finite = np.where(np.isfinite(logits.high), logits.high, 0)
    size = float(np.max(np.abs(finite), initial=0))
    top = np.max(finite, axis=-1, keepdims=True, initial=-np.inf)
    # e^(s - top) is off by a few round-offs of its exponent, which matters up to where it vanishes.
    accuracy = 8 + 2 * logits.low.shape[-1] + 2 * np.minimum(top - finite, 750)
    absolute = 0.0 if bounded else 4 * EPSILON * size
    with np.errstate(all="ignore"):
        if logits.is_point:
            weights = function(logits.low, visible & ~np.isneginf(logits.low))
            return widened(weights, weights, accuracy, absolute)
        corners = [(logits.low, logits.high), (logits.high, logits.low)]
        if not monotone:
            corners += [(logits.low, logits.low), (logits.high, logits.high)]
        found = [_at_corner(function, own, others, visible) for own, others in corners]
    # A row whose numbers may all vanish shares 0 by 0: then nothing is known.
    low = np.nan_to_num(reduce(np.fmin, found), nan=0.0, posinf=np.inf, neginf=-np.inf)
    high = np.nan_to_num(reduce(np.fmax, found), nan=1.0, posinf=np.inf, neginf=-np.inf)
    return widened(low, high, accuracy, absolute)


def _at_corner(function: Callable[[Array, Array], Array], own: Array, others: Array, visible: Array) -> Array:
    """The weight of each key, its own number from one array, all others from the other."""
    rows = np.where(np.eye(own.shape[-1], dtype=bool), own[..., None, :], others[..., None, :])
    weights: Array = function(rows, visible[..., None, :] & ~np.isneginf(rows))
    return np.diagonal(weights, axis1=-2, axis2=-1)


def average(logits: Box, visible: Array, v: Box) -> Box:
    """sum e^s v / sum e^s over boxes of scores and values: (..., n, m), (..., m, d) -> (..., n, d), exactly as wide
    as it can be.

    The largest average gives the high exponential to all values above some threshold and the low one to those below:
    all thresholds are tried.
    """
    with np.errstate(all="ignore"):
        top = np.max(np.where(visible, logits.high, -np.inf), axis=-1, keepdims=True)
        top = np.where(np.isfinite(top), top, 0)
        low = np.where(visible, np.exp(logits.low - top), 0)
        high = np.where(visible, np.exp(logits.high - top), 0)
        least, most = -_largest_average(low, high, -v.low), _largest_average(low, high, v.high)
    largest = np.max(np.abs(np.where(np.isfinite(v.high), v.high, 0)), axis=-2, keepdims=True, initial=0)
    return widened(least, most, 4, (8 + 8 * v.low.shape[-2]) * EPSILON * largest)


def _largest_average(low: Array, high: Array, v: Array) -> Array:
    order = np.argsort(v, axis=-2)[..., None, :, :]
    ranked = np.take_along_axis(v[..., None, :, :], order, axis=-2)
    shape = (*np.broadcast_shapes(low.shape[:-2], v.shape[:-2]), low.shape[-2], *v.shape[-2:])

    def sums(shares: Array) -> tuple[Array, Array]:
        """Running sums of the shares and of the shares times the values, from the smallest value up, 0 first."""
        wide = np.broadcast_to(shares[..., None], shape)
        sorted_shares = np.take_along_axis(wide, np.broadcast_to(order, shape), axis=-2)
        terms = np.where(sorted_shares == 0, 0, sorted_shares * ranked)
        start = np.zeros((*shape[:-2], 1, shape[-1]))
        running = [np.concatenate([start, np.cumsum(x, axis=-2)], axis=-2) for x in (sorted_shares, terms)]
        return running[0], running[1]

    low_share, low_value = sums(low)
    high_share, high_value = sums(high)
    share = low_share + (high_share[..., -1:, :] - high_share)
    value = low_value + (high_value[..., -1:, :] - high_value)
    largest: Array = np.max(np.where(share > 0, value / np.where(share > 0, share, 1), -np.inf), axis=-2)
    return np.where(np.isneginf(largest), 0, largest)


def _whole(array: Array) -> bool:
    """Whether these are whole numbers small enough that sums and products of a few are exact."""
    return bool(np.all((np.rint(array) == array) & (np.abs(array) < 2**20)))


def _ends(box: Box) -> tuple[Array, ...]:
    return (box.low,) if box.is_point else (box.low, box.high)
