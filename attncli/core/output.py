"""The weighted sum of the values."""

from __future__ import annotations

from attncli.lazy import Array, np


def weighted_sum(weights: Array, v: Array, counted: Array) -> Array:
    """weights V, in which a value that is hidden from a query does not reach it, not even as 0 x NaN.

    weights: (..., n, m)   v: (..., m, d_v)   counted: where a key has a say, broadcasts to the weights
    """
    finite: Array = np.isfinite(v)
    if finite.all():
        return weights @ v
    spoiled = ~np.all(finite, axis=-1, keepdims=True)[..., 0]  # (..., m)
    result: Array = weights @ np.where(spoiled[..., None], v.dtype.type(0), v)
    counted = np.broadcast_to(counted, weights.shape)
    for j in np.flatnonzero(spoiled.reshape(-1, spoiled.shape[-1]).any(axis=0)):
        reaches = (counted[..., :, j] & spoiled[..., None, j])[..., None]
        with np.errstate(invalid="ignore"):
            share = weights[..., :, j, None] * v[..., None, j, :]
        result = result + np.where(reaches, share, v.dtype.type(0))
    return result
