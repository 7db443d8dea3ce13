"""Sinks: by the formula in a loop, published values, every size of problem, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli import attend, check, self_attention
from attncli import run as solved
from tests.calling import attncli

RNG = np.random.default_rng(11)
Q, K, V = [[2, 1], [-1, 0]], [[1, 0], [1, 1]], [[4], [8]]


@pytest.mark.parametrize(("sink", "right"), [(0.7, [5.749486, 1.972347]), (0, [6.182662, 2.979061])])
def test_values_of_a_learned_logit_and_of_one_in_the_denominator(sink: float, right: list[float]) -> None:
    # By hand: q . k / sqrt 2, e to it, over their sum and e^sink.
    np.testing.assert_allclose(attend(Q, K, V, sink=sink).output[:, 0], right, atol=5e-7)


def by_loop(q: Any, k: Any, v: Any, sinks: list[float], causal: bool) -> np.ndarray:
    """Each head for itself, in plain Python: (n, H d)."""
    heads, d = len(sinks), q.shape[-1] // len(sinks)
    out = np.zeros((len(q), v.shape[-1]))
    for h, i in np.ndindex(heads, len(q)):
        at = slice(h * d, (h + 1) * d)
        seen = [j for j in range(len(k)) if not causal or j <= i]
        e = [math.exp(math.fsum(q[i, at] * k[j, at]) / math.sqrt(d)) for j in seen]
        total = math.fsum(e) + math.exp(sinks[h])
        out[i, at] = sum(x / total * v[j, at] for x, j in zip(e, seen, strict=True))
    return out


@pytest.mark.parametrize("n", [5, 300])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("steps", [None, ("output",)])
def test_a_sink_a_head(n: int, causal: bool, steps: tuple[str, ...] | None) -> None:
    x, sinks = RNG.normal(size=(n, 8)), [0.5, -30.0, 12.0, 0.0]
    trace = self_attention(x, heads=4, sink=sinks, mask="causal" if causal else None, steps=steps)
    np.testing.assert_allclose(trace.output, by_loop(x, x, x, sinks, causal), rtol=1e-11, atol=1e-13)


def test_large_problems_by_the_engine_and_by_rows() -> None:
    x = RNG.normal(size=(600, 8))
    for more in ({}, {"score": "dot", "bias": RNG.normal(size=(600, 600))}, {"alibi": "published"}):
        trace = self_attention(x, heads=2, sink=[1.0, -2.0], **more)  # type: ignore[arg-type]
        whole = self_attention(x, heads=2, sink=[1.0, -2.0], steps=("output",), **more)  # type: ignore[arg-type]
        np.testing.assert_allclose(whole.output, trace.output, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("normalizer", ["sum", "softmax"])
def test_a_sink_beside_the_values_of_a_kernel(normalizer: str) -> None:
    # The scores of a kernel are its logarithm, and a sink is a score.
    kernel = np.exp(-((np.array(Q)[:, None] - np.array(K)) ** 2).sum(-1) / 2)
    trace = attend(Q, K, V, score="gaussian", normalizer=normalizer, sink=0.7)
    np.testing.assert_allclose(trace.weights, kernel / (kernel.sum(1, keepdims=True) + math.exp(0.7)), rtol=1e-14)


def test_the_steps_agree_with_each_other() -> None:
    trace = attend(Q, K, V, sink=0.7)
    np.testing.assert_allclose(trace["exp"] / trace["sum"], trace.weights, rtol=1e-15)
    np.testing.assert_allclose(np.log(trace["sum"]), trace["lse"], rtol=1e-15)
    np.testing.assert_allclose(trace["sum"], trace["exp"].sum(-1, keepdims=True) + math.exp(0.7), rtol=1e-15)


def test_large_logits_do_not_overflow() -> None:
    trace = attend([[1000.0]], [[1.0], [0.0]], [[4], [8]], score="dot", sink=999)
    np.testing.assert_allclose(trace.weights, [[1 / (1 + math.exp(-1)), 0]], rtol=1e-14)
    assert attend([[1.0]], [[1.0]], [[4]], sink=2000).weights.tolist() == [[0.0]]


def test_a_row_that_sees_nothing_gives_nothing() -> None:
    trace = attend(Q, K, V, sink=0.7, mask={"keep": [[0, 0], [1, 1]]})
    assert trace.output[0].tolist() == [0]


def test_sparsemax_with_a_sink() -> None:
    # (2, 1, 1.5): tau = (2 + 1.5 - 1) / 2 = 1.25, and 0.25 of the weight is the sink's.
    trace = attend([[1.0]], [[2.0], [1.0]], score="dot", sink=1.5, normalizer="sparsemax")
    np.testing.assert_allclose(trace.weights, [[0.75, 0]], rtol=1e-15)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--sink", "1,2,3"], "sink has 3 numbers, but there is 1 head"),
        (["--sink", "nan"], "sink must be a finite number"),
        (["--sink", "1", "--normalizer", "sigmoid"], "sink has no effect: sigmoid has no denominator"),
    ],
)
def test_what_is_refused(options: list[str], told: str) -> None:
    done = attncli("attend", "[[1,2]]", "[[1,2],[0,1]]", *options)
    assert done.status == 2
    assert told in done.err


def test_no_effect_where_the_weights_are_given() -> None:
    done = attncli("attend", "--weights", "[[1,0]]", "[[1],[2]]", "--sink", "1")
    assert done.status == 2
    assert "sink" in done.err


def test_no_row_is_said_to_sum_to_one(tmp_path: Path) -> None:
    done = attncli("attend", "[[1,2]]", "[[1,2],[0,1]]", "--sink", "0.5")
    assert done.status == 0
    assert "rows need not sum to 1" in done.out
    saved = tmp_path / "p.yaml"
    assert attncli("attend", "[[1,2]]", "[[1,2],[0,1]]", "--sink", "0.5", "--save-problem", saved).status == 0
    np.testing.assert_array_equal(solved(saved).weights, attend([[1, 2]], [[1, 2], [0, 1]], sink=0.5).weights)


def test_a_hand_without_the_sink_is_wrong_and_one_with_it_right() -> None:
    problem = {"Q": Q, "K": K, "V": V, "sink": 0.7}
    weights = solved(problem).weights.round(4).tolist()
    assert check({**problem, "expect": {"weights": weights}}).verdict in ("agrees", "rounded")
    without = solved({"Q": Q, "K": K, "V": V}).weights.round(4).tolist()
    marked = check({**problem, "expect": {"weights": without}})
    assert marked.first_wrong is not None
    assert marked.first_wrong[0].step == "weights"
    assert marked.diagnosis[0].mistake == "sink-forgotten"
