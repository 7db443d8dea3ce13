"""--save-problem: a saved problem, run again, gives the same numbers to the last bit, and the same labels and rules."""

from __future__ import annotations

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from attncli import AttnError, load
from attncli.problem.document import read_document
from attncli.problem.save import saved_problem

NUMBERS = st.floats(-1e3, 1e3, allow_subnormal=True)


def again(problem, path):
    """The problem saved to path and read back."""
    for file, data in saved_problem(problem, path).items():
        file.write_bytes(data)
    return load(path)


def same(first, second):
    one, two = first.solve(), second.solve()
    assert one.names() == two.names()
    for name in one.names():
        assert one[name].dtype == two[name].dtype
        np.testing.assert_array_equal(one[name], two[name], err_msg=name)
    for fact in ("attention", "layout", "scale", "mask", "normalizer", "query_labels", "key_labels", "labelled"):
        assert getattr(one, fact) == getattr(two, fact), fact
    assert one.score["name"] == two.score["name"]


@st.composite
def problems(draw):
    n, m, d, d_v = (draw(st.integers(1, 3)) for _ in range(4))
    dtype = draw(st.sampled_from(["float64", "float32", "float16", "int8"]))

    def matrix(*shape):
        numbers = st.integers(-9, 9) if dtype == "int8" else NUMBERS
        return draw(arrays(float, shape, elements=numbers)).astype(dtype)

    keywords = {"Q": matrix(n, d), "K": matrix(m, d), "V": matrix(m, d_v)}
    if draw(st.booleans()):
        keywords["bias"] = matrix(n, m)
    keywords["mask"] = draw(
        st.lists(
            st.one_of(
                st.sampled_from(["causal", "causal:bottom-right", "window:1,*", ("lengths", [m]), ("dilated", 2)]),
                arrays(bool, (n, m)).map(lambda keep: {"keep": keep}),
            ),
            max_size=2,
            unique_by=str,
        )
    )
    keywords["score"] = draw(
        st.one_of(
            st.sampled_from(["dot", "scaled-dot", "cosine", ("gaussian", {"sigma": 0.3})]),
            arrays(float, (d, d), elements=NUMBERS).map(lambda W: {"name": "general", "W": W}),
        )
    )
    optional = {
        "scale": NUMBERS, "softcap": st.floats(0.1, 50), "mask_value": st.floats(-1e9, 0),
        "normalizer": st.sampled_from(["softmax", "sum", "hardmax", "sparsemax", "sigmoid", "none"]),
        "empty_rows": st.sampled_from(["zero", "nan", "uniform"]), "dtype": st.sampled_from(["float64", "float32"]),
        "like": st.sampled_from(["jax", "flash", "keras"]), "layout": st.just("rows"),
        "tokens": st.lists(st.text(max_size=6), min_size=n, max_size=n),
    }  # fmt: skip
    for name, values in optional.items():
        if draw(st.booleans()):
            keywords[name] = draw(values)
    return keywords


@settings(max_examples=120)
@given(keywords=problems(), suffix=st.sampled_from([".yaml", ".json"]))
def test_a_saved_problem_gives_the_same_numbers(keywords, suffix, tmp_path_factory):
    try:
        problem = load(keywords)
        problem.solve()
    except AttnError:
        return  # two masks aligned differently, and the like
    same(problem, again(problem, tmp_path_factory.mktemp("saved") / f"p{suffix}"))


def test_every_sort_of_problem(tmp_path):
    texts = [
        "layout: columns\nX: [[1, 1/3], [0.50, sqrt(2)/2]]\nW_Q: [[1, 2], [3, 4]]\ntokens: ['null', '- a']\n",
        "X: [[1, 0, 1, 2]]\nheads: 2\nkv_heads: 1\nW_K: &w [[1, 0], [0, 1], [1, 1], [0, 0]]\nW_V: *w\n",
        "scores: [[112, 96]]\nd_k: 64\nV: [[1], [-inf]]\n",
        "weights: [[0.5, 0.5]]\nV: [[1], [nan]]\nlike: torch-mha\n",
        "masked: [[1, -inf]]\nempty_rows: nan\n",
        "X: [[1, 0]]\npast_k: [[1, 1]]\npast_v: [[0, 1]]\nmask: causal\ntokens: it\n",
        "Q: [[0], [9]]\nK: [[0], [1]]\nscore: {name: additive, w_v: [2], W_k: [[3]]}\nb_O: [1]\nV: [[1], [2]]\n",
        "X: [[1]]\nY: [[2], [3]]\nboth_ways: true\nscore: dot\n",
        "Q: [[1], [2]]\nK: [[1], [2]]\nmask: [{lengths: [[1, 2]]}, 'segments:0,1/0,1', {keep: {identity: 2}}]\n",
        "Q: [[1]]\nK: [[1]]\nlike: flash\nshow: [weights, scores]\nprecision: 2\ntitle: 'yes: no #1'\n",
    ]  # fmt: skip
    for number, text in enumerate(texts):
        path = tmp_path / f"{number}.yaml"
        path.write_text(text)
        first = load(path)
        for suffix in (".yaml", ".json"):
            second = again(first, tmp_path / f"{number}-saved{suffix}")
            same(first, second)
            assert (first.title, first.options) == (second.title, second.options)


def test_large_and_narrow_matrices_go_into_an_archive(tmp_path):
    Q = np.arange(20_000, dtype=float).reshape(200, 100) / 7
    problem = load(
        {"Q": Q, "K": np.eye(100, dtype=np.float32), "V": np.zeros((100, 0)), "mask": {"keep": np.ones((200, 100))}}
    )
    files = saved_problem(problem, tmp_path / "p.yaml")
    assert set(files) == {tmp_path / "p.yaml", tmp_path / "p.npz"}
    same(problem, again(problem, tmp_path / "p.yaml"))
    with np.load(tmp_path / "p.npz") as archive:
        assert archive["K"].dtype == np.float32
        assert set(archive.files) == {"Q", "K", "V", "keep"}


def test_labels_of_files_are_saved(tmp_path):
    (tmp_path / "x.csv").write_text(",f\nthe,1\ncat,2\n")
    problem = load({"Q": tmp_path / "x.csv", "K": [[1]]})
    assert again(problem, tmp_path / "p.yaml").tokens == ["the", "cat"]


def test_hand_numbers_keep_their_places(tmp_path):
    expect = "{weights: {values: [['0.50']], decimals: 2}, scores: [[~]], scaled: [[1/3]]}"
    (tmp_path / "p.yaml").write_text(f"Q: [[1, 0.50]]\nK: [[1, 0]]\nexpect: {expect}\n")
    saved = again(load(tmp_path / "p.yaml"), tmp_path / "q.yaml")
    assert saved.expect["weights"].matrix.spelling() == [["0.50"]]
    assert saved.expect["weights"].decimals == 2
    assert saved.expect["scores"].matrix.spelling() == [[None]]
    assert saved.expect["scaled"].matrix.spelling() == [["1/3"]]
    assert saved.inputs["Q"].spelling() == [["1", "0.50"]]


def test_it_is_yaml_for_any_reader(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text("Q: [[1, 2.5]]\nK: [[1e-3, -inf]]\ntokens: [yes]\nmask: {keep: [[true]]}\n")
    text = saved_problem(load(path), tmp_path / "q.yaml")[tmp_path / "q.yaml"].decode()
    loaded = yaml.safe_load(text)
    assert loaded["Q"] == [[1, 2.5]]
    assert loaded["tokens"] == ["yes"]
    assert loaded["mask"] == [{"keep": [[True]]}]


def test_functions_cannot_be_saved(tmp_path):
    functions = {"score": lambda q, k: q @ k.mT, "mask": lambda at: at.key == 0, "normalizer": lambda s, v: s}
    for keywords in ({name: function} for name, function in functions.items()):
        problem = load({"Q": [[1]], "K": [[1]], **keywords})
        with pytest.raises(AttnError, match="a Python function cannot be written"):
            saved_problem(problem, tmp_path / "p.yaml")


def test_references_to_stages_are_saved(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("stages:\n- {name: a, X: [[1]]}\n- {name: b, X: [[1]], Y: {stage: a, step: output}}\n")
    second = read_document(path).problems()[1]
    text = saved_problem(second, tmp_path / "b.yaml")[tmp_path / "b.yaml"].decode()
    assert yaml.safe_load(text)["Y"] == {"stage": "a", "step": "output"}
