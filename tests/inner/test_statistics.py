"""Moments and entropies, each function by itself."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.report.moments import Moments, entropy


def _moments(*blocks: Any) -> tuple[float, float]:
    moments = Moments()
    for block in blocks:
        moments.add(np.array(block, dtype=float))
    return moments.mean, moments.variance


def test_moments_of_the_text() -> None:
    assert _moments([[1.0, 2], [3, 6]]) == (3.0, 3.5)
    assert _moments([[1.0, 2]], [[-np.inf, -np.inf]], [[3, 6]]) == (3.0, 3.5)
    assert _moments([[-np.inf, 2.0, 4.0]]) == (3.0, 1.0)
    assert all(math.isnan(x) for x in _moments(np.zeros((0, 3))))


def test_entropy_of_known_distributions() -> None:
    rows = np.array([[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [0.25] * 4, [0.0] * 4])
    assert entropy(rows) == pytest.approx([0, math.log(2), math.log(4), 0])
    assert str(entropy(rows)[0]) == "0.0"


@given(st.lists(st.floats(0.001, 1), min_size=1, max_size=8))
def test_entropy_lies_between_0_and_log_m(masses: list[float]) -> None:
    weights = np.array([masses]) / sum(masses)
    assert -1e-12 <= entropy(weights)[0] <= math.log(len(masses)) + 1e-12
