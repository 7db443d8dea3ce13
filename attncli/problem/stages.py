"""Stages: the problems of one file, of which a later one may use steps of earlier ones as its matrices.

Whether these steps exist and fit is settled from shapes alone, before anything is computed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from attncli.engine.plan import Sizes as Shape
from attncli.errors import AttnError, InputError, Place, nearest, raise_all
from attncli.lazy import np
from attncli.pipeline.trace import Trace, parse_address
from attncli.problem.build import Layer, in_order
from attncli.problem.joining import JOINS
from attncli.problem.matrix import Matrix
from attncli.problem.plan import step_shapes
from attncli.problem.problem import Problem
from attncli.problem.reading import split_stage
from attncli.problem.settings import FIELDS
from attncli.problem.sizes import size_errors
from attncli.problem.values import Setting, StageRef, placed

if TYPE_CHECKING:
    from attncli.lazy import Array
    from attncli.problem.document import Document


@dataclass
class Solved:
    """One stage that is computed: its problem, with earlier stages' steps in their places, and its Trace."""

    name: str
    problem: Problem
    trace: Trace


@dataclass
class Stages:
    """The problems of one file by name, in order. options: how the results are to be shown.

    shapes: of each stage the shapes of its steps, tokens as rows.
    """

    problems: dict[str, Problem]
    shapes: dict[str, dict[str, Shape]]
    options: dict[str, Any] = field(default_factory=dict)
    file: str | None = None

    @property
    def last(self) -> str:
        """The name of the last stage, to which a step without a stage belongs."""
        return next(reversed(self.problems))

    def address(self, address: str) -> tuple[str, str]:
        """`encoder.weights[2]` as ("encoder", "weights[2]"); a plain step is one of the last stage.

        Raises InputError for a stage or a step that does not exist.
        """
        stage, step = split_stage(address)
        stage = self.last if stage is None else stage
        if stage not in self.problems:
            raise _no_stage(stage, [*self.problems])
        _check_step(stage, step, self.shapes[stage])
        return stage, step

    def stand_in(self, name: str) -> Problem:
        """The problem of a stage, with arrays of the right shapes, which hold nothing, in place of earlier stages."""
        problem = self.problems[name]
        given = {
            ref_name: _stand_in(problem, ref_name, ref, _shape_of(ref_name, ref, self.shapes))
            for ref_name, ref in problem.inputs.items()
            if isinstance(ref, StageRef)
        }
        return replace(problem, inputs={**problem.inputs, **given})

    def solve(self, wanted: Mapping[str, Collection[str]] | None = None) -> Iterator[Solved]:
        """Compute one stage after the other. wanted: the steps of each stage that are kept; None means all."""
        traces: dict[str, Trace] = {}
        for name, problem in self.problems.items():
            keep = None if wanted is None else {*wanted.get(name, ()), *self._used_later(name)}
            ready = with_steps(problem, traces)
            traces[name] = ready.solve(keep)
            yield Solved(name, ready, traces[name])

    def _used_later(self, name: str) -> set[str]:
        return {ref.step for problem in self.problems.values() for ref in references(problem) if ref.stage == name}


def references(problem: Problem) -> list[StageRef]:
    """The steps of earlier stages that a problem uses."""
    return [ref for matrix in problem.inputs.values() if isinstance(matrix, StageRef) for ref in matrix.single()]


def read_stages(document: Document, options: Layer | None = None) -> Stages:
    """The stages of a file with the command line's options; its rules go to every stage, `--expect` to the one named.

    Raises all that is wrong at once, with places: unknown stages and steps, sizes that do not fit.
    """
    errors: list[AttnError] = list(document.layer.errors)
    shown, rules = _split(options or Layer())
    problems: dict[str, Problem] = {}
    shapes: dict[str, dict[str, Shape]] = {}
    expect = _expectations(shown, [member.name or "" for member in document.members], errors)
    for member in document.members:
        name = member.name or ""
        own = replace(rules, settings={**rules.settings, **expect.get(name, {})})
        try:
            problems[name] = member.problem(own)
        except AttnError as error:
            errors += error.errors()
            continue
        try:
            inferred = _infer(problems[name], shapes)
        except AttnError as error:
            errors += error.errors()
        else:
            shapes |= {} if inferred is None else {name: inferred}
    raise_all(in_order(errors, document.file))
    settings = {"show": document.layer.settings.get("show"), **shown.settings}
    said = {name: setting.value for name, setting in settings.items() if setting is not None and name != "expect"}
    stages = Stages(problems, shapes, said, document.file)
    _check_shown(stages, settings.get("show"))
    return stages


def with_steps(problem: Problem, traces: Mapping[str, Trace]) -> Problem:
    """The problem with the steps of solved stages in place of what refers to them; other references stay."""
    if not references(problem):
        return problem
    inputs = {
        name: _handed(problem, name, matrix, traces)
        if isinstance(matrix, StageRef) and all(ref.stage in traces for ref in matrix.single())
        else matrix
        for name, matrix in problem.inputs.items()
    }
    return replace(problem, inputs=inputs)


def handed_over(problem: Problem, name: str, rows: Array) -> Array:
    """A step of a stage, tokens as rows, as the matrix of that name lies in the problem that takes it."""
    turned = problem.weight_layout == "out-in" if name.startswith("W_") else problem.layout == "columns"
    return rows.mT if turned and rows.ndim >= 2 else rows


def _handed(problem: Problem, name: str, ref: StageRef, traces: Mapping[str, Trace]) -> Matrix:
    arrays = [_step_rows(traces[part.stage], part.step, ref) for part in ref.single()]
    array = JOINS[ref.how].values(name, arrays, ref.times) if ref.parts else arrays[0]
    matrix = Matrix(handed_over(problem, name, array), place=ref.place)
    trace = traces[ref.stage]
    if len({array.shape[-2] for array in (array, *arrays)}) != 1:
        return matrix  # the tokens of several, one after the other
    if trace.labelled and trace.axes(ref.step)[trace.layout == "columns"] in ("query", "key"):
        labels = trace.labels(ref.step)[trace.layout == "columns"]
        matrix.row_labels, matrix.column_labels = (None, labels) if problem.layout == "columns" else (labels, None)
    return matrix


def _step_rows(trace: Trace, step: str, ref: StageRef) -> Array:
    """A step with tokens as rows, averaged over the heads where what joins it says so."""
    name, index = trace.part(step)
    array = trace.rows(name) if index is None else trace.rows(name)[index]
    return array.mean(axis=-3) if ref.parts and JOINS[ref.how].mean and trace.heads is not None else array


def _infer(problem: Problem, known: Mapping[str, dict[str, Shape]]) -> dict[str, Shape] | None:
    """The shapes of a stage's steps, from those of earlier stages; None where one of these is not known.

    Raises what does not fit, at its place.
    """
    errors: list[AttnError] = []
    inputs: dict[str, Matrix | StageRef] = {}
    for name, matrix in problem.inputs.items():
        inputs[name] = matrix
        if not isinstance(matrix, StageRef):
            continue
        if any(ref.stage not in known for ref in matrix.single()):
            continue  # a stage that is wrong itself, comes later or does not exist: told already
        try:
            shape = _shape_of(name, matrix, known)
        except InputError as error:
            error.place = error.place or matrix.place
            errors.append(error)
            continue
        inputs[name] = _stand_in(problem, name, matrix, shape)
    ready = replace(problem, inputs=inputs)
    errors += size_errors(ready)
    raise_all(errors)
    return None if references(ready) else step_shapes(ready)


def _stand_in(problem: Problem, name: str, ref: StageRef, shape: Shape) -> Matrix:
    return Matrix(handed_over(problem, name, np.broadcast_to(np.zeros(()), shape)), place=ref.place)


def _shape_of(name: str, ref: StageRef, known: Mapping[str, Mapping[str, Shape]]) -> Shape:
    """The shape of what a reference stands for. Raises InputError where a stage has no such step, ShapeError."""
    shapes = []
    for part in ref.single():
        with placed(part.place):
            shape = _check_step(part.stage, part.step, known[part.stage])
        averaged = ref.parts and JOINS[ref.how].mean and _has_heads(known[part.stage])
        shapes.append(shape[:-3] + shape[-2:] if averaged else shape)
    return JOINS[ref.how].shape(name, shapes) if ref.parts else shapes[0]


def _has_heads(shapes: Mapping[str, Shape]) -> bool:
    """Whether the weights of a stage have an axis for heads."""
    axes = len(shapes["weights"])
    return "heads" in shapes or axes >= 4 or axes > len(shapes.get("Q", shapes["weights"]))


def _check_step(stage: str, address: str, shapes: Mapping[str, Shape]) -> Shape:
    """The shape of a step or of a part of it. Raises InputError where the stage does not have it."""
    step, indices = parse_address(address)
    if step not in shapes:
        close = nearest(step, shapes)
        meant = f"did you mean {close!r}? " if close else ""
        raise InputError(f"the stage {stage!r} has no step {step!r}", hint=f"{meant}it has: {', '.join(shapes)}")
    leading = shapes[step][:-2]
    if not indices:
        return shapes[step]
    padded = (1,) * (len(leading) - len(indices)) + indices
    if len(padded) != len(leading) or any(not 1 <= i <= size for i, size in zip(padded, leading, strict=False)):
        told = f"counted from 1, up to {', '.join(map(str, leading))}" if leading else f"{step} is a single matrix"
        raise InputError(f"the stage {stage!r} has no {address}", hint=told)
    return shapes[step][-2:]


def _no_stage(stage: str, known: list[str], place: Place | str | None = None) -> InputError:
    close = nearest(stage, known)
    meant = f"did you mean {close!r}? " if close else ""
    return InputError(f"there is no stage {stage!r}", place=place, hint=f"{meant}stages: {', '.join(known)}")


def _split(options: Layer) -> tuple[Layer, Layer]:
    """What is said of the showing of the whole file, and what goes to every stage."""
    shown = {
        name: setting
        for name, setting in options.settings.items()
        if FIELDS[name].panel == FIELDS["show"].panel or name == "expect"
    }
    rules = {name: setting for name, setting in options.settings.items() if name not in shown}
    return replace(options, settings=shown), replace(options, settings=rules)


def _expectations(shown: Layer, names: list[str], errors: list[AttnError]) -> dict[str, dict[str, Setting]]:
    """`--expect encoder.weights=FILE` goes to the stage encoder, a plain step to the last one."""
    setting = shown.settings.get("expect")
    found: dict[str, dict[str, Setting]] = {}
    for address, hand in (setting.value if setting is not None else {}).items():
        stage, step = split_stage(address)
        stage = names[-1] if stage is None and names else stage
        if stage not in names:
            errors.append(_no_stage(stage or "", names, "--expect"))
            continue
        own = found.setdefault(stage, {"expect": Setting({}, "--expect")})
        own["expect"].value[step] = hand
    return found


def _check_shown(stages: Stages, show: Setting | None) -> None:
    errors: list[AttnError] = []
    for address in show.value if show is not None else ():
        try:
            if address != "all":
                stages.address(address)
        except AttnError as error:
            error.place = show.place if show is not None else None
            errors.append(error)
    raise_all(errors)
