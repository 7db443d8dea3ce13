"""`--dry-run`: what would be computed, from shapes alone."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING

from attncli.problem.labels import past_count
from attncli.problem.matrix import Matrix

if TYPE_CHECKING:
    from attncli.problem.problem import Problem


def describe(problem: Problem) -> str:
    """Lines: every matrix with its shape and type, what is assumed, and what a step of scores takes in memory."""
    return "\n".join([f"{problem.attention}, a token is a {problem.layout[:-1]}", *_inputs(problem), *_rules(problem)])


def _inputs(problem: Problem) -> Iterator[str]:
    for name, matrix in problem.inputs.items():
        if isinstance(matrix, Matrix):
            shape = " x ".join(map(str, matrix.array.shape))
            yield f"  {name}: {shape}, {matrix.array.dtype}, {_size(matrix.array.nbytes)}"
        else:
            yield f"  {name}: from the stage {matrix.stage}, {matrix.step}"


def _rules(problem: Problem) -> Iterator[str]:
    score = problem.score
    if score is not None:
        yield f"  score: {score.score if isinstance(score.score, str) else 'a callable'}"
    yield f"  weights: {problem.weight_layout}"
    for choice in problem.masks:
        yield f"  mask: {problem.mask_spec(choice).text}"
    yield f"  normalizer: {problem.normalizer}"
    scores = _scores_shape(problem)
    if scores is not None:
        size = _size(8 * prod(scores))
        yield f"  scores: {' x '.join(map(str, scores))}, {size} a step in float64"


def _scores_shape(problem: Problem) -> tuple[int, ...] | None:
    """(..., n, m) of the scores, heads in front; None where a matrix is not known yet."""
    begins = problem.begins
    shapes = {
        name: (1, *matrix.array.shape) if matrix.array.ndim == 1 else matrix.array.shape
        for name, matrix in problem.inputs.items()
        if isinstance(matrix, Matrix)
    }
    if begins:
        return shapes.get(begins)
    queries = shapes.get("Q", shapes.get("X"))
    keys = shapes.get("K", shapes.get("Y", shapes.get("X")))
    if queries is None or keys is None:
        return None
    axis = -1 if problem.layout == "columns" else -2
    heads = (problem.heads,) if problem.heads else ()
    leading = queries[:-2] if len(queries) >= len(keys) else keys[:-2]
    return (*leading, *heads, queries[axis], keys[axis] + past_count(problem))


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:.3g} {unit}"
