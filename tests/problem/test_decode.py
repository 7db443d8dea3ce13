"""Decoding: each step computes its own row, and the rows together are the attention computed at once."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli import run
from tests.calling import ROOT, Result
from tests.files import problem_file
from tests.inside import watched_score

SAMPLES = ROOT / "samples"
Cli = Callable[..., Result]
rng = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return rng.normal(size=shape)


@pytest.fixture
def decoded(cli: Cli, tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """The lines of `attncli decode --format json`, of a problem as a dict or in a file."""

    def invoke(problem: Any, *options: object) -> list[dict[str, Any]]:
        path = problem if isinstance(problem, Path) else problem_file(tmp_path, problem)
        done = cli("decode", path, "--format", "json", *options)
        assert done.status == 0, done.err
        return [json.loads(line) for line in done.out.splitlines()]

    return invoke


Decoded = Callable[..., list[dict[str, Any]]]


def assert_same_rows(decoded: Decoded, problem: dict[str, Any], first: int = 1, last: int | None = None) -> None:
    """The rows are those of the one-shot result to the last bit or two of the largest number."""
    whole = run(problem)
    turned = problem.get("layout") == "columns"
    arrays = {name: np.swapaxes(whole[name], -1, -2) if turned else whole[name] for name in ("weights", "output")}
    lines = decoded(problem, *(["--steps", f"{first}:{last}"] if last else []))
    assert [line["step"] for line in lines] == list(range(first, (last or arrays["weights"].shape[-2]) + 1))
    for line in lines:
        for name, array in arrays.items():
            row = array[..., line["step"] - 1, :]
            got = np.array(line[name])
            part = row[..., : got.shape[-1]]
            assert not row[..., got.shape[-1] :].any()
            room = 4 * np.spacing(np.max(np.abs(part), initial=0))
            np.testing.assert_allclose(got, part, rtol=0, atol=room, err_msg=f"{name} {line['step']}")


CASES = {
    "plain": {"X": normal(6, 4), "mask": "causal"},
    "projections and biases": {
        "X": normal(6, 4), "W_Q": normal(4, 3), "W_K": normal(4, 3), "W_V": normal(4, 5), "b_Q": normal(3),
        "b_K": normal(3), "b_V": normal(5), "W_O": normal(5, 2), "b_O": normal(2), "mask": "causal",
    },
    "heads": {"X": normal(5, 8), "heads": 4, "mask": "causal"},
    "grouped heads": {"X": normal(5, 8), "W_K": normal(8, 4), "W_V": normal(8, 4), "heads": 4, "kv_heads": 2,
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


@pytest.mark.parametrize("problem", CASES.values(), ids=CASES)
def test_the_rows_together_are_the_one_shot_result(decoded: Decoded, problem: dict[str, Any]) -> None:
    assert_same_rows(decoded, problem)
    assert_same_rows(decoded, problem, 2, 4)


def test_queries_keys_and_values_of_their_own(decoded: Decoded) -> None:
    assert_same_rows(decoded, {"Q": normal(5, 3), "K": normal(5, 3), "V": normal(5, 2), "mask": "causal"})


def test_past_keys_stand_in_front(decoded: Decoded) -> None:
    q, k, v = normal(5, 3), normal(5, 3), normal(5, 2)
    now = {"Q": q[2:], "K": k[2:], "V": v[2:], "past_k": k[:2], "past_v": v[:2], "mask": "causal"}
    assert_same_rows(decoded, now)
    assert decoded(now)[0]["keys"] == ["past 1", "past 2", "k1"]


def test_more_keys_than_queries_aligned_at_the_last(decoded: Decoded) -> None:
    problem = {"Q": normal(2, 3), "K": normal(5, 3), "V": normal(5, 2), "mask": "causal:bottom-right"}
    assert_same_rows(decoded, problem)
    assert [len(line["keys"]) for line in decoded(problem)] == [4, 5]


def test_keys_of_cross_attention_are_there_from_the_beginning(decoded: Decoded) -> None:
    assert_same_rows(decoded, {"X": normal(3, 4), "Y": normal(5, 4), "W_K": normal(4, 4), "W_V": normal(4, 2)})


def test_the_pronoun_head_under_a_causal_mask(decoded: Decoded) -> None:
    """15 tokens of a trained encoder's head, decoded; expected values from NumPy, without attncli."""
    folder = SAMPLES / "pronoun"
    arrays = {name: np.load(folder / f"{name}.npy").astype(float) for name in ("X", "W_Q", "W_K", "W_V")}
    q, k, v = (arrays["X"] @ arrays[f"W_{x}"].T + np.load(folder / f"b_{x}.npy").astype(float) for x in "QKV")
    scores = q @ k.T / np.sqrt(k.shape[1])
    e = np.exp(scores - scores.max()) * np.tril(np.ones(scores.shape))
    expected = e / e.sum(axis=1, keepdims=True) @ v
    lines = decoded(folder / "problem.yaml", "--mask", "causal")
    assert len(lines) == 15
    np.testing.assert_allclose([line["output"] for line in lines], expected, atol=1e-12)


@pytest.fixture
def counted() -> Iterator[list[tuple[int, int]]]:
    """A score that counts how many queries and keys it is asked for, whenever it is."""
    asked: list[tuple[int, int]] = []

    with watched_score(lambda q, k: asked.append((q.shape[-2], k.shape[-2]))):
        yield asked


def test_each_step_computes_its_own_row_only(counted: list[tuple[int, int]], decoded: Decoded) -> None:
    problem = {"X": normal(5, 4), "score": "watched", "mask": "causal"}
    decoded(problem)
    assert counted == [(1, 1), (1, 2), (1, 3), (1, 4), (1, 5)]
    counted.clear()
    decoded(problem, "--steps", "3:4")
    assert counted == [(1, 3), (1, 4)]


def test_notes_number_the_queries_of_the_whole(cli: Cli, tmp_path: Path) -> None:
    x = np.arange(8.0).reshape(4, 2)
    x[1, 1] = np.nan
    path = problem_file(tmp_path, {"X": x, "mask": "causal"})
    for query in (1, 2, 3, 4):
        told = cli("decode", path, "--steps", query).err
        assert [f"query {each}, key 2" in told for each in (1, 2, 3, 4)] == [each == query > 1 for each in (1, 2, 3, 4)]
        assert "query 1" not in told


@pytest.mark.parametrize(("problem", "told"), [
    ({"X": np.eye(3)}, "the problem is not causal: query 1 sees keys that do not exist at step 1\n  --mask causal"),
    ({"X": np.eye(3), "mask": "window:1,1"}, "query 1 sees keys"),
    ({"X": np.eye(3), "mask": {"keep": np.array([[1, 0, 0], [1, 1, 1], [1, 1, 1]])}}, "query 2 sees keys"),
    ({"scores": np.eye(3)}, "begins at scores"),
])  # fmt: skip
def test_what_cannot_be_decoded(problem: dict[str, Any], told: str, cli: Cli, tmp_path: Path) -> None:
    done = cli("decode", problem_file(tmp_path, problem))
    assert (done.status, done.out) == (2, "")
    assert told in done.err


def test_the_sample_of_a_transformer_step_by_step(decoded: Decoded, cli: Cli) -> None:
    """System 7: the decoder's own attention and the cross-attention beside it, row for row those of the whole file."""
    path = SAMPLES / "transformer" / "problem.yaml"
    lines = decoded(path)
    assert [(line["step"], line["query"], [*line["stages"]]) for line in lines] == [
        (number, query, ["decoder", "cross"]) for number, query in enumerate(["<s>", "I", "am", "good"], 1)
    ]
    assert [line["stages"]["decoder"]["keys"] for line in lines][1:3] == [["<s>", "I"], ["<s>", "I", "am"]]
    assert lines[0]["keys"] == ["je", "vais", "bien"]
    whole = json.loads(cli("run", path, "--format", "json").out)["stages"]
    for stage in ("decoder", "cross"):
        for name in ("weights", "output"):
            for line, row in zip(lines, whole[stage]["steps"][name], strict=True):
                got = line["stages"][stage][name]
                np.testing.assert_allclose(got, row[: len(got)], rtol=4e-16, atol=4e-16)


def test_each_step_is_told_as_it_is_computed(cli: Cli) -> None:
    """The line of step 1 is there before step 2 is computed."""
    told: list[int] = []

    def look(q: Any, k: Any) -> None:
        told.append(sys.stdout.buffer.getvalue().count(b"\n"))  # type: ignore[attr-defined]

    with watched_score(look) as score:
        path = SAMPLES / "07-causal-self-attention.yaml"
        assert cli("decode", path, "--score", score, "--format", "json").status == 0
    assert told == [0, 1, 2, 3]


def test_lines_of_json(decoded: Decoded) -> None:
    path = SAMPLES / "07-causal-self-attention.yaml"
    lines = decoded(path)
    assert [list(line) for line in lines] == [["step", "query", "keys", "weights", "output"]] * 4
    assert lines[1]["keys"] == ["<s>", "I"]
    np.testing.assert_allclose(lines[1]["weights"], [0.3302, 0.6698], atol=5e-5)
    np.testing.assert_allclose([line["output"] for line in lines], run(path)["output"])
    staged = decoded(SAMPLES / "transformer" / "problem.yaml", "--steps", "2:3")
    assert [line["step"] for line in staged] == [2, 3]
    assert staged[0]["output"] == staged[0]["stages"]["cross"]["output"]
    assert staged[0]["stages"]["decoder"]["keys"] == ["<s>", "I"]


def test_text_and_files(tmp_path: Path, cli: Cli) -> None:
    path = SAMPLES / "07-causal-self-attention.yaml"
    assert cli("decode", path, "--steps", "2").out.splitlines() == [
        "step 2: I", "  keys        <s>       I", "  weights  0.3302  0.6698", "  output   0.3302  0.6698",
    ]  # fmt: skip
    done = cli("decode", path, "-o", tmp_path / "o.npy", "-o", f"weights={tmp_path / 'w.csv'}", "--quiet")
    assert done == Result(0, "", "")
    np.testing.assert_allclose(np.load(tmp_path / "o.npy"), run(path)["output"])
    assert (tmp_path / "w.csv").read_text().startswith(",<s>,I,am,good\n<s>,1.0,0.0,0.0,0.0\n")


@pytest.mark.parametrize("format", ["table", "plain"])
def test_text_holds_only_what_is_asked_for(format: str, cli: Cli) -> None:
    def told(sample: str, *arguments: str) -> list[str]:
        done = cli("decode", SAMPLES / sample, "--steps", "2", "--format", format, *arguments)
        assert done.status == 0
        return [line.split()[0] for line in done.out.splitlines()]

    causal, staged = "07-causal-self-attention.yaml", "transformer/problem.yaml"
    assert told(causal, "--show", "weights") == ["step", "keys", "weights"]
    assert told(causal, "--show", "output") == ["step", "keys", "output"]
    assert told(causal, "--show", "all") == ["step", "keys", "weights", "output"]
    assert told(staged, "--show", "output") == ["step", "cross", "keys", "output"]
    both = told(staged, "--show", "decoder.weights,cross.output")
    assert both == ["step", "decoder", "keys", "weights", "cross", "keys", "output"]


@pytest.mark.parametrize(("show", "odd"), [("scores", "scores"), ("weights,output[3]", "output[3]")])
def test_text_holds_weights_and_outputs_only(show: str, odd: str, cli: Cli) -> None:
    done = cli("decode", SAMPLES / "07-causal-self-attention.yaml", "--show", show)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("attncli: --show: ")
    assert odd in done.err


@pytest.mark.parametrize("text", ["0:2", "3:2", "5", "1:5", "a:b", "", "2:3:4", "-1:2"])
def test_steps_that_do_not_exist(text: str, cli: Cli) -> None:
    done = cli("decode", SAMPLES / "07-causal-self-attention.yaml", f"--steps={text}")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("attncli: --steps: ")


def test_a_range_without_ends_is_all_steps(decoded: Decoded) -> None:
    assert [line["step"] for line in decoded(SAMPLES / "07-causal-self-attention.yaml", "--steps=:")] == [1, 2, 3, 4]
