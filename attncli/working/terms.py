"""Terms: the arithmetic of one number, as a small tree over the numbers of earlier steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
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


def op(kind: str, *args: Term) -> Op:
    """An operation, its arguments one by one."""
    return Op(kind, args)


def total(terms: Iterable[Term]) -> Term:
    """The sum of the terms: 0 of none, the only one itself."""
    parts = tuple(terms)
    return Op("sum", parts) if len(parts) > 1 else parts[0] if parts else Number(0)


def products(left: Iterable[Term], right: Iterable[Term]) -> Term:
    """left . right, a sum of products."""
    return total(op("product", a, b) for a, b in zip(left, right, strict=True))


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
