"""Against mpmath at 50 digits, on random problems: the error of every step stays within its bound.

eps: of the dtype. S: a row's largest |q| |k| |scale|. n queries, m keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from attncli import attend

MP = mpmath.mp.clone()
MP.dps = 50
FEW = settings(max_examples=20)
DTYPES = ["float64", "float32"]


def exact(array: np.ndarray) -> Any:
    """The same numbers as mpf, which they are exactly."""
    if array.ndim == 0:
        return MP.mpf(float(array))
    return [exact(part) for part in array]


def dot(a: list[Any], b: list[Any]) -> Any:
    return MP.fsum(x * y for x, y in zip(a, b, strict=True))


def length(a: list[Any]) -> Any:
    return MP.sqrt(dot(a, a))


def apart(a: list[Any], b: list[Any]) -> Any:
    return length([x - y for x, y in zip(a, b, strict=True)])


def softmax(row: list[Any]) -> list[Any]:
    powers = [MP.exp(s) for s in row]
    total = MP.fsum(powers)
    return [p / total for p in powers]


def matrices(dtype: str, rows: int, columns: int, largest: float) -> st.SearchStrategy[np.ndarray]:
    width = 32 if dtype == "float32" else 64
    numbers = st.floats(-largest, largest, width=width, allow_subnormal=False)
    return arrays(np.dtype(dtype), (rows, columns), elements=numbers)


@st.composite
def problems(draw: st.DrawFn, dtype: str, largest: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n, m, d_k, d_v = (draw(st.integers(1, most)) for most in (3, 6, 8, 3))
    return (
        draw(matrices(dtype, n, d_k, largest)),
        draw(matrices(dtype, m, d_k, largest)),
        draw(matrices(dtype, m, d_v, 4)),
    )


def within(got: np.ndarray, wanted: list[Any], bounds: list[Any]) -> None:
    """Each number within its own bound; underflow to the smallest number may add one of those."""
    tiny = MP.mpf(float(np.finfo(got.dtype).smallest_normal))
    for number, x, bound in zip(exact(got), wanted, bounds, strict=True):
        assert abs(number - x) <= bound + tiny, (float(number), float(x), float(abs(number - x) / (bound + tiny)))


@pytest.mark.parametrize(("dtype", "largest"), [("float64", 4.0), ("float64", 30.0), ("float32", 3.0)])
@pytest.mark.parametrize("scale", [None, 1.0, -0.75, 0.0])
def test_scaled_dot(dtype: str, largest: float, scale: float | None) -> None:
    eps = MP.mpf(float(np.finfo(dtype).eps))

    @settings(FEW, max_examples=15)
    @given(problems(dtype, largest))
    def check(problem: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
        q, k, v = problem
        trace = attend(q, k, v, scale=scale)
        assert trace["output"].dtype == dtype
        d_k, m = q.shape[1], k.shape[0]
        factor = 1 / MP.sqrt(d_k) if scale is None else MP.mpf(scale)
        values = exact(v)
        for i, query in enumerate(exact(q)):
            weights = softmax([dot(query, key) * factor for key in exact(k)])
            largest_score = max(length(query) * length(key) * abs(factor) for key in exact(k))
            relative = eps * ((2 * d_k + 8) * largest_score + m + 8)
            within(trace["weights"][i], weights, [relative * w for w in weights])
            for c in range(v.shape[1]):
                column = [row[c] for row in values]
                size = dot(weights, [abs(x) for x in column])
                within(trace["output"][i, c : c + 1], [dot(weights, column)], [relative * size])

    check()


def hidden(query: list[Any], key: list[Any], W_q: Any, W_k: Any, w_v: Any) -> Any:
    layer = [dot(a, query) + dot(b, key) for a, b in zip(W_q, W_k, strict=True)]
    return dot(w_v, [MP.tanh(x) for x in layer])


def kernel_of(shape: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda query, key, radius: shape(apart(query, key) / radius)


# Of a distance the relative error is (d / 2 + 3) eps; each kernel adds what it does with it.
DISTANCES: dict[str, tuple[str, Callable[..., Any], Callable[[Any, int], Any]]] = {
    "gaussian": ("sigma", kernel_of(lambda u: -u * u / 2), lambda u, d: (d + 9) * u * u / 2),
    "laplacian": ("sigma", kernel_of(lambda u: -u), lambda u, d: (d / 2 + 4) * u),
    "boxcar": ("radius", kernel_of(lambda u: MP.mpf(u <= 1)), lambda u, d: 0),
    "triangular": ("radius", kernel_of(lambda u: max(MP.mpf(0), 1 - u)), lambda u, d: (d / 2 + 5) * u + 1),
    "epanechnikov": (
        "radius",
        kernel_of(lambda u: max(MP.mpf(0), (1 - u * u) * 3 / 4)),
        lambda u, d: (d + 9) * u * u + 3,
    ),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", DISTANCES)
def test_kernels(name: str, dtype: str) -> None:
    parameter, formula, error = DISTANCES[name]
    eps = MP.mpf(float(np.finfo(dtype).eps))

    @FEW
    @given(problems(dtype, 2.0), st.floats(0.5, 3, width=32))
    def check(problem: tuple[np.ndarray, np.ndarray, np.ndarray], width: float) -> None:
        q, k, _ = problem
        radius = MP.mpf(width)
        pairs = [[apart(query, key) / radius for key in exact(k)] for query in exact(q)]
        assume(all(abs(u - 1) > 1e-5 for row in pairs for u in row))
        step = "scores" if parameter == "sigma" else "kernel"
        got = attend(q, k, score=(name, {parameter: width}))[step]
        for i, query in enumerate(exact(q)):
            bounds = [eps * error(u, q.shape[1]) for u in pairs[i]]
            within(got[i], [formula(query, key, radius) for key in exact(k)], bounds)

    check()


@pytest.mark.parametrize("dtype", DTYPES)
def test_cosine(dtype: str) -> None:
    eps = MP.mpf(float(np.finfo(dtype).eps))

    @FEW
    @given(problems(dtype, 100.0))
    def check(problem: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
        q, k, _ = problem
        got = attend(q, k, score="cosine")["scores"]
        for i, query in enumerate(exact(q)):
            lengths = [length(query) * length(key) for key in exact(k)]
            wanted = [
                dot(query, key) / size if size else MP.mpf(0) for key, size in zip(exact(k), lengths, strict=True)
            ]
            within(got[i], wanted, [eps * (2 * q.shape[1] + 10)] * len(wanted))

    check()


@st.composite
def layers(draw: st.DrawFn, dtype: str) -> dict[str, np.ndarray]:
    n, m, d_q, d_k, h = (draw(st.integers(1, most)) for most in (2, 4, 4, 3, 4))
    shapes = {"q": (n, d_q), "k": (m, d_k), "W_q": (h, d_q), "W_k": (h, d_k), "w_v": (1, h), "W": (d_q, d_k)}
    return {name: draw(matrices(dtype, *shape, 2.0)) for name, shape in shapes.items()}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["additive", "concat", "general"])
def test_parametric_scores(name: str, dtype: str) -> None:
    eps = MP.mpf(float(np.finfo(dtype).eps))

    @FEW
    @given(layers(dtype))
    def check(given: dict[str, np.ndarray]) -> None:
        q, k = given["q"], given["k"]
        W_q, W_k, w_v, W = (given[name] for name in ("W_q", "W_k", "w_v", "W"))
        parameters = {
            "additive": {"W_q": W_q, "W_k": W_k, "w_v": w_v[0]},
            "concat": {"W": np.hstack([W_q, W_k]), "v": w_v[0]},
            "general": {"W": W},
        }[name]
        got = attend(q, k, score=(name, parameters))["scores"]
        d = q.shape[1] + k.shape[1]
        for i, query in enumerate(exact(q)):
            for j, key in enumerate(exact(k)):
                if name == "general":
                    wanted = dot(query, [dot(row, key) for row in exact(W)])
                    size = dot(
                        list(map(abs, query)), [dot(list(map(abs, row)), list(map(abs, key))) for row in exact(W)]
                    )
                    bound = eps * (d + 2) * size
                else:
                    wanted = hidden(query, key, exact(W_q), exact(W_k), exact(w_v[0]))
                    inside = 4 * d  # no sum under the tanh is larger, whose slope is at most 1
                    bound = eps * length(exact(w_v[0])) * len(w_v[0]) * (inside * (d + 2) + len(w_v[0]) + 4)
                within(got[i, j : j + 1], [wanted], [bound])

    check()


def scores(dtype: str, largest: float) -> st.SearchStrategy[np.ndarray]:
    return st.integers(1, 7).flatmap(lambda m: matrices(dtype, 1, m, largest))


def sparsemax(row: list[Any]) -> list[Any]:
    """The support by trying: the largest k scores for which the smallest of them keeps a positive share."""
    ordered = sorted(row, reverse=True)
    tau = max((MP.fsum(ordered[:k]) - 1) / k for k in range(1, len(row) + 1))
    return [max(MP.mpf(0), s - tau) for s in row]


@pytest.mark.parametrize("dtype", DTYPES)
def test_normalizers(dtype: str) -> None:
    eps = MP.mpf(float(np.finfo(dtype).eps))

    @settings(FEW, max_examples=40)
    @given(scores(dtype, 40.0))
    def check(array: np.ndarray) -> None:
        row, m = exact(array[0]), array.shape[1]
        largest = max(map(abs, row))

        def weights(name: str) -> np.ndarray:
            return attend(scores=array, normalizer=name)["weights"][0]

        shares = softmax(row)
        within(weights("softmax"), shares, [eps * w * (2 * largest + m + 6) for w in shares])
        within(weights("sparsemax"), sparsemax(row), [eps * (2 * largest + 1) * (m + 4)] * m)
        logistic = [1 / (1 + MP.exp(-s)) for s in row]
        within(weights("sigmoid"), logistic, [4 * eps * w for w in logistic])
        within(weights("none"), row, [0] * m)
        best = [s == max(row) for s in row]
        within(weights("hardmax"), [MP.mpf(b) / sum(best) for b in best], [eps] * m)
        total = MP.fsum(row)
        if abs(total) > largest / 100 and total != 0:
            share = [s / total for s in row]
            within(weights("sum"), share, [eps * (101 * m * m + 2) * abs(w) for w in share])
        powers = MP.fsum(MP.exp(s) for s in row)
        trace = attend(scores=array)
        within(trace["lse"][0], [MP.log(powers)], [eps * (2 * largest + m + 8)])
        within(trace["sum"][0], [powers], [eps * powers * (m + 4)])

    check()


@pytest.mark.parametrize("dtype", DTYPES)
def test_soft_cap(dtype: str) -> None:
    eps = MP.mpf(float(np.finfo(dtype).eps))

    @FEW
    @given(scores(dtype, 60.0), st.sampled_from([0.5, 4.0, 50.0]))
    def check(array: np.ndarray, cap: float) -> None:
        wanted = [cap * MP.tanh(s / cap) for s in exact(array[0])]
        within(attend(scores=array, softcap=cap)["capped"][0], wanted, [6 * eps * abs(x) for x in wanted])

    check()


def test_a_small_error_is_seen() -> None:
    """The bound is tight enough that float32 inside float64 does not pass."""
    wanted = softmax([MP.mpf(1), MP.mpf(2)])
    rounded = np.float64(np.float32([0.2689414213699951, 0.7310585786300049]))
    with pytest.raises(AssertionError):
        within(rounded, wanted, [40 * MP.mpf(2) ** -52] * 2)
