"""One scale a head or a query: by a loop, published values, every size of problem, and what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli import attend, check, self_attention
from tests.calling import attncli

RNG = np.random.default_rng(23)


def test_the_published_values_of_cosine_scores_with_a_scale_a_head() -> None:
    # Swin V2's scaled cosine attention: each head has its own learned scale.
    trace = attend([[1, 2, 3, 4]], [[1, 0, 0, 1], [0, 1, 1, 0]], heads=2, score="cosine", scale=[10, 4])
    np.testing.assert_allclose(trace.weights[:, 0], [[0.011294, 0.988706], [0.689974, 0.310026]], atol=5e-7)


def by_loop(x: np.ndarray, heads: int, scale: Any) -> np.ndarray:
    """Causal dot products times scale(h, i), each head for itself: (n, H d)."""
    d = x.shape[1] // heads
    out = np.zeros(x.shape)
    for h, i in np.ndindex(heads, len(x)):
        at = slice(h * d, (h + 1) * d)
        e = [math.exp(scale(h, i) * math.fsum(x[i, at] * x[j, at])) for j in range(i + 1)]
        out[i, at] = sum(one / math.fsum(e) * x[j, at] for j, one in enumerate(e))
    return out


@pytest.mark.parametrize("n", [5, 300])
@pytest.mark.parametrize("steps", [None, ("output",)])
def test_a_scale_a_head(n: int, steps: tuple[str, ...] | None) -> None:
    x, scales = RNG.normal(size=(n, 6)), [0.5, -1.25, 0.0]
    trace = self_attention(x, heads=3, score="dot", scale=scales, mask="causal", steps=steps)
    np.testing.assert_allclose(trace.output, by_loop(x, 3, lambda h, i: scales[h]), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("n", [5, 300])
@pytest.mark.parametrize("steps", [None, ("output",)])
def test_a_scale_a_query(n: int, steps: tuple[str, ...] | None) -> None:
    # log-n scaling (Chiang, Cholak 2022, arXiv:2202.12172): query i sees i + 1 keys, and log(i + 1) is in its scale.
    x = RNG.normal(size=(n, 4))
    scales = np.log(np.arange(1, n + 1))[:, None] / math.sqrt(2)
    trace = self_attention(x, heads=2, scale=scales, mask="causal", steps=steps)
    np.testing.assert_allclose(trace.output, by_loop(x, 2, lambda h, i: scales[i, 0]), rtol=1e-11, atol=1e-13)


def test_a_row_of_one_and_a_column_of_one_are_one_number() -> None:
    one = attend([[1.0]], [[1.0], [2.0]], scale=3).weights
    for same in ([3], [[3]]):
        assert attend([[1.0]], [[1.0], [2.0]], scale=same).weights.tolist() == one.tolist()


def test_options_files_and_json_hold_them(tmp_path: Path) -> None:
    given = ("attend", "[[1, 2]]", "[[1, 0], [0, 1]]", "--heads", "2", "--scale")
    saved = str(tmp_path / "p.yaml")
    told = json.loads(attncli(*given, "2,-1/2", "--format", "json", "--save-problem", saved).out)
    assert told["scale"] == [2.0, -0.5]
    assert told["steps"]["scaled"] == [[[2.0, 0.0]], [[0.0, -1.0]]]
    assert json.loads(attncli("run", saved, "--format", "json").out)["steps"] == told["steps"]
    (tmp_path / "q.yaml").write_text("Q: [[1], [2]]\nK: [[1], [3]]\nscale: [[2], [3]]\n")
    assert json.loads(attncli("run", str(tmp_path / "q.yaml"), "--format", "json").out)["steps"]["scaled"] == [
        [2, 6],
        [6, 18],
    ]


def test_decoding_takes_each_query_s_own(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("X: [[1], [2], [3]]\nscale: [[2], [0.5], [1]]\nmask: causal\n")
    whole = json.loads(attncli("run", str(tmp_path / "p.yaml"), "--format", "json").out)["steps"]["output"]
    lines = attncli("decode", str(tmp_path / "p.yaml"), "--format", "json").out.splitlines()
    np.testing.assert_allclose([json.loads(line)["output"] for line in lines], whole, rtol=1e-14)


def test_a_hand_that_left_them_out_is_told_so() -> None:
    problem = {"Q": [[1, 2], [3, 1]], "K": [[1, 0], [0, 1]], "heads": 2, "score": "dot", "scale": [0.5, 2]}
    raw = attend(problem["Q"], problem["K"], heads=2, score="dot").weights
    found = check({**problem, "expect": {"weights": {"values": np.round(raw, 4).tolist(), "decimals": 4}}})
    assert (found.verdict, found.diagnosis[0].mistake) == ("wrong", "no-scale")
    assert "multiplied by the scales of the heads or queries" in found.diagnosis[0].text


@pytest.mark.parametrize(
    ("scale", "told"),
    [
        ("1,2,3", "scale has 3 numbers, but there are 2 heads"),
        ("[[1], [2], [3]]", "scale has 3 rows, but there is 1 query"),
        ("[[1, 2], [3, 4]]", "scale is 2 x 2"),
        ("1,inf", "must be a finite number"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_way_out(scale: str, told: str) -> None:
    done = attncli("attend", "[[1, 2]]", "[[1, 0], [0, 1]]", "--heads", "2", "--scale", scale)
    assert (done.status, done.out) == (2, "")
    assert told in done.err
    assert "--scale" in done.err


def test_dry_run_and_explain_tell_them() -> None:
    given = ("[[1, 2]]", "[[1, 0], [0, 1]]", "--heads", "2", "--scale", "2,3")
    assert "scale: one a head: 2, 3" in attncli("attend", *given, "--dry-run").out
