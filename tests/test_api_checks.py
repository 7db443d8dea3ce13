"""attncli from Python: checking, explaining and comparing, of files, dicts and arrays."""

from __future__ import annotations

import json
import pickle
import re

import numpy as np
import pytest

import attncli
from attncli import AttnError, Trace, assert_close, attend, check, diff, explain, load, run

# q . k = 1, 0, 1; e^0.7071 = 2.0281, so the weights are 0.4011, 0.1978, 0.4011. The hand forgot the root of d_k = 2:
# e = 2.7183, 2.7183 / 6.4366 = 0.4223, 1 / 6.4366 = 0.1554.
PROBLEM = {
    "Q": [[1, 0]],
    "K": [[1, 0], [0, 1], [1, 1]],
    "V": [[1, 2], [3, 4], [5, 6]],
    "key_tokens": ["the", "cat", "sat"],
    "expect": {"scores": [[1, 0, 1]], "weights": [[0.4223, 0.1554, 0.4223]]},
}
OUTPUT = [[3.0, 4.0]]  # both ends weigh the same, so it is the middle


def with_expected(**steps):
    return {**PROBLEM, "expect": steps}


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text(json.dumps(PROBLEM))
    return file


def test_the_names_of_the_package_are_what_it_offers():
    for name in ("attend", "self_attention", "cross_attention", "load", "run", "check", "explain", "diff",
                 "assert_close"):  # fmt: skip
        assert callable(getattr(attncli, name)), name
    assert set(dir(attncli)) == set(attncli.__all__)


def test_a_file_a_dict_and_a_loaded_problem_are_marked_alike(path):
    results = [check(path), check(str(path)), check(PROBLEM), check(load(path)), check(load(PROBLEM))]
    for result in results:
        assert result.verdict == "wrong"
        assert [(step.step, step.verdict) for step in result.steps] == [("scores", "agrees"), ("weights", "wrong")]
        step, cell = result.first_wrong
        assert (step.step, cell.at, cell.column, cell.hand) == ("weights", (1, 1), "the", 0.4223)
        assert cell.exact == pytest.approx(0.401112, abs=1e-6)
        assert [each.mistake for each in result.diagnosis] == ["no-scale"]
        assert result.to_dict() | {"file": None} == results[0].to_dict() | {"file": None}
    assert results[0].file == str(path)
    assert results[2].file is None


def test_right_numbers_agree():
    result = check(with_expected(weights=[[0.4011, 0.1978, 0.4011]], output=OUTPUT))
    assert (result.verdict, result.first_wrong, result.diagnosis) == ("agrees", None, [])


def test_several_are_a_list_and_one_that_cannot_be_read_is_told(path, tmp_path):
    right = with_expected(scores=[[1, 0, 1]])
    for results in (check(path, right, tmp_path / "none.yaml"), check([path, right, tmp_path / "none.yaml"])):
        assert [result.verdict for result in results] == ["wrong", "agrees", "unreadable"]
        assert "does not exist" in results[2].reason
    assert [result.verdict for result in check([path])] == ["wrong"]
    with pytest.raises(AttnError, match="does not exist"):
        check(tmp_path / "none.yaml")


def test_what_a_file_holds_is_marked_one_by_one(path):
    shared = {key: value for key, value in PROBLEM.items() if key != "expect"}
    members = [{"expect": {"scores": [[1, 0, 1]]}}, {"expect": {"scores": [[1, 0, 2]]}}]
    assert [result.verdict for result in check({**shared, "problems": members})] == ["agrees", "wrong"]
    stages = [{"name": "first", **PROBLEM}, {"name": "second", "X": {"stage": "first", "step": "output"}}]
    result = check({"stages": stages})
    assert result.first_wrong[0].step == "weights"


def test_numbers_mean_in_a_dict_what_they_mean_in_a_file():
    keep = np.array([[True, True, False]])
    trace = run({"Q": [["1/2", "sqrt(2)/2"]], "K": {"identity": 2}, "score": "dot"})
    np.testing.assert_allclose(trace.scores, [[0.5, 0.7071067811865476]], rtol=1e-15)
    for mask in ({"keep": keep}, {"keep": keep.tolist()}, lambda at: at.key < 2, "keys:1,1,0", ("keys", [1, 1, 0]),
                 [{"keys": [1, 1, 0]}]):  # fmt: skip
        assert run({**PROBLEM, "mask": mask}).weights[0, 2] == 0
    assert run({"X": [[1], [2]], "tokens": ["👨", "a\nb"]}).query_labels == ["👨", "a\nb"]
    assert run({"Q": np.ones((1, 2), np.float32), "K": np.ones((2, 2), np.float32)}).weights.dtype == np.float32


def test_a_dict_says_where_it_is_wrong():
    with pytest.raises(AttnError) as caught:
        run({"Q": [[1, "x"]], "K": np.ones((2, 2)), "scale": float("nan"), "W_q": [[1]]})
    told = {str(error.place) for error in caught.value.errors()}
    assert told == {"Q", "scale", "W_q"}
    with pytest.raises(AttnError, match=r"^Q has 2 features, but K has 3"):
        run({"Q": [[1, 0]], "K": [[1, 0, 0]]})


def test_an_array_is_marked_by_its_type():
    output = np.array(OUTPUT, np.float32) * np.float32(1 + 1e-7)
    assert check(with_expected(output=output)).verdict == "agrees"
    assert check(with_expected(output=output.astype(np.float64))).verdict == "wrong"


def test_explain():
    told = explain(PROBLEM, query=1, key="cat")
    assert str(told) == told.text()
    assert "  scaled[q1, cat] = 0 / sqrt(2) = 0" in str(told).splitlines()
    assert str(told).splitlines()[-1] == "  weights[q1, cat] = 1 / 5.0562 = 0.1978   (written: 0.1554)"
    assert told.text(precision=2).splitlines()[-1].startswith("  weights[q1, cat] = 1 / 5.06 = 0.20")
    assert told.text(round_steps=1).splitlines()[-1].startswith("  weights[q1, cat] = 1.0 / 5.0 = 0.2")
    assert r"\begin{align*}" in told.text("latex")
    assert explain(PROBLEM, query="q1").text().splitlines()[-1].startswith("  output[q1, 2] = ")
    with pytest.raises(AttnError, match="there is no key 'dog'"):
        explain(PROBLEM, 1, "dog")


def test_diff(tmp_path):
    a = np.array([[1.0, 2.0]])
    np.save(tmp_path / "a.npy", a)
    assert diff(tmp_path / "a.npy", [[1, 2]]).within
    found = diff(a, a + 1e-9, atol=1e-8)
    assert (found.within, found.count, found.equal) == (True, 2, 0)
    assert not diff(a, a + 1e-9).within
    assert not diff(a, a.T).comparable


def test_assert_close(path):
    right = np.array(OUTPUT)
    trace = attend(PROBLEM["Q"], PROBLEM["K"], PROBLEM["V"])
    for problem in (path, PROBLEM, load(path), trace):
        assert_close(right, problem)
        assert_close(trace.weights, problem, step="weights")
        with pytest.raises(AssertionError, match="wrong: "):
            assert_close(right + 0.001, problem)
    unscaled = attend(PROBLEM["Q"], PROBLEM["K"], PROBLEM["V"], scale=1).weights
    with pytest.raises(AssertionError, match="no-scale"):
        assert_close(unscaled, trace, step="weights")
    with pytest.raises(AttnError, match="give the problem itself"):
        assert_close(right, pickle.loads(pickle.dumps(trace)))


def test_steps_are_attributes():
    trace = attend(PROBLEM["Q"], PROBLEM["K"], PROBLEM["V"])
    for name in trace:
        np.testing.assert_array_equal(getattr(trace, name), trace[name])
    assert trace.exp.shape == (1, 3)
    with pytest.raises(AttributeError, match="no step 'capped'"):
        trace.capped  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'outptu'"):
        trace.outptu  # noqa: B018
    assert {"output", "weights", "lse", "notes", "names"} <= set(dir(trace))
    assert not [name for name in dir(trace) if re.match(r"_|lazy$|kept$|steps$|capped$", name)]
    assert isinstance(pickle.loads(pickle.dumps(trace)), Trace)
