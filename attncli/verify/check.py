"""`check`: mark what the hand wrote, and say what there is to say beside the verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attncli.errors import UsageError
from attncli.problem.problem import Problem
from attncli.verify.marking import Marking
from attncli.verify.remarks import remarks
from attncli.verify.verdicts import CheckResult

if TYPE_CHECKING:
    from attncli.verify.diagnosis import Diagnosis


def check(problem: Problem) -> CheckResult:
    """The verdict on the hand's numbers of a problem, `problem.expect`.

    Raises UsageError where there are none, InputError and ShapeError (all together) for numbers of a step that the
    problem does not have or of another shape.
    """
    if not problem.expect:
        raise UsageError(
            "there is nothing to check",
            place=problem.file,
            hint="the numbers calculated by hand stand under expect: in the problem file, or in --expect STEP=FILE",
        )
    marking = Marking(problem)
    diagnosis: list[Diagnosis] = []
    if marking.first_wrong is not None:
        from attncli.verify.diagnosis import diagnosis_of

        diagnosis = diagnosis_of(marking)
    return CheckResult(problem.file, marking.marks, diagnosis, [*marking.frame.trace.notes, *remarks(marking)])
