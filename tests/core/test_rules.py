"""The rules that are easy to get wrong, by their numbers in the contract, and the sizes that the core itself checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attncli import AttnError, Trace, attend, run, self_attention
from tests.calling import normalizers

V = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


# --- 1: which queries are empty, and what they get ------------------------------------------------------------------


@pytest.mark.parametrize("normalizer", normalizers())
@pytest.mark.parametrize(
    "hiding",
    [
        {"mask": {"keep": [[1, 1, 1], [0, 0, 0]]}},
        {"mask": {"block": [[0, 0, 0], [1, 1, 1]]}},
        {"mask": "lengths:3,0"},
        {"bias": [[0, 0, 0], [-np.inf] * 3]},
        {"bias": [[0, 0, 0], [-np.inf, 0, -np.inf]], "mask": {"keep": [[1, 1, 1], [1, 0, 1]]}},
        {"mask": [{"keep": [[1, 1, 1], [1, 1, 0]]}, {"keep": [[1, 1, 1], [0, 0, 1]]}]},
        {"mask": {"keep": [[1, 1, 1], [0, 0, 0]]}, "mask_value": -1e9},
    ],
)
def test_rule_1_an_empty_query_gets_zero(hiding: dict[str, Any], normalizer: str) -> None:
    """All masks and the bias decide together; the value of a score does not."""
    trace = attend(scores=np.ones((2, 3)), V=V, normalizer=normalizer, **hiding)
    assert trace["weights"][1].tolist() == [0, 0, 0]
    assert trace["output"][1].tolist() == [0, 0]
    assert np.all(trace["weights"][0] > 0)
    assert [note for note in trace.notes if "query 2 sees no key" in note]


@pytest.mark.parametrize("low", [-1e9, -1e300, float(np.finfo(np.float64).min)])
def test_rule_1_a_low_score_is_not_hidden(low: float) -> None:
    for trace in (attend(scores=np.full((1, 3), low), V=V), attend(scores=np.zeros((1, 3)), V=V, bias=[[low] * 3])):
        np.testing.assert_allclose(trace["weights"], [[1 / 3] * 3], rtol=1e-15)
        assert not trace.notes


EMPTY = {"mask": {"keep": [[1, 1, 0], [0, 0, 0]]}}


@pytest.mark.parametrize(
    ("rule", "weights", "output"),
    [("zero", [0, 0, 0], [0, 0]), ("nan", [np.nan] * 3, [np.nan] * 2), ("uniform", [1 / 3] * 3, [3, 4])],
)
def test_rule_1_other_rules_for_empty_queries(rule: str, weights: list[float], output: list[float]) -> None:
    trace = attend(scores=np.ones((2, 3)), V=V, empty_rows=rule, **EMPTY)
    np.testing.assert_allclose(trace["weights"], [[0.5, 0.5, 0], weights], rtol=1e-15)
    np.testing.assert_allclose(trace["output"], [[2, 3], output], rtol=1e-15)
    assert any(f"--empty-rows {rule}" in note for note in trace.notes)
    assert np.isneginf(trace["lse"][1, 0])
    assert trace["sum"][1, 0] == 0


def test_rule_1_uniform_attends_to_everything() -> None:
    v = V.copy()
    v[2, 1] = np.nan
    output = attend(scores=np.ones((2, 3)), V=v, empty_rows="uniform", **EMPTY)["output"]
    np.testing.assert_allclose(output, [[2, 3], [3, np.nan]])


def test_rule_1_an_error_names_the_query() -> None:
    with pytest.raises(AttnError, match="query 2 sees no key"):
        attend(scores=np.ones((2, 3)), V=V, empty_rows="error", **EMPTY)
    with pytest.raises(AttnError, match="sequence 2, head 1, query 1 sees no key"):
        attend(np.ones((2, 1, 1, 2)), np.ones((2, 1, 3, 2)), mask="lengths:3,0", empty_rows="error")
    attend(scores=np.ones((2, 3)), V=V, empty_rows="error")


def test_rule_1_each_head_for_itself() -> None:
    keep = np.array([[[1, 1], [1, 1]], [[0, 0], [0, 1]]])
    trace = attend(np.ones((2, 4)), np.ones((2, 4)), np.ones((2, 4)), heads=2, mask={"keep": keep}, empty_rows="nan")
    np.testing.assert_array_equal(trace["output"], [[1, 1, np.nan, np.nan], [1, 1, 1, 1]])
    assert any("head 2, query 1 sees no key" in note for note in trace.notes)


def test_rule_1_many_empty_queries_are_counted() -> None:
    (note,) = attend(scores=np.ones((9, 2)), mask="lengths:0").notes
    assert "query 1; query 2" in note
    assert "and 4 more" in note


# --- 2: what is hidden does not reach the output --------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_rule_2_hidden_values_and_keys(bad: float) -> None:
    k, v = np.ones((3, 2)), V.copy()
    k[1, 0] = v[1, 1] = bad
    trace = attend(np.ones((2, 2)), k, v, mask="keys:1,0,1")
    np.testing.assert_array_equal(trace["output"], [[3, 4], [3, 4]])
    assert not trace.notes
    partly = attend(np.ones((2, 2)), k, v, mask={"keep": [[1, 0, 1], [1, 1, 1]]})
    np.testing.assert_array_equal(partly["output"][0], [3, 4])
    assert np.isnan(partly["output"][1, 1])


def test_rule_2_what_is_attended_is_told() -> None:
    k, v = np.ones((3, 2)), V.copy()
    k[1, 0] = np.nan
    trace = attend(np.ones((2, 2)), k, v, mask={"keep": [[1, 1, 1], [1, 0, 1]]})
    assert np.isnan(trace["output"][0]).all()
    assert trace["output"][1].tolist() == [3, 4]
    assert any("query 1, key 2" in note for note in trace.notes)
    v[2, 1] = np.nan
    told = attend(np.ones((2, 2)), np.ones((3, 2)), v)
    np.testing.assert_allclose(told["output"][:, 0], [3, 3])
    assert np.isnan(told["output"][:, 1]).all()
    assert any("values" in note and "key 3" in note for note in told.notes)
    heads = attend(np.ones((1, 4)), np.ones((3, 4)), np.hstack([V, v]), heads=2)
    assert any("head 2, key 3" in note for note in heads.notes)


def test_rule_2_weights_that_are_not_finite_are_told() -> None:
    trace = run({"weights": [[1, np.inf], [1, 0]], "V": [[3], [0]]})
    np.testing.assert_array_equal(trace["output"], [[np.nan], [3]])
    assert trace.notes == ["NaN or infinity among the weights: query 1, key 2"]


def test_rule_2_a_query_spoils_its_own_row_only() -> None:
    q = np.ones((3, 2))
    q[1, 0] = np.nan
    output = attend(q, np.ones((3, 2)), V)["output"]
    assert np.isnan(output).all(axis=1).tolist() == [False, True, False]


def test_rule_2_with_a_finite_mask_value_hidden_keys_count() -> None:
    v = V.copy()
    v[1, 1] = np.nan
    assert np.isnan(attend(np.ones((1, 2)), np.ones((3, 2)), v, mask="keys:1,0,1", mask_value=-1e6)["output"][0, 1])


def test_rule_2_data_with_nan_through_weights() -> None:
    """A NaN in the data of a hidden token stays there, also through projections (and without a warning)."""
    x = np.array([[1.0, 0], [np.inf, np.nan], [0, 1]])
    w = np.array([[1.0, 2], [0, 1]])
    trace = self_attention(x, wq=w, wk=w, wv=w, mask="keys:1,0,1")
    alone = self_attention(x[[0, 2]], wq=w, wk=w, wv=w)
    np.testing.assert_allclose(trace["output"][[0, 2]], alone["output"], rtol=1e-14)


# --- 3 to 6 ---------------------------------------------------------------------------------------------------------


def test_rule_3_integers_become_float64_first() -> None:
    x = np.array([[200, 100]], dtype=np.uint8)
    trace = self_attention(x, wq=x.T, wk=x.T, wv=x.T, score="dot")
    assert trace["Q"].tolist() == [[50000]]
    assert trace["scores"].tolist() == [[2.5e9]]
    big = np.array([[2**62, 1]])
    assert attend(big, big, score="dot")["scores"][0, 0] == 2.0**124


def test_numbers_beyond_float32_are_told() -> None:
    trace = attend([[1.0]], [[1.0], [1.0]], [[1e300], [2.0]], dtype="float32", mask="keys:0,1")
    assert trace["output"].tolist() == [[2]]
    assert any(note.startswith("V: numbers beyond float32") for note in trace.notes)
    assert not attend([[1.0]], [[1.0]], [[np.inf]], dtype="float32", mask="keys:0").notes[1:]


def test_rule_4_a_bias_of_zeros_and_ones_is_told() -> None:
    assert any("keep:FILE or block:FILE" in note for note in attend(scores=np.ones((1, 3)), bias=[[0, 1, 1]]).notes)
    assert not attend(scores=np.ones((1, 3)), bias=[[0, 1, 2]]).notes


def test_rule_5_scale_cap_bias_mask() -> None:
    trace = attend([[2.0]], [[3.0], [5.0]], scale=0.5, softcap=2.0, bias=[[10, -10]], mask="keys:1,0", mask_value=-7)
    assert trace["scores"].tolist() == [[6, 10]]
    assert trace["scaled"].tolist() == [[3, 5]]
    np.testing.assert_allclose(trace["capped"], 2 * np.tanh([[1.5, 2.5]]))
    np.testing.assert_allclose(trace["biased"], trace["capped"] + [[10, -10]])
    np.testing.assert_allclose(trace["masked"], [[trace["biased"][0, 0], -7]])
    assert trace.names() == ["Q", "K", "scores", "scaled", "capped", "biased", "masked", "weights"]


def test_rule_6_large_scores_are_ordinary() -> None:
    for shift in (1000, -1000, 1e15):
        weights = attend(scores=[[shift, shift + 1]])["weights"]
        np.testing.assert_allclose(weights, [[1 / (1 + np.e), np.e / (1 + np.e)]], rtol=1e-15)
    trace = attend(scores=[[1000.0, 999.0]])
    assert np.isposinf(trace["exp"]).all()
    assert np.isposinf(trace["sum"]).all()
    np.testing.assert_allclose(trace["lse"], [[1000 + np.log1p(np.exp(-1))]])
    assert len([note for note in trace.notes if "overflows" in note]) == 1


def test_rule_8_names_are_exact() -> None:
    with pytest.raises(AttnError, match=r"(?s)'W_Q'.*'W_q'"):
        attend([[1.0]], [[1.0]], score=("additive", {"W_Q": [[1.0]]}))
    with pytest.raises(AttnError, match="unknown keyword 'WQ'"):
        self_attention([[1.0]], WQ=[[1.0]])  # type: ignore[call-arg]


# --- sizes that disagree, each by its name --------------------------------------------------------------------------


def given(rules: dict[str, Any] | None = None, **shapes: Any) -> Trace:
    inputs = {name: np.ones(shape) if isinstance(shape, tuple) else shape for name, shape in shapes.items()}
    return run({**inputs, **(rules or {})})


H2 = {"heads": 2}
SIZES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"Q": (2, 3)}, "K is missing"),
    ({}, {"K": (2, 3)}, "Q is missing"),
    ({}, {"Q": (), "K": (2, 3)}, "Q is a single number"),
    ({}, {"scores": ()}, "scores is a single number"),
    ({}, {"scores": (), "V": (3, 1)}, "scores is a single number"),
    ({}, {"Q": (2, 3), "K": (2, 2)}, "Q has 3 features, but K has 2"),
    ({}, {"Q": (2, 3), "K": (4, 3), "V": (5, 3)}, "V is 5 x 3 .*there are 4 keys"),
    ({}, {"scores": (2, 3), "V": (2, 3)}, "V is 2 x 3 .*there are 3 keys"),
    ({}, {"X": (2, 3), "W_Q": (2, 3)}, "W_Q is 2 x 3 .*3 features"),
    ({}, {"X": (2, 3), "W_Q": (3, 3, 3, 3)}, "W_Q is a 3 x 3 x 3 x 3 array, not a matrix"),
    ({}, {"X": (2, 3), "b_K": (2,)}, "b_K has 2 numbers, but K has 3"),
    ({}, {"X": (2, 3), "W_O": (2, 3)}, "W_O is 2 x 3 .*3 features"),
    ({}, {"Q": (2, 4, 3), "K": (3, 4, 3)}, "Q 2 x 4 x 3, K 3 x 4 x 3"),
    ({}, {"Q": (2, 4, 3), "K": (2, 4, 3), "V": (3, 4, 3)}, "leading axes do not match.*V 3 x 4 x 3"),
    ({}, {"scores": (2, 4, 3), "V": (3, 3, 1)}, "scores 2 x 4 x 3, V 3 x 3 x 1"),
    (H2, {"Q": (2, 4, 4), "K": (3, 4, 4)}, "Q 2 x 4 x 4, K 3 x 4 x 4"),
    ({}, {"Q": (2, 3, 4, 2), "K": (4, 3, 4, 2)}, "leading axes do not match"),
    (H2, {"Q": (2, 3), "K": (2, 3)}, "Q has 3 features, which 2 heads cannot share"),
    ({"heads": 4, "kv_heads": 3}, {"Q": (2, 4), "K": (2, 3)}, "4 heads cannot share 3 key heads"),
    ({"heads": 2, "kv_heads": 4}, {"Q": (2, 4), "K": (2, 4)}, "2 heads cannot share 4 key heads"),
    ({"kv_heads": 2}, {"Q": (2, 4), "K": (2, 4)}, "kv_heads is given without heads"),
    ({"heads": 0}, {"Q": (2, 4), "K": (2, 4)}, "heads cannot be 0"),
    (H2, {"Q": (1, 2, 3, 4), "K": (1, 2, 3, 4)}, "heads=2 cannot split it again"),
    (H2, {"scores": (3, 4)}, "the given step is 3 x 4, but there are 2 heads"),
    ({}, {"Q": (1, 2, 3, 4), "K": (1, 4, 3, 4)}, "Q has 2 heads, but there are 4"),
    ({}, {"Q": (1, 4, 3, 4), "K": (1, 3, 3, 4)}, "4 query heads cannot share the 3 heads of K"),
    ({}, {"Q": (1, 3), "K": (2, 3), "past_k": (2, 4)}, "past_k has 4 features, but K has 3"),
    (H2, {"Q": (1, 4), "K": (2, 4), "past_k": (1, 3, 4)}, "past_k has 1 heads, but K has 2"),
    ({}, {"Q": (2, 1, 3), "K": (2, 2, 3), "past_k": (3, 1, 3)}, "K 2 x 2 x 3, past_k 3 x 1 x 3"),
    (
        {},
        {"Q": (1, 3), "K": (2, 3), "V": (2, 3), "past_k": (1, 3), "past_v": (2, 3)},
        "past_k has 1 keys, but past_v has 2",
    ),
    (
        {},
        {"Q": (1, 3), "K": (2, 3), "V": (1, 3), "past_k": (1, 3), "past_v": (2, 3)},
        "V is 1 x 3 .*there are 2 keys",
    ),
    ({}, {"Q": (1, 3), "K": (2, 3), "V": (2, 3), "past_k": (1, 3)}, "past_k is given without past_v"),
    ({"scale": 1.0, "temperature": 1.0}, {"Q": (1, 3), "K": (2, 3)}, "scale and temperature"),
    ({"empty_rows": "mean"}, {"Q": (1, 3), "K": (2, 3)}, "unknown rule for empty rows 'mean'"),
    ({"temperature": 2.0, "d_k": None}, {"scaled": (1, 3), "bias": (2, 2)}, "bias is 2 x 2, but the scores are 1 x 3"),
    ({"mask": {"keep": np.ones((2, 3))}}, {"scores": (3, 3)}, "keep is 2 x 3, but the scores are 3 x 3"),
    ({"mask": {"keep": np.ones((3, 1))}}, {"scores": (3, 3)}, "keep is 3 x 1, but the scores are 3 x 3"),
    (
        {"mask": ["causal:top-left", "window:1,1:bottom-right"]},
        {"scores": (3, 3)},
        "aligned top-left and bottom-right",
    ),
    ({}, {"Q": np.ones((1, 3), dtype=complex), "K": (2, 3)}, "Q is not an array of real numbers, but of complex128"),
    ({}, {"Q": np.full((1, 3), "a"), "K": (2, 3)}, "Q is not an array of real numbers, but of <U1"),
    ({}, {"Q": np.array([[None]]), "K": (2, 3)}, "Q is not an array of real numbers, but of object"),
]


@pytest.mark.parametrize(("rules", "inputs", "message"), SIZES, ids=[message for _, _, message in SIZES])
def test_sizes(rules: dict[str, Any], inputs: dict[str, Any], message: str) -> None:
    with pytest.raises(AttnError, match=message):
        given(rules, **inputs)


def test_a_vector_is_one_token() -> None:
    assert given(Q=(3,), K=(4, 3), past_k=(3,))["scores"].shape == (1, 5)
    assert given(scores=(3,), V=(3, 1))["output"].shape == (1, 1)


def test_a_scale_that_needs_a_width() -> None:
    with pytest.raises(AttnError, match="needs d_k"):
        attend(scores=np.ones((1, 3)), score="scaled-dot")
    assert attend(scores=np.ones((1, 3)), d_k=16).scale == 0.25
    assert "scaled" not in attend(scores=np.ones((1, 3)))


def test_a_mask_that_comes_too_late_is_told() -> None:
    with pytest.raises(AttnError, match="mask has no effect: the problem begins at masked"):
        given({"mask": "causal"}, masked=(2, 2))


def test_inputs_are_not_changed() -> None:
    q, k, v = np.ones((2, 2)), np.ones((3, 2)), V.copy()
    v[1, 1] = np.nan
    before = [x.copy() for x in (q, k, v)]
    attend(q, k, v, mask="causal", bias=np.zeros((2, 3)))
    for x, old in zip((q, k, v), before, strict=True):
        np.testing.assert_array_equal(x, old)
