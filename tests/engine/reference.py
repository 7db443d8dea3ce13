"""Attention as it is defined, in float64, for one head: what the compiled engine is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Expected:
    """scores, weights: (n, m)   output: (n, d_v)   lse, sees: (n,)   bound: what the output may be off."""

    scores: Array
    weights: Array
    output: Array
    lse: Array
    sees: Array
    bound: float


def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    scale: float,
    softcap: float | None = None,
    sink: float | None = None,
    ranges: Array | None = None,
    bias: Array | None = None,
    shown: Array | None = None,
) -> Expected:
    """Softmax attention of n queries, in float64, whatever the dtype of what goes in."""
    n, m, eps = len(q), len(k), np.finfo(v.dtype).eps
    visible = np.ones((n, m), bool) if shown is None else np.broadcast_to(shown, (n, m)).copy()
    if ranges is not None:
        within = np.zeros((n, m), bool)
        for row in range(n):
            for low, high in ranges[row if len(ranges) > 1 else 0]:
                within[row, max(low, 0) : max(high, 0)] = True
        visible &= within
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    with np.errstate(all="ignore"):
        scores = scale * (q @ k.T)
        if softcap:
            scores = softcap * np.tanh(scores / softcap)
        if bias is not None:
            scores = scores + bias
        scores = np.where(visible, scores, -np.inf)
        logits = scores if sink is None else np.hstack([scores, np.full((n, 1), sink)])
        top = logits.max(axis=1, keepdims=True, initial=-np.inf)
        top = np.where(np.isneginf(top), 0, top)
        p = np.exp(logits - top)
        total = p.sum(axis=1, keepdims=True)
        weights = p[:, :m] / np.where(total == 0, 1, total)
        lse = np.where(total == 0, -np.inf, top + np.log(total))[:, 0]
    largest = np.abs(scores[visible]).max(initial=0)
    bound = 4 * eps * (largest + m) * max(1, np.abs(v).max(initial=0))
    return Expected(scores, weights, weights @ v, lse, visible.any(axis=1), float(bound))
