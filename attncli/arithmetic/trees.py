"""The arithmetic of one number as a small tree over the numbers of earlier steps.

A number 0 of the formula itself (not one that a matrix holds) makes 0 of whatever it multiplies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Cell:
    """A number that stands in a step or an input: `scores`, (0, 2). Rows and columns count from 0, tokens as rows."""

    step: str
    index: tuple[int, ...]


@dataclass(frozen=True)
class Number:
    """A number of the formula itself, or a parameter: 1, 2, d_k, sigma."""

    value: float


@dataclass(frozen=True)
class Op:
    """An operation on terms; `kind` is one of `OPERATIONS`."""

    kind: str
    args: tuple[Term, ...]


Term: TypeAlias = Cell | Number | Op
ZERO, ONE = Number(0.0), Number(1.0)


def op(kind: str, *args: Term) -> Op:
    """An operation, its arguments one by one."""
    return Op(kind, args)


def _opened(kind: str, term: Term) -> tuple[Term, ...]:
    return term.args if isinstance(term, Op) and term.kind == kind else (term,)


def total(terms: Iterable[Term]) -> Term:
    """The sum of the terms, sums in it opened: 0 of none, the only one itself. A number 0 of the formula is dropped."""
    parts = [part for term in terms for part in _opened("sum", term) if part != ZERO]
    if parts and all(isinstance(part, Number) for part in parts):
        return Number(sum(part.value for part in parts if isinstance(part, Number)))
    return Op("sum", tuple(parts)) if len(parts) > 1 else parts[0] if parts else ZERO


def product(*factors: Term) -> Term:
    """The product of the factors, products in it opened. A number 1 of the formula is dropped; by 0 it is 0."""
    parts = [part for factor in factors for part in _opened("product", factor) if part != ONE]
    if ZERO in parts:
        return ZERO
    return Op("product", tuple(parts)) if len(parts) > 1 else parts[0] if parts else ONE


def difference(a: Term, b: Term) -> Term:
    """a - b."""
    return a if b == ZERO else negative(b) if a == ZERO else op("difference", a, b)


def quotient(a: Term, b: Term) -> Term:
    """a / b; a quotient that is divided again is divided by both, and a sign stands in front."""
    if b == ONE or a == ZERO:
        return a
    if isinstance(a, Op) and a.kind == "negative":
        return negative(quotient(a.args[0], b))
    if isinstance(a, Op) and a.kind == "quotient":
        return op("quotient", a.args[0], product(b, a.args[1]))
    return op("quotient", a, b)


def negative(a: Term) -> Term:
    """-a; a number of the formula takes the sign itself."""
    if isinstance(a, Number):
        return Number(-a.value)
    return a.args[0] if isinstance(a, Op) and a.kind == "negative" else op("negative", a)


def square(a: Term) -> Term:
    """a^2; of a root what is under it."""
    if isinstance(a, Op) and a.kind == "sqrt":
        return a.args[0]
    if isinstance(a, Op) and a.kind == "quotient" and isinstance(a.args[0], Op) and a.args[0].kind == "sqrt":
        return quotient(square(a.args[0]), square(a.args[1]))
    return op("square", a)


def largest(a: Term, b: Term) -> Term:
    """The larger of two."""
    if isinstance(a, Number) and isinstance(b, Number):
        return a if a.value >= b.value else b
    return op("max", a, b)


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _quotient(a: float, b: float) -> float:
    if b:
        return a / b
    return math.nan if not a or math.isnan(a) else math.copysign(math.inf, a)


# What each operation is on doubles.
OPERATIONS: dict[str, Callable[..., Any]] = {
    "sum": lambda *terms: math.fsum(terms) if all(map(math.isfinite, terms)) else sum(terms),
    "difference": lambda a, b: a - b,
    "product": lambda *factors: math.prod(factors),
    "quotient": _quotient,
    "negative": lambda a: -a,
    "absolute": abs,
    "square": lambda a: a * a,
    "sqrt": lambda a: math.sqrt(a) if a >= 0 else math.nan,
    "exp": _exp,
    "log": lambda a: math.log(a) if a > 0 else -math.inf if a == 0 else math.nan,
    "tanh": math.tanh,
    "max": max,
    "within": lambda u, limit: 1.0 if u <= limit else 0.0,
}


def evaluate(term: Term, leaf: Callable[[Cell], Any], operations: dict[str, Callable[..., Any]] = OPERATIONS) -> Any:
    """The value of a term; `leaf` gives the numbers of its cells, `operations` says in which arithmetic."""
    if isinstance(term, Cell):
        return leaf(term)
    if isinstance(term, Number):
        return operations.get("number", float)(term.value)
    return operations[term.kind](*(evaluate(arg, leaf, operations) for arg in term.args))


def magnitude(term: Term, leaf: Callable[[Cell], float]) -> float:
    """The size of the numbers that a term is made of, of which its rounding is a small part, whatever cancels."""
    if isinstance(term, Cell):
        return abs(leaf(term))
    if isinstance(term, Number):
        return abs(term.value)
    sizes = [magnitude(arg, leaf) for arg in term.args]
    if term.kind in ("sum", "difference"):
        return sum(sizes)
    if term.kind in ("product", "square", "max"):
        return float(OPERATIONS[term.kind](*sizes))
    if term.kind in ("negative", "absolute", "tanh"):  # no steeper than its argument
        return sizes[0]
    value, *inner = (abs(float(evaluate(part, leaf))) for part in (term, *term.args))
    spread = [size / number if number else 1.0 for size, number in zip(sizes, inner, strict=True)]
    if term.kind == "log":
        return max(value, *spread)
    if term.kind == "exp":
        return value * max(1.0, *sizes)
    return value * math.prod(max(1.0, each) for each in spread) or math.prod(sizes[:1])


def leaves(term: Term | None) -> Iterator[Cell]:
    """The cells that a term is made of."""
    if isinstance(term, Cell):
        yield term
    elif isinstance(term, Op):
        for arg in term.args:
            yield from leaves(arg)
