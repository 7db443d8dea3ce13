"""What a machine in single precision gives is within the bounds, and the bounds are of the size of its errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from formulas import FORMULAS, OVER, Formula, boxcar, matrices
from hypothesis import given, settings

from attncli.arithmetic import bounds
from attncli.arithmetic.bounds import Bounded, Machine
from attncli.pipeline.normalizers import NORMALIZERS

SINGLE = Machine(u=2.0**-24, v=2.0**-24, tiny=2.0**-126)


@pytest.mark.parametrize("formula", [formula for formula in FORMULAS if formula is not boxcar])  # which jumps
@settings(max_examples=50)
@given(q=matrices(2, 3), k=matrices(4, 3))
def test_single_precision_is_within_the_bounds(formula: Formula, q: Any, k: Any) -> None:
    found = formula(Bounded.stored(q, SINGLE), Bounded.stored(k, SINGLE))
    plain = formula(q, k)
    np.testing.assert_allclose(found.value, plain, rtol=1e-12, atol=1e-12)
    assert found.shape == found.bound.shape == plain.shape
    with np.errstate(all="ignore"):
        single = formula(q.astype(np.float32), k.astype(np.float32)).astype(np.float32)
    assert (np.abs(single - plain) <= found.bound).all()


GROWS = {"softmax": "proportional", "sigmoid": "proportional", "sparsemax": "as-scores", "none": "as-scores"}


@pytest.mark.parametrize("name", [*GROWS, "sum"])
@settings(max_examples=50)
@given(s=matrices(2, 4))
def test_normalizers(name: str, s: Any) -> None:
    s = abs(s) + 0.5 if name == "sum" else s
    function = NORMALIZERS.find(name).function
    found = bounds.normalized(function, Bounded.stored(s, SINGLE), OVER, grows=GROWS.get(name, "as-formula"))
    assert (np.abs(function(s.astype(np.float32), OVER) - function(s, OVER)) <= found.bound).all()
    assert not found.value[~OVER].any()


def test_long_sums_are_bounded_in_the_size_that_they_have() -> None:
    """Not so loose that a sum without one of its 512 terms would pass."""
    rng = np.random.default_rng(3)
    q, k = rng.normal(size=(40, 512)), rng.normal(size=(60, 512))
    found = Bounded.stored(q, SINGLE) @ Bounded.stored(k, SINGLE).mT
    single = q.astype(np.float32) @ k.astype(np.float32).T
    assert (np.abs(single - q @ k.T) <= found.bound).all()
    assert (np.abs(q[:, 1:] @ k[:, 1:].T - q @ k.T) > found.bound).mean() > 0.9


def test_exact_numbers_stay_exact_where_nothing_is_computed() -> None:
    x = Bounded.exact(np.array([[1.0, -np.inf], [2.0, 3.0]]), SINGLE)
    assert not np.concatenate([x.mT, np.where([True, False], x, 0)]).bound.any()


def test_a_divisor_that_may_be_zero_bounds_nothing() -> None:
    one, small = Bounded.exact(np.ones(1), SINGLE), Bounded(np.array([1e-9]), np.array([1e-8]), SINGLE)
    assert np.isinf((one / small).bound).all()


def test_a_hidden_value_adds_nothing() -> None:
    weights = Bounded.exact(np.array([[1.0, 0.0]]), SINGLE)
    v = Bounded(np.array([[2.0], [5.0]]), np.array([[0.0], [np.inf]]), SINGLE)
    found = np.where(np.isfinite(v.bound), v, 0)
    assert float((weights @ found).bound[0, 0]) < 1e-6
