"""Every registered score and normalizer, and one of a user's own, in every kind of value."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from formulas import OVER, matrices
from hypothesis import given, settings
from hypothesis import strategies as st

from attncli.arithmetic.bounds import Bounded, Machine
from attncli.arithmetic.habits import SITES, Habit, habits_of
from attncli.arithmetic.intervals import Box
from attncli.arithmetic.rounded import Rounded
from attncli.arithmetic.shapes import Shape
from attncli.arithmetic.terms import Terms
from attncli.arithmetic.trees import evaluate
from attncli.errors import Opaque
from attncli.pipeline.normalizers import NORMALIZERS, find_normalizer
from attncli.pipeline.scores import SCORES
from attncli.pipeline.tight import averaged, logarithm_of_sum, normalized
from tests.calling import normalizers

V = np.array([2.0, -1.0])
W_QK = np.array([[1.0, 0.5, 0.0, -1.0, 0.5, 0.25], [0.0, 1.0, -0.5, 1.0, 1.0, 0.0]])
PARAMETERS: dict[str, dict[str, Any]] = {
    "general": {"W": np.array([[1.0, 0.5, 0.0], [0.0, -1.0, 2.0], [0.25, 0.0, 1.0]])},
    "concat": {"W": W_QK, "v": V},
    "gat": {"a": np.linspace(-1, 1, 6)},
    "additive": {"w_v": np.array([1.0, -2.0, 0.5])},
    "gaussian": {"sigma": 2.0},
}
JUMPS = ("boxcar", "hardmax", "top:2")
SINGLE = Machine(u=2.0**-24, v=2.0**-24, tiny=2.0**-126)
HALVES = st.sampled_from([0.0, 0.01, 0.5])
HABITS = habits_of([Habit(), Habit(frozenset(SITES), places=2)])


def agree(formula: Callable[..., Any], jumps: bool, half: float, shares: list[float], *arrays: np.ndarray) -> None:
    """One formula in all kinds against plain numbers: values, enclosures, trees, shapes, habits, error bounds."""
    with np.errstate(all="ignore"):
        plain = formula(*arrays)
    assert formula(*(Shape(*x.shape) for x in arrays)).shape == plain.shape
    names = "xyz"[: len(arrays)]
    found = formula(*(Terms.cells(name, x) for name, x in zip(names, arrays, strict=True)))
    np.testing.assert_allclose(found.value, plain, rtol=1e-9, atol=1e-9)
    given_numbers = dict(zip(names, arrays, strict=True))
    for index in np.ndindex(plain.shape):
        value = evaluate(found.term(*index), lambda cell: float(given_numbers[cell.step][cell.index]))
        np.testing.assert_allclose(value, plain[index], rtol=1e-8, atol=1e-8)
    line = formula(*(Rounded.given(x, HABITS) for x in arrays)).lines[0]
    np.testing.assert_allclose(line, plain, rtol=1e-9, atol=1e-9)
    box = formula(*(Box.around(x, half) for x in arrays))
    points = [np.clip(x + half * (2 * share - 1), x - half, x + half) for x, share in zip(arrays, shares, strict=False)]
    with np.errstate(all="ignore"):
        inside = formula(*points)
    assert ((box.low <= inside) & (inside <= box.high)).all()
    if not jumps:
        bounded = formula(*(Bounded.stored(x, SINGLE) for x in arrays))
        with np.errstate(all="ignore"):
            single = formula(*(x.astype(np.float32) for x in arrays))
        assert (np.abs(single - plain) <= bounded.bound).all()


@pytest.mark.parametrize("name", [entry.name for entry in SCORES])
@settings(max_examples=30)
@given(matrices(2, 3), matrices(4, 3), HALVES, st.lists(st.floats(0, 1), min_size=2, max_size=2))
def test_scores(name: str, q: Any, k: Any, half: float, shares: list[float]) -> None:
    function, parameters = SCORES.find(name).function, PARAMETERS.get(name, {})
    agree(lambda q, k: function(q, k, **parameters), name in JUMPS, half, shares, q, k)


@pytest.mark.parametrize("name", [name for name in normalizers() if name != "entmax"])
@settings(max_examples=30)
@given(matrices(2, 4), HALVES, st.floats(0, 1))
def test_normalizers(name: str, s: Any, half: float, share: float) -> None:
    s = abs(s) + 1 if name == "sum" else s
    entry = find_normalizer(name)
    agree(lambda x: normalized(x, OVER, entry), name in JUMPS, half, [share], s)


def test_entmax_has_a_formula_with_its_threshold_and_no_habit() -> None:
    x = np.array([[1.0, 2.0, 0.5, 0.0], [0.0, 0.0, 3.0, 1.0]])
    entry = find_normalizer("entmax")
    plain = normalized(x, OVER, entry)
    found = normalized(Terms.cells("x", x), OVER, entry)
    np.testing.assert_allclose(found.value, plain, rtol=1e-12)
    with pytest.raises(Opaque):
        normalized(Rounded.given(x, HABITS), OVER, entry)
    box = normalized(Box.around(x, 0.0), OVER, entry)
    assert ((box.low <= plain) & (plain <= box.high)).all()
    assert (box.high - box.low < 1e-12).all()


def relu(logits: Any, visible: Any) -> Any:
    shown = np.where(visible, np.maximum(logits, 0) + 0.5, 0)
    return shown / shown.sum(axis=-1, keepdims=True)


@settings(max_examples=30)
@given(matrices(2, 4), matrices(4, 2), HALVES, st.floats(0, 1))
def test_a_normalizer_of_ones_own_and_what_follows(s: Any, v: Any, half: float, share: float) -> None:
    entry = find_normalizer(relu)
    agree(lambda x, v: averaged(normalized(x, OVER, entry), v, OVER), False, half, [share, share], s, v)
    agree(lambda x: logarithm_of_sum(x, OVER), False, half, [share], s)


def test_weights_by_hand_from_rounded_exponentials() -> None:
    """e^1 = 2.72, e^2 = 7.39, e^0 = 1: the shares of these, computed with `decimal`."""
    habits = habits_of([Habit(frozenset({"exponentials"}), places=2), Habit(frozenset({"e"}), places=2)])
    found = normalized(Rounded.given(np.array([[1.0, 2.0, 9.0, 0.0]]), habits), OVER[:1], NORMALIZERS.find("softmax"))
    total = Decimal("2.72") + Decimal("7.39") + 1
    shares = [float(x / total) for x in (Decimal("2.72"), Decimal("7.39"))]
    np.testing.assert_allclose(found.lines[0, 0, :2], shares, rtol=1e-13)
    np.testing.assert_allclose(found.lines[1, 0, 0], 2.72 / (2.72 + 2.72**2 + 1), rtol=1e-13)


def test_scores_too_large_for_exponentials_are_shifted_by_everybody() -> None:
    s = Rounded.given(np.array([[1000.0, 999.0, 0.0, 1000.0]]), habits_of([Habit()]))
    found = normalized(s, OVER[:1], NORMALIZERS.find("softmax"))
    expected = np.array([np.e, 1, 0, np.e]) / (2 * np.e + 1)
    np.testing.assert_allclose(found.lines[0, 0], expected, rtol=1e-12, atol=1e-300)


def test_large_shapes_take_no_memory_in_any_form() -> None:
    q, k = Shape(8, 10**7, 64), Shape(8, 10**7, 64)
    s = SCORES.find("gaussian").function(q, k)
    assert normalized(s, np.True_, NORMALIZERS.find("sparsemax")).shape == (8, 10**7, 10**7)
    assert averaged(s, Shape(8, 10**7, 5), np.True_).shape == (8, 10**7, 5)
    assert logarithm_of_sum(s, np.True_).shape == (8, 10**7, 1)
