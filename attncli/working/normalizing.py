"""The arithmetic of each normalizer: the term of the weight of one key for one query."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from attncli.working.terms import Cell, Number, Term, op, total

if TYPE_CHECKING:
    from attncli.working.working import Working


def softmax(working: Working, i: int, j: int) -> Term:
    """e^s over the sum of all e^s."""
    return op("quotient", Cell("exp", (i, j)), Cell("sum", (i, 0)))


def by_sum(working: Working, i: int, j: int) -> Term:
    """The value over the sum of the values; of a kernel the kernel's, unless something was done to its logarithm."""
    step = "kernel" if "kernel" in working.arrays and working.logit in ("scores", "masked") else working.logit

    def entry(key: int) -> Term:
        cell = Cell(step, (i, key))
        return op("exp", cell) if "kernel" in working.arrays and step != "kernel" else cell

    return op("quotient", entry(j), total(entry(key) for key in working.keys_of(i)))


def hardmax(working: Working, i: int, j: int) -> Term:
    """1 for the largest, shared by those that are equal."""
    scores = {key: working.value(Cell(working.logit, (i, key))) for key in working.keys_of(i)}
    best = [key for key, score in scores.items() if score == max(scores.values())]
    return op("quotient", Number(1), Number(float(len(best)))) if j in best else Number(0)


def sparsemax(working: Working, i: int, j: int) -> Term:
    """What is left of the score above the threshold tau."""
    return op("max", Number(0), op("difference", Cell(working.logit, (i, j)), Cell("tau", (i, 0))))


def sigmoid(working: Working, i: int, j: int) -> Term:
    """1 / (1 + e^-s)"""
    return op("quotient", Number(1), op("sum", Number(1), op("exp", op("negative", Cell(working.logit, (i, j))))))


def none(working: Working, i: int, j: int) -> Term:
    """The score itself."""
    return Cell(working.logit, (i, j))


NORMALIZING: dict[str, Callable[[Working, int, int], Term]] = {
    "softmax": softmax,
    "sum": by_sum,
    "hardmax": hardmax,
    "sparsemax": sparsemax,
    "sigmoid": sigmoid,
    "none": none,
}
