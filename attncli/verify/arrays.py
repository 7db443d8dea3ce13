"""Marking an engineer's array: not by written places but by tolerance, as exactly as the machine's types allow.

Letters: n queries, m keys, H heads, d_v value width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from attncli.core.attend import LATER_STEPS, Rules
from attncli.core.masks import Extent
from attncli.core.projections import join_heads
from attncli.core.trace import STEPS, Trace, parse_address
from attncli.errors import AttnError, InputError, raise_all
from attncli.lazy import Array, np
from attncli.problem.labels import set_labels
from attncli.problem.problem import Problem
from attncli.problem.values import Hand
from attncli.verify.diagnosis import Diagnosis
from attncli.verify.pattern import pattern
from attncli.verify.precision import Precision, precision_of
from attncli.verify.right import LARGE_SCORES, TOLERANCE, Right, right_numbers
from attncli.verify.sheet import fitted
from attncli.verify.verdicts import AGREES, FOLLOWS, VERDICTS, WRONG, ArrayMark, CellMark, StepMark

_LISTED = 50  # wrong cells that are told one by one
_WORST = 5
_ASKED = 10_000  # cells whose tolerance tells how many places are worth showing


@dataclass
class ArrayCheck:
    """The marks of all arrays, in the order of the pipeline, what explains the first wrong one, and notes."""

    marks: list[StepMark] = field(default_factory=list)
    diagnosis: list[Diagnosis] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Given:
    """An array as it was handed over. part: tokens as rows, shaped as the part of the step that it stands for."""

    address: str
    step: str
    index: tuple[int, ...]
    part: Array


def check_arrays(problem: Problem, hands: Mapping[str, Hand]) -> ArrayCheck:
    """Mark the arrays that stand for steps. Raises InputError and ShapeError, all together, as for a hand's numbers."""
    inputs, rules = problem.arrays(), replace(problem.rules(), dtype="float64")
    precision = precision_of(problem, list(hands.values()))
    addresses = sorted(hands, key=lambda address: [*STEPS].index(parse_address(address)[0]))
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
    arrays = _fitted(trace, hands, addresses, result.notes)
    wrong: _Given | None = None
    for given in arrays:
        right = rights[given.step]
        ratio = right.ratio(given.part, given.index)
        codes = np.where(ratio <= 1, AGREES, WRONG)
        if wrong is not None and (codes == WRONG).any():
            codes[(codes == WRONG) & _follows(inputs, rules, trace, wrong, given, precision)] = FOLLOWS
        heads = trace.heads if given.step == "output" and "W_O" not in inputs else None
        mark = _mark(trace, given, right, ratio, codes, precision, heads or 1)
        result.marks.append(mark)
        result.notes += _remarks(mark)
        if wrong is None and mark.verdict == "wrong":
            wrong = given
            result.diagnosis = _diagnosis(problem, inputs, rules, extent, given, right, ratio, precision)
            if not result.diagnosis and mark.array is not None and mark.array.where in ([], ["everywhere"]):
                result.diagnosis = _coarser(inputs, rules, given, mark.array.largest, precision)
    return result


def _fitted(trace: Trace, hands: Mapping[str, Hand], addresses: Sequence[str], notes: list[str]) -> list[_Given]:
    """The arrays in the shapes of their steps, tokens as rows. Raises ShapeError, InputError for all that do not."""
    found, errors = [], list[AttnError]()
    for address in addresses:
        hand = hands[address]
        array = hand.matrix.array
        if array.dtype.kind == "V":
            array = array.astype(np.float32)
        try:
            step, index = _place(trace, address)
            joined = _joined(trace, address, array) if step == "output" and not index else None
            if joined is not None:
                sizes = " x ".join(map(str, array.shape))
                notes.append(f"{address}: {sizes}, its heads apart; joined for the comparison")
            rows = fitted(address, array, trace[address].shape, trace) if joined is None else joined
            found.append(_Given(address, step, index, rows.mT if joined is None and _turned(trace) else rows))
        except AttnError as error:
            for inner in error.errors():
                inner.place = inner.place or hand.matrix.place or hand.place
            errors.append(error)
    raise_all(errors)
    return found


def _place(trace: Trace, address: str) -> tuple[str, tuple[int, ...]]:
    """The step and the leading index, from 0, of an address. Raises InputError where there is no such part."""
    step, indices = parse_address(address)
    missing = trace.rows(step).ndim - trace[address].ndim - len(indices) if indices else 0
    return step, (0,) * missing + tuple(index - 1 for index in indices)


def _turned(trace: Trace) -> bool:
    return trace.layout == "columns"


def _joined(trace: Trace, address: str, array: Array) -> Array | None:
    """An output whose heads lie apart, (..., H, n, d_v) or (..., n, H, d_v), as (..., n, H d_v), tokens as rows.

    None where it is not given so.
    """
    shape, heads = trace.rows(address).shape, trace.heads
    if heads is None or shape[-1] % heads or array.shape == trace[address].shape:
        return None
    width = shape[-1] // heads
    batch = shape[:-2]
    rows = array.mT if _turned(trace) and array.ndim > 2 else array
    for lead in (batch, () if all(size == 1 for size in batch) else batch):
        if rows.shape == (*lead, heads, shape[-2], width):
            joined: Array = join_heads(rows).reshape(shape)
            return joined
        if not _turned(trace) and array.shape == (*lead, shape[-2], heads, width):
            return array.reshape(shape)
    return None


def _mark(
    trace: Trace, given: _Given, right: Right, ratio: Array, codes: Array, precision: Precision, heads: int
) -> StepMark:
    """heads: how many lie side by side in the columns."""
    columns = _turned(trace)
    exact = right.exact[given.index]
    shown = [array.mT if columns else array for array in (given.part, exact, ratio, codes)]
    hand, shown_exact, shown_ratio, shown_codes = shown
    rows, names = trace.axes(given.address)
    labels = trace.labels(given.address)
    unit = _units(shown_exact, shown_ratio, hand)

    def cell(at: tuple[int, ...]) -> CellMark:
        off = abs(float(hand[at]) - float(shown_exact[at]))
        share = float(shown_ratio[at])
        room = off / share if 0 < share < np.inf else 0.0
        x = float(shown_exact[at])
        numbers = tuple(i + 1 for i in (*given.index, *at))
        return CellMark(numbers, labels[0][at[-2]], labels[1][at[-1]], VERDICTS[int(shown_codes[at])],
                        float(hand[at]), x, (x - room, x + room))  # fmt: skip

    worst = [cell(at) for at in _largest(shown_ratio, shown_codes, _WORST)]
    leading = trace.leading_names(given.step)[len(given.index) :]
    where = pattern(codes == WRONG, leading, STEPS[given.step].rows, STEPS[given.step].columns, heads)
    array = ArrayMark(
        _told(given.step, precision, trace), int((codes == WRONG).sum()), codes.size,
        float(ratio.max(initial=0)), worst, where,
    )  # fmt: skip
    verdict = VERDICTS[max(AGREES, int(codes.max(initial=AGREES)))]
    cells = [cell(at) for at in _listed(shown_ratio, shown_codes)]
    return StepMark(
        given.address, verdict, rows, names, *labels, cells, hand=hand, unit=unit, exact=shown_exact,
        low=shown_exact, high=shown_exact, codes=shown_codes, array=array,
    )  # fmt: skip


def _units(exact: Array, ratio: Array, hand: Array) -> Array:
    """The last place worth telling: the power of ten below what a cell may be off."""
    every = max(1, exact.size // _ASKED)
    hand, near, ratio = (array.reshape(-1)[::every] for array in (hand, exact, ratio))
    with np.errstate(all="ignore"):
        room = np.abs(hand - near) / ratio
        known = np.isfinite(room) & (room > 0)
        typical = float(np.median(room[known])) if known.any() else 0.0
    unit = 10.0 ** np.floor(np.log10(typical)) if typical > 1e-300 else 0.0
    return np.broadcast_to(unit, exact.shape)


def _largest(ratio: Array, codes: Array, count: int) -> list[tuple[int, ...]]:
    """The cells that are farthest off, the farthest first; none that follow from an earlier array."""
    if not ratio.size:
        return []
    ranked = np.where(codes == FOLLOWS, 0.0, np.minimum(ratio, 1e300))
    count = min(count, ranked.size)
    flat = np.argpartition(ranked.ravel(), -count)[-count:]
    flat = flat[np.argsort(ranked.ravel()[flat])[::-1]]
    return [_at(int(i), ratio.shape) for i in flat if ranked.ravel()[i] > 0]


def _listed(ratio: Array, codes: Array) -> list[tuple[int, ...]]:
    """The cells that do not agree, in reading order: of many the first and those that are farthest off."""
    flat = np.flatnonzero(codes > AGREES)
    if len(flat) > _LISTED:
        wrong = np.flatnonzero(codes == WRONG)
        first = wrong[:1] if len(wrong) else flat[:1]
        of_all = np.minimum(ratio.ravel()[flat], 1e300)
        flat = np.union1d(first, flat[np.argpartition(of_all, -_LISTED)[-_LISTED + 1 :]])
    return [_at(int(i), codes.shape) for i in flat]


def _at(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(flat, shape))


def _told(step: str, precision: Precision, trace: Trace) -> str:
    """The tolerance in words and numbers."""
    letters = f"u = {precision.u:.3g} ({precision.name}), v = {precision.v:.3g}"
    if step in ("output", "heads"):
        large = f"S for 4 where S > {LARGE_SCORES}, and 4 S for a smaller m, S = |q| |k| |scale|"
        return f"{TOLERANCE}, {letters}, m = {len(trace.key_labels)} ({large})"
    if step in ("weights", "weights_back", "exp", "sum"):
        return f"weights ((2 d_k + 8) S v + (m + 8) v + 4 u + 2 u S), S = |q| |k| |scale|, {letters}"
    if step in ("X", "Y", "Q", "K", "V"):
        return f"2 u |x| and v for each term of a product, {letters}"
    return f"(2 d_k + 8) S v, S = |q| |k| |scale|, and u for each rounding, {letters}"


def _remarks(mark: StepMark) -> list[str]:
    """What was compared how, how far the worst cells are off, and where they lie."""
    array = mark.array
    assert array is not None
    told = [f"{mark.step}: an array, marked by the tolerance {array.tolerance}"]
    if mark.verdict == "agrees":
        return [*told, f"{mark.step}: the largest error is {array.largest:.2g} of the tolerance"]
    if mark.verdict == "follows":
        return [*told, f"{mark.step}: not what is right, but what follows from the array of the step that is wrong"]
    count = f"{array.outside} of {array.size} numbers"
    told.append(f"{mark.step}: {count} ({100 * array.share:.3g} %) outside the tolerance, by up to "
                f"{array.largest:.3g} times{''.join(f'; {where}' for where in array.where)}")  # fmt: skip
    return told


def _follows(
    inputs: Mapping[str, Array], rules: Rules, trace: Trace, wrong: _Given, given: _Given, precision: Precision
) -> Array | bool:
    """Where an array is what an earlier, wrong one gives: the same problem, begun at that one."""
    if wrong.step not in LATER_STEPS or wrong.index or wrong.step == given.step:
        return False
    begun = {name: array for name, array in inputs.items() if name not in ("Q", "K", "W_Q", "W_K", "b_Q", "b_K",
                                                                           "past_k", *LATER_STEPS)}  # fmt: skip
    if wrong.step in ("masked", "weights"):
        begun.pop("bias", None)
    scale = trace.scale if wrong.step == "scores" and "scaled" in trace else None
    later = replace(rules, score=None, scale=scale, temperature=None, d_k=None)
    try:
        _, rights, _ = right_numbers(
            begun | {wrong.step: wrong.part.astype(np.float64)}, later, [given.step], precision
        )
        ratio = rights[given.step].ratio(given.part, given.index)
    except AttnError:
        return False
    return np.asarray(ratio <= 1)


def _diagnosis(
    problem: Problem, inputs: Mapping[str, Array], rules: Rules, extent: Extent, given: _Given, right: Right,
    ratio: Array, precision: Precision,
) -> list[Diagnosis]:  # fmt: skip
    """The mistakes that give the array; of a part of a step none are searched."""
    from attncli.verify.suspects import Suspects

    if given.index or not given.part.size or given.step.endswith("_back"):
        return []
    dtype = "float64" if precision.name == "float64" else "float32"
    return Suspects(problem, inputs, rules, extent, given.step, given.part, right, ratio, dtype).found()


def _coarser(
    inputs: Mapping[str, Array], rules: Rules, given: _Given, largest: float, precision: Precision
) -> list[Diagnosis]:
    """Whether a coarser type than that of the array and the inputs would explain it: TF32, autocast.

    Asked of softmax over dot products only, where the tolerance of a coarse type still says something.
    """
    plain = rules.score is None or rules.score.name in ("dot", "scaled-dot")
    if not plain or rules.normalizer != "softmax":
        return []
    for name in ("float32", "float16", "bfloat16"):
        coarser = Precision.named(name)
        if not precision.u < coarser.u or largest * precision.u > 8 * coarser.u:
            continue
        _, rights, _ = right_numbers(inputs, rules, [given.step], coarser)
        if (rights[given.step].ratio(given.part) <= 1).all():
            known = {"float16": "float16 or TF32"}.get(name, name)
            text = f"no other mistake than rounding: it was computed in {known}, not in {precision.name}"
            return [Diagnosis("coarser-type", given.step, text, False)]
    return []
