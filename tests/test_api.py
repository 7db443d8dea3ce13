"""attncli from Python: names are imported late, keywords are the flags' names, all kinds of values are taken."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import get_type_hints

import numpy as np
import pytest

import attncli
from attncli import AttnError, Trace, attend, cross_attention, load, run, self_attention
from attncli.api import Options
from tests.calling import attncli as call

Q = np.array([[1.0, 0.0], [0.0, 1.0]])
K = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
V = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
# Softmax of q . k / sqrt(2), by hand: e^0.7071 = 2.028115, so 2.028115 / (2 * 2.028115 + 1) = 0.401112.
WEIGHTS = [[0.401112, 0.197776, 0.401112], [0.197776, 0.401112, 0.401112]]
OUTPUT = [[3, 4], [3.406673, 4.406673]]


def test_importing_the_package_costs_nothing():
    heavy = ("numpy._core", "yaml", "attncli.pipeline", "rich")
    code = f"import sys, attncli; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
    assert set(attncli.__all__) <= set(dir(attncli))
    with pytest.raises(AttributeError, match="no attribute 'atend'"):
        attncli.atend  # noqa: B018


def test_keywords_are_the_flags_names():
    """What reads, shows and writes files on the command line has no keyword."""
    flags = set(re.findall(r"^  --([a-z-]+)", call("cross", "--help-all").out, re.MULTILINE))
    flags |= set(re.findall(r"^  --([a-z-]+)", call("attend", "--help-all").out, re.MULTILINE))
    only_there = {"help", "help-all", "show", "precision", "rounding", "top", "stats", "format", "force",
                  "save-problem", "dry-run", "quiet", "expect", "rounded-inputs", "stdin-format", "heat", "color",
                  "cmap", "range", "size", "title", "load", "atol", "rtol",
                  "expect-dtype", "stored"}  # fmt: skip
    assert {keyword.replace("_", "-") for keyword in Options.__annotations__} == flags - only_there
    assert get_type_hints(Options)


def test_attend():
    trace = attend(Q, K, V)
    assert isinstance(trace, Trace)
    np.testing.assert_allclose(trace["weights"], WEIGHTS, atol=1e-6)
    np.testing.assert_allclose(trace["output"], OUTPUT, atol=1e-6)
    assert "output" not in attend(Q, K)


@pytest.mark.parametrize("kind", ["lists", "text", "path", "matrix", "integers", "array-like"])
def test_a_matrix_is_given_in_any_form(kind, tmp_path):
    class Tensor:
        def __array__(self, dtype=None, copy=None):
            return Q

    np.save(tmp_path / "q.npy", Q)
    forms = {"lists": Q.tolist(), "text": "[[1, 0], [0, 1]]", "path": tmp_path / "q.npy",
             "matrix": load({"Q": Q, "K": K}).inputs["Q"],
             "integers": Q.astype(np.uint8), "array-like": Tensor()}  # fmt: skip
    np.testing.assert_allclose(attend(forms[kind], K, V)["output"], OUTPUT, atol=1e-6)


def test_only_the_steps_asked_for_are_held():
    trace = attend(Q, K, V, steps=("output",))
    assert trace.names() == ["output"]
    with pytest.raises(AttnError, match="kept: output"):
        trace["weights"]
    with pytest.raises(AttnError, match="no step 'capped'"):
        attend(Q, K, V, steps=("capped",))
    with pytest.raises(AttnError, match="unknown step"):
        attend(Q, K, V, steps=("weigths",))


def test_a_trace_is_gone_through_step_by_step():
    trace = attend(Q, K, V)
    assert list(trace) == ["Q", "K", "V", "scores", "scaled", "weights", "output"]
    assert "lse" in trace
    assert "masked" not in trace


@pytest.mark.parametrize(
    "score",
    [
        {"name": "gaussian", "sigma": 2},
        ("gaussian", {"sigma": 2}),
        lambda q, k: -((q[..., :, None, :] - k[..., None, :, :]) ** 2).sum(-1) / 8,
    ],
    ids=["mapping", "tuple", "function"],
)
def test_a_score_is_a_name_with_parameters_or_a_function(score):
    expected = attend(Q, K, V, score="gaussian", param={"sigma": 2})["output"]
    np.testing.assert_allclose(attend(Q, K, V, score=score)["output"], expected, rtol=1e-13)


def test_masks_in_any_form():
    keep = np.array([[True, False, False], [True, True, False]])
    expected = attend(Q, K, V, mask={"keep": keep})["output"]
    for mask in ("causal", ["causal"], ("keep", keep), [{"keep": keep.astype(int)}, "causal"], ("window", [5, 0]),
                 ("lengths", [1, 2]), ("lengths", np.array([1, 2])), lambda at: at.key <= at.query):  # fmt: skip
        np.testing.assert_allclose(attend(Q, K, V, mask=mask)["output"], expected, rtol=1e-13)


def test_a_normalizer_may_be_a_function():
    np.testing.assert_array_equal(
        attend(Q, K, V, normalizer=lambda scores, visible: np.ones_like(scores))["output"], [[9, 12], [9, 12]]
    )


def test_self_and_cross():
    W = np.array([[2.0, 0.0], [0.0, 2.0]])
    np.testing.assert_array_equal(self_attention(Q, wq=W)["Q"], 2 * Q)
    trace = cross_attention(Q, K, wv=W, score="dot")
    assert trace.attention == "cross"
    np.testing.assert_array_equal(trace["V"], 2 * K)


def test_dtypes():
    narrow = [each.astype(np.float32) for each in (Q, K, V)]
    assert attend(*narrow)["output"].dtype == np.float32
    assert attend(*narrow, dtype="float64")["output"].dtype == np.float64
    assert attend(*narrow, dtype=np.float64)["output"].dtype == np.float64
    assert attend(*(each.astype(np.float16) for each in (Q, K, V)))["output"].dtype == np.float32
    assert attend(narrow[0], K, V)["output"].dtype == np.float64
    assert attend(*(each.astype(np.int8) for each in (Q, K, V)))["output"].dtype == np.float64


def test_bfloat16_is_half_precision():
    import ml_dtypes

    narrow = [each.astype(ml_dtypes.bfloat16) for each in (Q, K, V)]
    assert attend(*narrow)["output"].dtype == np.float32


def test_load_and_run(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text("Q: [[1, 0], [0, 1]]\nK: [[1, 0], [0, 1], [1, 1]]\nV: [[1, 2], [3, 4], [5, 6]]\n")
    problem = load(str(path))
    assert problem.attention == "attend"
    for each in (problem, path, str(path)):
        np.testing.assert_allclose(run(each)["output"], OUTPUT, atol=1e-6)
    assert run(path, steps=("output",)).names() == ["output"]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"sale": 1}, "did you mean 'scale'"),
        ({"weight-layout": "in-out"}, "did you mean 'weight_layout'"),
        ({"W_Q": Q}, "unknown keyword 'W_Q'"),
        ({"scale": float("nan")}, "finite"),
        ({"scale": True}, "must be a number"),
        ({"temperature": [1]}, "must be a number"),
        ({"temperature": np.ones(2)}, "must be a number"),
        ({"score": ("gaussian", {"sigma": None})}, "sigma must be a number"),
        ({"bias": np.ma.masked_array(np.zeros((2, 3)), mask=np.eye(2, 3))}, "is a masked array"),
        ({"heads": 0}, "heads cannot be 0"),
        ({"heads": 1.5}, "whole number"),
        ({"temperature": 0}, "must not be 0"),
        ({"scale": 1, "temperature": 1}, "both given"),
        ({"score": 3}, "score must be"),
        ({"score": {"sigma": 2}}, "score must be"),
        ({"mask": "causa"}, "did you mean 'causal'"),
        ({"mask": 3}, "is not a mask"),
        ({"mask": np.ones((2, 3), bool)}, r'^mask: an array may mean two things\n{"keep": array} \(True = visible\)'),
        ({"mask": [[1, 0, 1], [1, 1, 1]]}, "an array may mean two things"),
        ({"mask": lambda i, j: j <= i}, r"<lambda>\(i, j\) cannot be called as mask\(at\): missing .*'j'\n.*at.key"),
        ({"mask": lambda at: np.ones((5, 5))}, r"gave \(5, 5\), which does not broadcast to \(2, 3\)"),
        ({"mask": lambda at: None}, "gave None, not booleans"),
        ({"normalizer": lambda logits: logits}, r"cannot be called as normalizer\(logits, visible\)"),
        ({"score": lambda q: q}, r"cannot be called as score\(q, k\)"),
        ({"score": lambda q, k: q @ k.mT, "param": {"hint": 2}}, r"score\(q, k, hint=\): got an unexpected .*'hint'"),
        ({"score": lambda q, k, *, t: q @ k.mT * t}, "missing a required.* argument: 't'"),
        ({"mask": ("keep", [[2, 0, 1]])}, "only 0 and 1"),
        ({"bias": [[1, "a"]]}, "not an array of real numbers"),
        ({"bias": [[1], [2, 3]]}, "rows of unequal length"),
        ({"bias": [[1j]]}, "not an array of real numbers"),
        ({"bias": "nowhere.npy"}, "does not exist"),
        ({"both_ways": 1}, "True or False"),
        ({"both_ways": True}, "X and Y"),
        ({"dtype": "float16"}, "unknown dtype"),
        ({"like": "kers"}, "did you mean 'keras'"),
        ({"tokens": ["\udcff", "b"]}, "is not UTF-8"),
        ({"tokens": "a b c"}, "3 labels, but there are 2 queries"),
        ({"bias": [[1], [2]]}, "bias is 2 x 1"),
    ],
    ids=lambda value: value if isinstance(value, str) else ",".join(value),  # what is said, not an address in memory
)
def test_what_makes_no_sense_is_told(options, what):
    with pytest.raises(AttnError, match=what):
        attend(Q, K, V, **options)


def test_all_that_is_wrong_is_told_at_once():
    with pytest.raises(AttnError) as caught:
        attend(Q, K, V, scale="x", heads=0, mask="causl", tokens="a")
    assert [error.place for error in caught.value.errors()] == ["scale", "heads", "mask", "tokens"]


def test_traces_and_problems_are_told_in_a_line(tmp_path):
    columns = attend(Q, K.T, V.T, layout="columns", steps="weights,output")
    assert repr(columns) == "Trace(attend; weights: 3 x 2, output: 2 x 2)"
    assert repr(attend(Q, K)).startswith("Trace(attend; Q: 2 x 2, K: 3 x 2, scores: 2 x 3, ")
    (tmp_path / "p.yaml").write_text("X: [[1, 0], [0, 1]]\nW_Q: [[1], [2]]\nW_K: [[1], [2]]\n")
    assert repr(load(tmp_path / "p.yaml")) == f"Problem(self; X: 2 x 2, W_Q: 2 x 1, W_K: 2 x 1, {tmp_path / 'p.yaml'})"


def test_help_of_attend_lists_every_option():
    told = attend.__doc__
    for keyword in Options.__annotations__:
        assert f" {keyword}" in told, keyword


def test_steps_as_a_text():
    assert attend(Q, K, V, steps="output").names() == ["output"]
    assert "scores" in attend(Q, K, V, steps="all")
    assert attend(Q, K, V, steps="weights, output").names() == ["weights", "output"]
    with pytest.raises(AttnError, match="unknown step 'outptu'"):
        attend(Q, K, V, steps="outptu")


def test_missing_matrices():
    with pytest.raises(AttnError, match="K is missing"):
        attend(Q)
    with pytest.raises(AttnError, match="X is missing"):
        self_attention()
    with pytest.raises(AttnError, match="Y is missing"):
        cross_attention(Q)
