"""Exact numbers as text: `e^(2/sqrt(3)) / (e^(2/sqrt(3)) + 1)`."""

from __future__ import annotations

from typing import Any

import sympy
from sympy.printing.str import StrPrinter

from attncli.report.notation import ATOM, NEGATIVE, POWER, PRODUCT, SUM


class _Printer(StrPrinter):  # type: ignore[misc]
    """sympy's own text, but with e^x for exp(x), ^ for **, and roots below the line where they came from there."""

    def _print_ExpBase(self, expression: Any) -> str:
        return f"e^{self._in_power(expression.exp)}"

    def _print_exp(self, expression: Any) -> str:
        return f"e^{self._in_power(expression.args[0])}"

    def _print_Exp1(self, expression: Any) -> str:
        return "e"

    def _print_Pow(self, expression: Any, rational: bool = False) -> str:
        base, exponent = expression.as_base_exp()
        if exponent == sympy.Rational(1, 2):
            return f"sqrt({self._print(base)})"
        if base == sympy.E:
            return f"e^{self._in_power(exponent)}"
        if exponent.is_Rational and exponent < 0:
            below = base**-exponent
            return f"1/{self.parenthesize(below, 70)}"
        return f"{self._in_power(base)}^{self._in_power(exponent)}"

    def _print_Mul(self, expression: Any) -> str:
        if expression.could_extract_minus_sign() and not expression.is_Number:
            return f"-{self.parenthesize(-expression, 45)}"
        above, below = _root_below(expression) or expression.as_numer_denom()
        if below == 1:
            return "*".join(self.parenthesize(factor, 50) for factor in sympy.Mul.make_args(above))
        return f"{self.parenthesize(above, 50)}/{self._bracketed(below)}"

    def _bracketed(self, expression: Any) -> str:
        text = self._print(expression)
        return f"({text})" if expression.is_Mul or expression.is_Add else text

    def _in_power(self, expression: Any) -> str:
        text = self._print(expression)
        is_root = expression.is_Pow and expression.exp == sympy.Rational(1, 2)
        return text if is_root or (expression.is_Integer and expression >= 0) else f"({text})"


def _root_below(expression: Any) -> tuple[Any, Any] | None:
    """2*sqrt(3)/3 as (2, sqrt(3)): sympy moves roots above the line; who divides by sqrt(d_k) leaves them below."""
    factor, rest = expression.as_coeff_Mul()
    if not factor.is_Rational or not rest.is_Pow or rest.exp != sympy.Rational(1, 2) or not rest.base.is_Integer:
        return None
    if factor.q % rest.base:
        return None
    return sympy.Integer(factor.p), sympy.Mul(factor.q // rest.base, rest)


def as_text(expression: Any) -> tuple[str, int]:
    """An exact number as text, and how tightly it binds inside a term."""
    text = _Printer().doprint(expression)
    if expression.is_Add:
        binds = SUM
    elif text.startswith("-"):
        binds = NEGATIVE
    elif "/" in text or (expression.is_Mul and not expression.is_Number):
        binds = PRODUCT
    else:
        binds = POWER if text.startswith("e^") else ATOM
    return text, binds
