"""Whatever lies in the boxes gives numbers in the result, in doubles and in exact arithmetic; tight forms are tight."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
from formulas import FORMULAS, NUMBERS, OVER, Formula, distances, matrices
from hypothesis import given, settings
from hypothesis import strategies as st

from attncli.arithmetic import tight_intervals as tight
from attncli.arithmetic.intervals import Box
from attncli.arithmetic.shapes import Shape
from attncli.errors import Opaque
from attncli.pipeline.normalizers import NORMALIZERS

HALVES = st.sampled_from([0.0, 0.005, 0.25, 1.0])
SHARES = st.sampled_from([0.0, 0.3, 0.5, 1.0])


def inside(data: st.DataObject, x: Box) -> np.ndarray:
    shares = np.array(data.draw(st.lists(SHARES, min_size=x.size, max_size=x.size))).reshape(x.shape)
    return np.clip(x.low + shares * (x.high - x.low), x.low, x.high)


def holds(x: Any, values: Any) -> bool:
    return bool(np.all(((x.low <= values) & (values <= x.high)) | np.isnan(values)))


@pytest.mark.parametrize("formula", FORMULAS)
@settings(max_examples=40)
@given(q=matrices(2, 3), k=matrices(4, 3), half=HALVES, data=st.data())
def test_every_formula_holds_what_it_gives_of_points(formula: Formula, q: Any, k: Any, half: float, data: Any) -> None:
    boxes = Box.around(q, half), Box.around(k, half)
    found = formula(*boxes)
    with np.errstate(all="ignore"):
        plain = formula(*(inside(data, box) for box in boxes))
    assert found.shape == plain.shape
    assert holds(found, plain)


EXACTLY = {
    np.tanh: mpmath.tanh,
    np.exp: mpmath.exp,
    np.log: mpmath.log,
    np.log1p: mpmath.log1p,
    np.sqrt: mpmath.sqrt,
    np.square: lambda x: x * x,
    np.absolute: abs,
}
EXACTLY_OF_TWO = {
    np.add: lambda a, b: a + b,
    np.subtract: lambda a, b: a - b,
    np.multiply: lambda a, b: a * b,
    np.true_divide: lambda a, b: a / b,
}


@pytest.mark.parametrize("function", EXACTLY)
@given(x=NUMBERS)
def test_a_function_of_a_point_holds_the_real_number(function: Any, x: float) -> None:
    x = abs(x) + 0.01 if function in (np.log, np.sqrt) else max(x, -0.99) if function is np.log1p else x
    found = function(Box.of(np.array(x)))
    with mpmath.workdps(60):
        assert found.low <= EXACTLY[function](mpmath.mpf(x)) <= found.high
    assert found.width <= 1e-14 * max(1.0, abs(float(found.high)))


@pytest.mark.parametrize("function", EXACTLY_OF_TWO)
@given(a=NUMBERS, b=NUMBERS)
def test_an_operation_on_points_holds_the_real_number(function: Any, a: float, b: float) -> None:
    b = b or 3.0
    found = function(Box.of(np.array(a)), Box.of(np.array(b)))
    with mpmath.workdps(60):
        assert found.low <= EXACTLY_OF_TWO[function](mpmath.mpf(a), mpmath.mpf(b)) <= found.high


@given(a=matrices(2, 5), b=matrices(5, 2), half=st.sampled_from([0.0, 0.01]), sides=st.sampled_from(["ab", "a", "b"]))
def test_a_matrix_product_holds_the_real_one(a: Any, b: Any, half: float, sides: str) -> None:
    found = Box.around(a, half if "a" in sides else 0) @ Box.around(b, half if "b" in sides else 0)
    with mpmath.workdps(60):
        exact = mpmath.matrix(a.tolist()) * mpmath.matrix(b.tolist())
        assert all(found.low[i, j] <= exact[i, j] <= found.high[i, j] for i in range(2) for j in range(2))


def test_whole_numbers_stay_points() -> None:
    assert (Box.of(np.eye(3) * 7) @ Box.of(np.ones((3, 2))) + 1.0).is_point
    assert (Box.of(np.arange(4.0)) * 3.0 - 1.0).is_point


def test_a_certain_zero_wins_over_infinity() -> None:
    found = Box.of(np.array([[0.0, 1.0]])) @ Box.of(np.array([[np.nan], [2.0]]))
    np.testing.assert_allclose([found.low[0, 0], found.high[0, 0]], [2, 2], rtol=1e-13)


def test_division_by_what_may_be_zero_says_nothing_more_than_its_sides() -> None:
    one = Box.of(np.array(1.0))
    ends = {
        (low, high): [float(end) for end in (one / Box(np.array(low), np.array(high))).parts]
        for low, high in [(-1.0, 2.0), (0.0, 2.0), (-2.0, 0.0)]
    }
    assert ends[-1.0, 2.0] == [-np.inf, np.inf]
    assert ends[0.0, 2.0] == pytest.approx([0.5, np.inf])
    assert ends[-2.0, 0.0] == pytest.approx([-np.inf, -0.5])


def test_where_by_an_uncertain_comparison_is_the_hull() -> None:
    x = Box(np.array([-2.0, -1.0, 1.0]), np.array([-1.0, 3.0, 3.0]))
    found = np.where(x > 0, x, 0.1 * x)
    np.testing.assert_allclose(found.low, [-0.2, -1.0, 1.0])
    np.testing.assert_allclose(found.high, [-0.1, 3.0, 3.0])


def test_a_branch_on_uncertain_numbers_is_told() -> None:
    with pytest.raises(Opaque, match="branch"):
        bool(Box(np.array(-1.0), np.array(1.0)) > 0)
    assert bool(Box(np.array(1.0), np.array(2.0)) > 0)


def test_what_intervals_do_not_know_is_told() -> None:
    with pytest.raises(Opaque, match=r"np\.sort cannot be read in intervals"):
        np.sort(Box.of(np.ones(3)))
    with pytest.raises(Opaque, match=r"np\.sin cannot"):
        np.sin(Box.of(np.ones(3)))
    with pytest.raises(Opaque, match="plain array"):
        np.asarray(Box.of(np.ones(3)))
    with pytest.raises(Opaque, match="writing into"):
        Box.of(np.ones(3))[0] = 2.0
    with pytest.raises(Opaque, match="do not mix"):
        Box.of(np.ones(3)) + Shape(3)


# -- tight forms -------------------------------------------------------------------------------------------------------

FACTS = {
    "softmax": {"sums_to_one": True},
    "sum": {"bounded": False, "monotone": False},
    "hardmax": {"sums_to_one": True, "jumps": True},
    "sparsemax": {"bounded": False, "sums_to_one": True},
    "sigmoid": {},
    "none": {"bounded": False},
}


@pytest.mark.parametrize("name", FACTS)
@given(s=matrices(2, 4), half=HALVES, data=st.data())
def test_normalizers_hold_all_weights(name: str, s: Any, half: float, data: Any) -> None:
    function, x = NORMALIZERS.find(name).function, Box.around(s, half)
    found = tight.normalized(function, x, OVER, **FACTS[name])
    weights = function(inside(data, x), OVER)
    assert holds(found, weights)
    assert holds(found[~OVER], 0.0)
    assert found[~OVER].width <= 1e-9


def test_softmax_reaches_its_bounds() -> None:
    """One score high and the others low; dividing an interval by an interval would give 0.245 to 0.906 instead."""
    x = Box(np.array([[0.0, 0.5]]), np.array([[0.5, 1.0]]))
    found = tight.normalized(NORMALIZERS.find("softmax").function, x, np.ones((1, 2), dtype=bool))
    np.testing.assert_allclose(found.low[0], [1 / (1 + np.e), 0.5], rtol=1e-14)
    np.testing.assert_allclose(found.high[0], [0.5, 1 / (1 + np.exp(-1))], rtol=1e-14)


@given(s=matrices(2, 4), v=matrices(4, 2), half=HALVES, data=st.data())
def test_averages_hold_all_averages_and_are_no_wider_than_their_values(s: Any, v: Any, half: float, data: Any) -> None:
    logits, values = Box.around(s, half), Box.around(v, half)
    found = tight.averaged(logits, OVER, values)
    weights = NORMALIZERS.find("softmax").function(inside(data, logits), OVER)
    assert holds(found, weights @ inside(data, values))
    assert (found.high <= values.high.max(axis=0) + 1e-12).all()
    assert (found.low >= values.low.min(axis=0) - 1e-12).all()


def test_an_average_reaches_its_bounds() -> None:
    """By corners: the largest average of 0 and 1 under scores in [0, 1] is e / (1 + e)."""
    logits = Box(np.zeros((1, 2)), np.ones((1, 2)))
    found = tight.averaged(logits, np.ones((1, 2), dtype=bool), Box.of(np.array([[0.0], [1.0]])))
    np.testing.assert_allclose([found.low[0, 0], found.high[0, 0]], [1 / (1 + np.e), np.e / (1 + np.e)], rtol=1e-13)


@given(q=matrices(2, 3), k=matrices(3, 3), half=HALVES, data=st.data())
def test_cosines_and_directions_hold_all(q: Any, k: Any, half: float, data: Any) -> None:
    def direction(x: Any) -> Any:
        length = np.linalg.norm(x, axis=-1, keepdims=True)
        return x / np.where(length > 0, length, 1)

    boxes = Box.around(q, half), Box.around(k, half)
    points = [inside(data, box) for box in boxes]
    assert holds(tight.cosines(*boxes), np.clip(direction(points[0]) @ direction(points[1]).mT, -1, 1))
    found = tight.directions(boxes[0])
    assert holds(found, direction(points[0]))
    assert (np.abs(found.high) <= 1).all()
    assert holds(distances(*boxes), np.linalg.norm(points[0][:, None] - points[1][None], axis=-1))


def test_the_direction_of_a_quadrant_is_tight() -> None:
    found = tight.directions(Box(np.array([[3.0, -4.0]]), np.array([[3.0, 4.0]])))
    np.testing.assert_allclose(found.low, [[0.6, -0.8]], rtol=1e-13)
    np.testing.assert_allclose(found.high, [[1.0, 0.8]], rtol=1e-13)


@given(s=matrices(2, 4), half=HALVES)
def test_the_shift_leaves_the_logarithm_of_a_sum_tight(s: Any, half: float) -> None:
    """log sum e^s grows with every score, so that its bounds are those at the bounds."""
    x = Box.around(s, half)
    top = tight.shift(x, OVER)
    found = top + np.log(np.sum(np.where(OVER, np.exp(x - top), 0), axis=-1, keepdims=True))
    for end, bound in zip(x.parts, found.parts, strict=True):
        plain = np.log(np.sum(np.where(OVER, np.exp(end), 0), axis=-1, keepdims=True))
        np.testing.assert_allclose(bound, plain, rtol=1e-12, atol=1e-12)
