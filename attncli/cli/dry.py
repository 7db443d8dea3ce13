"""`--dry-run`: what would be computed, from shapes alone, and what is assumed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attncli.engine.memory import in_words, memory_available
from attncli.errors import AttnError, shortened
from attncli.escapes import shown
from attncli.pipeline.logits import is_scaled, key_width, scales_by_width
from attncli.pipeline.trace import NAMED_STEPS, Trace
from attncli.problem.build import left_out
from attncli.problem.labels import past_count
from attncli.problem.matrix import Matrix
from attncli.problem.plan import blueprint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from attncli.cli.outputs import Outputs
    from attncli.engine.plan import Plan
    from attncli.problem.problem import Problem

_HEADER = 128  # bytes of a .npy before its numbers
_SPELLED = 26  # bytes that a double takes as text at most, with what stands between two of them


def describe(problem: Problem, plan: Plan, outputs: Outputs | None = None, *, by_blocks: bool = False) -> str:
    """Lines: the matrices, what is assumed, every step with its shape and memory, what is needed in all, and the files.

    plan: for the steps that are asked for. by_blocks: it goes by blocks, and no n x m is held.
    Raises what is wrong with masks, labels and what is to be shown, as solving the problem does.
    """
    trace = blueprint(problem, plan)
    for address in problem.options.get("show") or ():
        if address != "all":
            trace.part(address)
    lines = [
        *([shown(problem.title)] if problem.title else []),
        f"{problem.attention}, a token is a {problem.layout[:-1]}",
        *_inputs(problem),
        "assumed:",
        *(f"  {line}" for line in _assumed(problem, trace, plan)),
        "steps:",
        *_steps(problem, trace),
        *_memory(plan, by_blocks),
        *(_files(outputs, trace) if outputs is not None else ()),
    ]
    return "\n".join(map(shown, lines))


def _inputs(problem: Problem) -> Iterator[str]:
    for name, matrix in problem.inputs.items():
        if isinstance(matrix, Matrix):
            array = matrix.array
            yield f"  {name}: {_times(array.shape)}, {matrix.stored or array.dtype}, {in_words(array.nbytes)}"


def _assumed(problem: Problem, trace: Trace, plan: Plan) -> Iterator[str]:
    yield f"computed in {plan.dtype}"
    if any(name.startswith("W_") for name in problem.inputs):
        yield f"weight layout: {problem.weight_layout}"
    yield from (f"{name}: the identity" for name in left_out(problem))
    if trace.heads is not None:
        shared = f", which share {problem.kv_heads} key heads" if problem.kv_heads else ""
        yield f"heads: {trace.heads}{shared}"
    if past_count(problem):
        yield f"past keys: {past_count(problem)}, in front"
    if problem.begins:
        yield f"begins at: {problem.begins}"
    if problem.score is not None:
        score = problem.score
        name = score.score if isinstance(score.score, str) else "a callable"
        yield f"score: {' '.join([name, *_parameters(score.parameters)])}"
    if problem.begins == "weights":
        return
    if is_scaled(plan.at) and plan.at.has("scores"):
        yield f"scale: {_scale(problem, plan)}"
    yield from (f"{name}: {_said(value)}" for name, value in problem.more.items())
    if problem.softcap is not None:
        yield f"soft cap: {problem.softcap:.9g}"
    if problem.masks and problem.begins != "masked":
        masks, notes = _masks(plan)
        yield from (f"mask: {text}" for text in masks)
        yield f"mask value: {problem.mask_value:.9g}"
        yield from notes
    yield f"normalizer: {trace.normalizer}"
    yield f"a query that sees no key: {problem.empty_rows}"


def _parameters(parameters: dict[str, float | Matrix | str]) -> list[str]:
    return [
        f"{name} {_said(value)}" if isinstance(value, Matrix) else f"{name}={_said(value)}"
        for name, value in parameters.items()
    ]


def _said(value: object) -> str:
    if isinstance(value, Matrix):
        return _times(value.array.shape)
    if isinstance(value, dict):
        return ", ".join(f"{name} {_said(each)}" for name, each in value.items())
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _scale(problem: Problem, plan: Plan) -> str:
    """What multiplies the scores, and what it is made of."""
    if isinstance(problem.scale, Matrix):
        numbers = problem.scale.array
        each = "query" if numbers.ndim == 2 and numbers.shape[1] == 1 < numbers.shape[0] else "head"
        return f"one a {each}: {shortened(', '.join(f'{number:.9g}' for number in numbers.flat))}"
    if problem.scale is not None:
        return f"{problem.scale:.9g}"
    d_k = key_width(plan.at) if scales_by_width(plan.at) else 0
    told = f"1/sqrt({d_k})" if d_k else "1"
    return f"{plan.at['scale']:.9g} = {told}{f' / {problem.temperature:.9g}' if problem.temperature else ''}"


def _masks(plan: Plan) -> tuple[list[str], list[str]]:
    """The masks with their alignment, and what is told of it."""
    masks = plan.at.masks
    return (masks.texts, masks.notes) if masks else ([], [])


def _steps(problem: Problem, plan: Trace) -> Iterator[str]:
    for name in plan.names(on_request=True):
        array = plan[name]
        told = ", given" if name in problem.inputs else ", when asked for" if NAMED_STEPS[name].on_request else ""
        yield f"  {name}: {_times(array.shape)}, {in_words(array.nbytes)}{told}"


def _memory(plan: Plan, by_blocks: bool) -> Iterator[str]:
    yield "by blocks: no step of n x m is held" if by_blocks else "as a whole: every step is held"
    needed, free = sum(plan.memory(by_blocks=by_blocks).values()), memory_available()
    there = "" if free is None else f"; {in_words(free)} are free"
    short = ": it would be refused" if free is not None and needed > free else ""
    yield f"memory besides the matrices: about {in_words(needed)}{there}{short}"


def _files(outputs: Outputs, plan: Trace) -> Iterator[str]:
    """The files of -o and --save-problem. Raises what their formats cannot hold, as writing them does."""
    from attncli.problem.save import saved_sizes
    from attncli.report.data import parts

    force = bool(outputs.problem.options.get("force"))
    lines = []
    for output in outputs.files:
        if output.is_drawn:
            what = "a page" if output.is_page else "a picture" if output.is_picture else "a document"
            lines.append(drawn_line(output.path, what, outputs.steps_of(output, plan), force=force))
            continue
        matrices = parts(plan, outputs.steps_of(output, plan))
        lines.append(file_line(output.path, matrices, force=force))
    if outputs.saved is not None and outputs.saved != "-":
        for path, size in saved_sizes(outputs.problem, Path(outputs.saved)).items():
            lines.append(f"  {path}: the problem, about {in_words(size)}{_refused(path, force)}")
    yield from ["files:", *lines] if lines else []


def file_line(path: Path, matrices: Mapping[str, Matrix], *, force: bool) -> str:
    """What a file would hold, its size, and whether it would be refused. Raises InputError as `formats.writer` does."""
    from attncli.problem.formats import format_of, writer
    from attncli.problem.values import placed

    with placed(f"-o {path}"):
        writer(path.name, matrices, {})
    arrays = [matrix.array for matrix in matrices.values()]
    if format_of(path.name).name in ("npy", "npz"):
        size = f"about {in_words(sum(_HEADER + array.nbytes for array in arrays))}"
    else:
        size = f"at most {in_words(_SPELLED * sum(array.size for array in arrays))} of numbers"
    return f"  {path}: {', '.join(matrices)}, {size}{_refused(path, force)}"


def drawn_line(path: Path, what: str, steps: Sequence[str], *, force: bool) -> str:
    """A picture or document, its steps, and whether it would be refused."""
    return f"  {path}: {what} of {', '.join(steps)}{_refused(path, force)}"


def _refused(path: Path, force: bool) -> str:
    """Why the file would not be written as things stand, if so."""
    from attncli.problem.formats.files import check_all

    try:
        check_all([str(path)], force=force)
    except AttnError as error:
        why = "; ".join(f"{inner.what}, {inner.hint}" if inner.hint else inner.what for inner in error.errors())
        return f": it would be refused: {why}"
    return ""


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
