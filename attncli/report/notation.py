"""How terms are written: as text, `2 × 0.5 + 1 / sqrt(3)`, and in LaTeX."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attncli.arithmetic.trees import Cell, Number, Term

# How tightly what stands in a term binds: a looser part inside a tighter one needs parentheses.
SUM, NEGATIVE, PRODUCT, POWER, ATOM = range(5)

_MOST_TERMS = 10  # of a sum; of more, the first ones and the last
_FIRST_TERMS = 4


@dataclass(frozen=True)
class Notation:
    """One way to write terms.

    forms: for each operation that is not a sum or a product a template and how tightly it binds; times: the sign
    between factors; gap: what stands for terms that are left out; parentheses: around a looser part; close: the sign
    before decimals of an exact number.
    """

    forms: dict[str, tuple[str, int, tuple[int, ...]]]
    times: str
    gap: str
    parentheses: tuple[str, str]
    close: str
    number: Callable[[str], str]
    exact: Callable[[Any], tuple[str, int]]

    def term(self, term: Term, leaf: Callable[[Cell], tuple[str, int]], number: Callable[[float], str]) -> str:
        """The term with numbers put in; `leaf` gives what stands for a cell, `number` writes the formula's own."""
        return self._write(term, leaf, number)[0]

    def binding(self, text: str) -> int:
        """How tightly a written number binds: one with a sign or an exponent does not stand inside a product."""
        return NEGATIVE if text.startswith("-") else ATOM

    def _write(
        self, term: Term, leaf: Callable[[Cell], tuple[str, int]], number: Callable[[float], str]
    ) -> tuple[str, int]:
        if isinstance(term, Cell):
            return leaf(term)
        if isinstance(term, Number):
            text = number(term.value)
            return text, self.binding(text)
        if term.kind == "sum":
            left_out = range(_FIRST_TERMS, len(term.args) - 1) if len(term.args) > _MOST_TERMS else range(0)
            told = [arg for at, arg in enumerate(term.args) if at not in left_out]
            return self._sum([self._write(arg, leaf, number) for arg in told], len(left_out)), SUM
        parts = [self._write(arg, leaf, number) for arg in term.args]
        if term.kind == "product":
            factors = [self._inside(part, PRODUCT) for part in parts]
            return self.times.join(factors), PRODUCT
        template, binds, needs = self.forms[term.kind]
        return template.format(*(self._inside(part, need) for part, need in zip(parts, needs, strict=True))), binds

    def _sum(self, parts: list[tuple[str, int]], left_out: int) -> str:
        shown = [parts[0][0], *(self._inside(part, PRODUCT) for part in parts[1:])]
        gap = [self.gap.format(left_out)] if left_out else []
        return " + ".join([*shown[:_FIRST_TERMS], *gap, *shown[_FIRST_TERMS:]])

    def _inside(self, part: tuple[str, int], need: int) -> str:
        text, binds = part
        return text if binds >= need else self.parentheses[0] + text + self.parentheses[1]


def _text_exact(expression: Any) -> tuple[str, int]:
    from attncli.report.exact import as_text

    return as_text(expression)


def _latex_exact(expression: Any) -> tuple[str, int]:
    import sympy

    binds = SUM if expression.is_Add else NEGATIVE if expression.could_extract_minus_sign() else PRODUCT
    if expression.is_Integer or expression.is_Symbol:
        binds = NEGATIVE if expression < 0 else ATOM
    return sympy.latex(expression), binds


def _latex_number(text: str) -> str:
    """inf as \\infty, an exponent as a power of ten."""
    text = text.replace("inf", r"\infty").replace("nan", r"\text{nan}")
    return re.sub(r"^(-?[\d.]+)e([+-]?)0*(\d+)$", lambda m: rf"{m[1]} \times 10^{{{m[2].strip('+')}{m[3]}}}", text)


TEXT = Notation(
    forms={
        "difference": ("{} - {}", SUM, (SUM, PRODUCT)),
        "quotient": ("{} / {}", PRODUCT, (PRODUCT, POWER)),
        "negative": ("-{}", NEGATIVE, (PRODUCT,)),
        "absolute": ("abs({})", ATOM, (SUM,)),
        "square": ("{}^2", POWER, (ATOM,)),
        "sqrt": ("sqrt({})", ATOM, (SUM,)),
        "exp": ("e^{}", POWER, (ATOM,)),
        "log": ("ln({})", ATOM, (SUM,)),
        "tanh": ("tanh({})", ATOM, (SUM,)),
        "max": ("max({}, {})", ATOM, (SUM, SUM)),
        "within": ("(1 if {} <= {}, else 0)", ATOM, (SUM, SUM)),
    },
    times=" × ",
    gap="({} more terms)",
    parentheses=("(", ")"),
    close="≈",
    number=lambda text: text,
    exact=_text_exact,
)

LATEX = Notation(
    forms={
        "difference": ("{} - {}", SUM, (SUM, PRODUCT)),
        "quotient": (r"\frac{{{}}}{{{}}}", ATOM, (SUM, SUM)),
        "negative": ("-{}", NEGATIVE, (PRODUCT,)),
        "absolute": (r"\left|{}\right|", ATOM, (SUM,)),
        "square": ("{}^{{2}}", POWER, (ATOM,)),
        "sqrt": (r"\sqrt{{{}}}", ATOM, (SUM,)),
        "exp": ("e^{{{}}}", POWER, (SUM,)),
        "log": (r"\ln\left({}\right)", ATOM, (SUM,)),
        "tanh": (r"\tanh\left({}\right)", ATOM, (SUM,)),
        "max": (r"\max\left({}, {}\right)", ATOM, (SUM, SUM)),
        "within": (r"\left[{} \le {}\right]", ATOM, (SUM, SUM)),
    },
    times=r" \cdot ",
    gap=r"\underbrace{{\cdots}}_{{{}\text{{ more}}}}",
    parentheses=(r"\left(", r"\right)"),
    close=r"\approx",
    number=_latex_number,
    exact=_latex_exact,
)
