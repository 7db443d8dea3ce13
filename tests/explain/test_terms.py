"""The terms that an explanation shows give the numbers that the core gives, for every kind of problem."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from attncli.problem.document import read_document
from attncli.problem.problem import Problem
from attncli.working.parts import workings
from attncli.working.terms import Cell, Number, evaluate, op, total
from attncli.working.working import Working

DATA = Path(__file__).parent.parent / "data"
CASES: list[dict[str, Any]] = yaml.safe_load((DATA / "worked_cases.yaml").read_text())["cases"]
X = [[1, 0, 2, -1], [0.5, 1, 0, 2], [2, -1, 1, 0.5]]
I4 = np.eye(4).tolist()
W = [[1, 0], [0, 1], [1, 1], [0, 2]]
STEPS = ("Q", "K", "V", "kernel", "scores", "scaled", "capped", "biased", "masked", "weights", "heads", "output")
EXTRA: dict[str, dict[str, Any]] = {
    "general": {"Q": X, "K": [[1, 2], [0, 1]], "score": {"name": "general", "W": [[1, 0], [0, 2], [1, 1], [0.5, 0]]}},
    "concat": {"Q": [[1, 2]], "K": [[3], [1]], "score": {"name": "concat", "W": [[1, 0, 2], [0, 1, -1]], "v": [1, 2]}},
    "layer form": {"Q": X, "K": X, "score": "additive"},
    "sparsemax": {"X": X, "normalizer": "sparsemax"},
    "sigmoid": {"X": X, "normalizer": "sigmoid"},
    "none": {"X": X, "normalizer": "none"},
    "hardmax": {"X": [[1, 0], [1, 0], [0, 1]], "normalizer": "hardmax"},
    "sum of kernel": {"X": X, "score": "gaussian", "normalizer": "sum"},
    "sum of scaled kernel": {"X": X, "score": "laplacian", "normalizer": "sum", "scale": 0.5},
    "temperature": {"X": X, "temperature": 2},
    "cap, bias, mask": {"X": X, "softcap": 2, "bias": [[0, 1, 2], [0.5, 0, 1], [1, -1, 0]], "mask": "causal"},
    "mask value": {"X": X, "mask": {"window": [0, 1]}, "mask_value": -1},
    "large scores": {"X": [[30, 1], [1, 40], [2, 2]]},
    "projections": {"X": X, "W_Q": [[1, 0]] * 4, "b_Q": [1, 2], "W_K": [[0, 1]] * 4, "W_V": I4, "b_V": [1] * 4},
    "grouped heads": {
        "X": X, "heads": 4, "kv_heads": 2, "W_K": W, "W_V": [[1, 0], [0, 1], [2, 1], [0, 1]],
        "W_O": [[1, 0, 2], [0, 1, 1], [1, 1, 0], [2, 0, 1]], "b_O": [1, 2, 3],
    },
    "one head through W_O": {"X": X, "W_O": [[1, 0], [0, 1], [1, 1], [2, 0]]},
    "past": {"X": X, "past_k": [[1, 1, 0, 0]], "past_v": [[0, 2, 1, 1]], "W_K": I4, "heads": 2},
    "sequences": {"Q": [X, X], "K": [X, X], "V": [X, X], "mask": {"lengths": [2, 3]}},
    "columns, stored in-out": {"X": X, "layout": "columns", "weight_layout": "in-out", "W_Q": W[:3], "W_K": W[:3]},
    "begins at weights": {"weights": [[0.25, 0.75]], "V": [[1, 2], [3, 4]]},
    "begins at kernel": {"kernel": [[1, 3], [2, 0]], "V": [[1], [3]]},
}  # fmt: skip


def problem_of(description: dict[str, Any], folder: Path) -> Problem:
    file = folder / "p.yaml"
    file.write_text(yaml.safe_dump(description))
    return read_document(str(file)).problem()


def cells(working: Working) -> Iterator[Cell]:
    for name in STEPS:
        if name in working.arrays and name not in working.problem.inputs:
            yield from (Cell(name, index) for index in np.ndindex(*working.arrays[name].shape))


def compare(problem: Problem) -> int:
    """How many numbers were compared; each is computed from its term over the core's own earlier numbers."""
    count = 0
    for _, working in workings(problem, problem.solve()):
        for cell in cells(working):
            term = working.term(cell)
            if term is not None:
                got, right = evaluate(term, working.value), working.value(cell)
                assert got == pytest.approx(right, rel=1e-12, abs=1e-14, nan_ok=True), cell
                count += 1
    return count


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_worked_cases(case: dict[str, Any], tmp_path: Path) -> None:
    assert compare(problem_of(case["problem"], tmp_path)) > 0


@pytest.mark.parametrize("name", EXTRA)
def test_every_score_normalizer_and_rule(name: str, tmp_path: Path) -> None:
    assert compare(problem_of(EXTRA[name], tmp_path)) > 0


def test_every_number_of_a_plain_problem_has_a_term(tmp_path: Path) -> None:
    problem = problem_of(EXTRA["grouped heads"], tmp_path)
    for _, working in workings(problem, problem.solve()):
        assert all(working.term(cell) is not None for cell in cells(working))


def test_operations_by_hand() -> None:
    term = total([op("product", Number(2), Number(3)), op("quotient", Number(1), op("sqrt", Number(4)))])
    assert evaluate(term, lambda cell: 0.0) == 6.5
    assert evaluate(op("within", Number(1), Number(1)), lambda cell: 0.0) == 1
    assert evaluate(op("exp", Number(1000)), lambda cell: 0.0) == float("inf")


def test_rounding_every_step_as_a_person_does(tmp_path: Path) -> None:
    """Field report D12: scores to one decimal tie, and 0.52 becomes 0.53."""
    problem = problem_of({"Q": [[1]], "K": [[0.345], [0.344], [1.116]], "score": "dot"}, tmp_path)
    ((_, working),) = workings(problem, problem.solve())
    rounded = [working.rounded(Cell("scores", (0, j)), lambda x: round(x, 1)) for j in range(3)]
    assert rounded == [0.3, 0.3, 1.1]
    exps = [working.rounded(Cell("exp", (0, j)), lambda x: round(x, 1)) for j in range(3)]
    assert exps == [1.3, 1.3, 3.0]
    assert working.rounded(Cell("weights", (0, 2)), lambda x: round(x, 1)) == 0.5
