"""The forms of `pipeline.tight` for each kind of value: what is tight in intervals, and in the others what one writes.

Only plain numbers need care that no square overflows and that no e^s does; here a formula stands as in a textbook.
"""

from __future__ import annotations

from functools import singledispatch
from math import prod
from typing import Any

from attncli.arithmetic import bounds, rounded, terms, tight_intervals
from attncli.arithmetic.bounds import Bounded
from attncli.arithmetic.intervals import Box
from attncli.arithmetic.rounded import Rounded
from attncli.arithmetic.terms import Terms
from attncli.errors import Opaque
from attncli.lazy import Array, np
from attncli.pipeline import tight
from attncli.pipeline.heads import spread_to
from attncli.pipeline.normalizers import NormalizerEntry

# -- as in a textbook --------------------------------------------------------------------------------------------------


def distances(q: Any, k: Any) -> Any:
    """|q - k|, (..., n, m); in intervals as tight as can be, since each number is used once."""
    return np.sqrt(np.sum(np.square(q[..., :, None, :] - k[..., None, :, :]), axis=-1))


def lengths(x: Any) -> Any:
    """|x| of each row, (..., n, 1)."""
    return np.sqrt(np.sum(np.square(x), axis=-1, keepdims=True))


def directions(x: Any) -> Any:
    """Each row divided by its length; a zero row stays."""
    length = lengths(x)
    return x / np.where(length == 0, 1, length)


def cosines(q: Any, k: Any) -> Any:
    """q . k / (|q| |k|), (..., n, m); a zero vector is like nothing, 0."""
    sizes = lengths(q) * lengths(k).mT
    none = sizes == 0
    return np.where(none, 0, q @ k.mT / np.where(none, 1, sizes))


def exponentials(x: Any, over: Any) -> tuple[Any, Any]:
    """e^(s - shift), 0 where a key has no say, and the shift that each kind finds best."""
    top = shift(x, over)
    return np.where(over, np.exp(np.where(over, x, 0) - top), 0), top


@singledispatch
def shift(x: Any, over: Any) -> Any:
    """What the scores of each row are shifted by before they are exponents, (..., n, 1)."""
    raise Opaque(f"exponentials cannot be read in {x.kind}")


for kind, own in ((Box, tight_intervals), (Terms, terms), (Rounded, rounded), (Bounded, bounds)):
    shift.register(kind, own.shift)


def logarithm_of_sum(logits: Any, over: Any) -> Any:
    """ln sum e^s over the keys that count, (..., n, 1)."""
    e, top = exponentials(logits, spread_to(over, logits.shape))
    return top + np.log(e.sum(axis=-1, keepdims=True))


def shares_of_exponentials(x: Any, over: Any) -> Any:
    """e^s over their sum, (..., n, m), as it is calculated by hand."""
    e, _ = exponentials(x, over)
    e = e.at("exponentials") if isinstance(e, Rounded) else e
    total = e.sum(axis=-1, keepdims=True)
    total = total.at("sum") if isinstance(total, Rounded) else total
    return e / np.where(total == 0, 1, total)


@tight.exponentials.register
def _(s: Terms, over: Array) -> Any:
    return exponentials(s, spread_to(over, s.shape))[0]


@tight.scaled_by.register
def _(s: Terms, scale: Any, width: int | None, temperature: float | None) -> Any:
    by: list[Any] = [] if width is None else [Terms.numbers(np.array(float(width)))._sqrt()]
    by += [] if temperature is None else [Terms.numbers(np.array(temperature))]
    return s / prod(by) if by else s * scale


@tight.averaged.register
def _(weights: Terms, v: Any, contributing: Array) -> Any:
    return np.where(spread_to(contributing, weights.shape), weights, 0) @ v


for every in (Box, Terms, Rounded, Bounded):
    tight.distances.register(every, distances)
for every in (Terms, Rounded, Bounded):
    tight.directions.register(every, directions)
    tight.cosines.register(every, cosines)
for every in (Box, Terms, Rounded, Bounded):
    tight.logarithm_of_sum.register(every, logarithm_of_sum)
tight.directions.register(Box, tight_intervals.directions)


@tight.cosines.register
def _(q: Box, k: Any) -> Box:
    return tight_intervals.cosines(q, q._lifted(k))


@tight.normalized.register(Terms)
@tight.normalized.register(Rounded)
def _(x: Any, over: Any, entry: NormalizerEntry) -> Any:
    over = spread_to(over, x.shape)
    weights = shares_of_exponentials(x, over) if entry.exponentials else (entry.by_hand or entry.function)(x, over)
    return np.where(over, x._lifted(weights), 0)


@tight.normalized.register
def _(x: Box, over: Array, entry: NormalizerEntry) -> Any:
    over = spread_to(over, x.shape)
    if entry.monotone is False:  # of which only the function is known
        return x._lifted(entry.function(x, over))
    monotone = entry.monotone or bool(np.all(np.where(over, x.low, 0) >= 0))
    return tight_intervals.normalized(
        entry.function,
        x,
        over,
        monotone=monotone,
        bounded=entry.error == "relative",
        sums_to_one=entry.sums_to_one,
        jumps=entry.jumps,
    )


@tight.normalized.register
def _(x: Bounded, over: Array, entry: NormalizerEntry) -> Any:
    grows = "proportional" if entry.error == "relative" else "as-scores"
    if entry.of_kernel or entry.monotone is False:
        grows = "as-formula"
    return bounds.normalized(entry.function, x, spread_to(over, x.shape), grows=grows)
