"""Units of the last written place, and what may stand behind a number; the expectations are by hand."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from attncli.verify.written import Written, _spelled, as_written


@pytest.fixture(autouse=True)
def at_the_door() -> Iterator[None]:
    """NumPy's warnings are ignored, as `check` does for all that it calls."""
    with np.errstate(all="ignore"):
        yield


def grid(*texts: str | None, **places: int) -> Written:
    def value(text: str | None) -> float:
        return np.nan if text is None else float(eval(text, {"sqrt": np.sqrt, "inf": np.inf}))  # the test's own texts

    return as_written(np.array([[value(text) for text in texts]]), [list(texts)], **places)


@pytest.mark.parametrize(
    ("text", "decimals"),
    [("0.50", 2), ("6.0e-06", 7), ("12", 0), ("-.5", 1), ("5.", 0), ("1.2e3", -2), ("\u22120.25", 2), ("0,50", 2),
     ("1/3", None), ("sqrt(2)/2", None), ("inf", None)],
)  # fmt: skip
def test_decimals(text: str, decimals: int | None) -> None:
    assert _spelled(text)[0] == decimals


@pytest.mark.parametrize(
    ("texts", "places", "units"),
    [
        (("0.50", "0.123"), {}, (0.01, 0.001)),
        (("1", "0.12"), {}, (0.01, 0.01)),  # written in full: 1.00
        (("1", "2"), {}, (1, 1)),
        (("1", "0.12", "0.345"), {}, (0.001, 0.01, 0.001)),
        (("1/3", "0.5"), {}, (0, 0.1)),
        (("1.0", "0.5"), {"decimals": 3}, (0.001, 0.001)),
        (("0.1234", "1/3"), {"decimals": 2}, (0.01, 0)),  # what is stated overrules the spelling
        (("0.98201", "6.0337e-06"), {"significant": 5}, (1e-5, 1e-10)),
        (("0.1", "2.0", "0"), {"significant": 3}, (0.001, 0.01, 0.001)),
        (("150",), {"significant": 2}, (10,)),
        (("1", "0"), {"significant": 3}, (0.01, 0.01)),
        (("1", "0.0001733", "1.71e-06"), {"significant": 4}, (0.001, 1e-7, 1e-9)),  # 1.000
    ],
)
def test_units(texts: tuple[str, ...], places: dict[str, int], units: tuple[float, ...]) -> None:
    np.testing.assert_allclose(grid(*texts, **places).unit[0], units, rtol=1e-12)


def test_blank_is_not_marked() -> None:
    hand = grid("0.5", None)
    assert hand.blank.tolist() == [[False, True]]
    assert hand.agrees(np.array([[0.9, 7.0]])).tolist() == [[False, True]]


@pytest.mark.parametrize(
    ("text", "x", "agrees", "truncated"),
    [
        ("0.12", 0.125, True, True),  # a tie, either way
        ("0.13", 0.125, True, False),
        ("0.0", 0.0634, False, True),
        ("-0.0", -0.0634, False, True),
        ("-0.36", -0.3684, False, True),
        ("-0.37", -0.3684, True, False),
        ("0.37", 0.3599, False, False),
        ("11", 12.0, False, False),  # 12 has its own place
        ("11", 11.999999999999998, False, False),  # which float noise must not take away
        ("0.335", 0.3345, True, False),
        ("1/3", 1 / 3, True, False),
        ("1/3", 0.3333, False, False),
        ("inf", np.inf, True, False),
        ("-inf", -np.inf, True, False),
        ("-inf", -1e9, False, False),
        ("1.0", np.inf, False, False),
        ("1.0", np.nan, False, False),
    ],
)
def test_comparisons(text: str, x: float, agrees: bool, truncated: bool) -> None:
    hand, exact = grid(text), np.array([[x]])
    assert bool(hand.agrees(exact)) is agrees
    assert bool(hand.truncated(exact)) is truncated
    assert bool(hand.reproduced(exact)) is (agrees or truncated)


@pytest.mark.parametrize(
    ("text", "low", "high", "meets"),
    [
        ("0.52", 0.5766, 0.5771, False),
        ("0.58", 0.5766, 0.5771, True),
        ("0.57", 0.5766, 0.5771, True),  # cut
        ("0.57", 0.5601, 0.5649, False),
        ("0.57", 0.5601, 0.5650, True),
        ("0.57", 0.58, 0.59, False),
        ("-0.57", -0.5799, -0.578, True),
        ("0.0", -0.5, 0.5, True),
        ("11", 12 - 1e-15, 12 + 1e-15, False),
    ],
)
def test_meets(text: str, low: float, high: float, meets: bool) -> None:
    assert bool(grid(text).meets(np.array([[low]]), np.array([[high]]))) is meets


def test_hypotheses_are_leading_axes() -> None:
    hand = grid("0.5", "0.12")
    assert hand.reproduced(np.array([[[0.5, 0.12]], [[0.4, 0.12]]])).all(axis=(-1, -2)).tolist() == [True, False]


def test_fits() -> None:
    assert grid("1", "20").fits(np.array([[3.0, -7.0]]))
    assert not grid("1", "20").fits(np.array([[3.0, 0.5]]))
    assert grid("0.5", "1.5").fits(np.array([[0.1 + 0.2, 0.7]]))


def test_digits() -> None:
    assert grid("0.42693272", "12.5", "0.0", "1/3").digits.tolist() == [[8, 3, 0, 0]]
