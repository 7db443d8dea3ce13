"""Score functions f(q, k): each one decorated function that reads like the formula of its source.

Letters: q is (..., n, d_q), k is (..., m, d_k), a score is (..., n, m); h is the width of a hidden layer.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from attncli.errors import ShapeError, UsageError, many, unknown
from attncli.lazy import Array, np
from attncli.pipeline.tight import cosines, distances, within
from attncli.registry import Entry, Registry, check_call

Kernel = Literal["value", "log"] | None


@dataclass(kw_only=True, eq=False, repr=False)
class ScoreEntry(Entry):
    """A score as it is registered: function(q, k, *, parameters) -> (..., n, m).

    kernel: None where it is none; else what the function gives, the kernel's "value" or its "log".
    scaled: whether 1/sqrt(d_k) is its default scale. dots: whether it is the plain product q k^T.
    inside: by q, k and parameters, how many numbers it holds for each pair of a query and a key.
    raw: its formula without the scale. default: whether it is taken where nothing is said.
    words: what a parameter may be that is a word, the name of a function.
    """

    kernel: Kernel
    scaled: bool = False
    dots: bool = False
    bilinear: bool = False
    inside: Callable[..., int] = lambda q, k, **parameters: 1
    raw: str = ""
    default: bool = False
    words: Mapping[str, Collection[str]] = field(default_factory=dict)


SCORES: Registry[ScoreEntry] = Registry("score", ScoreEntry)
score = SCORES


def words_of(parameter: str) -> Collection[str]:
    """The words that a parameter of that name may be; none where it is a number or a matrix."""
    return next((entry.words[parameter] for entry in SCORES if parameter in entry.words), ())


@dataclass(eq=False, repr=False)
class ScoreSpec:
    """A score function with its parameters filled in."""

    name: str
    function: Callable[..., Any]
    parameters: dict[str, Any] = field(default_factory=dict)
    entry: ScoreEntry | None = None

    @property
    def kernel(self) -> Kernel:
        """What the function gives of a kernel, "value" or "log"; None where it is no kernel."""
        return self.entry.kernel if self.entry else None

    @property
    def scaled(self) -> bool:
        """Whether 1/sqrt(d_k) is its default scale."""
        return self.entry is not None and self.entry.scaled

    @property
    def bilinear(self) -> bool:
        """Whether it is q W k^T."""
        return self.entry is not None and self.entry.bilinear

    @property
    def dots(self) -> bool:
        """Whether it is the plain product q k^T."""
        return self.entry is not None and self.entry.dots

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
            parameters[given] = _number(name, given, value, positive=entry.kernel is not None)
        elif given in entry.words and value not in entry.words[given]:
            raise unknown(given, str(value), entry.words[given], of=f"the score {name!r}")
    return ScoreSpec(name, entry.function, parameters, entry)


def _number(score: str, name: str, value: Any, *, positive: bool) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise UsageError(f"{name} of the score {score!r} is a number, not {value!r}") from None
    if not math.isfinite(number) or (positive and number <= 0):
        wanted = "positive" if positive else "finite"
        raise UsageError(f"{name} of the score {score!r} must be a {wanted} number, not {number:g}")
    return number


@score(
    "scaled-dot",
    formula="q . k / sqrt(d_k)",
    raw="q . k",
    latex=r"q \cdot k",
    source="Vaswani et al. 2017, arXiv:1706.03762",
    kernel=None,
    scaled=True,
    dots=True,
    default=True,
)
@score(
    "dot",
    formula="q . k",
    latex=r"q \cdot k",
    source="Luong, Pham, Manning 2015, arXiv:1508.04025",
    kernel=None,
    dots=True,
)
def dot(q: Array, k: Array) -> Array:
    """Compare queries and keys of equal size by their dot product.

    q: (..., n, d_k)   k: (..., m, d_k)   ->   (..., n, m)
    """
    _same_width(q, k)
    return q @ k.mT


@score(
    "general",
    formula="q W k",
    latex=r"q\,W\,k",
    source="Luong, Pham, Manning 2015, arXiv:1508.04025",
    kernel=None,
    bilinear=True,
)
def general(q: Array, k: Array, *, W: Array) -> Array:
    """Compare queries and keys of unlike size through one matrix.

    q: (..., n, d_q)   k: (..., m, d_k)   W: (d_q, d_k)   ->   (..., n, m)
    """
    _is_matrix("W", W, "d_q x d_k", q.shape[-1], k.shape[-1])
    return q @ W @ k.mT


@score(
    "concat",
    formula="v . tanh(W [q; k])",
    latex=r"v \cdot \tanh(W [q; k])",
    source="Luong, Pham, Manning 2015, arXiv:1508.04025",
    kernel=None,
    inside=lambda q, k, W, v: W.shape[0],
)
def concat(q: Array, k: Array, *, W: Array, v: Array) -> Array:
    """Compare queries and keys, one under the other, through a hidden layer of width h.

    q: (..., n, d_q)   k: (..., m, d_k)   W: (h, d_q + d_k)   v: (h,)   ->   (..., n, m)
    """
    d_q = q.shape[-1]
    _is_matrix("W", W, "h x (d_q + d_k)", None, d_q + k.shape[-1])
    scores: Array = additive(q, k, W_q=W[:, :d_q], W_k=W[:, d_q:], w_v=v)
    return scores


def _leaky(x: Any, slope: float) -> Any:
    """x where it is positive, else slope x. Raises UsageError for a slope that is not from 0 to 1."""
    if not 0 <= slope <= 1:
        raise UsageError(f"slope of LeakyReLU is a number from 0 to 1, not {slope:g}", hint="0.2 in the paper")
    return np.maximum(x, slope * x)


ACTIVATIONS: dict[str, Callable[[Any, float], Any]] = {"tanh": lambda x, slope: np.tanh(x), "leaky-relu": _leaky}


@score(
    "additive",
    formula="w_v . tanh(W_q q + b_q + W_k k + b_k) + b_v",
    latex=r"w_v \cdot \tanh(W_q q + b_q + W_k k + b_k) + b_v",
    source="Bahdanau, Cho, Bengio 2015, arXiv:1409.0473; leaky-relu: Brody, Alon, Yahav 2022, arXiv:2105.14491",
    kernel=None,
    inside=lambda q, k, W_q=None, **_: q.shape[-1] if W_q is None else W_q.shape[0],
    words={"activation": ACTIVATIONS},
)
def additive(
    q: Array,
    k: Array,
    *,
    W_q: Array | None = None,
    W_k: Array | None = None,
    w_v: Array | None = None,
    b_q: Array | None = None,
    b_k: Array | None = None,
    b_v: float = 0.0,
    activation: str = "tanh",
    slope: float = 0.2,
) -> Array:
    """Compare queries and keys of unlike size through a hidden layer of width h.

    q: (..., n, d_q)   k: (..., m, d_k)   W_q: (h, d_q)   W_k: (h, d_k)   w_v, b_q, b_k: (h,)   ->   (..., n, m)
    W_q and W_k left out are the identity, w_v left out is ones: the form of framework layers. Biases left out are 0.
    """
    q_h, k_h, w = hidden_layer(q, k, W_q, W_k, w_v, b_q, b_k)
    scores: Array = ACTIVATIONS[activation](q_h[..., :, None, :] + k_h[..., None, :, :], slope) @ w
    return scores + b_v if b_v else scores


@score(
    "gat",
    formula="LeakyReLU(a . [W q; W k])",
    latex=r"\mathrm{LeakyReLU}(a \cdot [W q; W k])",
    source="Velickovic et al. 2018, arXiv:1710.10903 (graph attention)",
    kernel=None,
)
def gat(q: Array, k: Array, *, a: Array, W: Array | None = None, slope: float = 0.2) -> Array:
    """Add what a vector makes of the query to what it makes of the key; what is negative counts less.

    q: (..., n, d)   k: (..., m, d)   W: (h, d)   a: (2h,), those of the query first   ->   (..., n, m)
    W left out is the identity.
    """
    q_h, k_h, _ = hidden_layer(q, k, W, W, None)
    a, h = np.ravel(a), q_h.shape[-1]
    if a.shape != (2 * h,):
        raise ShapeError(f"a has {many(a.size, 'number')}, but 2 h is {2 * h}", hint="a . [W q; W k]: W is h x d")
    return _leaky(q_h @ a[:h, None] + (k_h @ a[h:, None]).mT, slope)  # type: ignore[no-any-return]


# What queries and keys become before their product; none of it is negative.
MAPS: dict[str, Callable[[Any], Any]] = {
    "elu1": lambda x: np.maximum(x, 0) + np.exp(np.minimum(x, 0)),
    "relu": lambda x: np.maximum(x, 0),
    "exp": lambda x: np.exp(x),  # not np.exp itself, which would load NumPy with this module
    "square": lambda x: np.square(x),
}


@score(
    "linear",
    formula="phi(q) . phi(k), phi elu1 (elu + 1), relu, exp or square",
    latex=r"\phi(q) \cdot \phi(k)",
    source="Katharopoulos et al. 2020, arXiv:2006.16236",
    kernel="value",
    words={"map": MAPS},
)
def linear(q: Array, k: Array, *, map: str = "elu1") -> Array:
    """The kernel of linear attention: the dot product of what a feature map makes of queries and keys.

    q: (..., n, d_k)   k: (..., m, d_k)   ->   (..., n, m)
    """
    _same_width(q, k)
    return MAPS[map](q) @ MAPS[map](k).mT  # type: ignore[no-any-return]


@score(
    "cosine",
    formula="q . k / (|q| |k|)",
    latex=r"\frac{q \cdot k}{|q|\,|k|}",
    source="Graves, Wayne, Danihelka 2014, arXiv:1410.5401",
    kernel=None,
)
def cosine(q: Array, k: Array) -> Array:
    """The dot product of the directions, within [-1, 1]; a zero vector is like nothing, 0.

    q: (..., n, d_k)   k: (..., m, d_k)   ->   (..., n, m)
    """
    _same_width(q, k)
    found: Array = cosines(q, k)
    return found


@score(
    "gaussian",
    formula="exp(-|q - k|^2 / (2 sigma^2))",
    latex=r"\exp\left(-\frac{|q - k|^2}{2 \sigma^2}\right)",
    source="Nadaraya 1964; Watson 1964; d2l.ai 11.2",
    kernel="log",
    inside=lambda q, k, **_: q.shape[-1],
)
def gaussian(q: Array, k: Array, *, sigma: float = 1.0) -> Array:
    """The logarithm of the Gaussian kernel of width sigma (in the units of q and k), which itself underflows far away.

    q: (..., n, d_k)   k: (..., m, d_k)   ->   (..., n, m)
    """
    in_sigmas = _distances(q, k) / sigma
    return -(in_sigmas * in_sigmas) / 2


@score(
    "laplacian",
    formula="exp(-|q - k| / sigma)",
    latex=r"\exp\left(-\frac{|q - k|}{\sigma}\right)",
    source="d2l.ai 11.2, with the Euclidean distance",
    kernel="log",
    inside=lambda q, k, **_: q.shape[-1],
)
def laplacian(q: Array, k: Array, *, sigma: float = 1.0) -> Array:
    """The logarithm of the Laplacian kernel of width sigma (in the units of q and k).

    q: (..., n, d_k)   k: (..., m, d_k)   ->   (..., n, m)
    """
    return -_distances(q, k) / sigma


@score(
    "boxcar",
    formula="1 if |q - k| <= radius, else 0",
    latex=r"\left[\,|q - k| / r \le 1\right]",
    source="d2l.ai 11.2 (as printed: closed)",
    kernel="value",
    inside=lambda q, k, **_: q.shape[-1],
)
def boxcar(q: Array, k: Array, *, radius: float = 1.0) -> Array:
    """All keys within the radius (in the units of q and k) count alike.

    q: (..., n, d_k)   k: (..., m, d_k)   ->   (..., n, m)
    """
    inside: Array = within(_distances(q, k) / radius, 1.0)
    return inside


@score(
    "triangular",
    formula="max(0, 1 - u), u = |q - k| / radius",
    latex=r"\max\left(0, 1 - |q - k| / r\right)",
    source="d2l.ai 11.2",
    kernel="value",
    inside=lambda q, k, **_: q.shape[-1],
)
def triangular(q: Array, k: Array, *, radius: float = 1.0) -> Array:
    """Keys count less the farther they are, none beyond the radius (in the units of q and k).

    q: (..., n, d_k)   k: (..., m, d_k)   ->   (..., n, m)
    """
    return np.maximum(0, 1 - _distances(q, k) / radius)


@score(
    "epanechnikov",
    formula="3/4 max(0, 1 - u^2), u = |q - k| / radius",
    latex=r"\tfrac{3}{4} \max\left(0, 1 - |q - k|^2 / r^2\right)",
    source="Epanechnikov 1969",
    kernel="value",
    inside=lambda q, k, **_: q.shape[-1],
)
def epanechnikov(q: Array, k: Array, *, radius: float = 1.0) -> Array:
    """The kernel of least mean squared error, none beyond the radius (in the units of q and k).

    q: (..., n, d_k)   k: (..., m, d_k)   ->   (..., n, m)
    """
    u = _distances(q, k) / radius
    return 0.75 * np.maximum(0, 1 - u * u)


def inverse_root(d: int) -> float:
    """1/sqrt(d) as the nearest double: 1 over a rounded root would be rounded twice, and is off for d = 2."""
    return math.isqrt(10**60 // d) / 10**30


def _distances(q: Array, k: Array) -> Array:
    """Euclidean distances |q - k|, (..., n, m)."""
    _same_width(q, k)
    apart: Array = distances(q, k)
    return apart


def hidden_layer(
    q: Array,
    k: Array,
    W_q: Array | None,
    W_k: Array | None,
    w_v: Array | None,
    b_q: Array | None = None,
    b_k: Array | None = None,
) -> tuple[Array, Array, Array]:
    """What the additive score adds under its tanh, and its vector: W_q q + b_q (..., n, h), W_k k + b_k (..., m, h),
    w_v (h,).
    """
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
    given = {"w_v": w_v, "b_q": b_q, "b_k": b_k}
    vectors = {name: np.ravel(x) for name, x in given.items() if x is not None}
    for name, x in vectors.items():
        if x.shape != (h,):
            hint = "w_v (or v) is a vector of h" if name == "w_v" else f"{name} is a vector of h"
            raise ShapeError(f"{name} has {many(x.size, 'number')}, but the hidden width h is {h}", hint=hint)
    q_h = q_h + vectors["b_q"] if "b_q" in vectors else q_h
    k_h = k_h + vectors["b_k"] if "b_k" in vectors else k_h
    return q_h, k_h, vectors.get("w_v", np.ones(h, dtype=q_h.dtype))


def _same_width(q: Array, k: Array) -> None:
    if q.shape[-1] != k.shape[-1]:
        raise ShapeError(
            f"Q has {many(q.shape[-1], 'feature')}, but K has {k.shape[-1]} (d_k)",
            hint="this score compares vectors of one size; general, concat and additive take two sizes",
        )


def _is_matrix(name: str, matrix: Array, letters: str, rows: int | None, columns: int) -> None:
    fits = matrix.ndim == 2 and matrix.shape[1] == columns and (rows is None or matrix.shape[0] == rows)
    if not fits:
        needed = f"{'h' if rows is None else rows} x {columns}"
        shape = " x ".join(str(size) for size in matrix.shape)
        raise ShapeError(f"{name} must be {letters} = {needed}, but it is {shape}")
