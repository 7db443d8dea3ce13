"""Scores where the answer is known in closed form, at the edges of the numbers and of the shapes."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

from attncli import AttnError, Trace, attend
from tests.calling import names, normalizers
from tests.inside import NORMALIZERS, SCORES

HUGE, TINY = 1e300, 1e-300
KERNELS = ["gaussian", "laplacian", "boxcar", "triangular", "epanechnikov"]


def scores(q: Any, k: Any, score: Any, step: str = "scores", **options: Any) -> np.ndarray:
    return attend(q, k, score=score, **options)[step]


def test_by_hand() -> None:
    q, k = [[1.0, 2.0]], [[3.0, 4.0], [0.0, -1.0]]
    assert scores(q, k, "dot").tolist() == [[11, -2]]
    assert scores(q, k, "scaled-dot").tolist() == [[11, -2]]
    np.testing.assert_allclose(scores(q, k, "scaled-dot", "scaled"), np.array([[11, -2]]) / np.sqrt(2), rtol=1e-15)
    assert scores(q, k, ("general", {"W": [[0, 1], [1, 0]]})).tolist() == [[10, -1]]  # 1 x 4 + 2 x 3
    np.testing.assert_allclose(scores(q, k, "cosine"), [[11 / np.sqrt(125), -2 / np.sqrt(5)]], rtol=1e-15)
    np.testing.assert_allclose(scores(q, k, "additive"), [[np.tanh(4) + np.tanh(6), 2 * np.tanh(1)]], rtol=1e-15)


def test_queries_and_keys_of_unlike_size() -> None:
    q, k = [[1.0, 2.0]], [[1.0, 0.0, -1.0]]
    assert scores(q, k, ("general", {"W": [[1, 2, 3], [4, 5, 6]]})).tolist() == [[-6]]  # (9 12 15) . k
    W_q, W_k, w_v = [[0.1, 0.0], [0.0, 0.2]], [[0.3, 0.0, 0.0], [0.0, 0.0, 0.5]], [1.0, -2.0]
    expected = [[np.tanh(0.1 + 0.3) - 2 * np.tanh(0.4 - 0.5)]]
    additive = scores(q, k, ("additive", {"W_q": W_q, "W_k": W_k, "w_v": w_v}))
    concat = scores(q, k, ("concat", {"W": np.hstack([W_q, W_k]), "v": w_v}))
    np.testing.assert_allclose(additive, expected, rtol=1e-14)
    np.testing.assert_allclose(concat, expected, rtol=1e-14)


@pytest.mark.parametrize(
    ("score", "u", "kernel"),
    [
        ("gaussian", 0.0, 1.0),
        ("gaussian", 2.0, np.exp(-2)),
        ("laplacian", 2.0, np.exp(-2)),
        ("boxcar", 0.5, 1.0),
        ("boxcar", 1.0, 1.0),
        ("boxcar", 1.0000001, 0.0),
        ("triangular", 0.0, 1.0),
        ("triangular", 0.25, 0.75),
        ("triangular", 1.0, 0.0),
        ("triangular", 3.0, 0.0),
        ("epanechnikov", 0.0, 0.75),
        ("epanechnikov", 0.5, 0.5625),
        ("epanechnikov", 2.0, 0.0),
    ],
)
@pytest.mark.parametrize("width", [None, 0.25, 4.0])
def test_kernels_by_hand(score: str, u: float, kernel: float, width: float | None) -> None:
    """At u widths from the query, in whatever direction."""
    name = "sigma" if score in ("gaussian", "laplacian") else "radius"
    spec: Any = score if width is None else (score, {name: width})
    distance = u * (width or 1)
    for key in ([distance, 0.0], [0.0, -distance]):
        np.testing.assert_allclose(scores([[0.0, 0.0]], [key], spec, "kernel"), [[kernel]], rtol=1e-15)


@pytest.mark.parametrize("size", [HUGE, TINY, 1e-320, 1.0])
def test_distances_neither_overflow_nor_vanish(size: float) -> None:
    """A 3-4-5 triangle, whatever its size."""
    q, k = [[0.0, 0.0]], [[3 * size, 4 * size]]
    np.testing.assert_allclose(
        scores(q, k, ("laplacian", {"sigma": 5 * size})), [[-1]], rtol=2e-3 if size < TINY else 1e-15
    )
    kernel = scores(q, k, ("triangular", {"radius": 10 * size}), "kernel")
    np.testing.assert_allclose(kernel, [[0.5]], rtol=2e-3 if size < TINY else 1e-15)
    assert scores(q, k, ("boxcar", {"radius": 6 * size}), "kernel") == 1


def test_distances_do_not_cancel() -> None:
    """|q|^2 - 2 q.k + |k|^2 would lose every digit of a distance of 1 at 1e8."""
    q, k = [[1e8, 1e8]], [[1e8 + 1, 1e8], [1e8 + 1, 1e8 + 1]]
    np.testing.assert_array_equal(scores(q, k, "gaussian"), [[-0.5, -1.0000000000000002]])
    np.testing.assert_allclose(scores(q, k, "laplacian"), [[-1, -np.sqrt(2)]], rtol=1e-15)


def test_cosine_at_the_edges() -> None:
    q = [[HUGE, HUGE], [TINY, TINY], [0.0, 0.0], [3e-320, 0.0]]
    k = [[HUGE, HUGE], [TINY, 0.0], [0.0, 0.0], [-HUGE, -HUGE]]
    half = np.sqrt(0.5)
    expected = [[1, half, 0, -1], [1, half, 0, -1], [0, 0, 0, 0], [half, 1, 0, -half]]
    got = scores(q, k, "cosine")
    np.testing.assert_allclose(got, expected, atol=1e-15)
    assert np.all(np.abs(got) <= 1)
    many = np.random.default_rng(0).normal(size=(50, 7))
    assert np.all(np.abs(scores(many, 3 * many, "cosine")) <= 1)


def test_cosine_is_the_dot_product_of_unit_vectors_only() -> None:
    q = np.random.default_rng(1).normal(size=(3, 4))
    units = q / np.linalg.norm(q, axis=1, keepdims=True)
    np.testing.assert_allclose(scores(q, q, "cosine"), scores(units, units, "dot"), atol=1e-15)
    assert np.abs(scores(q, q, "cosine") - scores(q, q, "dot")).max() > 0.1


@pytest.mark.parametrize("score", ["dot", "scaled-dot"])
def test_products_that_overflow(score: str) -> None:
    """+inf among the scores gives NaN there and a note; -inf is a weight of 0."""
    trace = attend([[HUGE, 0.0], [1.0, 0.0]], [[HUGE, 0.0], [-HUGE, 0.0], [1.0, 0.0]], np.ones((3, 1)), score=score)
    assert np.all(np.isnan(trace["output"][0]))
    assert any("query 1, key 1" in note for note in trace.notes)
    below = attend([[HUGE]], [[-HUGE], [0.0]], [[5.0], [7.0]], score=score)
    assert below["weights"].tolist() == [[0, 1]]
    assert below["output"] == 7
    lost = attend([[HUGE]], [[-HUGE]], [[5.0]], score=score)
    assert np.isnan(lost["output"])
    assert any("every score is -inf" in note for note in lost.notes)


def test_additive_saturates() -> None:
    assert scores([[HUGE, -HUGE]], [[HUGE, -HUGE]], "additive").tolist() == [[0]]
    assert scores([[HUGE, 1.0]], [[HUGE, -1.0]], "additive").tolist() == [[1]]


@pytest.mark.parametrize("normalizer", ["softmax", "sum"])
def test_a_gaussian_far_from_every_key(normalizer: str) -> None:
    weights = attend([[0.0]], [[1e5], [1e5 + 1e-5]], score="gaussian", normalizer=normalizer)["weights"]
    np.testing.assert_allclose(weights, [[1 / (1 + np.exp(-1.0)), 1 / (1 + np.exp(1.0))]], rtol=1e-5)
    trace = attend([[0.0]], [[HUGE], [-HUGE]], [[1.0], [2.0]], score="gaussian", normalizer=normalizer)
    assert trace["weights"].tolist() == [[0, 0]]
    assert any("query 1 sees no key" in note for note in trace.notes)


@pytest.mark.parametrize("scale", [0.0, -1.0, 2.0])
@pytest.mark.parametrize("score", ["boxcar", "triangular", "epanechnikov"])
def test_a_key_out_of_reach_stays_there(score: str, scale: float) -> None:
    trace = attend([[0.0]], [[0.5], [9.0]], [[3.0], [np.nan]], score=score, scale=scale, softcap=2.0)
    for step in ("scores", "scaled", "capped"):
        assert np.isneginf(trace[step][0, 1]), step
        assert np.isfinite(trace[step][0, 0]), step
    assert trace["weights"].tolist() == [[1, 0]]
    assert trace["output"] == 3


@pytest.mark.parametrize("score", names("scores"))
@pytest.mark.parametrize("normalizer", normalizers())
def test_nothing_at_all(score: str, normalizer: str) -> None:
    """No queries, no keys, no sequences, no features: results of the right shape."""
    needed = {"general": {"W": np.ones((2, 2))}, "concat": {"W": np.ones((3, 4)), "v": np.ones(3)},
              "gat": {"a": np.ones(4)}}  # fmt: skip
    parameters = needed.get(score, {})
    for lead, n, m in (((), 0, 3), ((), 2, 0), ((), 0, 0), ((0,), 2, 3), ((2, 0), 2, 3), ((2,), 0, 0)):
        q, k = np.ones((*lead, n, 2)), np.ones((*lead, m, 2))
        trace = attend(q, k, np.ones((*lead, m, 5)), score=(score, parameters), normalizer=normalizer, mask="causal")
        assert trace["weights"].shape == (*lead, n, m)
        assert trace["output"].shape == ((*lead, n, 5) if len(lead) < 2 else (*lead[:-1], n, 5 * lead[-1]))
        for step in trace.names(on_request=True):
            trace[step]
        assert not trace["output"].size or m == 0 or np.all(np.isfinite(trace["output"]))
    if score not in ("general", "concat", "gat", "linear"):  # a linear kernel of no features is 0: no key in reach
        flat = attend(np.ones((2, 0)), np.ones((3, 0)), np.ones((3, 1)), score=score, normalizer="softmax")
        np.testing.assert_allclose(flat["weights"], np.full((2, 3), 1 / 3), atol=1e-15)


MESSAGES: list[tuple[Any, str]] = [
    ("dots", "unknown score 'dots'.*'dot'"),
    (("gaussian", {"sigm": 2}), "unknown parameter.*'sigm'.*'sigma'"),
    (("dot", {"sigma": 2}), "unknown parameter.*none at all"),
    ("general", "needs W"),
    (("concat", {"W": np.ones((2, 4))}), "needs v"),
    (("gaussian", {"sigma": 0}), "positive number, not 0"),
    (("gaussian", {"sigma": -1}), "positive number, not -1"),
    (("boxcar", {"radius": np.inf}), "positive number, not inf"),
    (("boxcar", {"radius": np.nan}), "positive number, not nan"),
    (("boxcar", {"radius": [1, 2]}), "is a number"),
    (("general", {"W": np.ones((3, 2))}), "W must be d_q x d_k = 2 x 2, but it is 3 x 2"),
    (("concat", {"W": np.ones((3, 3)), "v": np.ones(3)}), "= h x 4, but it is 3 x 3"),
    (("additive", {"W_q": np.ones((3, 1))}), "W_q must be h x d_q = h x 2"),
    (("additive", {"W_k": np.ones((3, 1))}), "W_k must be h x d_k = h x 2"),
    (("additive", {"W_q": np.ones((3, 2))}), "h is 3 for the queries, but 2 for the keys"),
    (("additive", {"w_v": np.ones(3)}), "w_v has 3 numbers, but the hidden width h is 2"),
    (("additive", {"b_q": np.ones(3)}), "b_q has 3 numbers, but the hidden width h is 2"),
    (("additive", {"activation": "relu"}), "unknown activation 'relu'.*leaky-relu"),
    (("additive", {"activation": "leaky-relu", "slope": 2}), "from 0 to 1, not 2"),
    (("gat", {"a": np.ones(3)}), "a has 3 numbers, but 2 h is 4"),
    (("linear", {"map": "elu"}), "unknown map 'elu'.*'elu1'"),
    (("linear", {"map": 2}), "map of the score 'linear' is a word"),
    (("additive", {"W_Q": np.ones((2, 2))}), "unknown parameter.*'W_Q'.*'W_q'"),
]


@pytest.mark.parametrize(("score", "message"), MESSAGES, ids=[message for _, message in MESSAGES])
def test_messages(score: Any, message: str) -> None:
    with pytest.raises(AttnError, match=f"(?s){message}"):
        attend(np.ones((1, 2)), np.ones((3, 2)), score=score)


@pytest.mark.parametrize("score", ["dot", "scaled-dot", "cosine", *KERNELS])
def test_sizes_that_disagree_are_named(score: str) -> None:
    with pytest.raises(AttnError, match=r"Q.*3.*K.*2"):
        attend(np.ones((1, 3)), np.ones((3, 2)), score=score)


def test_a_kernel_is_never_negative() -> None:
    with pytest.raises(AttnError, match="never negative"):
        attend(kernel=[[1.0, -0.5]])


# --- what is added from outside -------------------------------------------------------------------------------------


def test_a_score_of_ones_own() -> None:
    def absolute(q: np.ndarray, k: np.ndarray, *, power: float = 1.0) -> Any:
        return -(np.abs(q[..., :, None, 0] - k[..., None, :, 0]) ** power)

    q, k = np.array([[1.0], [2.0]]), np.array([[0.0], [4.0], [2.0]])
    expected = [[-1, -3, -1], [-2, -2, 0]]
    trace: Trace = attend(q, k, k, score=absolute)
    assert trace["scores"].tolist() == expected
    assert trace.score["name"] == "absolute"
    assert "scaled" not in trace
    SCORES("absolute", formula="-|q - k|^p", source="a test", kernel=None)(absolute)
    try:
        np.testing.assert_array_equal(attend(q, k, k, score="absolute")["weights"], trace["weights"])
        squares = attend(q, k, score=("absolute", {"power": 2}))["scores"]
        assert squares.tolist() == [[-1, -9, -1], [-4, -4, 0]]
        with pytest.raises(AttnError, match=r"(?s)unknown parameter.*power"):
            attend(q, k, score=("absolute", {"exponent": 2}))
    finally:
        SCORES.remove("absolute")
    with pytest.raises(AttnError, match="unknown score 'absolute'"):
        attend(q, k, score="absolute")


def test_a_kernel_of_ones_own() -> None:
    """A registered kernel has a kernel step, and its zeros are out of reach."""

    @SCORES("same-sign", kernel="value")
    def same_sign(q: np.ndarray, k: np.ndarray) -> Any:
        return (q @ k.mT > 0).astype(q.dtype)

    try:
        trace = attend([[1.0]], [[2.0], [-1.0], [3.0]], [[1.0], [np.nan], [3.0]], score="same-sign", normalizer="sum")
    finally:
        SCORES.remove("same-sign")
    assert trace["kernel"].tolist() == [[1, 0, 1]]
    assert trace["weights"].tolist() == [[0.5, 0, 0.5]]
    assert trace["output"] == 2


def test_a_normalizer_of_ones_own() -> None:
    def halves(logits: np.ndarray, visible: np.ndarray) -> Any:
        return np.where(visible, 0.5, 0.0).astype(np.float16)

    for normalizer in (halves, "halves"):
        if normalizer == "halves":
            NORMALIZERS("halves", sums_to_one=False, monotone=False, error="absolute")(halves)
        trace = attend(scores=np.zeros((2, 3)), V=np.ones((3, 1)), normalizer=normalizer, mask="lengths:2,1")
        assert trace["weights"].tolist() == [[0.5, 0.5, 0], [0.5, 0, 0]]
        assert trace["weights"].dtype == np.float64
        assert trace.normalizer == "halves"
        assert "lse" not in trace
    NORMALIZERS.remove("halves")


def test_callables_of_another_shape_are_told() -> None:
    with pytest.raises(AttnError, match=r"score 'bad'.*\(3,\).*\(2, 3\)"):
        attend(np.ones((2, 1)), np.ones((3, 1)), score=_named("bad", lambda q, k: np.ones(3)))
    with pytest.raises(AttnError, match=r"normalizer 'bad'.*\(1,\).*\(2, 3\)"):
        attend(scores=np.ones((2, 3)), normalizer=_named("bad", lambda logits, visible: np.ones(1)))


def _named(name: str, function: Any) -> Any:
    function.__name__ = name
    return function


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 7, 16, 32, 64, 80, 96, 128, 384, 1000, 65536])
def test_the_default_scale_is_right_to_the_last_digit(d: int) -> None:
    """mpmath's 50 digits, rounded once: 1/sqrt(2) is 0.7071067811865476, not ...475."""
    with mpmath.workdps(50):
        nearest = float(1 / mpmath.sqrt(d))
    assert attend(np.ones((1, d)), np.ones((1, d))).scale == nearest
