"""What is new is decoded, marked and explained; `tests/test_every_reading.py` has the other readings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli import check, run
from tests.calling import attncli
from tests.explain.test_written_out import calculated, lines
from tests.today.problems import PROBLEMS

EVERY = pytest.mark.parametrize("name", PROBLEMS)


def written(tmp_path: Path, name: str) -> Path:
    path = tmp_path / "p.json"
    path.write_text(json.dumps(PROBLEMS[name]))
    return path


@pytest.mark.parametrize("name", [name for name, problem in PROBLEMS.items() if "causal" in str(problem.get("mask"))])
def test_decoding_gives_the_outputs_of_the_whole(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, name)
    done = attncli("decode", path, "--format", "json")
    assert done.status == 0, done.err
    outputs = [json.loads(line)["output"] for line in done.out.splitlines()]
    np.testing.assert_allclose(outputs, run(PROBLEMS[name]).output, rtol=1e-12, atol=1e-13)


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
