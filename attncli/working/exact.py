"""Exact numbers: roots, fractions and e kept as they are, with sympy (the extra `exact`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attncli.arithmetic.trees import Cell, evaluate
from attncli.errors import InputError, UsageError
from attncli.lazy import np
from attncli.pipeline.steps import STEPS
from attncli.problem.arithmetic import NotArithmetic, parse_expression
from attncli.problem.arithmetic import evaluate as read
from attncli.problem.matrix import Matrix
from attncli.problem.problem import Problem
from attncli.working.reading import Row


class Exact:
    """The exact value of every cell of a `Row`, as sympy expressions.

    Raises UsageError where sympy is not there, InputError for an input that is not exact.
    """

    def __init__(self, problem: Problem) -> None:
        try:
            import sympy
        except ImportError:
            raise UsageError("--exact needs sympy", hint="pip install 'attncli[exact]'") from None
        self.sympy = sympy
        self.problem = problem
        self.values: dict[tuple[int, Cell], Any] = {}
        self.operations = _operations(sympy)
        self.reading: dict[str, Callable[..., Any]] = {
            "number": sympy.Rational,
            "neg": lambda a: -a,
            "sqrt": sympy.sqrt,
            "exp": sympy.exp,
            "+": lambda a, b: a + b,
            "-": lambda a, b: a - b,
            "*": lambda a, b: a * b,
            "/": lambda a, b: a / b,
            "^": lambda a, b: a**b,
        }
        parameters = problem.score.parameters if problem.score else {}
        given = {**problem.inputs, **{f"score.{name}": value for name, value in parameters.items()}}
        self.inputs = {name: self._read(name, value) for name, value in given.items() if isinstance(value, Matrix)}

    def value(self, row: Row, cell: Cell) -> Any:
        """The exact value of a cell, or None where it has none (-inf, or a score without a formula)."""
        known = (id(row), cell)
        if known not in self.values:
            self.values[known] = self._value(row, cell)
        return self.values[known]

    def _value(self, row: Row, cell: Cell) -> Any:
        term = row.term(cell)
        if term is None:
            if cell.step in self.inputs:
                return self._input(cell)
            number = row.number(cell)
            return self.sympy.Integer(int(number)) if number in (0, 1) else None
        try:
            value = evaluate(term, lambda inner: self._needed(row, inner), self.operations)
        except _NoneThere:
            return None
        entry = STEPS.find(cell.step)
        is_late = entry.line in ("shares", "output") and not entry.on_request
        return self.sympy.together(value) if is_late else value

    def _needed(self, row: Row, cell: Cell) -> Any:
        value = self.value(row, cell)
        if value is None:
            raise _NoneThere
        return value

    def _input(self, cell: Cell) -> Any:
        """An input lies as it was written; the cell lies as tokens in rows, weights in x out."""
        array = self.inputs[cell.step]
        if cell.step.startswith("b_") or array.ndim == 1:
            return array.reshape(-1)[cell.index[-1]]
        turned = self.problem.layout == "columns" and not cell.step.startswith("score.")
        if cell.step.startswith("W_"):
            turned = self.problem.weight_layout == "out-in"
        return array[cell.index[::-1] if turned else cell.index]

    def _read(self, name: str, matrix: Matrix) -> Any:
        """The numbers of an input, exactly as written; whole numbers where they were not written as text."""
        array = matrix.array
        if array.ndim > 2:
            raise InputError(
                f"--exact: {name} has {array.ndim} axes",
                place=matrix.place,
                hint="exact numbers are told of one sequence",
            )
        exact = np.empty(array.shape, dtype=object)
        if matrix.spelling is None:
            if array.dtype.kind == "f" and not (np.isfinite(array).all() and (array == np.floor(array)).all()):
                raise InputError(
                    f"--exact: {name} holds floating-point numbers, which are not exact",
                    place=matrix.place,
                    hint="write it as text (YAML, CSV), where 0.1 is a tenth and 1/3 a third",
                )
            for index in np.ndindex(*array.shape):
                exact[index] = self.sympy.Integer(int(array[index]))
            return exact
        spelled = np.array(matrix.spelling(), dtype=object).reshape(array.shape)
        for index in np.ndindex(*array.shape):
            exact[index] = self._number(name, str(spelled[index]), matrix, index)
        return exact

    def _number(self, name: str, text: str, matrix: Matrix, index: tuple[int, ...]) -> Any:
        try:
            return read(parse_expression(text.lower() if "E" in text else text), self.reading)
        except NotArithmetic:
            raise InputError(
                f"--exact: {text} in {name} has no exact value",
                place=matrix.at(index),
                hint="write a number or a fraction",
            ) from None


class _NoneThere(Exception):
    """A number without an exact value was needed."""


def _operations(sympy: Any) -> dict[str, Callable[..., Any]]:
    def number(value: float) -> Any:
        if value != value or value in (float("inf"), -float("inf")):
            raise _NoneThere
        return sympy.Integer(int(value)) if value == int(value) else sympy.Rational(repr(value))

    def log(value: Any) -> Any:
        if value == 0:
            raise _NoneThere
        return sympy.log(value)

    return {
        "number": number,
        "sum": lambda *terms: sum(terms),
        "difference": lambda a, b: a - b,
        "product": lambda *factors: sympy.Mul(*factors),
        "quotient": lambda a, b: a / b,
        "negative": lambda a: -a,
        "absolute": sympy.Abs,
        "square": lambda a: a**2,
        "sqrt": sympy.sqrt,
        "exp": sympy.exp,
        "log": log,
        "tanh": sympy.tanh,
        "max": sympy.Max,
        "within": lambda u, limit: sympy.Integer(1 if u <= limit else 0),
    }
