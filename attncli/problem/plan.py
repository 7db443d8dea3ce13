"""The plan of a problem: the definition read in the shapes of its matrices, made once and handed on."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from math import prod

from attncli.engine.plan import Plan, is_copied
from attncli.errors import AttnError, MachineError
from attncli.lazy import np
from attncli.pipeline.dtypes import common_dtype
from attncli.pipeline.sinks import sums_to_one
from attncli.pipeline.trace import Numbered, Trace, wanted
from attncli.problem.known import times
from attncli.problem.matrix import Matrix
from attncli.problem.problem import Problem


def plan_of(problem: Problem, steps: Iterable[str] | None = None) -> Plan:
    """The plan for holding these steps, None for all. Its sizes must fit (`size_errors` finds nothing).

    Raises, with their places, what the definition raises of shapes alone; MachineError for what no machine can hold.
    """
    arrays, dtype = problem.arrays(), computed_dtype(problem)
    stored = {name: (array.shape, is_copied(array, dtype.itemsize)) for name, array in arrays.items()}
    plan = Plan(problem.rules(), stored, dtype, wanted(steps))
    try:
        shapes = plan.shapes
    except AttnError as error:
        raise problem.placed(error) from None
    for name, sizes in shapes.items():
        if prod(sizes) * dtype.itemsize > sys.maxsize:
            raise MachineError(f"{name} would be {times(sizes)}: so many numbers have no address")
    return plan


def step_shapes(problem: Problem) -> dict[str, tuple[int, ...]]:
    """The shapes of all steps that the problem has, tokens as rows."""
    plan = plan_of(problem)
    whole = blueprint(problem, plan)
    return {name: whole.rows(name).shape for name in plan.shapes}


def computed_dtype(problem: Problem) -> np.dtype:
    """What the problem is computed in, by the rule of dtypes."""
    parameters = problem.score.parameters if problem.score else {}
    given = {name: value.array for name, value in parameters.items() if isinstance(value, Matrix)}
    return common_dtype(problem.arrays() | given, problem.dtype)


def blueprint(problem: Problem, plan: Plan | None = None) -> Trace:
    """The Trace that will come out, of arrays that take no memory and hold no numbers."""
    plan = plan or plan_of(problem)
    zero, shape = np.zeros((), plan.dtype), plan.at.shape
    steps = {name: np.broadcast_to(zero, sizes) for name, sizes in plan.shapes.items()}
    queries, keys = Numbered("q", shape.n), Numbered("k", shape.m)
    trace = problem.dressed(Trace(steps, query_labels=queries, key_labels=keys, heads=plan.heads))
    trace.normalizer = plan.at.normalizer.name
    trace.sums_to_one = sums_to_one(plan.at.normalizer, plan.at.config.more)
    return trace
