"""Numbers rounded on the way: as decimal arithmetic rounds them, and only where a habit says so."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import pytest
from formulas import FORMULAS, OVER, Formula, additive, distances, matrices
from hypothesis import given, settings

from attncli.arithmetic import rounded as readings
from attncli.arithmetic.habits import HOWS, SITES, Habit, Habits, habits_of
from attncli.arithmetic.rounded import Rounded
from attncli.errors import Opaque
from attncli.pipeline.normalizers import NORMALIZERS

WAYS = {"half-even": ROUND_HALF_EVEN, "half-up": ROUND_HALF_UP, "cut": ROUND_DOWN}


def by_hand(x: Any, how: str, places: int) -> np.ndarray:
    """Each number as its shortest decimal, rounded as `decimal` does."""
    unit = Decimal(1).scaleb(-places)
    decimals = [float(Decimal(repr(float(number))).quantize(unit, WAYS[how])) for number in np.ravel(x)]
    return np.array(decimals).reshape(np.shape(x))


def every_how(site: str, *places: int) -> Habits:
    return habits_of([Habit(frozenset({site}), how, p) for how in HOWS for p in places])


def each(habits: Habits, found: Rounded, expected: Callable[[Habit], Any]) -> None:
    for line, habit in zip(found.lines, habits.habits, strict=True):
        np.testing.assert_allclose(line, expected(habit), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("formula", FORMULAS)
@settings(max_examples=25)
@given(q=matrices(2, 3), k=matrices(4, 3))
def test_who_keeps_all_digits_has_the_plain_numbers(formula: Formula, q: Any, k: Any) -> None:
    habits = habits_of([Habit(), Habit(frozenset(SITES), places=1), Habit()])
    found = formula(Rounded.given(q, habits), Rounded.given(k, habits))
    assert found.shape == formula(q, k).shape
    for line in (0, 2):
        np.testing.assert_allclose(found.lines[line], formula(q, k), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name", ["softmax", "sum", "hardmax", "sparsemax", "sigmoid", "none"])
@settings(max_examples=25)
@given(s=matrices(2, 4))
def test_normalizers(name: str, s: Any) -> None:
    function, habits = NORMALIZERS.find(name).function, habits_of([Habit(), Habit(frozenset({"steps"}), places=1)])
    found = function(Rounded.given(s, habits).at("steps"), OVER)
    for line, plain in zip(found.lines, (s, by_hand(s, "half-even", 1)), strict=True):
        np.testing.assert_allclose(line, function(plain, OVER), rtol=1e-12, atol=1e-12)


@given(x=matrices(3, 3))
def test_numbers_are_rounded_as_decimals_are(x: Any) -> None:
    x, habits = np.round(x, 6), every_how("steps", 1, 2, 3)  # what is nearer than that to a tie is one
    each(habits, Rounded.given(x, habits).at("steps"), lambda habit: by_hand(x, habit.how, habit.places))


def test_ties_that_floats_miss_are_ties() -> None:
    habits = every_how("steps", 2)
    found = Rounded.given(np.array([2.675, 1.005, -0.125, 0.29]), habits).at("steps")
    assert found.lines.tolist() == [[2.68, 1.0, -0.12, 0.29], [2.68, 1.01, -0.13, 0.29], [2.67, 1.0, -0.12, 0.29]]


def test_the_terms_of_products() -> None:
    a, b = np.array([[0.123, 0.456], [1.5, -0.25]]), np.array([[0.5, 1.005], [0.333, -2.0]])
    habits = every_how("terms", 1, 2)
    found = Rounded.given(a, habits) @ b

    def expected(habit: Habit) -> np.ndarray:
        return by_hand(a[:, :, None] * b[None, :, :], habit.how, habit.places).sum(axis=1)

    each(habits, found, expected)


def test_what_is_inside_a_score() -> None:
    q, k = np.array([[0.3, -1.2]]), np.array([[1.0, 0.4], [0.5, 0.5]])
    habits = every_how("inside", 2)
    each(
        habits,
        distances(Rounded.given(q, habits), Rounded.given(k, habits)),
        lambda habit: by_hand(np.linalg.norm(q[:, None] - k[None], axis=-1), habit.how, 2),
    )
    q, k = np.array([[0.3, -1.2, 1.0]]), np.array([[1.0, 0.4, 0.0]])
    one, other = every_how("inside", 2), habits_of([Habit()])
    found, plain = (additive(Rounded.given(q, each), Rounded.given(k, each)) for each in (one, other))
    assert abs(found.lines - plain.lines).max() > 1e-4
    hundredths = found.lines * 200  # 1.5 and -2 times hundredths
    np.testing.assert_allclose(hundredths, np.rint(hundredths), atol=1e-9)


def test_e_to_places() -> None:
    habits = habits_of([Habit(frozenset({"e"}), places=p) for p in (2, 3, 4)])
    s = np.array([[1.5, -2.0, 3.0]])
    found = np.exp(Rounded.given(s, habits))
    np.testing.assert_allclose(found.lines[:, 0], [e ** s[0] for e in (2.72, 2.718, 2.7183)], rtol=1e-13)


def test_the_reciprocal_of_a_sum() -> None:
    e = np.array([[1.0, 2.5, 3.7]])
    habits = every_how("reciprocal", 2, 3)
    shown = Rounded.given(e, habits)
    each(habits, shown / shown.sum(axis=-1, keepdims=True), lambda h: e * by_hand([1 / 7.2], h.how, h.places))
    each(habits, shown / 3.0, lambda _: e / 3)


@pytest.mark.parametrize(
    ("number", "places", "kept"), [(3**0.5, 1, 1.7), (3**0.5, 0, 3**0.5), (0.125, 2, 0.12), (0.0442, 1, 0.0442)]
)
def test_a_root_or_scale_keeps_two_digits(number: float, places: int, kept: float) -> None:
    habits = habits_of([Habit(frozenset({"scale"}), places=places)])
    assert float(Rounded.given(np.array(number), habits).at("scale").lines[0]) == kept


def test_numbers_of_fewer_axes_meet_the_right_ones() -> None:
    """The habits' axis in front takes no part in broadcasting, whatever has more axes."""
    habits = every_how("steps", 1, 2)
    root = Rounded.given(np.array(3**0.5), habits).at("steps")
    table = np.array([0.125, 0.25, 0.375, 0.5])
    s, bias = np.arange(24.0).reshape(2, 3, 4), Rounded.given(table, habits).at("steps")
    each(habits, s / root + bias, lambda h: s / by_hand(3**0.5, h.how, h.places) + by_hand(table, h.how, h.places))


def test_indices_and_joins_leave_the_habits_in_front() -> None:
    habits = every_how("steps", 1, 2)
    x = np.arange(24.0).reshape(2, 3, 4) / 8
    shown = Rounded.given(x, habits).at("steps")
    for change in (
        lambda x: x[1],
        lambda x: x[..., 0, :],
        lambda x: x[:, [2, 0]],
        lambda x: x[None, :, 1:].sum(axis=0),
        lambda x: np.concatenate([x, 1 / np.ones((2, 1, 4))], axis=1),
        lambda x: np.stack([x, x], axis=0).max(axis=(0, -1)),
        lambda x: np.take(x, [[0, 1], [2, 2]], axis=1),
    ):
        each(habits, change(shown), lambda h, change=change: change(by_hand(x, h.how, h.places)))
    with pytest.raises(Opaque, match=r"np\.take"):
        shown[0, :, [1, 2]]


def test_exponentials_are_shifted_by_who_does_so() -> None:
    habits = habits_of([Habit(), Habit(shifted=True)])
    s = Rounded.given(np.array([[1.0, 3.0, 9.0, 2.0]]), habits)
    e = np.exp(s - readings.shift(s, OVER[:1]))
    np.testing.assert_allclose(e.lines[:, 0, :2], np.exp([[1.0, 3.0], [-2.0, 0.0]]))


def test_hidden_numbers_are_plain_booleans_and_branches_on_which_habits_disagree_are_told() -> None:
    habits = habits_of([Habit(frozenset({"steps"}), how, 0) for how in ("half-up", "cut")])
    x = Rounded.given(np.array([0.5, -np.inf]), habits).at("steps")
    assert np.isneginf(x).tolist() == [False, True]
    with pytest.raises(Opaque, match="habits disagree"):
        bool(x[0] > 0.5)
