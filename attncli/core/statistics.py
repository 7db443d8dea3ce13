"""Numbers about a step: the moments of scores, the entropy of weights."""

from __future__ import annotations

from attncli.lazy import Array, np


def moments(scores: Array) -> tuple[float, float]:
    """Mean and variance (of the population) of all scores (n, m); -inf, a key out of a kernel's reach, is left out.

    NaN without any number; NaN or +inf among the scores gives what arithmetic gives.
    """
    within = scores[~np.isneginf(scores)].astype(np.float64)
    if not within.size:
        return float("nan"), float("nan")
    with np.errstate(invalid="ignore", over="ignore"):
        return float(within.mean()), float(within.var())


def entropy(weights: Array) -> Array:
    """-sum p log p, in nats, of each row: (..., n, m) -> (..., n). A weight of 0 adds nothing."""
    weights = weights.astype(np.float64)
    positive = weights != 0
    with np.errstate(invalid="ignore"):
        return np.asarray(-(weights * np.log(np.where(positive, weights, 1))).sum(axis=-1) + 0.0)
