"""The room that the right number of an array has, its precision, and where wrong cells lie."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from attncli.problem.matrix import Matrix
from attncli.problem.problem import Problem
from attncli.verify.pattern import pattern
from attncli.verify.precision import Precision, precision_of
from attncli.verify.right import right_numbers

Array = NDArray[Any]


def test_the_tolerance_is_that_of_the_contract() -> None:
    """Weights 1/4 each, |V| sums to 4: 4 u 4/4 + 2 u |1/2| + 4 v 4/4, but 4 S where that is more than m."""
    inputs = {"Q": np.zeros((1, 2)), "K": np.ones((4, 2)), "V": np.array([[1.0], [1.0], [1.0], [-1.0]])}
    _, rights, _ = right_numbers(inputs, Problem().rules(), ["output"], Precision.named("float16"))
    u, v = 2.0**-11, 2.0**-24
    right = rights["output"]
    assert right.exact[0, 0] == 0.5
    room = 4 * u + 2 * u * 0.5 + 4 * v
    assert right.ratio(np.array([[0.5 + room * 0.999]])).item() < 1
    assert right.ratio(np.array([[0.5 + room * 1.001]])).item() > 1


def test_inputs_are_rounded_first_only_where_they_are_finer_than_the_array() -> None:
    problems = {dtype: Problem({"Q": Matrix(np.ones((1, 1), dtype))}) for dtype in ("float16", "float32")}
    assert precision_of(problems["float32"], ["float16"]).rounded
    for inputs, array in (("float16", "float16"), ("float16", "float32"), ("float32", "float32")):
        precision = precision_of(problems[inputs], [array])
        assert (precision.name, precision.rounded) == (inputs, False)
    assert precision_of(replace(problems["float32"], dtype="float16"), ["float32"]).rounded


def _at(shape: tuple[int, ...], *cells: tuple[Any, ...]) -> Array:
    wrong = np.zeros(shape, bool)
    for cell in cells:
        wrong[cell] = True
    return wrong


@pytest.mark.parametrize(
    ("outside", "leading", "columns", "heads", "told"),
    [
        (np.ones((3, 4), bool), [], "key", 1, ["everywhere"]),
        (np.zeros((3, 4), bool), [], "key", 1, []),
        (np.eye(6, dtype=bool), [], "key", 1, ["on the diagonal key - query = 0"]),
        (np.eye(6, k=-2, dtype=bool), [], "key", 1, ["on the diagonal key - query = -2"]),
        (_at((4, 6, 6), (2, slice(None))), ["head"], "key", 1, ["only in head 3 of 4"]),
        (_at((9, 8), (slice(7, 9),)), [], "feature", 1, ["at the edge: the last 2 queries"]),
        (_at((9, 8), (slice(None), 0)), [], "feature", 1, ["at the edge: the first feature"]),
        (_at((9, 8), (slice(2, 5), slice(3, 6))), [], "feature", 1, ["a block: queries 3 to 5, features 4 to 6"]),
        (_at((9, 8), (slice(None), slice(4, 8))), [], "feature", 2, ["only in head 2 of 2"]),
        (_at((9, 8), (1, 1), (3, 6), (6, 2)), [], "feature", 1, []),
        (_at((9, 8), (1, 1)), [], "feature", 1, ["a single cell"]),
    ],
)
def test_where_they_lie(outside: Array, leading: list[str], columns: str, heads: int, told: list[str]) -> None:
    assert pattern(outside, leading, "query", columns, heads) == told
