"""The few operations whose best form differs by the kind of number: each a function that dispatches on its value.

The form for plain arrays stands here; `attncli.arithmetic` adds that of each other kind.
Letters: n queries, m keys, d their width.
"""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Any

from attncli.lazy import Array, np
from attncli.pipeline.heads import spread_to
from attncli.pipeline.normalizers import exp_shifted, row_maximum

if TYPE_CHECKING:
    from attncli.pipeline.normalizers import NormalizerEntry


@singledispatch
def distances(q: Any, k: Any) -> Any:
    """|q - k|, (..., n, m), from the differences themselves: |q|^2 - 2 q.k + |k|^2 would cancel."""
    difference = q[..., :, None, :] - k[..., None, :, :]
    largest = np.max(np.abs(difference), axis=-1, initial=0)
    # In units of a power of two, which costs no digit, no square overflows or vanishes.
    unit = np.ldexp(largest.dtype.type(1), np.frexp(largest)[1] - 1)
    distance: Array = unit * np.sqrt(np.sum((difference / unit[..., None]) ** 2, axis=-1))
    return distance


@singledispatch
def directions(x: Any) -> Any:
    """Each row divided by its length; a zero row stays."""
    # Divided by the largest entry first, so that no square overflows or vanishes.
    largest = np.max(np.abs(x), axis=-1, keepdims=True, initial=0)
    unit = x / np.where(largest > 0, largest, 1)
    length = np.sqrt(np.sum(unit * unit, axis=-1, keepdims=True))
    return unit / np.where(length > 0, length, 1)


@singledispatch
def cosines(q: Any, k: Any) -> Any:
    """The dot products of the directions, (..., n, m), within [-1, 1]; a zero vector is like nothing, 0."""
    return np.clip(directions(q) @ directions(k).mT, -1, 1)


@singledispatch
def within(u: Any, limit: float) -> Any:
    """1 where u <= limit, 0 beyond; NaN stays."""
    return np.where(np.isnan(u), u, u <= limit).astype(u.dtype)


@singledispatch
def scaled_by(s: Any, scale: Any, width: int | None, temperature: float | None) -> Any:
    """s x scale. width, temperature: where these make the scale, 1 / (sqrt(width) x temperature)."""
    return s * scale


@singledispatch
def exponentials(s: Any, over: Array) -> Any:
    """e^s, not shifted, so that it overflows where e^s does. over: where a key has a say; elsewhere s is -inf."""
    return np.exp(s)


@singledispatch
def normalized(x: Any, over: Array, entry: NormalizerEntry) -> Any:
    """The weights that a normalizer gives, (..., n, m). over: where a key has a say, broadcasts to x."""
    return entry.function(x, spread_to(over, x.shape))


@singledispatch
def averaged(weights: Any, v: Any, contributing: Array) -> Any:
    """weights V, in which a value that is hidden from a query does not reach it, not even as 0 x NaN.

    weights: (..., n, m)   v: (..., m, d_v)   contributing: broadcasts to the weights
    """
    finite: Array = np.isfinite(v)
    if finite.all():
        return weights @ v
    spoiled = ~np.all(finite, axis=-1, keepdims=True)[..., 0]  # (..., m)
    result: Array = weights @ np.where(spoiled[..., None], v.dtype.type(0), v)
    contributing = spread_to(contributing, weights.shape)
    for j in np.flatnonzero(spoiled.reshape(-1, spoiled.shape[-1]).any(axis=0)):
        reaches = (contributing[..., :, j] & spoiled[..., None, j])[..., None]
        with np.errstate(invalid="ignore"):
            share = weights[..., :, j, None] * v[..., None, j, :]
        result = result + np.where(reaches, share, v.dtype.type(0))
    return result


@singledispatch
def logarithm_of_sum(logits: Any, over: Array) -> Any:
    """ln sum e^s over the keys that count, (..., n, 1), the row's maximum taken out first."""
    over = spread_to(over, logits.shape)
    exponentials = exp_shifted(logits, over)
    return row_maximum(logits, over) + np.log(exponentials.sum(axis=-1, keepdims=True))
