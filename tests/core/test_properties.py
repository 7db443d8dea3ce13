"""What must hold of every attention, on random problems."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from attncli import Trace, attend, cross_attention, self_attention
from tests.calling import names, normalizers

EPS = float(np.finfo(np.float64).eps)
FEW = settings(max_examples=10)
SCORE_NAMES = names("scores")
NORMALIZER_NAMES = normalizers()
D = 3

numbers = st.floats(-3, 3, width=32, allow_subnormal=False)


def matrix(*shape: int) -> st.SearchStrategy[np.ndarray]:
    return arrays(np.float64, shape, elements=numbers)


@st.composite
def problems(draw: st.DrawFn, n: int | None = None, m: int | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n, m = n or draw(st.integers(1, 4)), m or draw(st.integers(1, 5))
    return draw(matrix(n, D)), draw(matrix(m, D)), draw(matrix(m, 2))


Problem = tuple[np.ndarray, np.ndarray, np.ndarray]


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def with_parameters(name: str, width: int = D) -> tuple[str, dict[str, Any]]:
    """A score with every parameter that it has; a radius that has some keys within reach."""
    parameters = {
        "general": {"W": random(width, width)},
        "concat": {"W": random(4, 2 * width), "v": random(4)},
        "additive": {"W_q": random(5, width, seed=1), "W_k": random(5, width, seed=2), "w_v": random(5)},
        "gat": {"W": random(4, width), "a": random(8)},
        "gaussian": {"sigma": 1.5},
        "laplacian": {"sigma": 0.5},
        "boxcar": {"radius": 2.5},
        "triangular": {"radius": 3.0},
        "epanechnikov": {"radius": 3.5},
    }
    return name, parameters.get(name, {})


def same(a: Trace, b: Trace, *steps: str, atol: float = 1e-13) -> None:
    for step in steps or ("weights", "output"):
        np.testing.assert_allclose(a[step], b[step], rtol=1e-12, atol=atol, err_msg=step)


# --- keys -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("normalizer", ["softmax", "hardmax", "sparsemax", "sigmoid", "none"])
@pytest.mark.parametrize("score", SCORE_NAMES)
def test_permuting_keys_permutes_weights(score: str, normalizer: str) -> None:
    spec = with_parameters(score)

    @settings(FEW, max_examples=4)
    @given(problems(), st.randoms(use_true_random=False))
    def check(problem: Problem, shuffle: Any) -> None:
        q, k, v = problem
        order = list(range(len(k)))
        shuffle.shuffle(order)
        base = attend(q, k, v, score=spec, normalizer=normalizer)
        moved = attend(q, k[order], v[order], score=spec, normalizer=normalizer)
        if normalizer == "hardmax" and not np.array_equal(base["scores"][:, order], moved["scores"]):
            return  # another order of the same sum may break a tie
        np.testing.assert_allclose(moved["weights"], base["weights"][:, order], rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(moved["output"], base["output"], rtol=1e-12, atol=1e-12)

    check()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("normalizer", ["softmax", "sparsemax", "hardmax"])
def test_adding_to_a_row_of_scores_changes_nothing(normalizer: str, dtype: str) -> None:
    eps = float(np.finfo(dtype).eps)

    @settings(FEW, max_examples=20)
    @given(matrix(2, 4), st.floats(-1000, 1000, width=32))
    def check(scores: np.ndarray, c: float) -> None:
        scores = scores.astype(dtype)
        added = scores + np.dtype(dtype).type(c)
        base = attend(scores=scores, normalizer=normalizer)["weights"]
        moved = attend(scores=added, normalizer=normalizer)["weights"]
        if normalizer == "hardmax":
            # What rounding makes equal shares; what stays apart does not move.
            apart = np.sort(scores, axis=1)
            clear = apart[:, -1] - apart[:, -2] > 4 * eps * (abs(c) + 3)
            np.testing.assert_array_equal(moved[clear], base[clear])
        else:
            assert np.abs(moved - base).max() <= 4 * eps * (abs(c) + 4)

    check()


BAD = [np.nan, np.inf, -np.inf, 1e308]


@pytest.mark.parametrize("normalizer", NORMALIZER_NAMES)
@pytest.mark.parametrize("score", SCORE_NAMES)
def test_a_hidden_key_is_like_a_deleted_one(score: str, normalizer: str) -> None:
    """Whatever stands in it, and whoever hides it: a mask or a bias of -inf."""
    spec = with_parameters(score)

    @settings(FEW, max_examples=5)
    @given(problems(m=4), st.integers(0, 3), st.sampled_from(BAD), st.sampled_from(BAD))
    def check(problem: Problem, j: int, bad_key: float, bad_value: float) -> None:
        q, k, v = problem
        keep = np.arange(4) != j
        deleted = attend(q, k[keep], v[keep], score=spec, normalizer=normalizer)
        k, v = k.copy(), v.copy()
        k[j, 1], v[j, 0] = bad_key, bad_value
        for hiding in ({"mask": {"keys": keep.astype(int).tolist()}}, {"bias": np.where(keep, 0, -np.inf)}):
            hidden = attend(q, k, v, score=spec, normalizer=normalizer, **hiding)
            assert np.all(hidden["weights"][:, j] == 0)
            np.testing.assert_allclose(hidden["weights"][:, keep], deleted["weights"], rtol=1e-12, atol=1e-13)
            np.testing.assert_allclose(hidden["output"], deleted["output"], rtol=1e-12, atol=1e-12)
            assert hidden.notes == deleted.notes

    check()


@FEW
@given(problems(), st.data())
def test_a_bias_of_minus_infinity_is_a_mask(problem: Problem, data: st.DataObject) -> None:
    q, k, v = problem
    keep = data.draw(arrays(bool, (len(q), len(k))))
    masked = attend(q, k, v, mask={"keep": keep})
    same(masked, attend(q, k, v, bias=np.where(keep, 0, -np.inf)))
    same(masked, attend(q, k, v, mask={"block": ~keep}))
    np.testing.assert_array_equal(masked["weights"] == 0, ~keep | (masked["weights"] == 0))


@FEW
@given(problems(m=5), st.integers(1, 4), st.sampled_from([None, "causal", "window:1,0", "lengths:3", "dilated:2"]))
def test_past_keys_are_keys_in_front(problem: Problem, past: int, mask: str | None) -> None:
    q, k, v = problem
    parts = {"past_k": k[:past], "past_v": v[:past]}
    trace = attend(q, k[past:], v[past:], mask=mask, **parts)
    if mask in ("causal", "window:1,0", "dilated:2"):
        # With past keys the first query stands right after them: pad the queries to see that in a square problem.
        padded = attend(np.vstack([np.zeros((past, D)), q]), k, v, mask=mask)
        np.testing.assert_allclose(trace["weights"], padded["weights"][past:], rtol=1e-12, atol=1e-14)
    else:
        same(trace, attend(q, k, v, mask=mask), "K", "V", "scores", "weights", "output")


@FEW
@given(matrix(2, 4), matrix(5, 4), matrix(5, 6), st.integers(1, 4))
def test_past_keys_joined_or_split(q: np.ndarray, k: np.ndarray, v: np.ndarray, past: int) -> None:
    def split(x: np.ndarray) -> np.ndarray:
        return x.reshape(len(x), 2, -1).swapaxes(0, 1)

    whole = attend(q, k, v, heads=2)
    for form in (lambda x: x, split):
        parts = {"past_k": form(k[:past]), "past_v": form(v[:past])}
        same(whole, attend(q, k[past:], v[past:], heads=2, **parts), "K", "V", "weights", "heads", "output")
    apart = {"past_k": split(k[:past])[None], "past_v": split(v[:past])[None]}
    four = attend(split(q)[None], split(k[past:])[None], split(v[past:])[None], **apart)
    np.testing.assert_allclose(four["output"][0], whole["output"], atol=1e-13)


# --- heads and sequences --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("score", SCORE_NAMES)
def test_heads_together_are_heads_alone(score: str) -> None:
    spec = with_parameters(score)
    q, k, v, w_o = random(3, 2 * D), random(5, 2 * D), random(5, 4), random(4, 3)
    together = attend(q, k, v, heads=2, score=spec, wo=w_o, mask="causal")
    alone = [
        attend(q[:, h * D : h * D + D], k[:, h * D : h * D + D], v[:, 2 * h : 2 * h + 2], score=spec, mask="causal")
        for h in range(2)
    ]
    for h, one in enumerate(alone):
        np.testing.assert_allclose(together[f"weights[{h + 1}]"], one["weights"], atol=1e-14)
        np.testing.assert_allclose(together[f"heads[{h + 1}]"], one["output"], atol=1e-14)
    np.testing.assert_allclose(together["output"], np.hstack([one["output"] for one in alone]) @ w_o, atol=1e-14)


@pytest.mark.parametrize(("heads", "groups"), [(4, 1), (4, 2), (4, 4), (6, 3), (6, 2), (1, 1)])
def test_grouped_heads_are_repeated_heads(heads: int, groups: int) -> None:
    """Query head h uses key head floor(h G / H)."""
    q, k, v = random(3, heads * 2), random(4, groups * 2), random(4, groups * 3)
    used = [h * groups // heads for h in range(heads)]
    k_all = np.hstack([k[:, 2 * g : 2 * g + 2] for g in used])
    v_all = np.hstack([v[:, 3 * g : 3 * g + 3] for g in used])
    grouped = attend(q, k, v, heads=heads, kv_heads=groups)
    same(grouped, attend(q, k_all, v_all, heads=heads))

    def four(x: np.ndarray, count: int) -> np.ndarray:
        return x.reshape(len(x), count, -1).swapaxes(0, 1)[None]

    apart = attend(four(q, heads), four(k, groups), four(v, groups))
    np.testing.assert_allclose(apart["output"][0], grouped["output"], atol=1e-14)
    assert apart["K"].shape == (1, groups, 4, 2)


@pytest.mark.parametrize("score", SCORE_NAMES)
@pytest.mark.parametrize("normalizer", ["softmax", "sparsemax", "sum"])
def test_sequences_are_computed_alone(score: str, normalizer: str) -> None:
    spec, rules = with_parameters(score), {"normalizer": normalizer, "mask": "causal", "softcap": 2.0}
    q, k, v = random(2, 3, D), random(2, 4, D), random(2, 4, 2)
    together = attend(q, k, v, score=spec, **rules)
    for b in range(2):
        one = attend(q[b], k[b], v[b], score=spec, **rules)
        for step in ("scores", "capped", "masked", "weights", "output"):
            np.testing.assert_allclose(together[step][b], one[step], rtol=1e-12, atol=1e-13)


SHAPES = [((2, 1), (3,)), ((), (2,)), ((2,), ()), ((4, 2, 3), (4, 2, 1)), ((4, 1, 3), (2, 3)), ((1, 1, 1), (4, 2, 3))]


@pytest.mark.parametrize(("of_q", "of_k"), SHAPES)
def test_leading_axes_broadcast(of_q: tuple[int, ...], of_k: tuple[int, ...]) -> None:
    q, k, v = random(*of_q, 3, D), random(*of_k, 4, D), random(*of_k, 4, 2)
    lead = np.broadcast_shapes(of_q, of_k)
    trace = attend(q, k, v, mask="causal")
    assert trace["weights"].shape == (*lead, 3, 4)
    q, k, v = (np.broadcast_to(x, lead + x.shape[-2:]) for x in (q, k, v))
    for index in np.ndindex(*lead):
        one = attend(q[index], k[index], v[index], mask="causal")
        np.testing.assert_allclose(trace["weights"][index], one["weights"], atol=1e-14)
        if len(lead) < 2:
            np.testing.assert_allclose(trace["output"][index], one["output"], atol=1e-14)
        else:
            place = (*index[:-1], slice(None), slice(2 * index[-1], 2 * index[-1] + 2))
            np.testing.assert_allclose(trace["output"][place], one["output"], atol=1e-14)


# --- layout ---------------------------------------------------------------------------------------------------------

_TABLE = np.array([[1, 0, 1, 1], [0, 1, 1, 0], [1, 1, 0, 0]])
MASK_CASES: dict[str, tuple[Any, Any]] = {
    "causal": ("causal", "causal"),
    "window": ("window:1,0:bottom-right", "window:1,0:bottom-right"),
    "lengths": ("lengths:2", "lengths:2"),
    "lengths-per-query": ("lengths-per-query:1,2,4", "lengths-per-query:1,2,4"),
    "keys": ("keys:1,0,1,1", "keys:1,0,1,1"),
    "prefix": ("prefix:2", "prefix:2"),
    "segments": ("segments:0,1,0/0,0,1,1", "segments:0,1,0/0,0,1,1"),
    "dilated": ("dilated:2", "dilated:2"),
    "prefix-keys": ("causal | prefix-keys:2", "causal | prefix-keys:2"),
    "chunk": ("chunk:2", "chunk:2"),
    "packed": ("packed:2,1/1,3", "packed:2,1/1,3"),
    "queries": ("queries:1,0,1", "queries:1,0,1"),
    "query-lengths": ("query-lengths:2", "query-lengths:2"),
    "keep": ({"keep": _TABLE}, {"keep": _TABLE.T}),
    "block": ({"block": _TABLE}, {"block": _TABLE.T}),
}


def test_every_mask_has_a_case() -> None:
    assert set(MASK_CASES) == set(names("masks"))


@pytest.mark.parametrize("score", SCORE_NAMES)
@pytest.mark.parametrize("mask", MASK_CASES)
def test_columns_are_rows_transposed(score: str, mask: str) -> None:
    spec = with_parameters(score)
    in_rows, in_columns = MASK_CASES[mask]
    q, k, v, bias = random(3, D), random(4, D), random(4, 2), random(3, 4)
    rows = attend(q, k, v, score=spec, mask=in_rows, bias=bias, softcap=3.0)
    columns = attend(q.T, k.T, v.T, score=spec, mask=in_columns, bias=bias.T, softcap=3.0, layout="columns")
    assert rows.names(on_request=True) == columns.names(on_request=True)
    for step in rows.names(on_request=True):
        np.testing.assert_array_equal(columns[step], rows[step].T, err_msg=step)


@pytest.mark.parametrize("heads", [None, 2])
@pytest.mark.parametrize("lead", [(), (2,)])
def test_columns_of_projected_sequences(lead: tuple[int, ...], heads: int | None) -> None:
    x, y = random(*lead, 3, 5), random(*lead, 4, 6)
    weights = {"wq": random(5, 4), "wk": random(6, 4), "wv": random(6, 2), "wo": random(2, 3)}
    rest = {"bq": random(4), "bo": random(3), "heads": heads, "mask": "causal"}
    past = {"past_k": random(*lead, 2, 4), "past_v": random(*lead, 2, 2)}
    rows = cross_attention(x, y, **weights, **rest, **past)
    turned = {name: array.mT for name, array in (weights | past).items()}
    columns = cross_attention(x.mT, y.mT, **turned, **rest, layout="columns")
    framework = {name: array.mT for name, array in past.items()} | weights
    in_out = cross_attention(x.mT, y.mT, **framework, **rest, layout="columns", weight_layout="in-out")
    for step in rows.names(on_request=True):
        np.testing.assert_array_equal(columns[step], rows[step].mT, err_msg=step)
        np.testing.assert_array_equal(in_out[step], columns[step], err_msg=step)


# --- ways that are the same -----------------------------------------------------------------------------------------


@FEW
@given(matrix(3, 4), matrix(4, 3), matrix(4, 3), matrix(4, 2), matrix(1, 3))
def test_self_cross_and_attend(x: np.ndarray, wq: np.ndarray, wk: np.ndarray, wv: np.ndarray, b: np.ndarray) -> None:
    own = self_attention(x, wq=wq, wk=wk, wv=wv, bq=b[0])
    same(own, cross_attention(x, x, wq=wq, wk=wk, wv=wv, bq=b[0]))
    same(own, attend(x @ wq + b, x @ wk, x @ wv))
    same(self_attention(x), attend(x, x, x))


@pytest.mark.parametrize("step", ["scores", "scaled", "masked", "weights"])
def test_beginning_later_is_the_same(step: str) -> None:
    q, k, v = random(3, D), random(4, D), random(4, 2)
    rules: dict[str, Any] = {"mask": "causal", "softcap": 1.5, "bias": random(3, 4)}
    whole = attend(q, k, v, **rules)
    left = {"scores": {**rules, "d_k": D}, "scaled": rules, "masked": {}, "weights": {}}[step]
    later = attend(V=v, **{step: whole[step]}, **left)
    same(whole, later)
    assert later.names()[0] == "V"
    assert step in later


@pytest.mark.parametrize("score", ["gaussian", "laplacian", "boxcar", "triangular", "epanechnikov"])
def test_kernels_begin_at_their_values(score: str) -> None:
    """The sum of kernel values, the softmax of their logarithm, and a kernel that is given are the same."""
    q, k, v = random(3, D), random(4, D), random(4, 2)
    spec = with_parameters(score)
    by_softmax = attend(q, k, v, score=spec)
    kernel = by_softmax["kernel"]
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(by_softmax["scores"], np.log(kernel), rtol=1e-12, atol=1e-12)
    for trace in (
        attend(q, k, v, score=spec, normalizer="sum"),
        attend(V=v, kernel=kernel, normalizer="sum"),
        attend(V=v, kernel=kernel),
    ):
        same(by_softmax, trace, "kernel", "scores", "weights", "output")
    moved = attend(q + 7, k + 7, v, score=spec)
    np.testing.assert_allclose(moved["weights"], by_softmax["weights"], atol=1e-12)
    spread = score, {name: 4 * value for name, value in spec[1].items()}
    np.testing.assert_allclose(attend(4 * q, 4 * k, v, score=spread)["weights"], by_softmax["weights"], atol=1e-14)


@FEW
@given(problems())
def test_a_temperature_divides_the_default_scale(problem: Problem) -> None:
    q, k, v = problem
    same(attend(q, k, v, temperature=4), attend(q, k, v, scale=0.25 / np.sqrt(D)))
    same(attend(q, k, v, temperature=4, score="dot"), attend(q, k, v, scale=0.25, score="dot"))
    same(attend(q, k, v, scale=1), attend(q, k, v, score="dot"))
    assert np.all(attend(q, k, v, scale=0)["weights"] == 1 / len(k))
    same(attend(-q, k, v), attend(q, k, v, scale=-1 / np.sqrt(D)))


@FEW
@given(problems(), st.data())
def test_the_order_of_masks_does_not_matter(problem: Problem, data: st.DataObject) -> None:
    q, k, v = problem
    masks = ["causal", "dilated:2", {"keep": data.draw(arrays(bool, (len(q), len(k))))}]
    traces = [attend(q, k, v, mask=list(order)) for order in permutations(masks)]
    for trace in traces[1:]:
        same(traces[0], trace, atol=0)


# --- normalizers ----------------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(matrix(1, 5), st.data())
def test_sparsemax_is_the_nearest_point_of_the_simplex(scores: np.ndarray, data: st.DataObject) -> None:
    """By brute force: of every support the projection on its plane; the nearest one inside the simplex."""
    keep = data.draw(arrays(bool, 5).filter(np.any))
    weights = attend(scores=scores, normalizer="sparsemax", mask={"keep": keep})["weights"][0]
    assert abs(weights.sum() - 1) <= 8 * EPS
    row, nearest = scores[0], np.inf
    for bits in range(1, 2**5):
        support = np.array([bits >> j & 1 == 1 for j in range(5)])
        if np.any(support & ~keep):
            continue
        point = np.where(support, row + (1 - row[support].sum()) / support.sum(), 0)
        if np.all(point >= 0):
            nearest = min(nearest, float(((point - row)[keep] ** 2).sum()))
    assert abs(((weights - row)[keep] ** 2).sum() - nearest) <= 1e-12 * (1 + nearest)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("normalizer", ["softmax", "sparsemax", "hardmax", "sum"])
def test_rows_sum_to_one_or_to_nothing(normalizer: str, dtype: str) -> None:
    @FEW
    @given(problems(), st.data())
    def check(problem: Problem, data: st.DataObject) -> None:
        q, k, v = (x.astype(dtype) for x in problem)
        keep = data.draw(arrays(bool, (len(q), len(k))))
        score = "gaussian" if normalizer == "sum" else "dot"
        trace = attend(q, k, v, mask={"keep": keep}, normalizer=normalizer, score=score)
        sums = trace["weights"].sum(axis=1)
        np.testing.assert_allclose(sums, keep.any(axis=1), atol=10 * float(np.finfo(dtype).eps))
        # A weighted mean lies between the values that it is of; an empty row is 0.
        for i in range(len(q)):
            seen = v[keep[i]] if keep[i].any() else np.zeros((1, 2))
            slack = 40 * float(np.finfo(dtype).eps)
            assert np.all(trace["output"][i] >= seen.min(axis=0) - slack)
            assert np.all(trace["output"][i] <= seen.max(axis=0) + slack)

    check()


def test_hardmax_shares_ties() -> None:
    trace = attend(scores=[[2, 5, 5, 1], [0, 0, 0, 0], [-np.inf, 3, -np.inf, -np.inf]], normalizer="hardmax")
    np.testing.assert_array_equal(trace["weights"], [[0, 0.5, 0.5, 0], [0.25] * 4, [0, 1, 0, 0]])


def test_sums_of_nothing_are_empty_rows() -> None:
    trace = attend(scores=[[1.0, -1.0], [1.0, 3.0]], V=[[1.0], [2.0]], normalizer="sum")
    np.testing.assert_array_equal(trace["weights"], [[0, 0], [0.25, 0.75]])
    assert any("query 1" in note for note in trace.notes)


# --- dtypes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("of_q", "of_k", "computed"),
    [
        ("float64", "float64", "float64"),
        ("float32", "float32", "float32"),
        ("float16", "float16", "float32"),
        ("float16", "float32", "float32"),
        ("float32", "float64", "float64"),
        ("float16", "float64", "float64"),
        ("int64", "float32", "float64"),
        ("int8", "float16", "float64"),
        ("uint8", "uint8", "float64"),
        ("uint64", "int8", "float64"),
        ("bool", "int16", "float64"),
        ("longdouble", "float64", "float64"),
    ],
)
def test_what_is_computed_in(of_q: str, of_k: str, computed: str) -> None:
    q, k = np.array([[1, 0, 1]]).astype(of_q), np.array([[1, 1, 0], [0, 1, 1]]).astype(of_k)
    trace = attend(q, k, k, score="dot")
    for step in trace.names(on_request=True):
        assert trace[step].dtype == computed, step
    assert trace["scores"].tolist() == [[1, 1]]
    for dtype in ("float32", "float64"):
        asked = attend(q, k, k, dtype=dtype)
        assert {asked[step].dtype.name for step in asked.names(on_request=True)} == {dtype}


@pytest.mark.parametrize("score", SCORE_NAMES)
@pytest.mark.parametrize("normalizer", NORMALIZER_NAMES)
def test_float32_stays(score: str, normalizer: str) -> None:
    name, parameters = with_parameters(score)
    parameters = {key: np.float32(value) if np.ndim(value) else value for key, value in parameters.items()}
    x, rules = random(3, D).astype(np.float32), {"softcap": 2.0, "mask_value": -1e6, "mask": "causal"}
    trace = attend(x, x, x, score=(name, parameters), normalizer=normalizer, bias=np.float32([[0, 1, 2]]), **rules)
    for step in trace.names(on_request=True):
        assert trace[step].dtype == np.float32, step


def test_bfloat16_is_computed_in_float32() -> None:
    import ml_dtypes

    x = random(3, D).astype(ml_dtypes.bfloat16)
    trace = attend(x, x, x)
    assert trace["output"].dtype == np.float32
    same(trace, attend(x.astype(np.float32), x.astype(np.float32), x.astype(np.float32)), atol=0)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint64"])
def test_integers_do_not_wrap(dtype: str) -> None:
    most = min(int(np.iinfo(dtype).max), 2**31)
    x = np.array([[most, most]], dtype=dtype)
    trace = self_attention(x, wq=x.T, wk=x.T, score="dot")
    assert trace["Q"][0, 0] == 2.0 * most * most
    assert trace["scores"][0, 0] == (2.0 * most * most) ** 2


# --- what is held ---------------------------------------------------------------------------------------------------


def test_only_the_wanted_steps_are_held() -> None:
    q, k, v = random(3, D), random(4, D), random(4, 2)
    whole, part = attend(q, k, v), attend(q, k, v, steps=("output", "lse"))
    assert part.names(on_request=True) == ["lse", "output"]
    same(whole, part, "lse", "output")
    with pytest.raises(Exception, match=r"(?s)'weights' was not kept.*lse, output"):
        part["weights"]
    with pytest.raises(Exception, match=r"(?s)no step 'capped'.*scores"):
        attend(q, k, v, steps=("capped",))
