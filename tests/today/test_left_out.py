"""A hand that left a step of today's attention out, or did it another way, is told so; a right one agrees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attncli import check, run
from tests.today.problems import HEADS, drawn

CAUSAL = {**HEADS, "mask": "causal"}
THREE = {"X": drawn(21, 4, 6), "heads": 3}
WEIGHTED = {**CAUSAL, "qk_norm": "rms", "q_weight": [1, 2, 0.5, 3], "k_shift": drawn(22, 4)}
SHAW = {"relative": {"shaw": drawn(23, 3, 4), "max": 1}}

# Problem, what the hand did instead (None: nothing), the mistake, and what the person is told.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "rope": ({**CAUSAL, "rope": 10000}, {"rope": None}, "no-rope", "were not turned by their positions"),
    "rope pairs": (
        {**CAUSAL, "rope": 10000}, {"rope": "10000:neighbours"}, "rope-pairs", "neighbours paired, not halves",
    ),
    "qk-norm": ({**CAUSAL, "qk_norm": "l2"}, {"qk_norm": None}, "no-qk-norm", "were not normalized"),
    "qk-norm weights": (
        WEIGHTED, {"q_weight": None, "k_shift": None}, "qk-norm-weights", "but q_weight and k_shift left out",
    ),
    "norm, then rope": ({**WEIGHTED, "rope": 100}, {"rope": None}, "no-rope", "the rotation (rope) was left out"),
    "alibi": (
        {**CAUSAL, "alibi": "published"}, {"alibi": None}, "no-position-bias", "ALiBi's bias, slope x (j - i), was",
    ),
    "alibi, bias": (
        {**CAUSAL, "alibi": "published", "bias": drawn(24, 4, 4)}, {"alibi": None}, "no-position-bias", "ALiBi's bias",
    ),
    "alibi slopes": (
        {**THREE, "alibi": "published"}, {"alibi": "geometric"}, "alibi-slopes", "geometric ones, not publ",
    ),
    "alibi one slope": (
        {**THREE, "alibi": [0.5, 0.25, 0.75]}, {"alibi": [0.5] * 3}, "alibi-slopes", "first head's slope 0.5 was used",
    ),
    "relative": (
        {**CAUSAL, "relative": [drawn(25, 7)]}, {"relative": None}, "no-position-bias", "the bias by distance",
    ),
    "shaw": ({**CAUSAL, **SHAW}, {"relative": None}, "no-relative-vectors", "the scores are q . k alone"),
    "decay": ({**CAUSAL, "decay": [0.7, 0.9]}, {"decay": None}, "no-decay", "not multiplied by gamma^|i - j|"),
    "scale a head": ({**CAUSAL, "scale": [[1.5, 4]]}, {"scale": 1}, "no-scale", "scales of the heads"),
    "scale of one head": (
        {**CAUSAL, "scale": [[1.5, 4]]}, {"scale": 1.5}, "scale-of-one", "the first head, 1.5, was used",
    ),
    "default scale": ({**CAUSAL, "scale": [[1.5, 4]]}, {"scale": None}, "scale-default", "by the scales of the heads"),
    "layer": (
        {**CAUSAL, "score": {"name": "additive", "b_q": drawn(26, 4), "activation": "leaky-relu"}},
        {"score": {"name": "additive", "b_q": drawn(26, 4), "activation": "leaky-relu", "slope": 1}},
        "no-tanh", "the leaky-relu was left out",
    ),
}  # fmt: skip


def weights(problem: dict[str, Any]) -> dict[str, Any]:
    """The weights to four places, as a hand writes them."""
    found = run({name: x for name, x in problem.items() if x is not None}).weights
    return {"values": np.vectorize(lambda cell: f"{cell:.4f}")(found).tolist(), "decimals": 4}


@pytest.mark.parametrize("case", CASES)
def test_it_is_told(case: str) -> None:
    problem, done, name, text = CASES[case]
    assert check({**problem, "expect": {"weights": weights(problem)}}).verdict in ("agrees", "rounded")
    marked = check({**problem, "expect": {"weights": weights({**problem, **done})}})
    assert (marked.verdict, marked.diagnosis[0].mistake) == ("wrong", name)
    assert text in marked.diagnosis[0].text


@pytest.mark.parametrize(
    ("positions", "name"), [([1, 2, 3, 4], "rope-from-1"), ([0, -1, -2, -3], "rope-backwards"), (None, "no-rope")]
)
def test_written_rotations(positions: list[int] | None, name: str) -> None:
    """What cancels in the weights is seen where the turned queries are written."""
    problem = {"X": drawn(27, 4, 4), "rope": 100}
    turned = problem["X"] if positions is None else run({**problem, "positions": positions})["Q_rotated"].tolist()
    marked = check({**problem, "expect": {"Q_rotated": {"values": np.round(turned, 3).tolist(), "decimals": 3}}})
    assert marked.diagnosis[0].mistake == name


def test_a_large_array_without_the_rotation_is_told() -> None:
    problem = {"X": np.random.default_rng(28).normal(size=(300, 8)), "heads": 2, "mask": "causal"}
    for more, name in (({"rope": 10000}, "no-rope"), ({"qk_norm": "l2"}, "no-qk-norm")):
        marked = check({**problem, **more, "expect": {"output": run(problem).output}})
        assert (marked.verdict, marked.diagnosis[0].mistake) == ("wrong", name)
