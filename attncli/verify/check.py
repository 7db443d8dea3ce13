"""`check`: mark what the hand wrote, and say what there is to say beside the verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from attncli.errors import InputError, ShapeError, UsageError
from attncli.lazy import np
from attncli.pipeline.trace import NAMED_STEPS, parse_address
from attncli.problem.problem import Problem
from attncli.verify.marking import Marking
from attncli.verify.precision import is_array
from attncli.verify.printed import Printed, printed_texts, too_many
from attncli.verify.remarks import remarks
from attncli.verify.verdicts import CheckResult

if TYPE_CHECKING:
    from attncli.verify.diagnosis import Diagnosis

_ORDER = {step: place for place, step in enumerate(NAMED_STEPS)}


def check(problem: Problem) -> CheckResult:
    """The verdict on the hand's numbers of a problem, `problem.expect`.

    Raises UsageError where there are none, InputError and ShapeError (all together) for numbers of a step that the
    problem does not have or of another shape.
    """
    with np.errstate(all="ignore"):  # NaN and infinity are marked as any number, and told in notes
        return _checked(problem)


def _checked(problem: Problem) -> CheckResult:
    if not problem.expect:
        raise UsageError(
            "there is nothing to check",
            place=problem.file,
            hint="the numbers calculated by hand stand under expect: in the problem file, or in --expect STEP=FILE",
        )
    _refuse_bits(problem)
    texts = {address: hand for address, hand in problem.expect.items() if not is_array(hand)}
    printed = printed_texts(problem, texts)
    arrays = {address: hand for address, hand in problem.expect.items() if address in printed or address not in texts}
    if not arrays:
        return _check_hand(problem)
    from attncli.verify.arrays import check_arrays

    of_arrays = check_arrays(problem, arrays, printed)
    found = CheckResult(problem.file, of_arrays.marks, of_arrays.diagnosis, of_arrays.notes)
    if found.first_wrong is not None and printed and not too_many(problem, texts):
        hand = _as_by_hand(problem, printed)
        if hand is not None and hand.verdict != "wrong" and len(printed) == len(problem.expect):
            return hand
        if hand is not None and [each.mistake for each in found.diagnosis] in ([], ["coarser-type"]):
            found.diagnosis = hand.diagnosis or found.diagnosis
    if len(arrays) < len(problem.expect):
        by_hand = {address: hand for address, hand in problem.expect.items() if address not in arrays}
        written = _check_hand(replace(problem, expect=by_hand))
        found.steps = sorted([*written.steps, *found.steps], key=lambda mark: _ORDER[parse_address(mark.step)[0]])
        first = found.first_wrong
        if first is not None and first[0].array is None:
            found.diagnosis = written.diagnosis
        found.notes = list(dict.fromkeys([*written.notes, *found.notes]))
    return found


def _as_by_hand(problem: Problem, printed: Mapping[str, Printed]) -> CheckResult | None:
    """What a hand is told that wrote a program's few numbers without the digits which arithmetic spoils: it may have
    rounded on the way, and more mistakes are known of hands. None for what no hand writes, such as heads apart.
    """
    digits = {"float64": 12, "float32": 6}
    hands = {name: replace(problem.expect[name], significant=digits[each.dtype]) for name, each in printed.items()}
    try:
        return _check_hand(replace(problem, expect=hands))
    except ShapeError:
        return None


def _refuse_bits(problem: Problem) -> None:
    """Raise InputError for the bits of bfloat16, which NumPy can only save as whole numbers: they are no numbers."""
    for address, hand in problem.expect.items():
        if hand.matrix.spelling is None and hand.matrix.array.dtype.name == "uint16":
            raise InputError(
                f"{address}: an array of uint16: the bits of bfloat16?",
                place=hand.matrix.place or hand.place,
                hint="save it as float32, or as bfloat16 of ml_dtypes; whole numbers as int32",
            )


def _check_hand(problem: Problem) -> CheckResult:
    """The verdict where all numbers were written by hand."""
    marking = Marking(problem)
    diagnosis: list[Diagnosis] = []
    if marking.first_wrong is not None:
        from attncli.verify.diagnosis import diagnosis_of

        diagnosis = diagnosis_of(marking)
    return CheckResult(problem.file, marking.marks, diagnosis, [*marking.frame.trace.notes, *remarks(marking)])
