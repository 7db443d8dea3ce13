"""Operations on intervals that are tighter than their formula is, because the formula uses a number more than once.

Letters: n queries, m keys, d the width of values or features.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from attncli.arithmetic.intervals import EPSILON, Box, widened
from attncli.lazy import Array, np

# Narrower than this, an interval holds nothing but float noise.
NOISE = 1e-9


def shift(x: Box, over: Array) -> Array:
    """About the largest number of each row, (..., n, 1), as points: what e^(s - shift) is shifted by, whatever s is."""
    largest = np.max(np.where(over, x.high, -np.inf), axis=-1, keepdims=True, initial=-np.inf)
    return np.where(np.isfinite(largest), largest, 0)


def normalized(
    function: Callable[[Array, Array], Array],
    x: Box,
    over: Array,
    *,
    monotone: bool = True,
    bounded: bool = True,
    sums_to_one: bool = False,
    jumps: bool = False,
) -> Box:
    """Weights by the extreme points of each row: one number at an end, all the others at the opposite one.

    function: a normalizer of plain numbers; over: which keys count, broadcasts to (..., n, m). monotone: a weight grows
    with its own number and falls with the others; a quotient by the row's sum is so unless numbers are negative, and
    then all four corners are tried. bounded: weights are made of exponentials, and are as accurate however large the
    scores are. jumps: ties are ties, float noise or not.
    """
    if jumps and x.width <= NOISE:
        weights = function(np.round(x.middle, 12), over & ~np.isneginf(x.high))
        return widened(weights, weights, 8.0, 1e-11) if bounded else Box.of(weights)
    finite = np.where(np.isfinite(x.high), x.high, 0)
    size = float(np.max(np.abs(finite), initial=0))
    top = np.max(finite, axis=-1, keepdims=True, initial=-np.inf)
    # e^(s - top) is off by a few round-offs of its exponent, which matters up to where it vanishes.
    accuracy = 8 + 2 * x.shape[-1] + 2 * np.minimum(top - finite, 750)
    absolute = 0.0 if bounded else 4 * EPSILON * size
    with np.errstate(all="ignore"):
        if x.is_point:
            weights = function(x.low, over & ~np.isneginf(x.low))
            return widened(weights, weights, accuracy, absolute)
        corners = [(x.low, x.high), (x.high, x.low)]
        if not monotone:
            corners += [(x.low, x.low), (x.high, x.high)]
        found = [_at_corner(function, own, others, over) for own, others in corners]
    # A row whose numbers may all vanish shares 0 by 0: then nothing is known. One with a NaN gives NaN.
    spoiled = np.any(np.isnan(x.low) & over, axis=-1, keepdims=True) & over
    low = np.where(spoiled, np.nan, np.nan_to_num(reduce(np.fmin, found), nan=0.0, posinf=np.inf, neginf=-np.inf))
    high = np.where(spoiled, np.nan, np.nan_to_num(reduce(np.fmax, found), nan=1.0, posinf=np.inf, neginf=-np.inf))
    if not monotone:
        low, high = _unless_through_zero(x, over, low, high)
    weights_box = widened(low, high, accuracy, absolute)
    if sums_to_one and monotone:
        return Box(np.maximum(weights_box.low, 0), np.minimum(weights_box.high, 1))
    return weights_box


def _at_corner(function: Callable[[Array, Array], Array], own: Array, others: Array, over: Array) -> Array:
    """The weight of each key, its own number from one array, all others from the other."""
    rows = np.where(np.eye(own.shape[-1], dtype=bool), own[..., None, :], others[..., None, :])
    over = np.broadcast_to(over, np.broadcast_shapes(over.shape, own.shape))
    weights: Array = function(rows, over[..., None, :] & ~np.isneginf(rows))
    return np.diagonal(weights, axis1=-2, axis2=-1)


def _unless_through_zero(x: Box, over: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """A row whose sum may be 0 has weights of any size; what does not count keeps its 0."""
    over = np.broadcast_to(over, x.shape) & ~np.isneginf(x.high)
    sums = (np.where(over, end, 0).sum(axis=-1, keepdims=True) for end in x.parts)
    least, most = sums
    unknown = (least <= 0) & (most >= 0) & (least < most) & over
    return np.where(unknown, -np.inf, low), np.where(unknown, np.inf, high)


def averaged(logits: Box, over: Array, v: Box) -> Box:
    """sum e^s v / sum e^s over boxes of scores and values: (..., n, m), (..., m, d) -> (..., n, d), exactly as wide
    as it can be.

    The largest average gives the high exponential to all values above some threshold and the low one to those below:
    all thresholds are tried.
    """
    with np.errstate(all="ignore"):
        top = shift(logits, over)
        low = np.where(over, np.exp(logits.low - top), 0)
        high = np.where(over, np.exp(logits.high - top), 0)
        least, most = -_largest_average(low, high, -v.low), _largest_average(low, high, v.high)
    finite = [np.abs(np.where(np.isfinite(end), end, 0)) for end in v.parts]
    largest = np.max(np.maximum(*finite), axis=-2, keepdims=True, initial=0)
    # e^(s - top) is off by a few round-offs of its exponent, which matters up to where it vanishes.
    below = np.where(over & np.isfinite(logits.low), top - logits.low, 0).max(axis=-1, keepdims=True, initial=0)
    return widened(least, most, 4, (8 + 8 * v.shape[-2] + 2 * np.minimum(below, 750)) * EPSILON * largest)


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


def directions(x: Box) -> Box:
    """Each row divided by its length, (..., n, d); a zero row stays. t / sqrt(t^2 + rest) grows with t, and falls
    with the rest where t > 0."""
    squares: Box = x._square()
    every: Box = squares.sum(-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        rest = [np.maximum(total - own, 0) for total, own in zip(every.parts, squares.parts, strict=True)]
    noise = 8 * x.shape[-1] * EPSILON * every.high
    least, most = np.maximum(rest[0] - noise, 0), rest[1] + noise
    low = _share(x.low, np.where(x.low > 0, most, least))
    high = _share(x.high, np.where(x.high > 0, least, most))
    found = widened(low, high, 16)
    return Box(np.maximum(found.low, -1), np.minimum(found.high, 1))


def _share(t: Array, rest: Array) -> Array:
    length = np.sqrt(t * t + rest)
    return np.where(length > 0, t / np.where(length > 0, length, 1), 0)


def cosines(q: Box, k: Box) -> Box:
    """The cosine of every query with every key, (..., n, m), from the angle between the middles, give or take the
    angles that the boxes can turn each vector by."""
    cosine = np.clip(_unit(q.middle) @ _unit(k.middle).mT, -1, 1)
    if q.is_point and k.is_point:
        found = widened(cosine, cosine, 64, 64 * EPSILON)
        return Box(np.maximum(found.low, -1), np.minimum(found.high, 1))
    angle = np.arccos(cosine)
    turn = _turn(q)[..., :, None] + _turn(k)[..., None, :]
    low, high = np.cos(np.minimum(np.pi, angle + turn)), np.cos(np.maximum(0, angle - turn))
    possible_zero = _may_vanish(q)[..., :, None] | _may_vanish(k)[..., None, :]
    low, high = np.where(possible_zero, np.minimum(low, 0), low), np.where(possible_zero, np.maximum(high, 0), high)
    return widened(low, high, 64, 64 * EPSILON)


def _unit(x: Array) -> Array:
    # Divided by the largest entry first, so that no square overflows or vanishes.
    largest = np.max(np.abs(x), axis=-1, keepdims=True, initial=0)
    x = x / np.where(largest > 0, largest, 1)
    length = np.sqrt(np.sum(x * x, axis=-1, keepdims=True))
    return np.asarray(x / np.where(length > 0, length, 1))


def _may_vanish(x: Box) -> Array:
    """Whether a row may be the zero vector, which is like nothing: 0."""
    zero: Array = np.all((x.low <= 0) & (x.high >= 0), axis=-1)
    return zero


def _turn(x: Box) -> Array:
    """By how much each row may turn: its box lies in a ball around its middle."""
    radius = np.sqrt(np.sum((x.high - x.low) ** 2, axis=-1)) / 2
    length = np.sqrt(np.sum(x.middle**2, axis=-1))
    with np.errstate(divide="ignore", invalid="ignore"):
        turn: Array = np.arcsin(np.minimum(1, radius / length))
    return np.where(radius == 0, 0, np.where(radius >= length, np.pi, turn))
