"""Each step rounded before the next is made of it: what somebody has who calculates by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli import AttnError, attend, check, explain, run, self_attention
from tests.calling import Result

Cli = Callable[..., Result]

X = [[1, 0, 1], [0, 2, 1], [1, 1, 0]]


def to(x: float, places: int) -> float:
    return float(Decimal(repr(x)).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP))


@pytest.mark.parametrize("places", [1, 2, 3])
def test_a_calculation_by_hand(places: int) -> None:
    """The same, cell by cell, in decimals."""
    trace = self_attention(X, mask="causal", round_steps=places)
    for i, q in enumerate(X):
        scaled = [to(sum(a * b for a, b in zip(q, k, strict=True)) / math.sqrt(3), places) for k in X[: i + 1]]
        exps = [to(math.exp(s), places) for s in scaled]
        weights = [to(e / to(sum(exps), places), places) for e in exps]
        out = [to(sum(w * v[c] for w, v in zip(weights, X, strict=False)), places) for c in range(3)]
        assert trace["scaled"][i, : i + 1].tolist() == scaled
        assert trace["exp"][i, : i + 1].tolist() == exps
        assert trace["weights"][i].tolist() == weights + [0.0] * (2 - i)
        assert trace["output"][i].tolist() == pytest.approx(out, abs=1e-12)
    assert f"rounded to {places} place" in " ".join(trace.notes)


def test_a_tie_goes_away_from_zero_and_inputs_stay() -> None:
    trace = attend([[0.125, 1]], [[1, 0], [-1, 0]], score="dot", round_steps=2)
    assert trace["scores"].tolist() == [[0.13, -0.13]]
    assert trace["Q"].tolist() == [[0.125, 1]]
    past = attend([[1.0]], [[2.0]], [[1.0]], past_k=[[0.125]], past_v=[[0.375]], score="dot", round_steps=2)
    assert past["K"].tolist() == [[0.125], [2.0]]
    assert past["V"].tolist() == [[0.375], [1.0]]
    assert self_attention([[0.125]], round_steps=2)["Q"].tolist() == [[0.125]]
    assert self_attention([[0.125]], wq=[[1.0]], round_steps=2)["Q"].tolist() == [[0.13]]


@pytest.mark.parametrize("sample", ["02-self-attention", "07-causal-self-attention", "12-additive", "10-cosine"])
def test_explain_tells_the_same_numbers(sample: str) -> None:
    path = Path("samples") / f"{sample}.yaml"
    from attncli import load

    problem = load(path)
    problem.round_steps = 2
    trace = run(problem)
    told = explain(problem, 1).text().splitlines()
    last = [line for line in told if line.startswith("  output[")]
    assert last
    numbers = [float(line.partition("   (")[0].rpartition("= ")[2]) for line in last]
    assert numbers == trace.rows("output")[..., 0, :].ravel().tolist()


def test_what_cannot_be_divided_by_is_told() -> None:
    with pytest.raises(AttnError, match=r"2 places, e.s of query 1 is 0 for every key"):
        _ = attend([[1]], [[-9], [-8]], score="dot", round_steps=2)["weights"]
    with pytest.raises(AttnError, match="too large to be written down"):
        _ = attend([[1]], [[900], [1]], score="dot", round_steps=2)["weights"]
    hidden = attend([[1]], [[1]], mask="keys:0", round_steps=2)
    assert hidden["weights"].tolist() == [[0.0]]


def test_marks_are_of_the_exact_numbers(tmp_path: Path) -> None:
    hand: dict[str, Any] = {"X": X, "round_steps": 2}
    right = self_attention(X)["weights"]
    expect = {"weights": {"values": np.round(right, 4).tolist(), "decimals": 4}}
    assert check({**hand, "expect": expect}).verdict == "agrees"


def test_on_the_command_line(cli: Cli, tmp_path: Path) -> None:
    told = cli("self", "[[1, 0, 1], [0, 2, 1], [1, 1, 0]]", "--mask", "causal", "--round-steps", 2)
    assert told.status == 0
    assert "0.09  0.91" in told.out  # in as many places as were kept
    assert "each step is rounded to 2 places" in told.err
    saved = tmp_path / "p.yaml"
    cli("self", "[[1, 0, 1], [0, 2, 1]]", "--round-steps", 2, "--save-problem", saved)
    assert "round_steps: 2" in saved.read_text()
    assert cli("check", saved, "--round-steps", 2).status == 2
    assert "a whole number, 0 to 17" in cli("self", "[[1]]", "--round-steps", 18).err
