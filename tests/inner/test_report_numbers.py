"""Rounding: of the shortest decimal, as Python's decimal module rounds it."""

from __future__ import annotations

import decimal
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from attncli.report.numbers import percent, spell, spell_one

MODES = {"half-even": decimal.ROUND_HALF_EVEN, "half-up": decimal.ROUND_HALF_UP}


def by_decimal(text: str, precision: int, rounding: str) -> str:
    with decimal.localcontext() as context:
        context.prec = 400
        rounded = Decimal(text).quantize(Decimal(1).scaleb(-precision), rounding=MODES[rounding])
    return f"{rounded:f}".removeprefix("-") if rounded == 0 else f"{rounded:f}"


@pytest.mark.parametrize(
    ("number", "precision", "even", "up"),
    [
        (2.675, 2, "2.68", "2.68"),
        (0.125, 2, "0.12", "0.13"),
        (0.375, 2, "0.38", "0.38"),
        (-0.125, 2, "-0.12", "-0.13"),
        (0.35, 1, "0.4", "0.4"),
        (0.45, 1, "0.4", "0.5"),
        (0.015, 2, "0.02", "0.02"),
        (0.025, 2, "0.02", "0.03"),
        (0.005, 2, "0.00", "0.01"),
        (2.5, 0, "2", "3"),
        (-0.5, 0, "0", "-1"),
        (-0.004, 2, "0.00", "0.00"),
        (-0.0, 4, "0.0000", "0.0000"),
        (1e-9, 4, "0.0000", "0.0000"),
        (0.99995, 4, "1.0000", "1.0000"),
        (0.999949, 4, "0.9999", "0.9999"),
        (1e15 + 0.125, 2, "1000000000000000.10", "1000000000000000.10"),
        (float("inf"), 4, "inf", "inf"),
        (float("-inf"), 0, "-inf", "-inf"),
        (float("nan"), 17, "nan", "nan"),
        (-float("nan"), 2, "nan", "nan"),
        (1e300, 4, "1.0000e+300", "1.0000e+300"),
        (-1.23456e17, 4, "-1.2346e+17", "-1.2346e+17"),
        (9.99996e16, 4, "1.0000e+17", "1.0000e+17"),
        (2.5e16, 0, "2e+16", "3e+16"),
        (0.1, 17, "0.10000000000000000", "0.10000000000000000"),
    ],
)
def test_known_roundings(number: float, precision: int, even: str, up: str) -> None:
    assert spell_one(number, precision, "half-even") == even
    assert spell_one(number, precision, "half-up") == up


@given(
    st.floats(-9e15, 9e15) | st.decimals(-1000, 1000, places=5).map(float) | st.decimals(-9, 9, places=3).map(float),
    st.integers(0, 17),
    st.sampled_from(sorted(MODES)),
)
@example(4503599627370495.5, 0, "half-even")
@example(999999999999999.9, 0, "half-up")
def test_the_shortest_decimal_is_rounded(number: float, precision: int, rounding: str) -> None:
    assert spell_one(number, precision, rounding) == by_decimal(repr(number), precision, rounding)


@given(
    st.floats(-(2.0**49), 2.0**49, width=32) | st.decimals(-1000, 1000, places=3).map(lambda x: float(np.float32(x))),
    st.integers(0, 8),
    st.sampled_from(sorted(MODES)),
)
@example(0.10000000149011612, 8, "half-even")
def test_a_float32_is_rounded_from_its_own_decimal(number: float, precision: int, rounding: str) -> None:
    single = np.float32(number)
    assert spell_one(single, precision, rounding) == by_decimal(str(single), precision, rounding)


@given(st.floats(1e16, allow_infinity=False), st.integers(0, 17))
def test_large_numbers_have_an_exponent(number: float, precision: int) -> None:
    text = spell_one(number, precision)
    mantissa, _, exponent = text.partition("e+")
    assert len(mantissa.replace(".", "")) == precision + 1
    assert mantissa[0] != "0"
    with decimal.localcontext() as context:
        context.prec = 400
        assert abs(Decimal(text) - Decimal(repr(number))) <= Decimal(5).scaleb(int(exponent) - precision - 1)


def test_a_matrix_of_whole_numbers_and_none() -> None:
    assert spell(np.array([[1, -2], [300, 0]]), 1) == [["1.0", "-2.0"], ["300.0", "0.0"]]
    assert spell(np.zeros((0, 3))) == []
    assert spell(np.array([[True]]), 0) == [["1"]]


@pytest.mark.parametrize(
    ("part", "whole", "told"),
    [(262114, 262144, "99.99 %"), (262143, 262144, "99.9996 %"), (1, 262144, "0.000381 %"), (5, 5, "100 %"),
     (0, 7, "0 %"), (1, 3, "33.3 %"), (10**15 - 1, 10**15, "99.9999999999999 %"), (1, 10**9, "1e-07 %")],
)  # fmt: skip
def test_percentages_are_all_or_none_only_where_they_are(part: int, whole: int, told: str) -> None:
    assert percent(part, whole) == told
