"""The published worked examples: each problem file gives the exact numbers, in the layout that it is written in."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from attncli import load

DATA = Path(__file__).parents[1] / "data" / "worked_cases.yaml"
CASES = yaml.load(DATA.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))["cases"]


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES])
def test_exact_numbers(case, tmp_path):
    path = tmp_path / "problem.json"
    path.write_text(json.dumps({**case["problem"], "expect": case.get("hand", {})}))
    problem = load(path)
    trace = problem.solve()
    assert case["exact"]
    for step, exact in case["exact"].items():
        exact = np.array(exact, dtype=float)
        assert trace[step].shape == exact.shape, step
        np.testing.assert_allclose(trace[step], exact, rtol=1e-12, atol=1e-12, err_msg=step)
    assert set(problem.expect) == set(case.get("hand") or {})
