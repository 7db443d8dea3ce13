"""Formulas in plain NumPy notation, which know nothing of the kinds of value that they are read in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from attncli.arithmetic import forms as _  # noqa: F401  (what follows reads in every kind)

Formula = Callable[..., Any]

W = np.array([[0.5, -1.0, 2.0], [0.0, 1.5, -0.25]])
TABLE = np.array([[0.1, -0.2, 0.3, 0.4], [1.0, 0.0, -1.5, 0.5]])
OVER = np.array([[True, True, False, True], [True, False, True, True]])


def distances(q: Any, k: Any) -> Any:
    return np.sqrt(np.sum(np.square(q[..., :, None, :] - k[..., None, :, :]), axis=-1))


def gaussian(q: Any, k: Any) -> Any:
    return np.exp(-(np.square(distances(q, k) / 2.0) / 2))


def additive(q: Any, k: Any) -> Any:
    hidden = np.tanh((q @ W.mT)[..., :, None, :] + (k @ W.mT)[..., None, :, :])
    return hidden @ np.array([1.5, -2.0])


def capped(q: Any, k: Any) -> Any:
    return 5.0 * np.tanh(q @ k.mT / 5.0)


def boxcar(q: Any, k: Any) -> Any:
    u = distances(q, k) / 2.5
    return np.where(np.isnan(u), u, u <= 1).astype(u.dtype)


def epanechnikov(q: Any, k: Any) -> Any:
    u = distances(q, k) / 3.0
    return 0.75 * np.maximum(0, 1 - u * u)


def relu_shares(q: Any, k: Any) -> Any:
    s = np.where(OVER, np.maximum(q @ k.mT, 0) + 0.25, 0)
    return s / s.sum(axis=-1, keepdims=True)


def softmax(q: Any, k: Any) -> Any:
    s = q @ k.mT
    e = np.where(OVER, np.exp(s - np.max(np.where(OVER, s, -np.inf), axis=-1, keepdims=True)), 0)
    return e / e.sum(axis=-1, keepdims=True)


def sigmoid(q: Any, k: Any) -> Any:
    s = q @ k.mT
    e = np.exp(-np.abs(s))
    return np.where(s >= 0, 1 / (1 + e), e / (1 + e))


def rotated(q: Any, k: Any) -> Any:
    def turn(x: Any) -> Any:
        a, b = x[..., :1], x[..., 1:2]
        c, s = np.cos(np.arange(x.shape[-2]))[:, None], np.sin(np.arange(x.shape[-2]))[:, None]
        return np.concatenate([a * c - b * s, a * s + b * c, x[..., 2:]], axis=-1)

    return turn(q) @ turn(k).mT


def moved(q: Any, k: Any) -> Any:
    """Changes of shape, one after the other."""
    x = np.stack([q, q * 2.0], axis=-3)
    x = np.moveaxis(x, 0, 1).reshape(2, -1)
    x = np.repeat(np.expand_dims(x, 0), 2, axis=0)
    x = np.broadcast_to(np.swapaxes(x, -1, -2), (3, 2, 6, 2))
    return np.squeeze(np.take(x, [5, 0], axis=-2)[:1], axis=0) @ np.squeeze(k[None, :2, :2], 0)


def reduced(q: Any, k: Any) -> Any:
    return np.clip(k.mean(axis=0), -1, 1) + np.min(q, axis=-1, keepdims=True) - k.max(axis=(0, 1)) + np.sum(q, axis=0)


def negative_slopes(q: Any, k: Any) -> Any:
    return np.minimum(np.log1p(np.square(q @ k.mT)), 1.5) - (abs(q) @ k.mT + TABLE) ** 2 / 4.0


FORMULAS: list[Formula] = [
    distances, gaussian, additive, capped, boxcar, epanechnikov, relu_shares, softmax, sigmoid, rotated, moved, reduced,
    negative_slopes,
]  # fmt: skip

# Numbers as hands write them, and some that are not: none so small that a square vanishes.
NUMBERS = st.one_of(
    st.integers(-6, 6).map(float),
    st.integers(-400, 400).map(lambda i: i / 100),
    st.floats(-8, 8, allow_subnormal=False).map(lambda x: x if abs(x) > 1e-3 else 0.0),
)


def matrices(rows: int, columns: int) -> st.SearchStrategy[np.ndarray]:
    return arrays.arrays(np.float64, (rows, columns), elements=NUMBERS)
