"""What is new goes through every command: dry run, blocks, saving, decoding, check and explain agree with `run`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli import check, run
from tests.calling import attncli
from tests.explain.test_written_out import calculated, lines
from tests.inside import large_from
from tests.today.problems import PROBLEMS

EVERY = pytest.mark.parametrize("name", PROBLEMS)


def written(tmp_path: Path, name: str) -> Path:
    path = tmp_path / "p.json"
    path.write_text(json.dumps(PROBLEMS[name]))
    return path


def steps(path: Path, *options: str) -> dict[str, Any]:
    done = attncli("run", path, "--format", "json", *options)
    assert done.status == 0, done.err
    return {name: np.array(x, dtype=float) for name, x in json.loads(done.out)["steps"].items()}


@EVERY
def test_the_dry_run_has_the_shapes_of_the_run(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, name)
    told = attncli("run", path, "--dry-run")
    assert told.status == 0, told.err
    shapes = dict(re.findall(r"^  (\w+): ([0-9]+(?: x [0-9]+)+), .*bytes", told.out.partition("steps:")[2], re.M))
    assert shapes == {each: " x ".join(map(str, x.shape)) for each, x in steps(path, "--show", "all").items()}


@EVERY
def test_blocks_of_rows_give_the_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(PROBLEMS[name])
    large_from(monkeypatch, 1)
    blocks = run(PROBLEMS[name], steps=["output"])
    np.testing.assert_allclose(blocks.output, whole.output, rtol=1e-13, atol=1e-14)


@EVERY
def test_streamed_rows_are_those_of_the_whole(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, name)
    whole = steps(path)["weights"]
    large_from(monkeypatch, 1)
    done = attncli("run", path, "-o", f"weights={tmp_path / 'w.npy'}")
    assert done.status == 0, done.err
    np.testing.assert_allclose(np.load(tmp_path / "w.npy"), whole, rtol=1e-13, atol=1e-14)


@EVERY
@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_a_saved_problem_gives_the_same_digits(name: str, suffix: str, tmp_path: Path) -> None:
    path, saved = written(tmp_path, name), tmp_path / f"saved.{suffix}"
    before = steps(path, "--show", "all", "--save-problem", str(saved))
    after = steps(saved, "--show", "all")
    assert before.keys() == after.keys()
    for each, x in before.items():
        np.testing.assert_array_equal(after[each], x, err_msg=each)


@pytest.mark.parametrize("name", [name for name, problem in PROBLEMS.items() if "causal" in str(problem.get("mask"))])
def test_decoding_gives_the_outputs_of_the_whole(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, name)
    done = attncli("decode", path, "--format", "json")
    assert done.status == 0, done.err
    outputs = [json.loads(line)["output"] for line in done.out.splitlines()]
    np.testing.assert_allclose(outputs, steps(path)["output"], rtol=1e-12, atol=1e-13)


def sheet(problem: dict[str, Any], places: int) -> dict[str, Any]:
    """The problem with all steps as a hand rounds them that carries on with exact numbers."""
    trace = run(problem)
    right = {
        each: [[f"{cell:.{places}f}" for cell in row] for row in trace[each].reshape(-1, trace[each].shape[-1])]
        for each in trace.names()
        if trace[each].ndim == 2 and each not in ("X", "Y") and np.isfinite(trace[each]).all()
    }
    return {**problem, "expect": {each: {"values": cells, "decimals": places} for each, cells in right.items()}}


@EVERY
def test_a_right_sheet_agrees(name: str) -> None:
    marked = check(sheet(PROBLEMS[name], 4))
    odd = [(each.step, each.verdict) for each in marked.steps if each.verdict != "agrees"]
    assert marked.verdict in ("agrees", "rounded"), odd


@EVERY
def test_an_explanation_ends_at_the_numbers(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, name)
    done = attncli("explain", path, "--query", str(len(run(PROBLEMS[name]).query_labels)), "--precision", "10")
    assert done.status == 0, done.err
    found = {line.step for line in lines(done.out)}
    assert {"weights", "output"} <= found
    new = {step for step in run(PROBLEMS[name]).names() if step.endswith(("_rotated", "_normed"))}
    assert new <= found
    for line in lines(done.out):
        if line.term and line.number:
            terms = [calculated(term) for term in line.term.split(" = ")]
            np.testing.assert_allclose(terms, calculated(line.number), rtol=1e-5, atol=1e-6, err_msg=str(line))
