"""From what was said, in a file, in options or in Python, to one Problem: defaults < profile < file < options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from attncli.errors import AttnError, Place, raise_all
from attncli.pipeline.scores import SCORES
from attncli.pipeline.steps import STEPS, parse_address
from attncli.problem.axes import in_order as in_order_of_axes
from attncli.problem.contradictions import contradictions, infer_attention
from attncli.problem.matrix import Matrix
from attncli.problem.packed import Unpacked
from attncli.problem.problem import Problem
from attncli.problem.profiles import PROFILES
from attncli.problem.settings import FIELDS, LATER_STEPS, MATRICES
from attncli.problem.sizes import size_errors
from attncli.problem.values import ScoreChoice, Setting, StageRef
from attncli.registry import SETTINGS, brought


@dataclass(eq=False, repr=False)
class Layer:
    """Settings of one source by field name, what was wrong there, and the fields that could not be understood.

    line: where the problem begins in its file, if it is one of several there.
    """

    settings: dict[str, Setting] = field(default_factory=dict)
    errors: list[AttnError] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)
    file: str | None = None
    line: int | None = None


def make_problem(*layers: Layer) -> Problem:
    """The Problem that these layers describe, the later ones winning.

    Raises everything that is wrong at once (`Several`): what the layers could not read, contradictions, sizes.
    """
    errors = [error for layer in layers for error in layer.errors]
    broken = frozenset(name for layer in layers for name in layer.broken)
    settings, notes = merge(layers)
    profile = PROFILES.get(settings["like"].value) if "like" in settings else None
    in_rows = "layout" not in settings or settings["layout"].value == "rows"
    settings, axes, odd = in_order_of_axes(settings, profile.axes if profile and in_rows else "")
    errors += odd
    single = Unpacked(settings, _weight_layout(settings), broken)
    settings, broken = single.settings, single.broken
    errors += single.errors
    problem = _assemble(settings, broken)
    problem.axes = axes
    source = next((layer for layer in layers if layer.file), Layer())
    problem.file = source.file
    problem.notes = [
        *notes,
        *single.notes,
        *_profile_notes(problem, settings),
        *_reading_notes(problem),
        *_input_notes(problem),
    ]
    problem.notes += _meant_for_others(problem)
    try:
        errors += contradictions(problem, set(settings), broken & {*MATRICES})
        errors += [] if odd or broken & {"layout", "weight_layout", "like", "axes"} else size_errors(problem, broken)
    except AttnError as error:
        errors += error.errors()
    raise_all(in_order(errors, source.file, source.line))
    if problem.heads == 1 and problem.kv_heads in (None, 1):  # as without it
        problem.heads = problem.kv_heads = None
    # What comes from a stage is checked when it is there.
    problem.checked = not any(isinstance(matrix, StageRef) for matrix in problem.inputs.values())
    return problem


def merge(layers: Sequence[Layer]) -> tuple[dict[str, Setting], list[str]]:
    """All settings, the later layer winning, and what had to be told.

    A score brings its parameters along; parameters of later layers are added to them. expect is merged by step.
    A temperature replaces the scale of an earlier layer, and the other way round.
    """
    merged: dict[str, Setting] = {}
    notes: list[str] = []
    for layer in layers:
        new = layer.settings
        for name, other in (("scale", "temperature"), ("temperature", "scale")):
            if name in new and other not in new and other in merged:
                del merged[other]
                notes.append(f"{name} replaces the {other} of {layers[0].file or 'the problem file'}")
        if "score" in new:
            merged.pop("param", None)
        for name, setting in new.items():
            if FIELDS[name].kind in ("parameters", "expect") and name in merged:
                setting = Setting({**merged[name].value, **setting.value}, setting.place)
            merged[name] = setting
    return merged, notes


def _assemble(settings: dict[str, Setting], broken: frozenset[str]) -> Problem:
    """The settings as a Problem, with the profile's rules where nothing was said."""
    values = {name: setting.value for name, setting in settings.items()}
    inputs = {name: values.pop(name) for name in MATRICES if name in values}
    given = {*inputs, *broken}
    profile = PROFILES[values["like"]] if values.get("like") in PROFILES else None
    rules: dict[str, Any] = profile.rules() if profile else {}
    layout = values.get("layout", "rows")
    options = {name: values.pop(name) for name in list(values) if FIELDS[name].panel in ("Showing and writing",)}
    options |= {name: values.pop(name) for name in ("separator", "decimal") if name in values}  # of CSV written, too
    for name in ("header", "labels", "stored", "stdin_format", "problems", "stages", "axes"):
        values.pop(name, None)
    score, parameters = values.pop("score", None), values.pop("param", {})
    aside = _not_of_score(score, parameters)
    more = {**aside, **{name: values.pop(name) for name in list(values) if name in SETTINGS}}
    parameters = {name: value for name, value in parameters.items() if name not in aside}
    score = _score(score, parameters, settings, rules.get("score"))
    return Problem(
        inputs=inputs,
        attention=values.pop("attention", None) or infer_attention(given),
        layout=layout,
        weight_layout=_weight_layout(settings),
        score=score
        if score is not None or given & {*LATER_STEPS}
        else ScoreChoice(rules.get("score") or SCORES.default.name),
        masks=values.pop("mask", []),
        mask_value=values.pop("mask_value", rules.get("mask_value", float("-inf"))),
        empty_rows=values.pop("empty_rows", rules.get("empty_rows", "zero")),
        alignment=rules.get("causal", "top-left"),
        more=more,
        options=options,
        places={
            **{name: settings["param"].place for name in aside},  # noqa: C420  (there may be no "param")
            **{name: setting.place for name, setting in settings.items()},
        },
        **{name: value for name, value in values.items() if name not in ("layout", "weight_layout")},
    )


def _weight_layout(settings: Mapping[str, Setting]) -> str:
    """How weights are stored: as was said, as the profile has it, or as the layout's formula has them."""
    if "weight_layout" in settings:
        return str(settings["weight_layout"].value)
    if "like" in settings and settings["like"].value in PROFILES:
        return PROFILES[settings["like"].value].weight_layout
    return "out-in" if "layout" in settings and settings["layout"].value == "columns" else "in-out"


def _not_of_score(
    score: ScoreChoice | None, parameters: dict[str, float | Matrix | str]
) -> dict[str, float | Matrix | str]:
    """Of the parameters those that belong to a step or bias with that setting, and not to the score."""
    own = SCORES.find(score.score).parameters if score is not None and isinstance(score.score, str) else ()
    strange = score is not None and not isinstance(score.score, str)
    return {name: x for name, x in parameters.items() if name in SETTINGS and not strange and name not in own}


def _score(
    score: ScoreChoice | None,
    parameters: dict[str, float | Matrix | str],
    settings: dict[str, Setting],
    default: str | None,
) -> ScoreChoice | None:
    """The score with all its parameters; None where nobody named one."""
    if not parameters:
        return score
    place = settings["param"].place
    if score is None:
        return ScoreChoice(default or SCORES.default.name, parameters, place)
    return replace(score, parameters={**score.parameters, **parameters})


def _profile_notes(problem: Problem, settings: dict[str, Setting]) -> list[str]:
    """What the profile set, except where somebody said otherwise."""
    if problem.like not in PROFILES:
        return []
    rules = PROFILES[problem.like].rules()
    spoken = {"score": "score", "mask_value": "mask value", "empty_rows": "empty rows", "causal": "causal",
              "weight_layout": "weights", "axes": "axes"}  # fmt: skip
    told = [
        f"{words} {rules[name]:.9g}" if isinstance(rules[name], float) else f"{words} {rules[name]}"
        for name, words in spoken.items()
        if name not in settings
        and not (name == "score" and problem.begins)
        and not (name == "axes" and problem.axes in (None, "td"))
    ]
    return [f"like {problem.like}: {', '.join(told)}"]


def _reading_notes(problem: Problem) -> list[str]:
    matrices = {**problem.inputs, **(problem.score.parameters if problem.score else {})}
    noted = [(name, matrix) for name, matrix in matrices.items() if isinstance(matrix, Matrix)]
    masks = [single for choice in problem.masks for single in choice.single()]
    noted += [(str(single.mask), single.argument) for single in masks if isinstance(single.argument, Matrix)]
    return list(dict.fromkeys(f"{name}: {note}" for name, matrix in noted for note in matrix.notes))


def _input_notes(problem: Problem) -> list[str]:
    """What may have been meant otherwise: a mask in a matrix's place, and projections that nobody gave."""
    told = [
        f"{name} holds true and false alone, taken as 1 and 0 (a mask is keep: or block: under mask)"
        for name, matrix in problem.inputs.items()
        if isinstance(matrix, Matrix) and matrix.array.dtype.kind == "b" and matrix.array.size
    ]
    absent = left_out(problem)
    return told + ([f"{' and '.join(absent)} left out: the identity"] if absent else [])


def _meant_for_others(problem: Problem) -> list[str]:
    """Expected numbers of a step that are meant for another are moved there; gives what is told of it."""
    told = []
    for step in STEPS.named():
        if not step.expected_as or not any(problem.more.get(setting.name) for setting in brought(step)):
            continue
        meant = [address for address in problem.expect if parse_address(address)[0] == step.expected_as]
        if meant and step.name not in problem.expect:
            moved = {address: address.strip().replace(step.expected_as, step.name, 1) for address in meant}
            problem.expect = {moved.get(address, address): hand for address, hand in problem.expect.items()}
            told.append(f"the expected {step.expected_as} are marked as {step.name}: {step.about}")
    return told


def left_out(problem: Problem) -> list[str]:
    """The weight matrices that nobody gave where others of queries, keys and values are given."""
    made = [f"W_{letter}" for letter in "QKV" if letter not in problem.inputs and {"X", "Y"} & problem.inputs.keys()]
    return [name for name in made if name not in problem.inputs] if any(name in problem.inputs for name in made) else []


def in_order(errors: list[AttnError], file: str | None, start: int | None = None) -> list[AttnError]:
    """Each once (two checks may see the same fault), those of the problem file in the order of its lines.

    start: the line of what has no line of its own.
    """
    whole = Place(file) if file else None
    for error in errors:
        if error.place in (None, whole):
            error.place = Place(file, start) if file else None

    def line(error: AttnError) -> tuple[bool, int, int]:
        place = error.place
        if not isinstance(place, Place) or place.file != file or place.line is None:
            return True, 0, 0
        return False, place.line, place.column or 0

    return sorted({str(error): error for error in errors}.values(), key=line)
