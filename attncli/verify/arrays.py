"""Marking an engineer's array: not by written places but by tolerance, as exactly as the machine's types allow.

Letters: n queries, m keys, H heads, d_v value width.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from attncli.errors import AttnError, InputError, raise_all
from attncli.lazy import Array, np
from attncli.pipeline.config import AttentionConfig
from attncli.pipeline.masks import ScoreShape
from attncli.pipeline.normalizers import find_normalizer
from attncli.pipeline.steps import STEPS
from attncli.pipeline.trace import NAMED_STEPS, Trace, parse_address
from attncli.problem.labels import set_labels
from attncli.problem.problem import Problem
from attncli.problem.values import Hand
from attncli.verify.array_marks import GivenArray, array_remark, mark_array
from attncli.verify.diagnosis import Diagnosis
from attncli.verify.precision import Precision, half_type, precision_of, type_name
from attncli.verify.printed import Printed
from attncli.verify.proportion import common_factor
from attncli.verify.right import Right, right_numbers
from attncli.verify.sheet import fitted, heads_joined
from attncli.verify.verdicts import AGREES, BLANK, FOLLOWS, WRONG, StepMark

_TYPED = 8  # significant digits


@dataclass
class ArrayCheck:
    """The marks of all arrays, in the order of the pipeline, what explains the first wrong one, and notes."""

    marks: list[StepMark] = field(default_factory=list)
    diagnosis: list[Diagnosis] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def check_arrays(problem: Problem, hands: Mapping[str, Hand], printed: Mapping[str, Printed]) -> ArrayCheck:
    """Mark the arrays that stand for steps. Raises InputError and ShapeError, all together, as for a hand's numbers.

    printed: what is known of those that stand in a program's text.
    """
    inputs, rules = problem.arrays(), replace(problem.rules(), dtype="float64", round_steps=None)
    dtypes = {address: _dtype(problem, hand, printed.get(address)) for address, hand in hands.items()}
    precision = precision_of(problem, dtypes.values())
    addresses = sorted(hands, key=lambda address: [*NAMED_STEPS].index(parse_address(address)[0]))
    steps = list(dict.fromkeys(parse_address(address)[0] for address in addresses))
    try:
        trace, rights, extent = right_numbers(inputs, rules, steps, precision)
    except InputError as error:
        for inner in error.errors():
            inner.place = inner.place or next(iter(hands.values())).place
        raise
    trace.attention, trace.layout = problem.attention, problem.layout
    set_labels(problem, trace)
    result = ArrayCheck(notes=[*trace.notes])
    wrong: GivenArray | None = None
    for given in _fitted(trace, hands, addresses, printed, dtypes, result.notes):
        right = rights[given.step].part(given.index, given.half_unit())
        given = given.filled(right.exact)
        ratio = _asked_ratio(problem, given.part, right)
        if (ratio > 1).any() and _are_cut(rights[given.step], given):
            right = rights[given.step].part(given.index, 2 * given.half_unit())
            ratio = right.ratio(given.part)
            result.notes.append(f"{given.step}: its numbers are cut, not rounded")
        codes = np.where(ratio <= 1, AGREES, WRONG)
        if wrong is not None and (codes == WRONG).any():
            codes[(codes == WRONG) & _follows(inputs, rules, trace, wrong, given, precision)] = FOLLOWS
        if given.blank is not None:
            codes[given.blank] = BLANK
        heads = trace.heads if given.step == "output" and "W_O" not in inputs else None
        mark = mark_array(trace, given, right, ratio, codes, precision, heads or 1, _asked(problem))
        result.marks.append(mark)
        result.notes.append(array_remark(mark))
        factor = common_factor(given.part, right.exact)
        if factor is not None and mark.verdict == "agrees" and _tells_its_type(given):
            result.notes.append(f"{mark.step}: within the tolerance, but not by rounding: {_times(factor)}")
        if wrong is None and mark.verdict == "wrong":
            wrong = given
            result.diagnosis = _suspected(problem, inputs, rules, extent, given, right, ratio, precision)
            if not result.diagnosis:
                result.diagnosis = _of_all(inputs, rules, given, right, ratio, precision, mark, factor)
    return result


def _tells_its_type(given: GivenArray) -> bool:
    """Whether numbers have so many digits that it shows in which type they were computed."""
    return given.printed is None or given.printed.digits >= _TYPED


def _are_cut(right: Right, given: GivenArray) -> bool:
    """Whether a text's numbers are all right but for being cut after their last place, towards 0."""
    if given.printed is None or given.printed.decimals < 1:
        return False
    unit = 2 * given.half_unit()
    cut = right.part(given.index, unit)
    return bool((cut.ratio(given.part) <= 1).all() and np.abs(given.part).sum() < np.abs(cut.exact).sum())


def _times(factor: float) -> str:
    if factor == 0:
        return "all numbers are 0"
    digits = max(4, 2 - math.floor(math.log10(abs(factor - 1)))) if factor != 1 else 4  # such that it is no 1
    return f"all numbers are about {factor:.{digits}g} times the right ones"


def _fitted(
    trace: Trace,
    hands: Mapping[str, Hand],
    addresses: Sequence[str],
    printed: Mapping[str, Printed],
    dtypes: Mapping[str, str],
    notes: list[str],
) -> list[GivenArray]:
    """The arrays in the shapes of their steps, tokens as rows. Raises ShapeError, InputError for all that do not."""
    found, errors = [], list[AttnError]()
    for address in addresses:
        hand, text = hands[address], printed.get(address)
        array = hand.matrix.array
        if array.dtype.kind == "V":
            array = array.astype(np.float32)
        try:
            step, index = _place(trace, address)
            part, joined = _rows(trace, address, array)
            if joined:
                sizes = " x ".join(map(str, array.shape))
                notes.append(f"{address}: {sizes}, its heads apart; joined for the comparison")
            blank = None if text is None or text.blank is None else _rows(trace, address, text.blank)[0]
            found.append(GivenArray(address, step, index, part, dtypes[address], text, blank))
        except AttnError as error:
            for inner in error.errors():
                inner.place = inner.place or hand.matrix.place or hand.place
            errors.append(error)
    raise_all(errors)
    return found


def _rows(trace: Trace, address: str, array: Array) -> tuple[Array, bool]:
    """An array in the shape of its step, tokens as rows, and whether its heads had to be joined."""
    step, indices = parse_address(address)
    joined = heads_joined(trace, address, array) if step == "output" and not indices else None
    if joined is not None:
        return joined, True
    rows = fitted(address, array, trace[address].shape, trace)
    return rows.mT if _turned(trace) else rows, False


def _dtype(problem: Problem, hand: Hand, text: Printed | None) -> str:
    """What an array was computed in: as it is said to be, as its last bits tell, or as it is stored."""
    said: str | None = problem.options.get("expect_dtype")
    if said is not None:
        return said
    if text is not None:
        return text.dtype
    stored = type_name(hand.matrix)
    wide = hand.matrix.array.dtype.kind == "f" and stored in ("float32", "float64")
    return (half_type(hand.matrix.array) if wide else None) or stored


def _asked(problem: Problem) -> tuple[float, float] | None:
    """The tolerance that was asked for, absolute and relative; None where the type decides."""
    absolute, relative = problem.options.get("atol"), problem.options.get("rtol")
    return None if absolute is None and relative is None else (absolute or 0.0, relative or 0.0)


def _asked_ratio(problem: Problem, array: Array, right: Right) -> Array:
    """How far each number is off, in units of what it may be."""
    asked = _asked(problem)
    if asked is None:
        return right.ratio(array)
    absolute, relative = asked
    within = replace(right, relative=np.asarray(relative), absolute=np.asarray(absolute))
    return within.ratio(array)


def _place(trace: Trace, address: str) -> tuple[str, tuple[int, ...]]:
    """The step and the leading index, from 0, of an address. Raises InputError where there is no such part."""
    step, indices = parse_address(address)
    missing = trace.rows(step).ndim - trace[address].ndim - len(indices) if indices else 0
    return step, (0,) * missing + tuple(index - 1 for index in indices)


def _turned(trace: Trace) -> bool:
    return trace.layout == "columns"


def _follows(
    inputs: Mapping[str, Array],
    rules: AttentionConfig,
    trace: Trace,
    wrong: GivenArray,
    given: GivenArray,
    precision: Precision,
) -> Array | bool:
    """Where an array is what an earlier, wrong one gives: the same problem, begun at that one."""
    if wrong.step not in STEPS.beginnings() or wrong.index or wrong.step == given.step:
        return False
    begun = {name: array for name, array in inputs.items() if name not in ("Q", "K", "W_Q", "W_K", "b_Q", "b_K",
                                                                           "past_k", *STEPS.beginnings())}  # fmt: skip
    if wrong.step in ("masked", "weights"):
        begun.pop("bias", None)
    scale = trace.scale if wrong.step == "scores" and "scaled" in trace else None
    later = replace(rules, score=None, scale=scale, temperature=None, d_k=None)
    try:
        _, rights, _ = right_numbers(
            begun | {wrong.step: wrong.part.astype(np.float64)}, later, [given.step], precision
        )
        ratio = rights[given.step].part(given.index, given.half_unit()).ratio(given.part)
    except AttnError:
        return False
    return np.asarray(ratio <= 1)


def _suspected(
    problem: Problem, inputs: Mapping[str, Array], rules: AttentionConfig, extent: ScoreShape, given: GivenArray,
    right: Right,
    ratio: Array, precision: Precision,
) -> list[Diagnosis]:  # fmt: skip
    """The mistakes that give the array; none are searched of a part of a step, or where cells are blank."""
    from attncli.verify.suspects import Suspects

    if given.index or given.blank is not None or not given.part.size or given.step.endswith("_back"):
        return []
    dtype = "float64" if precision.name == "float64" else "float32"
    return Suspects(problem, inputs, rules, extent, given.step, given.part, right, ratio, dtype).found()


def _of_all(
    inputs: Mapping[str, Array], rules: AttentionConfig, given: GivenArray, right: Right, ratio: Array,
    precision: Precision,
    mark: StepMark, factor: float | None,
) -> list[Diagnosis]:  # fmt: skip
    """What all numbers have in common where no mistake gives them: a factor, or a coarser type."""
    if factor is not None:
        whole = factor == 0 or bool((right.ratio(given.part / factor) <= 1).all())
        return [Diagnosis("constant-factor", given.step, _times(factor), whole)]
    everywhere = mark.array is not None and mark.array.where in ([], ["everywhere"])
    if not everywhere or not _tells_its_type(given):
        return []
    return _coarser(inputs, rules, given, float(ratio.max()), precision)


def _coarser(
    inputs: Mapping[str, Array], rules: AttentionConfig, given: GivenArray, largest: float, precision: Precision
) -> list[Diagnosis]:
    """Whether a coarser type than that of the array and the inputs would explain it: TF32, autocast.

    Asked of softmax over dot products only, where the tolerance of a coarse type still says something.
    """
    plain = rules.score is None or rules.score.dots
    if not plain or not find_normalizer(rules.normalizer).exponentials:
        return []
    for name in ("float32", "float16", "bfloat16"):
        coarser = Precision.named(name)
        if not precision.u < coarser.u or largest * precision.u > 8 * coarser.u:
            continue
        _, rights, _ = right_numbers(inputs, rules, [given.step], coarser)
        if (rights[given.step].part(given.index, given.half_unit()).ratio(given.part) <= 1).all():
            known = {"float16": "float16 or TF32"}.get(name, name)
            text = f"no other mistake than rounding: it was computed in {known}, not in {precision.name}"
            return [Diagnosis("coarser-type", given.step, text, False)]
    return []
