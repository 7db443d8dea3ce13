"""Stages: steps handed from one problem to the next, and everything that is wrong told before anything is computed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from mpmath import exp, matrix, mp, sqrt

from attncli import load
from tests.calling import ROOT, Result
from tests.files import problem_file
from tests.inside import never, watched_score

TRANSFORMER = ROOT / "samples" / "transformer" / "problem.yaml"
Cli = Callable[..., Result]


def solved(cli: Cli, path: Path, *options: object) -> dict[str, Any]:
    """What a file of stages gives, by the name of the stage: the object of --format json."""
    done = cli("run", path, "--format", "json", *options)
    assert done.status == 0, done.err
    stages: dict[str, Any] = json.loads(done.out)["stages"]
    return stages


@pytest.fixture
def errors_of(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], list[str]]]:
    """All messages of a file of stages, each as place, what is wrong and hint; nothing must have been computed."""
    monkeypatch.chdir(tmp_path)

    def invoke(text: str) -> list[str]:
        Path("p.yaml").write_text(f"{text}score: watched\n")
        done = cli("run", "p.yaml")
        assert (done.status, done.out) == (2, ""), done.err
        return done.err.removeprefix("attncli: ").replace("\n  ", "\n").rstrip("\n").split("\nattncli: ")

    with watched_score(never):
        yield invoke


def by_mpmath(q: Any, k: Any, v: Any, causal: bool) -> tuple[Any, Any]:
    """Weights and output of scaled dot products, in 40 digits, by the formula alone."""
    scores = q * k.T / sqrt(k.cols)
    weights = matrix(scores.rows, scores.cols)
    for i in range(scores.rows):
        seen = [j for j in range(scores.cols) if not causal or j <= i]
        total = sum(exp(scores[i, j]) for j in seen)
        for j in seen:
            weights[i, j] = exp(scores[i, j]) / total
    return weights, weights * v


def test_the_transformer_of_the_sample(cli: Cli) -> None:
    """Encoder, masked decoder, cross-attention over z: each number to the last bits of what mpmath gives."""
    raw = {stage["name"]: stage for stage in yaml.safe_load(TRANSFORMER.read_text())["stages"]}
    outputs: dict[str, Any] = {}
    exact: dict[str, tuple[Any, Any]] = {}
    with mp.workdps(40):
        for name, stage in raw.items():
            x, y = (
                outputs[data["stage"]] if isinstance(data := stage.get(side, stage["X"]), dict) else matrix(data)
                for side in ("X", "Y")
            )
            w_q, w_k, w_v = (matrix(stage[weight]) for weight in ("W_Q", "W_K", "W_V"))
            exact[name] = by_mpmath(x * w_q, y * w_k, y * w_v, stage.get("mask") == "causal")
            outputs[name] = exact[name][1]
    assert [*exact] == ["encoder", "decoder", "cross"]
    found = solved(cli, TRANSFORMER)
    assert [*found] == [*exact]
    for name, stage in found.items():
        for step, expected in zip(("weights", "output"), exact[name], strict=True):
            given = np.array(expected.tolist(), dtype=float).reshape(expected.rows, expected.cols)
            np.testing.assert_allclose(stage["steps"][step], given, rtol=4e-16, atol=4e-16)


def test_labels_go_along_with_a_step(cli: Cli) -> None:
    last = solved(cli, TRANSFORMER)["cross"]
    assert last["query_labels"] == ["<s>", "I", "am", "good"]
    assert last["key_labels"] == ["je", "vais", "bien"]


def test_a_token_stays_a_token_where_the_layouts_differ(cli: Cli, tmp_path: Path) -> None:
    """Columns, rows and columns again give what rows alone give; a weight matrix made of a step too."""
    first = "stages:\n  - {name: a, X: %s, layout: %s}"
    later = """
  - {name: b, X: {stage: a, step: output}, Y: [[1, 0], [0, 2], [1, 1], [3, 1]], layout: rows}
  - {name: c, X: [[1, 0, 2], [0, 1, 1]], W_Q: {stage: b, step: output}, W_K: {stage: b, step: output}, layout: rows}
"""
    (tmp_path / "columns.yaml").write_text(first % ("[[1, 2, 0.5], [0, 1, -1]]", "columns") + later)
    (tmp_path / "rows.yaml").write_text(first % ("[[1, 0], [2, 1], [0.5, -1]]", "rows") + later)
    in_columns, in_rows = solved(cli, tmp_path / "columns.yaml"), solved(cli, tmp_path / "rows.yaml")
    assert [*in_columns] == ["a", "b", "c"]
    for name, stage in in_columns.items():
        output = np.array(stage["steps"]["output"])
        np.testing.assert_array_equal(output.T if name == "a" else output, in_rows[name]["steps"]["output"])


@pytest.mark.parametrize(("reference", "place", "told"), [
    ("{stage: encodr, step: output}", "p.yaml:3:37", "there is no earlier stage 'encodr'\ndid you mean 'encoder'?"),
    ("{stage: later, step: output}", "p.yaml:3:37", "there is no earlier stage 'later'"),
    ("{stage: decoder, step: output}", "p.yaml:3:37", "there is no earlier stage 'decoder'"),
    ("{stage: encoder, step: outputs}", "p.yaml:3:60", "unknown step 'outputs'\ndid you mean 'output'?"),
    ("{stage: encoder, step: capped}", "p.yaml:3:37", "the stage 'encoder' has no step 'capped'"),
    ("{stage: encoder, step: 'weights[2]'}", "p.yaml:3:37", "the stage 'encoder' has no weights[2]"),
    ("{stage: encoder, step: weights}", "p.yaml:3:", "W_K is 2 x 2"),
])  # fmt: skip
def test_what_is_wrong_with_a_reference(
    reference: str, place: str, told: str, errors_of: Callable[[str], list[str]]
) -> None:
    text = f"""stages:
  - {{name: encoder, X: [[1, 0], [0, 1], [1, 1]]}}
  - {{name: decoder, X: [[1, 0]], Y: {reference}, W_K: [[1, 0], [0, 1]], W_V: [[1, 0], [0, 1]]}}
  - {{name: later, X: [[1, 0]]}}
"""
    errors = errors_of(text)
    assert any(error.startswith(place) and told in error for error in errors), errors


def test_all_that_is_wrong_is_told_at_once(errors_of: Callable[[str], list[str]]) -> None:
    errors = errors_of("""stages:
  - {name: a, X: [[1, 2]], W_Q: [[1], [2], [3]]}
  - {name: b, X: {stage: a, step: output}, W_Q: [[1]]}
  - {name: b, X: {stage: c, step: output}, scael: 2}
  - {X: [[1, 0]]}
""")
    assert [error.partition(": ")[0] for error in errors] == [
        "p.yaml:2:33", "p.yaml:4:6", "p.yaml:4:18", "p.yaml:4:44", "p.yaml:5:5",
    ]  # fmt: skip


def test_a_plain_step_is_one_of_the_last_stage(cli: Cli) -> None:
    def shown(step: str) -> Result:
        return cli("run", TRANSFORMER, "--show", step, "--format", "csv")

    assert shown("weights") == shown("cross.weights")
    assert shown("encoder.output").out.startswith("je,0.3271")
    assert "no stage 'encodr'" in shown("encodr.output").err
    assert "'encoder' has no step 'masked'" in shown("encoder.masked").err


def test_only_the_steps_that_are_wanted_are_told(cli: Cli) -> None:
    assert [*solved(cli, TRANSFORMER, "--show", "cross.weights")["cross"]["steps"]] == ["weights"]


CASES = [
    {"X": np.ones((3, 4))},
    {"X": np.ones((3, 4)), "wq": np.ones((4, 6)), "wk": np.ones((4, 6)), "wv": np.ones((4, 2)), "wo": np.ones((2, 5))},
    {"X": np.ones((2, 3, 4)), "heads": 2, "softcap": 3.0, "mask": "causal", "bias": np.full((3, 3), 0.5)},
    {"X": np.ones((3, 8)), "wk": np.ones((8, 4)), "wv": np.ones((8, 4)), "heads": 4, "kv_heads": 2},
    {"X": np.ones((3, 4)), "Y": np.ones((5, 4)), "both_ways": True, "score": "dot"},
    {"X": np.ones((3, 4)), "Y": np.ones((5, 4)), "both_ways": True, "heads": 2},
    {"Q": np.ones((2, 4, 3, 5)), "K": np.ones((2, 2, 6, 5)), "V": np.ones((2, 2, 6, 7))},
    {"Q": np.ones((3, 5)), "K": np.ones((1, 5)), "V": np.ones((1, 4)), "past_k": np.ones((2, 5)),
     "past_v": np.ones((2, 4))},
    {"Q": np.ones(5), "K": np.ones((4, 5))},
    {"scores": np.ones((2, 3)), "V": np.ones((3, 4)), "d_k": 4},
    {"kernel": np.ones((2, 3)), "normalizer": "sum", "scale": 2.0},
    {"weights": np.full((2, 3, 4), 0.25), "V": np.ones((4, 2)), "heads": 2},
    {"masked": np.zeros((2, 3))},
    {"Q": np.ones((2, 1)), "K": np.ones((3, 1)), "V": np.ones((3, 2)), "score": "gaussian"},
    {"X": np.ones((4, 3)), "Y": np.ones((4, 5)), "layout": "columns", "both_ways": True, "normalizer": "sigmoid"},
]  # fmt: skip


@pytest.mark.parametrize("keywords", CASES, ids=lambda keywords: " ".join(keywords))
def test_shapes_told_beforehand_are_those_that_come(keywords: dict[str, Any], cli: Cli, tmp_path: Path) -> None:
    names = {"wq": "W_Q", "wk": "W_K", "wv": "W_V", "wo": "W_O"}
    path = problem_file(tmp_path, {names.get(keyword, keyword): value for keyword, value in keywords.items()})
    trace = load(path).solve()
    told = cli("run", path, "--dry-run").out
    steps = dict(re.findall(r"^  (\w+): ([0-9 x]+), [0-9]", told[told.index("steps:") :], re.MULTILINE))
    assert steps == {name: " x ".join(map(str, trace[name].shape)) for name in trace.names(on_request=True)}


def test_json_nests_by_stage(tmp_path: Path, cli: Cli) -> None:
    done = cli("run", TRANSFORMER, "--format", "json", "-o", tmp_path / "o.npz")
    assert done.status == 0
    told = json.loads(done.out)
    assert list(told) == ["attncli", "schema", "stages"]
    assert list(told["stages"]) == ["encoder", "decoder", "cross"]
    assert told["stages"]["decoder"]["mask"] == ["causal:top-left"]
    archive = np.load(tmp_path / "o.npz")
    np.testing.assert_array_equal(archive["encoder.weights"], told["stages"]["encoder"]["steps"]["weights"])
    assert "cross.output" in archive.files


def test_one_step_of_one_stage(tmp_path: Path, cli: Cli) -> None:
    shown = cli("run", TRANSFORMER, "--show", "encoder.output", "--format", "csv").out
    assert cli("run", TRANSFORMER, "-o", f"encoder.output={tmp_path / 'o.csv'}").status == 0
    assert (tmp_path / "o.csv").read_text() == shown
    assert shown.startswith("je,0.3271")
    refused = cli("run", TRANSFORMER, "--show", "encoder.output,cross.output", "--format", "csv")
    assert refused.status == 2
    assert "csv holds one step, not encoder.output, cross.output" in refused.err


def test_tables_stand_under_their_stages(cli: Cli) -> None:
    out = cli("run", TRANSFORMER, "--show", "decoder.weights,output", "--format", "plain").out
    assert [line for line in out.splitlines() if line.startswith("stage ")] == ["stage decoder", "stage cross"]
    assert "good  0.0843  0.1710  0.7032  0.0416" in out


def test_numbers_of_a_hand_for_a_stage(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "hand.csv").write_text("0.5,0.5,0.5\n0.5989,0.5989,0.8022\n0.5989,0.5989,0.8022\n")
    assert cli("check", TRANSFORMER, "--expect", f"encoder.output={tmp_path / 'hand.csv'}").status == 1
    refused = cli("check", TRANSFORMER, "--expect", f"encodr.output={tmp_path / 'hand.csv'}")
    assert refused.status == 2
    assert "there is no stage 'encodr'" in refused.err
