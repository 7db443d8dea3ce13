"""Numbers as people write them."""

from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.problem.arithmetic import evaluate, parse_expression
from attncli.problem.numbers import is_number, looks_like_number, parse_number, places, shortest
from tests.inside import InputError, Place


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("-.5", -0.5),
        ("+.5", 0.5),
        ("+2", 2.0),
        ("5.", 5.0),
        ("010", 10.0),
        ("1E5", 1e5),
        (".1e5", 10000.0),
        ("\u22121.5", -1.5),
        ("\u00a07\u00a0", 7.0),
        ("5e-324", 5e-324),
        ("1e-400", 0.0),
        ("1/3", 1 / 3),
        ("-3/4", -0.75),
        ("2^-1", 0.5),
        ("2**-1", 0.5),
        ("-2^2", -4.0),
        ("2^3^2", 512.0),
        ("0.1/0.3", 1 / 3),
        ("sqrt(2)/2", math.sqrt(2) / 2),
        ("1/sqrt(4)", 0.5),
        ("√2", math.sqrt(2)),
        ("-√(1/4)", -0.5),
        ("√2/2", math.sqrt(2) / 2),
        ("2√9", 6.0),
        ("2√9/3", 2.0),
        ("(1/2)√4", 1.0),
        ("1/√4", 0.5),
        ("√4^2", 4.0),
        ("sqrt(1/4)", 0.5),
        ("(1+sqrt(5))/2", (1 + math.sqrt(5)) / 2),
        ("3*(2-5)", -9.0),
        ("1 / 3", 1 / 3),
        ("2^0.5", math.sqrt(2)),
        ("inf", math.inf),
        ("-Infinity", -math.inf),
        ("+.inf", math.inf),
        ("\u2212\u221e", -math.inf),
        ("-oo", -math.inf),
        ("e^1", math.e),
        ("e^-1", math.exp(-1)),
        ("2/e^2", 2 / math.exp(2)),
        ("exp(1)", math.e),
        ("exp(1/2)", math.exp(0.5)),
        ("1/sqrt2", 1 / math.sqrt(2)),
        ("≈0.71", 0.71),
        ("≈ -0.71", -0.71),
        ("~0.71", 0.71),
        ("27 %", 0.27),
        ("27%", 0.27),
        ("2.5%", 0.025),
        ("2×10^3", 2000.0),
        ("2.5·10^-3", 0.0025),
        ("2x10^3", 2000.0),
        ("2×10⁻³", 0.002),
        ("6÷4", 1.5),
    ],
)
def test_is_read_as(text: str, value: float) -> None:
    assert parse_number(text) == value


def test_minus_zero_keeps_its_sign() -> None:
    assert math.copysign(1, parse_number("-0")) == -1


@pytest.mark.parametrize("text", ["nan", "NaN", "-nan", ".nan", ".NaN"])
def test_nan(text: str) -> None:
    assert math.isnan(parse_number(text))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "missing"),
        ("2 sqrt(2)", "a product has a sign: 2*sqrt(2)"),
        ("1/2(3)", "a product has a sign: 1/2*(3)"),
        ("1/2√3", "put one of them in parentheses"),
        ("√", '"√" is not a number'),
        ("x", '"x" is not a number'),
        ("0x10", "hexadecimal"),
        ("0o10", "octal"),
        ("0b1", "binary"),
        ("1_000", "underscores"),
        ("1:30", "colon"),
        ("1,5", "write 1.5"),
        ("1,234", "1234"),
        ("1 000", "blank"),
        ("1\u00a0000", "U+00A0 NO-BREAK SPACE"),
        ("\uff11", "U+FF11 FULLWIDTH DIGIT ONE"),
        ("\u20131", "U+2013 EN DASH"),
        ("1e400", "too large"),
        ("-1e400", "too large"),
        ("10^400", "too large"),
        ("9^9^9^9", "too large"),
        ("1e999999999/2", "too large"),
        ("9" * 5000, "too large"),
        ("1/0", "division by zero"),
        ("0^-1", "division by zero"),
        ("sqrt(-1)", "square root of a negative"),
        ("(-1)^(1/2)", "power of a negative"),
        ("1+2j", "complex"),
        ("1.0D-03", "not a number"),
        ("1-3", "parentheses: (1-3) is -2"),
        ("1 -2", "a comma is missing: 1, -2"),
        ("0x-10", "write it as in"),
        ("2001-13-45", "parentheses"),
        ("1/2/24", "parentheses"),
        ("__import__('os')", "not a number"),
        ("(1", "not a number"),
        ("1)", "not a number"),
        ("((((((((((((((((((((((1))))))))))))))))))))))", "not a number"),
        ("True", "not a number"),
        ("1e", "not a number"),
        ("1\x00", "not a number"),
    ],
)
def test_is_refused_and_told_why(text: str, told: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_number(text, place=Place("a.csv", 3, 2))
    assert told in str(caught.value)
    assert str(caught.value).startswith("a.csv:3:2: ")


def test_decimal_comma() -> None:
    assert parse_number("0,5", decimal=",") == 0.5
    assert parse_number("-3,5e-1", decimal=",") == -0.35
    assert parse_number("7", decimal=",") == 7
    for text in ("0.5", "1.234,5", "1,2,3"):
        with pytest.raises(InputError):
            parse_number(text, decimal=",")


@given(st.floats(allow_nan=False))
def test_the_shortest_text_reads_back(value: float) -> None:
    back = parse_number(shortest(value))
    assert back == value
    assert math.copysign(1, back) == math.copysign(1, value)


@given(st.floats(-1e307, 1e307), st.sampled_from(["%.17e", "%.25f", "%.3g", "%+.6E"]))
def test_decimals_are_read_as_python_does(value: float, form: str) -> None:
    text = form % value
    assert parse_number(text) == float(text)


@given(st.integers(-(10**6), 10**6), st.integers(1, 10**6))
def test_fractions_are_rounded_once(above: int, below: int) -> None:
    assert parse_number(f"{above}/{below}") == above / below


@given(st.text(max_size=30))
def test_any_text_is_a_number_or_an_input_error(text: str) -> None:
    try:
        value = parse_number(text)
    except InputError:
        assert not is_number(text)
    else:
        assert isinstance(value, float)
        assert looks_like_number(text)


@given(st.text(alphabet="0123456789.+-*/^()eEsqrtinfa ,_", max_size=12))
def test_number_like_text_too(text: str) -> None:
    with contextlib.suppress(InputError):
        assert isinstance(parse_number(text), float)


@pytest.mark.parametrize(
    "text",
    ["0x10", "1_000", "1,5", "1,234", "1 000", "1:30", "1e400", "1/0", "1+2j", "1.0D-03", "\u20131", "\uff11"],
)
def test_a_number_gone_wrong_is_no_label(text: str) -> None:
    assert not is_number(text)
    assert looks_like_number(text)


@pytest.mark.parametrize(
    "text", ["the", "q1", "1st", "[CLS]", "#", "", "-", "e", "x-ray", "3-gram", "a,b", "\u732b", "None"]
)
def test_a_word_is_no_number(text: str) -> None:
    assert not looks_like_number(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("0.50", 2),
        ("6.0e-06", 7),
        ("12", 0),
        ("1.2e3", -2),
        ("\u22120.5", 1),
        ("5.", 0),
        (".25", 2),
        ("1/3", None),
        ("inf", None),
        ("≈0.71", 2),
        ("27 %", 2),
        ("26.9%", 3),
        ("2.50×10^3", -1),
        ("2.50*10^-3", 5),
    ],
)
def test_places(text: str, count: int | None) -> None:
    assert places(text) == count


def test_arithmetic_is_a_tree_for_any_operations() -> None:
    tree = parse_expression("-1/sqrt(3)")
    assert tree == ("/", ("neg", ("number", "1")), ("sqrt", ("number", "3")))
    spelled = {
        "number": str,
        "neg": lambda x: f"-{x}",
        "sqrt": lambda x: f"root {x}",
        "/": lambda x, y: f"{x} over {y}",
    }
    assert evaluate(tree, spelled) == "-1 over root 3"


@pytest.mark.parametrize(
    ("decimal", "text", "hint"),
    [
        (None, "0,3302", "a decimal comma? write 0.3302"),
        (None, "1,5/2", "a decimal comma? write 1.5/2"),
        (None, "1,2,3", "these are 3 numbers: they stand in cells of their own"),
        (None, "1,234", "write 1234 without separators, or write 1.234 if the comma is the decimal mark"),
        (None, "1,234,567", "write 1234567 without separators"),
        (".", "0,3302", "a decimal comma? use --decimal ,"),
        (".", "1,234", "write 1234 without separators, or use --decimal , if the comma is the decimal mark"),
        (",", "1,234,567", "the comma is the decimal mark here: a number has one of them"),
    ],
)
def test_advice_on_a_comma_can_be_followed(decimal: str | None, text: str, hint: str) -> None:
    """--decimal is not named where it has no say, nor where it was given already."""
    with pytest.raises(InputError) as caught:
        parse_number(text, decimal=decimal)
    assert caught.value.hint == hint
