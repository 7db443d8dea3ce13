"""Decoding: each step computes its own row, and the rows together are the attention computed at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli import AttnError
from attncli.cli import call
from attncli.pipeline.scores import SCORES, score
from attncli.problem.build import make_problem
from attncli.problem.convert_object import layer_from_keywords
from attncli.problem.convert_text import layer_from_options
from attncli.problem.decode import Decoder
from attncli.problem.document import read_document
from attncli.problem.problem import Problem
from attncli.problem.reading import Reading
from attncli.problem.stages import read_stages
from attncli.problem.values import Setting

SAMPLES = Path(__file__).parents[2] / "samples"
rng = np.random.default_rng(7)


def problem_of(attention: str = "self", **keywords: Any) -> Problem:
    layer = layer_from_keywords(keywords)
    layer.settings["attention"] = Setting(attention)
    return make_problem(layer)


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return rng.normal(size=shape)


def assert_same_rows(problem: Problem, first: int = 1, last: int | None = None) -> None:
    """The rows are those of the one-shot result to the last bit or two of the largest number."""
    decoder = Decoder(problem)
    steps = list(decoder.steps(first, last))
    one_shot = problem.solve(["weights", "output"])
    together = decoder.together(steps)[""]
    for name in ("weights", "output"):
        whole, rows = one_shot.rows(name), together.rows(name)
        part = whole[..., first - 1 : last, :][..., : rows.shape[-1]]
        room = 4 * np.spacing(np.max(np.abs(part), initial=0))
        np.testing.assert_allclose(rows, part, rtol=0, atol=room, err_msg=name)


CASES = {
    "plain": {"X": normal(6, 4), "mask": "causal"},
    "projections and biases": {
        "X": normal(6, 4), "wq": normal(4, 3), "wk": normal(4, 3), "wv": normal(4, 5), "bq": normal(3), "bk": normal(3),
        "bv": normal(5), "wo": normal(5, 2), "bo": normal(2), "mask": "causal",
    },
    "heads": {"X": normal(5, 8), "heads": 4, "mask": "causal"},
    "grouped heads": {"X": normal(5, 8), "wk": normal(8, 4), "wv": normal(8, 4), "heads": 4, "kv_heads": 2,
                      "mask": "causal"},
    "sequences": {"X": normal(3, 5, 4), "mask": ["causal", ("lengths", [5, 2, 4])]},
    "sequences and heads": {"X": normal(2, 5, 4), "heads": 2, "mask": ["causal", {"keep": np.ones((2, 2, 5, 5))}]},
    "a window": {"X": normal(7, 4), "mask": ("window", [2, 0])},
    "lengths": {"X": normal(5, 4), "mask": ["causal", "lengths:3"]},
    "segments": {"X": normal(5, 4), "mask": ["causal", "segments:0,0,1,1,1"]},
    "a keep table": {"X": normal(4, 4), "mask": {"keep": np.tril(np.ones((4, 4)))}},
    "a query that sees no key": {"X": normal(4, 3), "mask": ["causal", "keys:0,0,1,1"]},
    "a bias": {"X": normal(5, 4), "mask": "causal", "bias": normal(5, 5)},
    "a bias of one row": {"X": normal(5, 4), "mask": "causal", "bias": normal(5)},
    "columns": {"X": normal(4, 6), "layout": "columns", "mask": "causal"},
    "soft cap and temperature": {"X": normal(5, 4), "softcap": 2.0, "temperature": 0.7, "mask": "causal"},
    "a kernel": {"X": normal(5, 2), "score": "gaussian", "mask": "causal"},
    "sparsemax": {"X": normal(5, 2), "normalizer": "sparsemax", "mask": "causal"},
}  # fmt: skip


@pytest.mark.parametrize("keywords", CASES.values(), ids=CASES)
def test_the_rows_together_are_the_one_shot_result(keywords: dict[str, Any]) -> None:
    assert_same_rows(problem_of(**keywords))
    assert_same_rows(problem_of(**keywords), 2, 4)


def test_queries_keys_and_values_of_their_own() -> None:
    assert_same_rows(problem_of("attend", Q=normal(5, 3), K=normal(5, 3), V=normal(5, 2), mask="causal"))


def test_past_keys_stand_in_front() -> None:
    q, k, v = normal(5, 3), normal(5, 3), normal(5, 2)
    now = problem_of("attend", Q=q[2:], K=k[2:], V=v[2:], past_k=k[:2], past_v=v[:2], mask="causal")
    assert_same_rows(now)
    assert next(iter(Decoder(now).steps())).last.keys == ["past 1", "past 2", "k1"]


def test_more_keys_than_queries_aligned_at_the_last() -> None:
    keywords = {"Q": normal(2, 3), "K": normal(5, 3), "V": normal(5, 2), "mask": "causal:bottom-right"}
    assert_same_rows(problem_of("attend", **keywords))
    assert [len(step.last.keys) for step in Decoder(problem_of("attend", **keywords)).steps()] == [4, 5]


def test_keys_of_cross_attention_are_there_from_the_beginning() -> None:
    assert_same_rows(problem_of("cross", X=normal(3, 4), Y=normal(5, 4), wk=normal(4, 4), wv=normal(4, 2)))


def test_the_pronoun_head_under_a_causal_mask() -> None:
    """15 tokens of a trained encoder's head, decoded; expected values from NumPy, without attncli."""
    folder = SAMPLES / "pronoun"
    options = layer_from_options({"mask": ["causal"]}, Reading())
    problem = read_document(folder / "problem.yaml").problem(options)
    assert_same_rows(problem)
    arrays = {name: np.load(folder / f"{name}.npy").astype(float) for name in ("X", "W_Q", "W_K", "W_V")}
    q, k, v = (arrays["X"] @ arrays[f"W_{x}"].T + np.load(folder / f"b_{x}.npy").astype(float) for x in "QKV")
    scores = q @ k.T / np.sqrt(k.shape[1])
    e = np.exp(scores - scores.max()) * np.tril(np.ones(scores.shape))
    expected = e / e.sum(axis=1, keepdims=True) @ v
    rows = list(Decoder(problem).steps())
    assert len(rows) == 15
    np.testing.assert_allclose([row.last.output for row in rows], expected, atol=1e-12)


@pytest.fixture
def counted() -> Iterator[list[tuple[int, int]]]:
    """A score that counts how many queries and keys it is asked for, whenever it is."""
    asked: list[tuple[int, int]] = []

    @score("counting", formula="q . k", kernel=None)
    def counting(q: Any, k: Any) -> Any:
        """As dot."""
        asked.append((q.shape[-2], k.shape[-2]))
        return q @ k.mT

    yield asked
    SCORES.remove("counting")


def test_each_step_computes_its_own_row_only(counted: list[tuple[int, int]]) -> None:
    decoder = Decoder(problem_of(X=normal(5, 4), score="counting", mask="causal"))
    counted.clear()
    list(decoder.steps())
    assert counted == [(1, 1), (1, 2), (1, 3), (1, 4), (1, 5)]
    counted.clear()
    list(decoder.steps(3, 4))
    assert counted == [(1, 3), (1, 4)]


def test_notes_number_the_queries_of_the_whole() -> None:
    x = np.arange(8.0).reshape(4, 2)
    x[1, 1] = np.nan
    steps = [step.last.notes for step in Decoder(problem_of(X=x, mask="causal")).steps()]
    assert steps[0] == []
    assert [f"query {i}, key 2" in " ".join(notes) for i, notes in enumerate(steps, 1)] == [False, True, True, True]
    assert not any("query 1" in note for notes in steps for note in notes)


def test_keys_are_projected_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each token one row goes through W_K, whether keys come one by one or are all there."""
    import attncli.pipeline.projections as module

    rows: list[int] = []
    original = module.project

    def project(name: str, x: Any, weight: Any, bias: Any) -> Any:
        rows.append(x.shape[-2]) if name == "K" and weight is not None and isinstance(x, np.ndarray) else None
        return original(name, x, weight, bias)

    monkeypatch.setattr(module, "project", project)
    list(Decoder(problem_of(X=normal(4, 3), wk=normal(3, 3), mask="causal")).steps())
    assert rows == [1, 1, 1, 1]
    rows.clear()
    list(Decoder(problem_of("cross", X=normal(4, 3), Y=normal(6, 3), wk=normal(3, 3))).steps())
    assert rows == [6]


@pytest.mark.parametrize(("keywords", "told"), [
    ({"X": np.eye(3)}, "the problem is not causal: query 1 sees keys that do not exist at step 1\n--mask causal"),
    ({"X": np.eye(3), "mask": "window:1,1"}, "query 1 sees keys"),
    ({"X": np.eye(3), "mask": {"keep": np.array([[1, 0, 0], [1, 1, 1], [1, 1, 1]])}}, "query 2 sees keys"),
    ({"scores": np.eye(3)}, "begins at scores"),
])  # fmt: skip
def test_what_cannot_be_decoded(keywords: dict[str, Any], told: str) -> None:
    with pytest.raises(AttnError) as caught:
        Decoder(problem_of("attend" if "scores" in keywords else "self", **keywords))
    assert told in str(caught.value)


def test_the_sample_of_a_transformer_step_by_step() -> None:
    """System 7: the decoder's own attention and the cross-attention beside it, row for row those of the whole file."""
    stages = read_stages(read_document(SAMPLES / "transformer" / "problem.yaml"))
    decoder = Decoder(stages)
    steps = list(decoder.steps())
    assert [(step.step, step.last.query, [*step.rows]) for step in steps] == [
        (number, query, ["decoder", "cross"]) for number, query in enumerate(["<s>", "I", "am", "good"], 1)
    ]
    assert [step.rows["decoder"].keys for step in steps][1:3] == [["<s>", "I"], ["<s>", "I", "am"]]
    assert steps[0].last.keys == ["je", "vais", "bien"]
    together = decoder.together(steps)
    for solved in stages.solve():
        if solved.name in together:
            for name in ("weights", "output"):
                np.testing.assert_allclose(together[solved.name][name], solved.trace[name], rtol=4e-16, atol=4e-16)


def test_each_step_is_told_as_it_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line of step 1 is there before step 2 is computed."""
    import attncli.problem.cache as module

    computed = 0
    original: Callable[..., Any] = module.compute

    def compute(*given: Any) -> Any:
        nonlocal computed
        computed += 1
        return original(*given)

    monkeypatch.setattr(module, "compute", compute)
    for number, _ in enumerate(Decoder(problem_of(X=np.eye(3), mask="causal")).steps(), 1):
        assert computed == number


def test_lines_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    path = SAMPLES / "07-causal-self-attention.yaml"
    assert call(["decode", str(path), "--format", "json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [list(line) for line in lines] == [["step", "query", "keys", "weights", "output"]] * 4
    assert lines[1]["keys"] == ["<s>", "I"]
    np.testing.assert_allclose(lines[1]["weights"], [0.3302, 0.6698], atol=5e-5)
    np.testing.assert_allclose([line["output"] for line in lines], read_document(path).problem().solve()["output"])
    assert call(["decode", str(SAMPLES / "transformer" / "problem.yaml"), "--format", "json", "--steps", "2:3"]) == 0
    staged = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["step"] for line in staged] == [2, 3]
    assert staged[0]["output"] == staged[0]["stages"]["cross"]["output"]
    assert staged[0]["stages"]["decoder"]["keys"] == ["<s>", "I"]


def test_text_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(SAMPLES / "07-causal-self-attention.yaml")
    assert call(["decode", path, "--steps", "2"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "step 2: I", "  keys        <s>       I", "  weights  0.3302  0.6698", "  output   0.3302  0.6698",
    ]  # fmt: skip
    assert call(["decode", path, "-o", str(tmp_path / "o.npy"), "-o", f"weights={tmp_path / 'w.csv'}", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    np.testing.assert_allclose(np.load(tmp_path / "o.npy"), read_document(path).problem().solve()["output"])
    assert (tmp_path / "w.csv").read_text().startswith(",<s>,I,am,good\n<s>,1.0,0.0,0.0,0.0\n")


@pytest.mark.parametrize("format", ["table", "plain"])
def test_text_holds_only_what_is_asked_for(format: str, capsys: pytest.CaptureFixture[str]) -> None:
    def told(sample: str, *arguments: str) -> list[str]:
        assert call(["decode", str(SAMPLES / sample), "--steps", "2", "--format", format, *arguments]) == 0
        return [line.split()[0] for line in capsys.readouterr().out.splitlines()]

    causal, staged = "07-causal-self-attention.yaml", "transformer/problem.yaml"
    assert told(causal, "--show", "weights") == ["step", "keys", "weights"]
    assert told(causal, "--show", "output") == ["step", "keys", "output"]
    assert told(causal, "--show", "all") == ["step", "keys", "weights", "output"]
    assert told(staged, "--show", "output") == ["step", "cross", "keys", "output"]
    both = told(staged, "--show", "decoder.weights,cross.output")
    assert both == ["step", "decoder", "keys", "weights", "cross", "keys", "output"]


@pytest.mark.parametrize(("show", "odd"), [("scores", "scores"), ("weights,output[3]", "output[3]")])
def test_text_holds_weights_and_outputs_only(show: str, odd: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["decode", str(SAMPLES / "07-causal-self-attention.yaml"), "--show", show]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("attncli: --show: ")
    assert odd in err


@pytest.mark.parametrize("text", ["0:2", "3:2", "5", "1:5", "a:b", "", ":", "2:3:4", "-1:2"])
def test_steps_that_do_not_exist(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    status = call(["decode", str(SAMPLES / "07-causal-self-attention.yaml"), f"--steps={text}"])
    out, err = capsys.readouterr()
    if text == ":":
        assert status == 0
        return
    assert (status, out) == (2, "")
    assert err.startswith("attncli: --steps: ")
