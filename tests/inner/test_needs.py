"""What a problem needs is known before it starts; what would not fit is refused with the number and the way out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attncli import attend
from attncli.problem.build import make_problem
from attncli.problem.convert_object import layer_from_keywords
from attncli.problem.plan import plan_of
from attncli.problem.problem import Problem
from tests.inside import MachineError


def _problem(n: int, m: int, dtype: Any = float, **options: Any) -> Problem:
    """Arrays of any size that take no memory."""
    shapes = {"Q": (n, 8), "K": (m, 8), "V": (m, 4)}
    arrays = {name: np.broadcast_to(np.zeros((), dtype), shape) for name, shape in shapes.items()}
    return make_problem(layer_from_keywords({**arrays, **options}))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_each_step_is_counted(dtype: Any) -> None:
    problem = _problem(300, 200, dtype, mask="causal", softcap=2)
    needed, trace = plan_of(problem, None).memory(by_blocks=False), problem.solve()
    for step in ("scores", "scaled", "capped", "masked", "weights", "output"):
        assert needed[step] == trace.steps[step].nbytes
    assert not {"Q", "exp", "lse"} & needed.keys()
    assert plan_of(problem, ("lse",)).memory(by_blocks=False)["lse"] == 300 * np.dtype(dtype).itemsize


def test_outputs_alone_do_not_grow_with_n_times_m() -> None:
    few, many = (sum(plan_of(_problem(n, n), ("output",)).memory(by_blocks=True).values()) for n in (10_000, 100_000))
    assert many - few == 90_000 * 4 * 8
    assert sum(plan_of(_problem(100_000, 100_000), None).memory(by_blocks=False).values()) > 4 * 8 * 100_000**2


def test_what_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attncli.engine.plan.memory_available", lambda: 2**30)
    plan_of(_problem(20_000, 20_000), ("output",)).check_memory(by_blocks=True)
    with pytest.raises(MachineError, match=r"needs \d+\.\d GiB of memory, but 1\.0 GiB are free") as caught:
        plan_of(_problem(20_000, 20_000), None).check_memory(by_blocks=False)
    assert "--show output" in str(caught.value)
    plan_of(_problem(2000, 2100), None).check_memory(by_blocks=False)
    with pytest.raises(MachineError, match="free"):
        plan_of(_problem(2000, 2100), None).check_memory(by_blocks=False, besides=2**30)


def test_python_is_refused_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attncli.engine.plan.memory_available", lambda: 2**27)
    x = np.broadcast_to(np.zeros(()), (3000, 4))
    with pytest.raises(MachineError, match="MiB of memory"):
        attend(x, x)
    assert attend(x, x, x[:, :1], steps=("output",))["output"].shape == (3000, 1)
