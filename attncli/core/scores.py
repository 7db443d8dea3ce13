"""Score functions f(q, k): each one decorated function that reads like the formula of its source.

Letters: q is (..., n, d_q), k is (..., m, d_k), a score is (..., n, m); h is the width of a hidden layer.
A kernel score says in `kernel` what it returns: "value", the kernel itself, or "log", its logarithm.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from attncli.errors import ShapeError, UsageError, unknown
from attncli.lazy import Array, np
from attncli.record import record
from attncli.registry import Registry, check_call

SCORES = Registry("score")
score = SCORES

_INSIDE = 2**22  # numbers that a score holds at once on its way to (..., n, m)


@record
class ScoreSpec:
    """A score function with its parameters filled in."""

    name: str
    function: Callable[..., Any]
    parameters: dict[str, Any] = field(default_factory=dict)
    kernel: str | None = None
    scaled: bool = False

    def __call__(self, q: Array, k: Array) -> Array:
        """The score (or what `kernel` says) of every query with every key, (..., n, m)."""
        result: Array = self.function(q, k, **self.parameters)
        return result


def score_spec(name: str | Callable[..., Any], parameters: Mapping[str, Any] | None = None) -> ScoreSpec:
    """A registered score, or any f(q, k, *, ...) -> (..., n, m), with its parameters.

    Raises UsageError for a parameter that the score does not have, or one that it needs and did not get.
    """
    parameters = dict(parameters or {})
    if callable(name):
        hint = "score(q, k, **parameters) gives (..., n, m); q is (..., n, d_q), k is (..., m, d_k)"
        check_call(name, "score", ["q", "k"], hint, parameters)
        return ScoreSpec(getattr(name, "__name__", "callable"), name, parameters)
    entry = SCORES.find(name)
    for given in parameters:
        if given not in entry.parameters:
            raise unknown("parameter", given, entry.parameters or ["none at all"], of=f"the score {name!r}")
    required = [given for given, default in entry.parameters.items() if default is inspect.Parameter.empty]
    missing = [given for given in required if given not in parameters]
    if missing:
        raise UsageError(
            f"the score {name!r} needs {' and '.join(missing)}",
            hint=f"--param {missing[0]}=FILE, or score: {{name: {name}, {missing[0]}: ...}}; f(q, k) = {entry.formula}",
        )
    for given, value in parameters.items():
        if isinstance(entry.parameters[given], float | int):
            parameters[given] = _number(name, given, value, positive="kernel" in entry.facts)
    facts = entry.facts
    return ScoreSpec(name, entry.function, parameters, facts.get("kernel"), bool(facts.get("scaled")))


def _number(score: str, name: str, value: Any, *, positive: bool) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise UsageError(f"{name} of the score {score!r} is a number, not {value!r}") from None
    if not math.isfinite(number) or (positive and number <= 0):
        wanted = "positive" if positive else "finite"
        raise UsageError(f"{name} of the score {score!r} must be a {wanted} number, not {number:g}")
    return number


@score("scaled-dot", formula="q . k / sqrt(d_k)", source="Vaswani et al. 2017, arXiv:1706.03762", scaled=True)
@score("dot", formula="q . k", source="Luong, Pham, Manning 2015, arXiv:1508.04025")
def dot(q: Array, k: Array) -> Array:
    """Compare queries and keys of equal size by their dot product.

    q: (..., n, d_k)   k: (..., m, d_k)   ->   (..., n, m)
    """
    _same_width(q, k)
    return q @ k.mT


@score("general", formula="q W k", source="Luong, Pham, Manning 2015, arXiv:1508.04025")
def general(q: Array, k: Array, *, W: Array) -> Array:
    """Compare queries and keys of unlike size through one matrix.

    q: (..., n, d_q)   k: (..., m, d_k)   W: (d_q, d_k)   ->   (..., n, m)
    """
    _is_matrix("W", W, "d_q x d_k", q.shape[-1], k.shape[-1])
    return q @ W @ k.mT


@score("concat", formula="v . tanh(W [q; k])", source="Luong, Pham, Manning 2015, arXiv:1508.04025")
def concat(q: Array, k: Array, *, W: Array, v: Array) -> Array:
    """Compare queries and keys, one under the other, through a hidden layer of width h.

    q: (..., n, d_q)   k: (..., m, d_k)   W: (h, d_q + d_k)   v: (h,)   ->   (..., n, m)
    """
    d_q = q.shape[-1]
    _is_matrix("W", W, "h x (d_q + d_k)", None, d_q + k.shape[-1])
    scores: Array = additive(q, k, W_q=W[:, :d_q], W_k=W[:, d_q:], w_v=v)
    return scores


@score("additive", formula="w_v . tanh(W_q q + W_k k)", source="Bahdanau, Cho, Bengio 2015, arXiv:1409.0473")
def additive(
    q: Array, k: Array, *, W_q: Array | None = None, W_k: Array | None = None, w_v: Array | None = None
) -> Array:
    """Compare queries and keys of unlike size through a hidden layer of width h.

    q: (..., n, d_q)   k: (..., m, d_k)   W_q: (h, d_q)   W_k: (h, d_k)   w_v: (h,)   ->   (..., n, m)
    W_q and W_k left out are the identity, w_v left out is ones: the form of framework layers.
    """
    q_h, k_h, w = hidden_layer(q, k, W_q, W_k, w_v)
    return _by_queries(lambda q_h, k_h: np.tanh(q_h[..., :, None, :] + k_h[..., None, :, :]) @ w, q_h, k_h, w.size)


@score("cosine", formula="q . k / (|q| |k|)", source="Graves, Wayne, Danihelka 2014, arXiv:1410.5401")
def cosine(q: Array, k: Array) -> Array:
    """The dot product of the directions, within [-1, 1]; a zero vector is like nothing, 0.

    q: (..., n, d_k)   k: (..., m, d_k)   ->   (..., n, m)
    """
    _same_width(q, k)
    cosines: Array = np.clip(direction(q) @ direction(k).mT, -1, 1)
    return cosines


@score(
    "gaussian", formula="exp(-|q - k|^2 / (2 sigma^2))", source="Nadaraya 1964; Watson 1964; d2l.ai 11.2", kernel="log"
)
def gaussian(q: Array, k: Array, *, sigma: float = 1.0) -> Array:
    """The logarithm of the Gaussian kernel of width sigma (in the units of q and k), which itself underflows far away.

    q: (..., n, d_k)   k: (..., m, d_k)   ->   (..., n, m)
    """
    in_sigmas = distances(q, k) / sigma
    return -(in_sigmas * in_sigmas) / 2


@score("laplacian", formula="exp(-|q - k| / sigma)", source="d2l.ai 11.2, with the Euclidean distance", kernel="log")
def laplacian(q: Array, k: Array, *, sigma: float = 1.0) -> Array:
    """The logarithm of the Laplacian kernel of width sigma (in the units of q and k).

    q: (..., n, d_k)   k: (..., m, d_k)   ->   (..., n, m)
    """
    return -distances(q, k) / sigma


@score("boxcar", formula="1 if |q - k| <= radius, else 0", source="d2l.ai 11.2 (as printed: closed)", kernel="value")
def boxcar(q: Array, k: Array, *, radius: float = 1.0) -> Array:
    """All keys within the radius (in the units of q and k) count alike.

    q: (..., n, d_k)   k: (..., m, d_k)   ->   (..., n, m)
    """
    u = distances(q, k) / radius
    return np.where(np.isnan(u), u, u <= 1).astype(u.dtype)


@score("triangular", formula="max(0, 1 - u), u = |q - k| / radius", source="d2l.ai 11.2", kernel="value")
def triangular(q: Array, k: Array, *, radius: float = 1.0) -> Array:
    """Keys count less the farther they are, none beyond the radius (in the units of q and k).

    q: (..., n, d_k)   k: (..., m, d_k)   ->   (..., n, m)
    """
    return np.maximum(0, 1 - distances(q, k) / radius)


@score("epanechnikov", formula="3/4 max(0, 1 - u^2), u = |q - k| / radius", source="Epanechnikov 1969", kernel="value")
def epanechnikov(q: Array, k: Array, *, radius: float = 1.0) -> Array:
    """The kernel of least mean squared error, none beyond the radius (in the units of q and k).

    q: (..., n, d_k)   k: (..., m, d_k)   ->   (..., n, m)
    """
    u = distances(q, k) / radius
    return 0.75 * np.maximum(0, 1 - u * u)


def inverse_root(d: int) -> float:
    """1/sqrt(d) as the nearest double: 1 over a rounded root would be rounded twice, and is off for d = 2."""
    return math.isqrt(10**60 // d) / 10**30


def distances(q: Array, k: Array) -> Array:
    """Euclidean distances |q - k|, (..., n, m), from the differences themselves: |q|^2 - 2 q.k + |k|^2 would cancel."""
    _same_width(q, k)
    return _by_queries(_distances, q, k, q.shape[-1])


def _distances(q: Array, k: Array) -> Array:
    difference = q[..., :, None, :] - k[..., None, :, :]
    largest = np.max(np.abs(difference), axis=-1, initial=0)
    # In units of a power of two, which costs no digit, no square overflows or vanishes.
    unit = np.ldexp(largest.dtype.type(1), np.frexp(largest)[1] - 1)
    distance: Array = unit * np.sqrt(np.sum((difference / unit[..., None]) ** 2, axis=-1))
    return distance


def _by_queries(function: Callable[[Array, Array], Array], q: Array, k: Array, width: int) -> Array:
    """function(q, k), of which the inside is (..., n, m, width): so many queries at a time as keep that small."""
    leading = np.broadcast_shapes(q.shape[:-2], k.shape[:-2])
    per_query = max(1, math.prod(leading) * k.shape[-2] * width)
    step = max(1, _INSIDE // per_query)
    if step >= q.shape[-2]:
        return function(q, k)
    return np.concatenate([function(q[..., i : i + step, :], k) for i in range(0, q.shape[-2], step)], axis=-2)


def hidden_layer(
    q: Array, k: Array, W_q: Array | None, W_k: Array | None, w_v: Array | None
) -> tuple[Array, Array, Array]:
    """What the additive score adds under its tanh, and its vector: W_q q (..., n, h), W_k k (..., m, h), w_v (h,)."""
    if W_q is not None:
        _is_matrix("W_q", W_q, "h x d_q", None, q.shape[-1])
    if W_k is not None:
        _is_matrix("W_k", W_k, "h x d_k", None, k.shape[-1])
    q_h = q if W_q is None else q @ W_q.mT
    k_h = k if W_k is None else k @ W_k.mT
    h = q_h.shape[-1]
    if k_h.shape[-1] != h:
        raise ShapeError(
            f"the hidden width h is {h} for the queries, but {k_h.shape[-1]} for the keys",
            hint="W_q is h x d_q and W_k is h x d_k; one left out is the identity, so h is d_q or d_k there",
        )
    w = np.ones(h, dtype=q_h.dtype) if w_v is None else np.ravel(w_v)
    if w.shape != (h,):
        raise ShapeError(f"w_v has {w.size} numbers, but the hidden width h is {h}", hint="w_v (or v) is a vector of h")
    return q_h, k_h, w


def direction(x: Array) -> Array:
    """Each row divided by its length; a zero row stays."""
    # Divided by the largest entry first, so that no square overflows or vanishes.
    largest = np.max(np.abs(x), axis=-1, keepdims=True, initial=0)
    unit = x / np.where(largest > 0, largest, 1)
    length = np.sqrt(np.sum(unit * unit, axis=-1, keepdims=True))
    return unit / np.where(length > 0, length, 1)


def _same_width(q: Array, k: Array) -> None:
    if q.shape[-1] != k.shape[-1]:
        raise ShapeError(
            f"Q has {q.shape[-1]} features, but K has {k.shape[-1]} (d_k)",
            hint="this score compares vectors of one size; general, concat and additive take two sizes",
        )


def _is_matrix(name: str, matrix: Array, letters: str, rows: int | None, columns: int) -> None:
    fits = matrix.ndim == 2 and matrix.shape[1] == columns and (rows is None or matrix.shape[0] == rows)
    if not fits:
        needed = f"{'h' if rows is None else rows} x {columns}"
        shape = " x ".join(str(size) for size in matrix.shape)
        raise ShapeError(f"{name} must be {letters} = {needed}, but it is {shape}")
