"""Terms of an explanation, evaluated, and exact numbers as people write them."""

from __future__ import annotations

from typing import Any

import pytest
import sympy

from attncli.arithmetic.trees import Number, evaluate, op, total
from attncli.report.exact import as_text


def test_operations_by_hand() -> None:
    term = total([op("product", Number(2), Number(3)), op("quotient", Number(1), op("sqrt", Number(4)))])
    assert evaluate(term, lambda cell: 0.0) == 6.5
    assert evaluate(op("within", Number(1), Number(1)), lambda cell: 0.0) == 1
    assert evaluate(op("exp", Number(1000)), lambda cell: 0.0) == float("inf")


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (2 / sympy.sqrt(3), "2/sqrt(3)"),
        (sympy.exp(2 / sympy.sqrt(3)), "e^(2/sqrt(3))"),
        (-sympy.Rational(1, 3), "-1/3"),
        (sympy.sqrt(2) / 3, "sqrt(2)/3"),
        (5 / (2 * sympy.sqrt(7)), "5/(2*sqrt(7))"),
        (sympy.exp(-1), "e^(-1)"),
        (3 * sympy.sqrt(5), "3*sqrt(5)"),
    ],
)
def test_exact_numbers_as_people_write_them(expression: Any, text: str) -> None:
    assert as_text(expression)[0] == text
