"""Columns are undone on entry and redone on exit; labels come from tokens, from files, or are counted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from attncli import attend, cross_attention, load, self_attention

SMALL = st.integers(-4, 4).map(float)
SIZES = st.integers(1, 4)


@st.composite
def crossings(draw):
    n, m, d_x, d_y, d_k, d_v = (draw(SIZES) for _ in range(6))
    shapes = {"X": (n, d_x), "Y": (m, d_y), "wq": (d_x, d_k), "wk": (d_y, d_k), "wv": (d_y, d_v), "bias": (n, m),
              "past_k": (2, d_k), "past_v": (2, d_v), "bk": (d_k,)}  # fmt: skip
    shapes["bias"] = (n, m + 2)
    return {name: draw(arrays(float, shape, elements=SMALL)) for name, shape in shapes.items()}


@settings(max_examples=60)
@given(crossings(), st.booleans())
def test_columns_give_the_transposes_of_rows(inputs, one_query_masked):
    n, m = inputs["bias"].shape
    keep = np.ones((n, m))
    keep[0, 0] = not one_query_masked
    rows = cross_attention(**inputs, mask={"keep": keep})
    turned = {name: array.T for name, array in inputs.items()}
    columns = cross_attention(**turned, mask={"keep": keep.T}, layout="columns")
    assert rows.names() == columns.names()
    for name in rows.names():
        np.testing.assert_allclose(columns[name], rows[name].T, rtol=1e-12, atol=1e-12, err_msg=name)


@settings(max_examples=30)
@given(crossings())
def test_out_in_weights_are_the_transposed_storage(inputs):
    stored = {name: array.T if name in ("wq", "wk", "wv") else array for name, array in inputs.items()}
    np.testing.assert_array_equal(
        cross_attention(**inputs)["output"], cross_attention(**stored, weight_layout="out-in")["output"]
    )


def test_columns_keep_batch_axes_in_front_and_score_parameters_as_they_are():
    rng = np.random.default_rng(1)
    Q, K = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 5, 6))
    W = rng.normal(size=(4, 6))
    rows = attend(Q, K, K, score={"name": "general", "W": W})
    columns = attend(Q.mT, K.mT, K.mT, score={"name": "general", "W": W}, layout="columns")
    np.testing.assert_allclose(columns["output"], rows["output"].mT, rtol=1e-13)


def test_a_vector_is_one_token_in_both_layouts():
    for layout in ("rows", "columns"):
        trace = attend([1.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], layout=layout)
        assert trace.rows("weights").shape == (1, 2)
    assert attend(scores=[1.0, 2.0], layout="columns")["weights"].shape == (2, 1)


def test_biases_of_projections_lie_either_way():
    for bias in ([1, 2], [[1, 2]], [[1], [2]]):
        np.testing.assert_array_equal(self_attention([[1, 0]], bq=bias)["Q"], [[2, 2]])


def test_lengths_keep_their_shape_in_columns():
    K = np.ones((2, 3))
    trace = attend(np.ones((2, 2)), K, mask="lengths:1,3", layout="columns")
    np.testing.assert_allclose(trace["weights"], [[1, 1 / 3], [0, 1 / 3], [0, 1 / 3]])


def labels(trace):
    return trace.query_labels, trace.key_labels, trace.labelled


def test_labels_are_counted_where_nobody_gave_any():
    assert labels(attend([[1]], [[1], [2]])) == (["q1"], ["k1", "k2"], False)


def test_tokens_label_both_sides_of_self_attention_only():
    X = [[1.0, 0.0], [0.0, 1.0]]
    assert labels(self_attention(X, tokens="it is")) == (["it", "is"], ["it", "is"], True)
    assert labels(cross_attention(X, X, tokens="it is")) == (["it", "is"], ["k1", "k2"], True)
    assert labels(cross_attention(X, X, tokens="it is", key_tokens=["a", "b"]))[1] == ["a", "b"]


def test_past_keys_are_counted_in_front():
    past = {"past_k": [[1.0, 1.0]] * 2, "past_v": [[1.0, 1.0]] * 2}
    assert self_attention([[1.0, 0.0]], tokens="it", **past).key_labels == ["past 1", "past 2", "it"]
    assert self_attention([[1.0, 0.0]], **past).key_labels == ["past 1", "past 2", "k1"]
    assert self_attention([[1.0, 0.0]], key_tokens="a b c", **past).key_labels == ["a", "b", "c"]


def test_labels_of_csv_files(tmp_path):
    (tmp_path / "x.csv").write_text(",f1,f2\nthe,1,0\ncat,0,1\n")
    (tmp_path / "y.csv").write_text(",f1,f2\nle,1,0\nchat,0,1\nnoir,1,1\n")
    (tmp_path / "scores.csv").write_text(",le,chat\nthe,1,0\ncat,0,1\n")
    both = labels(cross_attention(tmp_path / "x.csv", tmp_path / "y.csv"))[:2]
    assert both == (["the", "cat"], ["le", "chat", "noir"])
    assert labels(self_attention(tmp_path / "x.csv"))[:2] == (["the", "cat"], ["the", "cat"])
    assert labels(attend(tmp_path / "x.csv", [[1, 0]])) == (["the", "cat"], ["k1"], True)
    assert labels(attend(scores=tmp_path / "scores.csv"))[:2] == (["the", "cat"], ["le", "chat"])
    assert labels(attend(scores=tmp_path / "scores.csv", layout="columns"))[:2] == (["le", "chat"], ["the", "cat"])
    assert labels(self_attention(tmp_path / "x.csv", layout="columns"))[:2] == (["f1", "f2"], ["f1", "f2"])
    assert labels(self_attention(tmp_path / "x.csv", tokens="a b"))[0] == ["a", "b"]


def test_tokens_of_a_file_one_a_line(tmp_path):
    (tmp_path / "tokens.txt").write_bytes("\ufeff[CLS]\r\nNew York\r\n\r\n".encode())
    (tmp_path / "p.yaml").write_text("X: [[1], [2]]\ntokens: {file: tokens.txt}\n")
    assert load(tmp_path / "p.yaml").solve().query_labels == ["[CLS]", "New York"]
    assert self_attention([[1], [2]], tokens=f"@{tmp_path / 'tokens.txt'}").key_labels == ["[CLS]", "New York"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [("[the, cat]", ["the", "cat"]), ("the cat", ["the", "cat"]), ("a,b", ["a", "b"]), ("[1, 1.50]", ["1", "1.50"]),
     ("[y, null]", ["y", "null"]), ("['[CLS]', '']", ["[CLS]", ""]), ("[true, ~]", ["true", "~"])],
)  # fmt: skip
def test_tokens_stand_as_written(tmp_path, written, meant):
    (tmp_path / "p.yaml").write_text(f"X: [[1], [2]]\ntokens: {written}\n")
    assert load(tmp_path / "p.yaml").tokens == meant


def test_attention_is_told_by_the_matrices(tmp_path):
    for text, kind in (
        ("X: [[1]]", "self"),
        ("X: [[1]]\nY: [[1]]", "cross"),
        ("Q: [[1]]\nK: [[1]]", "attend"),
        ("weights: [[1]]", "attend"),
        ("Q: [[1]]\nY: [[1]]", "cross"),
        ("weights: [[1]]\nX: [[1]]", "self"),
    ):
        (tmp_path / "p.yaml").write_text(text)
        assert load(tmp_path / "p.yaml").solve().attention == kind, text


def test_the_forms_of_a_mask(tmp_path):
    np.save(tmp_path / "keep.npy", np.array([[True, True, False], [True, True, True]]))
    (tmp_path / "lengths.csv").write_text("1,2\n")
    for written, text in (
        ("causal", "causal:top-left"),
        ("{causal: bottom-right}", "causal:bottom-right"),
        ("{window: [2, 0]}", "window:2,0:top-left"),
        ('{window: "2,0:bottom-right"}', "window:2,0:bottom-right"),
        ('{window: ["*", 0]}', "window:*,0:top-left"),
        ("{lengths: 2}", "lengths:2"),
        ("{lengths: [1, 2]}", "lengths:1,2"),
        ("{keys: [1, 1, 0]}", "keys:1,1,0"),
        ("{prefix: 2}", "prefix:2:top-left"),
        ("segments:0,1/0,0,1", "segments:0,1/0,0,1"),
        ("{segments: [[0, 1], [0, 0, 1]]}", "segments:0,1/0,0,1"),
        ("{keep: [[1, 0, 1], [1, 1, 1]]}", "keep"),
        ("{keep: [[true, false, true]]}", "keep"),
        ("{keep: keep.npy}", "keep"),
        ("{block: {file: keep.npy}}", "block"),
    ):
        (tmp_path / "p.yaml").write_text(f"Q: [[1], [2]]\nK: [[1], [2], [3]]\nmask: {written}\n")
        assert load(tmp_path / "p.yaml").solve().mask == [text], written
    (tmp_path / "p.yaml").write_text("Q: [[1], [2]]\nK: [[1], [2], [3]]\nmask: {lengths: lengths.csv}\n")
    np.testing.assert_array_equal(load(tmp_path / "p.yaml").solve()["weights"][0], [1, 0, 0])
