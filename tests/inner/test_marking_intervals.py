"""Interval arithmetic: whatever lies in the boxes gives numbers in the result, and the bounds are reached."""

from __future__ import annotations

from itertools import product as every

import numpy as np
import pytest

from attncli.pipeline.scores import score_spec
from attncli.verify import intervals
from attncli.verify.interval_scores import score_of
from attncli.verify.intervals import Box
from tests.inside import NORMALIZERS

SEEDS = range(12)


def box(rng: np.random.Generator, *shape: int, width: float = 0.2) -> Box:
    middle, half = rng.normal(size=shape), rng.uniform(0, width, size=shape)
    return Box(middle - half, middle + half)


def inside(rng: np.random.Generator, x: Box) -> np.ndarray:
    """A point of the box, often at its corners."""
    share = np.clip(rng.uniform(-0.5, 1.5, size=x.low.shape), 0, 1)
    return x.low + share * (x.high - x.low)


def holds(x: Box, values: np.ndarray) -> bool:
    return bool(np.all((x.low <= values) & (values <= x.high)))


@pytest.mark.parametrize("seed", SEEDS)
def test_product_holds_all_products(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = box(rng, 3, 4), box(rng, 4, 2)
    w = Box.of(rng.normal(size=(4, 2)))
    for _ in range(50):
        assert holds(intervals.product(a, b), inside(rng, a) @ inside(rng, b))
        assert holds(intervals.product(a, w), inside(rng, a) @ w.low)
        assert holds(intervals.product(Box.of(w.low.T), a.shaped(lambda x: x.T)), w.low.T @ inside(rng, a).T)


def test_product_is_tight() -> None:
    found = intervals.product(Box(np.array([[1.0, -1.0]]), np.array([[2.0, 1.0]])), Box.of(np.array([[3.0], [2.0]])))
    np.testing.assert_allclose([found.low[0, 0], found.high[0, 0]], [1, 8], rtol=1e-13)


def test_whole_numbers_stay_points() -> None:
    assert intervals.product(Box.of(np.eye(3) * 7), Box.of(np.ones((3, 2)))).is_point


def test_a_certain_zero_wins_over_infinity() -> None:
    found = intervals.product(Box.of(np.array([[0.0, 1.0]])), Box.of(np.array([[np.nan], [2.0]])))
    np.testing.assert_allclose([found.low[0, 0], found.high[0, 0]], [2, 2], rtol=1e-13)


@pytest.mark.parametrize("name", [entry.name for entry in NORMALIZERS])
@pytest.mark.parametrize("seed", SEEDS)
def test_normalizers_hold_all_weights(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits = box(rng, 2, 4)
    if name == "sum":
        logits = Box(np.abs(logits.low), np.abs(logits.low) + logits.high - logits.low)
    visible = np.array([[True, True, True, True], [True, False, True, True]])
    function = NORMALIZERS.find(name).function
    found = intervals.normalized(function, logits, visible, bounded=False)
    for _ in range(100):
        assert holds(found, function(inside(rng, logits), visible))


def test_softmax_reaches_its_bounds() -> None:
    """One score high and the others low; dividing an interval by an interval would give 0.245 to 0.906 instead."""
    low, high = np.array([[0.0, 0.5]]), np.array([[0.5, 1.0]])
    found = intervals.normalized(NORMALIZERS.find("softmax").function, Box(low, high), np.ones((1, 2), dtype=bool))
    np.testing.assert_allclose(found.low[0], [1 / (1 + np.e), 0.5], rtol=1e-14)
    np.testing.assert_allclose(found.high[0], [0.5, 1 / (1 + np.exp(-1))], rtol=1e-14)


def test_shares_of_numbers_of_both_signs_take_all_corners() -> None:
    logits = Box(np.array([[-1.0, 3.0]]), np.array([[-0.5, 4.0]]))
    function = NORMALIZERS.find("sum").function
    found = intervals.normalized(function, logits, np.ones((1, 2), dtype=bool), monotone=False)
    corners = [-a / (b - a) for a in (0.5, 1) for b in (3, 4)]
    np.testing.assert_allclose([found.low[0, 0], found.high[0, 0]], [min(corners), max(corners)], rtol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_average_is_the_best_of_all_corners(seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits, v = box(rng, 1, 4, width=1.0), box(rng, 4, 2)
    visible = np.array([[True, True, False, True]])
    found = intervals.average(logits, visible, v)

    def averages(values: np.ndarray) -> np.ndarray:
        corners = []
        for choice in every([False, True], repeat=4):
            e = np.where(visible, np.exp(np.where(choice, logits.high, logits.low)), 0)
            corners.append((e / e.sum()) @ values)
        return np.array(corners)

    np.testing.assert_allclose(found.low, averages(v.low).min(axis=0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.high, averages(v.high).max(axis=0), rtol=1e-12, atol=1e-12)


SCORES = {
    "dot": {},
    "scaled-dot": {},
    "general": {"W": np.array([[1.0, -0.5, 0.2], [0.3, 2.0, 0.1], [0.0, 1.0, -1.0]])},
    "concat": {
        "W": np.array([[1.0, -0.5, 0.2, 1.0, 0.0, -1.0], [0.3, 2.0, 0.1, 0.5, 0.5, 0.5]]),
        "v": np.array([1.0, -2.0]),
    },
    "additive": {"w_v": np.array([0.5, -1.0, 2.0])},
    "cosine": {},
    "gaussian": {"sigma": 0.7},
    "laplacian": {},
    "boxcar": {},
    "triangular": {"radius": 2.0},
    "epanechnikov": {"radius": 3.0},
}  # fmt: skip


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("seed", SEEDS)
def test_scores_hold_all_scores(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    q, k = box(rng, 2, 3, width=0.1), box(rng, 4, 3, width=0.1)
    spec = score_spec(name, SCORES[name])
    found = score_of(spec, q, k)
    assert found.low.shape == (2, 4)
    for _ in range(60):
        assert holds(found, spec(inside(rng, q), inside(rng, k)))


def test_a_score_of_ones_own_is_bounded_by_differences() -> None:
    def manhattan(q: np.ndarray, k: np.ndarray) -> np.ndarray:
        return -np.abs(q[..., :, None, :] - k[..., None, :, :]).sum(axis=-1)

    rng = np.random.default_rng(0)
    q, k = box(rng, 2, 3, width=0.01), box(rng, 4, 3, width=0.01)
    found = score_of(score_spec(manhattan), q, k)
    assert holds(found, manhattan(inside(rng, q), inside(rng, k)))
    assert found.width < 0.2
