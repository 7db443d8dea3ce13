"""--average-heads: the mean of the weights over the heads, as torch's MultiheadAttention returns it, by a loop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from attncli import AttnError, attend, check
from tests.calling import Result

CHANCE = np.random.default_rng(4)
Q, K, V = (CHANCE.normal(size=(2, n, 6)) for n in (4, 5, 5))


def averaged(heads: int, scale: float | None = None) -> np.ndarray:
    """Head by head, as the paper has it, summed and divided."""
    d = Q.shape[-1] // heads
    total = np.zeros((2, 4, 5))
    for h in range(heads):
        q = Q[..., h * d : (h + 1) * d]
        scores = np.einsum("bnd,bmd->bnm", q, K[..., h * d : (h + 1) * d]) * (scale or d**-0.5)
        powers = np.exp(scores)
        total += powers / powers.sum(-1)[..., None]
    return total / heads


@pytest.mark.parametrize("heads", [1, 2, 3])
def test_the_mean_of_the_weights(heads: int) -> None:
    trace = attend(Q, K, V, heads=heads, average_heads=True)
    np.testing.assert_allclose(trace.average, averaged(heads), rtol=1e-12)
    np.testing.assert_allclose(trace["average[2]"], averaged(heads)[1], rtol=1e-12)


def test_four_axes() -> None:
    split = [x.reshape(2, -1, 3, 2).swapaxes(1, 2) for x in (Q, K, V)]
    np.testing.assert_allclose(attend(*split, average_heads=True).average, averaged(3), rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_expected_weights_are_averaged_ones(dtype: str) -> None:
    problem = {"Q": Q, "K": K, "V": V, "heads": 3, "average_heads": True}
    right = check({**problem, "expect": {"weights": averaged(3).astype(dtype)}})
    assert (right.verdict, [mark.step for mark in right.steps]) == ("agrees", ["average"])
    off = averaged(3)
    off[1, 2, 3] += 0.01
    wrong = check({**problem, "expect": {"weights": off.astype(dtype)}})
    assert [cell.at for cell in wrong.steps[0].cells] == [(2, 3, 4)]
    unscaled = check({**problem, "expect": {"weights": averaged(3, scale=1.0).astype(dtype)}})
    assert [each.mistake for each in unscaled.diagnosis] == ["no-scale"]


def test_a_hand_that_averaged(tmp_path: Path, cli: Callable[..., Result]) -> None:
    """Scores of two heads are 0 and ln 3, and 0 and 0: the weights 1/4, 3/4 and 1/2, 1/2, their means 3/8 and 5/8."""
    text = "scores: [[[0, 1.0986]], [[0, 0]]]\nscore: dot\nheads: 2\naverage_heads: true\nexpect: {weights: [[%s]]}\n"
    for numbers, verdict in (("0.375, 0.625", 0), ("0.25, 0.75", 1)):
        (tmp_path / "p.yaml").write_text(text % numbers)
        done = cli("check", tmp_path / "p.yaml")
        assert done.status == verdict, done.err
        assert done.out.startswith("average (1 query x 2 keys)")
    shown = cli("run", tmp_path / "p.yaml", "--format", "csv", "--show", "average", "--quiet")
    assert [float(x) for x in shown.out.split(",")] == pytest.approx([0.375, 0.625], abs=1e-5)


def test_a_large_one() -> None:
    x = CHANCE.normal(size=(600, 4))
    halves = [attend(x[:, part], x[:, part], x[:, part]).weights for part in (slice(2), slice(2, 4))]
    found = attend(x, x, x, heads=2, average_heads=True, steps=("average",))
    np.testing.assert_allclose(found.average, sum(halves) / 2, rtol=1e-12)


def test_without_it_there_is_no_such_step() -> None:
    with pytest.raises(AttnError, match="no step 'average'"):
        attend(Q, K, V, heads=2)["average"]
