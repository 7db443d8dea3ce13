"""Attention as machines compute it, each accumulating in its own way: nothing here is shared with attncli.

q: (H, n, d_k)   k: (G, m, d_k)   v: (G, m, d_v)   shown: (n, m) booleans   ->   (H, n, d_v)
"""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]
Kernel = Callable[[Array, Array, Array, float, Array], Array]
F = np.float32


def spread(x: Array, heads: int) -> Array:
    """Key heads for each query head: k1 k1 k2 k2."""
    return np.repeat(x, heads // len(x), axis=0)


def softmax(s: Array) -> Array:
    s = s - s.max(axis=-1, keepdims=True)
    e = np.exp(s)
    return e / e.sum(axis=-1, keepdims=True)


def hidden(s: Array, shown: Array) -> Array:
    return np.where(shown, s, s.dtype.type(-np.inf))


def blas(q: Array, k: Array, v: Array, scale: float, shown: Array) -> Array:
    """Float32, one product after the other."""
    return softmax(hidden(q.astype(F) @ k.astype(F).mT * F(scale), shown)) @ v.astype(F)


def scaled_first(q: Array, k: Array, v: Array, scale: float, shown: Array) -> Array:
    """Float32, the queries scaled before the product."""
    return softmax(hidden((q.astype(F) * F(scale)) @ k.astype(F).mT, shown)) @ v.astype(F)


def tiled(q: Array, k: Array, v: Array, scale: float, shown: Array) -> Array:
    """Float32, 32 keys at a time with a running maximum."""
    q, k, v = q.astype(F), k.astype(F), v.astype(F)
    largest = np.full((*q.shape[:-1], 1), F(-1e30))
    total, output = np.zeros_like(largest), np.zeros((*q.shape[:-1], v.shape[-1]), F)
    for i in range(0, k.shape[-2], 32):
        s = np.where(shown[:, i : i + 32], q @ k[:, i : i + 32].mT * F(scale), F(-1e30))
        now = np.maximum(largest, s.max(axis=-1, keepdims=True))
        p = np.where(shown[:, i : i + 32], np.exp(s - now), F(0))
        shrink = np.exp(largest - now)
        total, output, largest = total * shrink + p.sum(-1, keepdims=True), output * shrink + p @ v[:, i : i + 32], now
    return output / total


def one_by_one(q: Array, k: Array, v: Array, scale: float, shown: Array) -> Array:
    """Float32, every sum term by term."""
    q, k, v = q.astype(F), k.astype(F), v.astype(F)
    s = np.zeros((*q.shape[:-1], k.shape[-2]), F)
    for t in range(q.shape[-1]):
        s = s + q[..., t, None] * k[..., None, :, t]
    p = softmax(hidden(s * F(scale), shown))
    output = np.zeros((*q.shape[:-1], v.shape[-1]), F)
    for j in range(k.shape[-2]):
        output = output + p[..., j, None] * v[..., None, j, :]
    return output


def flash(q: Array, k: Array, v: Array, scale: float, shown: Array) -> Array:
    """Half precision as FlashAttention has it: P is rounded before P V, the sums are float32."""
    half = q.dtype
    s = hidden(q.astype(F) @ k.astype(F).mT * F(scale), shown)
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    return (p.astype(half).astype(F) @ v.astype(F) / p.sum(axis=-1, keepdims=True)).astype(half)


def stored(q: Array, k: Array, v: Array, scale: float, shown: Array) -> Array:
    """Half precision step by step: scores, weights and output are each stored in it, the sums are float32."""
    half = q.dtype
    s = (q.astype(F) @ k.astype(F).mT).astype(half).astype(F)
    s = (s * F(scale)).astype(half).astype(F)
    p = softmax(hidden(s, shown)).astype(half).astype(F)
    return (p @ v.astype(F)).astype(half)


KERNELS: dict[str, list[Kernel]] = {
    "float32": [blas, scaled_first, tiled, one_by_one],
    "float16": [flash, stored],
    "bfloat16": [flash, stored],
}


def random_right(seed: int, most: int = 1024) -> tuple[str, dict[str, Array], str | None, Array]:
    """A random problem and what a kernel makes of it: the kernel, Q K V, the mask, the output (1, H, n, d_v)."""
    rng = np.random.default_rng(seed)
    dtype = str(rng.choice(list(KERNELS)))
    kernel = KERNELS[dtype][int(rng.integers(len(KERNELS[dtype])))]
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    groups = int(rng.choice([1, 1, 2]))
    heads = groups * int(rng.choice([1, 2]))
    n, m = int(rng.integers(1, 24)), int(2 ** rng.uniform(0, np.log2(most)))
    d_k, d_v = (int(rng.choice([2, 8, 16, 64, 80])) for _ in range(2))
    large = float(rng.choice([1, 1, 3])) if dtype == "float32" else 1.0
    q, k, v = (
        (size * rng.standard_normal((count, rows, width))).astype(kind)
        for size, count, rows, width in ((large, heads, n, d_k), (1, groups, m, d_k), (1, groups, m, d_v))
    )
    v = (v + kind.type(rng.choice([0, 0, 1]))).astype(kind) if dtype != "bfloat16" else v
    mask = "causal:bottom-right" if m >= n and rng.random() < 0.4 else None
    shown = np.tril(np.ones((n, m), bool), m - n) if mask else np.ones((n, m), bool)
    output = kernel(q, spread(k, heads), spread(v, heads), 1 / np.sqrt(d_k), shown)
    return f"{kernel.__name__} {dtype}", {"Q": q[None], "K": k[None], "V": v[None]}, mask, output[None]
