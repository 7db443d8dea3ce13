"""Queries and keys that are normalized: the formulas in a loop, and what they do to scores."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli import attend, self_attention
from tests.calling import attncli

RNG = np.random.default_rng(7)


def one(name: str, x: list[float], eps: float) -> list[float]:
    """One vector, by the formula of its norm."""
    if name == "l2":
        root = math.sqrt(math.fsum(a * a for a in x) + eps)
        return [a / root for a in x]
    if name == "layer":
        mean = math.fsum(x) / len(x)
        x = [a - mean for a in x]
    root = math.sqrt(math.fsum(a * a for a in x) / len(x) + eps)
    return [a / root for a in x]


@pytest.mark.parametrize("name", ["l2", "rms", "layer"])
@pytest.mark.parametrize("over", ["", ":all"])
@pytest.mark.parametrize("eps", [0.0, 1e-3])
def test_each_norm_by_its_formula(name: str, over: str, eps: float) -> None:
    q, k = RNG.normal(size=(3, 8)), RNG.normal(size=(5, 4))
    q_weight, k_weight = RNG.normal(size=8 if over else 4), RNG.normal(size=4)
    trace = attend(q, k, k, heads=2, kv_heads=1, qk_norm=name + over, q_weight=q_weight, param={"k_weight": k_weight},
                   eps=eps)  # fmt: skip
    for step, x, heads, weight in (("Q_normed", q, 2, q_weight), ("K_normed", k, 1, k_weight)):
        for i, row in enumerate(x):
            parts = [row] if over else np.split(row, heads)
            right = np.concatenate([one(name, list(part), eps) for part in parts])
            right = right * (weight if weight.size == right.size else np.tile(weight, heads))
            for h, head in enumerate(np.split(right, heads)):
                np.testing.assert_allclose(trace[step][h, i], head, rtol=1e-12)
    scores = np.einsum("hid,gjd->hij", trace.Q_normed, trace.K_normed)
    np.testing.assert_allclose(trace.scores, scores, rtol=1e-12)


def test_l2_gives_cosines_and_a_zero_vector_stays() -> None:
    x = np.array([[3.0, 4.0], [0.0, 0.0], [-1.0, 1.0]])
    trace = self_attention(x, qk_norm="l2")
    np.testing.assert_allclose(trace.scores, self_attention(x, score="cosine").scores, atol=1e-15)
    assert trace.Q_normed.tolist()[1] == [0, 0]
    assert np.isfinite(self_attention(x, qk_norm="layer").output).all()


def test_layer_with_weight_and_shift() -> None:
    x, weight, shift = RNG.normal(size=(2, 3)), np.array([1.0, -2, 0.5]), np.array([0.0, 1, 7])
    trace = self_attention(x, qk_norm="layer", eps=1e-5, q_weight=weight, q_shift=shift)
    for i, row in enumerate(x):
        right = np.array(one("layer", list(row), 1e-5))
        np.testing.assert_allclose(trace.Q_normed[i], right * weight + shift, rtol=1e-12)
        np.testing.assert_allclose(trace.K_normed[i], right, rtol=1e-12)


def test_the_norm_comes_before_the_rotation() -> None:
    x = RNG.normal(size=(3, 4))
    weight = np.array([1.0, 2, 3, 4])
    trace = self_attention(x, qk_norm="rms", q_weight=weight, k_weight=weight, rope=10000)
    normed = self_attention(x, qk_norm="rms", q_weight=weight, k_weight=weight)
    np.testing.assert_allclose(trace.Q_rotated, attend(normed.Q_normed, x, x, rope=10000).Q_rotated, rtol=1e-12)


def test_past_keys_are_normed_once() -> None:
    x = RNG.normal(size=(5, 4))
    whole = self_attention(x, qk_norm="rms", rope=100, mask="causal")
    raw: dict[str, Any] = {"past_v": x[:3], "qk_norm": "rms", "rope": 100, "mask": "causal"}
    new = attend(x[3:], x[3:], x[3:], past_k=x[:3], **raw)
    held = attend(x[3:], x[3:], x[3:], past_k=whole.K_rotated[:3], past_turned=True, **raw)
    np.testing.assert_allclose(new.output, whole.output[3:], rtol=1e-12)
    np.testing.assert_allclose(held.output, whole.output[3:], rtol=1e-12)


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ("qk_norm: l3", ":2:10: unknown qk norm 'l3'"),
        ("q_weight: [[1, 2]]", ":2:1: q_weight has no effect without --qk-norm"),
        ("qk_norm: l2\nq_weight: [[1, 2]]", ":3:1: q_weight has 2 numbers, but one head has 3 features"),
        ("qk_norm: l2\nparam: {k_weight: 2}", ":3:1: k_weight is a matrix, not a number"),
        ("qk_norm: l2\neps: -1", ":3:6: eps cannot be negative, not -1"),
        ("past_turned: true", ":2:1: past_turned has no effect without --rope or --qk-norm"),
    ],
)
def test_what_does_not_fit_has_its_place(said: str, what: str, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(f"X: [[1, 2, 3], [4, 5, 6]]\n{said}\n")
    done = attncli("run", path)
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 2)
    assert what in done.err
