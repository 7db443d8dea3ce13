"""The arithmetic of the first slip: the formula of its cell with the numbers in it, beside what was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attncli.errors import AttnError
from attncli.pipeline.steps import STEPS, Axis
from attncli.report.explanation import Writing, told
from attncli.report.look import Look
from attncli.report.notation import TEXT
from attncli.verify.written import spelled

if TYPE_CHECKING:
    from attncli.problem.problem import Problem
    from attncli.verify.verdicts import CheckResult


def arithmetic(problem: Problem, result: CheckResult, look: Look) -> str:
    """`scores[it, sat] = q . k: scores[it, sat] = 1 × 2 + 0 × 1 = 2 (written: 3)`; empty where nothing is wrong, or
    where the step has no such line: that of an array, or of a score that nobody can write down."""
    found = result.first_wrong
    if found is None or found[0].array is not None:
        return ""
    from attncli.pipeline.steps import parse_address
    from attncli.working.explanation import explain

    mark, cell = found
    step, _ = parse_address(mark.step)
    *leading, i, j = (place - 1 for place in cell.at)
    if problem.layout == "columns":
        i, j = j, i
    axes: tuple[Axis, Axis] = STEPS.find(step).axes
    query = str(i + 1) if axes[0] == "query" else "1"
    place = {axes[0]: i, axes[1]: j}
    key = str(place["key"] + 1) if "key" in place and step != "V" else None
    try:
        explanation = explain(problem, query, key)
    except AttnError:
        return ""
    writing = Writing(explanation, TEXT, look)
    wanted = tuple(zip(axes, (i, j), strict=True))
    for section in explanation.asked[0].sections:
        for group in section.groups:
            for line in group.lines:
                if group.step == step and line.places == wanted and _is_part(line.leading, tuple(leading)):
                    numbers, _ = told(writing, section, group, line)
                    return f"{step} = {group.formula[0]}; {numbers} (written: {spelled(cell.hand, cell.unit)})"
    return ""


def slip_of(problem: Problem, result: CheckResult, look: Look) -> str:
    """The same as a sentence; empty where there is none."""
    told = arithmetic(problem, result, look)
    return f"right is {told}" if told else ""


def _is_part(leading: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether a line's place among sequences and heads is the one that is meant; axes of 1 may be left out."""
    return leading[len(leading) - len(wanted) :] == wanted and not any(leading[: len(leading) - len(wanted)])
