"""A large problem whose steps of n x m are never held: what it will give, its blocks, and the rows of a table.

Letters: n queries, m keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from math import prod
from typing import TYPE_CHECKING

from attncli.engine import plan as large
from attncli.errors import AttnError
from attncli.lazy import np
from attncli.pipeline.trace import NAMED_STEPS, Numbered, Trace, wanted
from attncli.problem.matrix import Matrix
from attncli.problem.needs import check_memory, computed_dtype
from attncli.problem.problem import Problem
from attncli.problem.shapes import step_shapes

if TYPE_CHECKING:
    from attncli.engine.blocks import Index
    from attncli.engine.stream import Stream


def is_large(problem: Problem) -> bool:
    """Whether there are so many scores, all of which go by blocks of rows."""
    if problem.both_ways or problem.begins == "weights":
        return False
    return prod(step_shapes(problem)["weights"]) >= large.LARGE


def by_blocks(problem: Problem, keep: tuple[str, ...] | None) -> bool:
    """Whether solving the problem for these steps goes by blocks."""
    return keep is not None and large.SMALL.issuperset(keep) and is_large(problem)


def blueprint(problem: Problem) -> Trace:
    """The Trace that will come out, of arrays that take no memory and hold no numbers."""
    zero, shapes = np.zeros((), computed_dtype(problem)), step_shapes(problem)
    n, m = shapes["weights"][-2:]
    steps = {name: np.broadcast_to(zero, shapes[name]) for name in NAMED_STEPS if name in shapes}
    trace = problem.dressed(Trace(steps, query_labels=Numbered("q", n), key_labels=Numbered("k", m)))
    normalizer = problem.normalizer
    trace.normalizer = normalizer if isinstance(normalizer, str) else normalizer.__name__
    several = any(len(matrix.array.shape) >= 4 for matrix in problem.inputs.values() if isinstance(matrix, Matrix))
    trace.heads = shapes["weights"][-3] if problem.heads or several else None
    return trace


def stream(
    problem: Problem, steps: Iterable[str], *, parts: set[Index] | None = None, visible: bool = False
) -> Stream:
    """The blocks of these steps, as `core.streamed.stream` gives them. Raises MachineError where even that is large."""
    from attncli.engine import stream as streamed

    keep = wanted(steps) or ()
    check_memory(problem, keep, by_blocks=True)
    with placed_by(problem):
        return streamed.stream(problem.arrays(), problem.rules(), keep, parts=parts, visible=visible)


def sample(
    problem: Problem, steps: Iterable[str], rows: list[slice], progress: Callable[[float], None] | None = None
) -> Trace:
    """The steps asked for, of these queries alone."""
    from attncli.engine import stream as streamed

    keep = wanted(steps) or ()
    n, m = step_shapes(problem)["weights"][-2:]
    count = sum(len(range(*part.indices(n))) for part in rows)
    leading = prod(step_shapes(problem)["weights"][:-2])
    held = (len(keep) + 1) * leading * count * m * computed_dtype(problem).itemsize
    check_memory(problem, keep, by_blocks=True, besides=held)
    with placed_by(problem):
        return problem.dressed(streamed.sample(problem.arrays(), problem.rules(), keep, rows, progress))


@contextmanager
def placed_by(problem: Problem) -> Iterator[None]:
    """What is wrong with the problem, at its place."""
    try:
        yield
    except AttnError as error:
        raise problem.placed(error) from None
