"""A large problem whose steps of n x m are never held: what it will give, its blocks, and the rows of a table.

Letters: n queries, m keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from math import prod
from typing import TYPE_CHECKING

from attncli.errors import AttnError
from attncli.pipeline.trace import Trace, wanted
from attncli.problem.plan import plan_of
from attncli.problem.problem import Problem

if TYPE_CHECKING:
    from attncli.engine.blocks import Index
    from attncli.engine.stream import Stream


def stream(problem: Problem, steps: Iterable[str], *, parts: set[Index] | None = None, visible: bool = False) -> Stream:
    """The blocks of these steps, as `core.streamed.stream` gives them. Raises MachineError where even that is large."""
    from attncli.engine import stream as streamed

    keep = wanted(steps) or ()
    plan_of(problem, keep).check_memory(by_blocks=True)
    with placed_by(problem):
        return streamed.stream(problem.arrays(), problem.rules(), keep, parts=parts, visible=visible)


def sample(
    problem: Problem, steps: Iterable[str], rows: list[slice], progress: Callable[[float], None] | None = None
) -> Trace:
    """The steps asked for, of these queries alone."""
    from attncli.engine import stream as streamed

    keep = wanted(steps) or ()
    plan = plan_of(problem, keep)
    shape = plan.at.shape
    count = sum(len(range(*part.indices(shape.n))) for part in rows)
    held = (len(keep) + 1) * prod(shape.lead) * count * shape.m * plan.dtype.itemsize
    plan.check_memory(by_blocks=True, besides=held)
    with placed_by(problem):
        return problem.dressed(streamed.sample(problem.arrays(), problem.rules(), keep, rows, progress))


@contextmanager
def placed_by(problem: Problem) -> Iterator[None]:
    """What is wrong with the problem, at its place."""
    try:
        yield
    except AttnError as error:
        raise problem.placed(error) from None
