"""What cannot be said together: two names for one thing, a matrix that nothing would use, rules that come too late."""

from __future__ import annotations

from collections.abc import Iterator

from attncli.errors import AttnError, UsageError, unknown
from attncli.pipeline.biases import BIASES
from attncli.pipeline.scores import SCORES
from attncli.pipeline.steps import STEPS
from attncli.pipeline.trace import NAMED_STEPS
from attncli.problem.matrix import Matrix
from attncli.problem.problem import Problem
from attncli.problem.reading import split_stage
from attncli.problem.settings import LATER_STEPS
from attncli.problem.values import ScoreChoice
from attncli.registry import SETTINGS


def infer_attention(given: set[str]) -> str:
    """self, cross or attend, as the names of the matrices tell."""
    if "Y" in given:
        return "cross"
    if "X" in given:
        return "cross" if "K" in given else "self"
    return "attend"


def contradictions(problem: Problem, said: set[str], unknown_matrices: frozenset[str] = frozenset()) -> list[AttnError]:
    """All of them. said: the settings that somebody gave, defaults and profiles aside; unknown: could not be read."""
    given = {*problem.inputs, *unknown_matrices}
    found = [*_later(problem, given, said), *_sources(problem, given), *_numbers(problem, said)]
    if problem.both_ways and not {"X", "Y"} <= given:
        found.append(_error(problem, "both_ways", "both ways needs X and Y", "cross X Y --both-ways"))
    return [*found, *_brought(problem), *parameter_errors(problem), *_stages(problem)]


def _error(problem: Problem, name: str, what: str, hint: str | None = None) -> UsageError:
    return UsageError(what, place=problem.place_of(name), hint=hint)


def _later(problem: Problem, given: set[str], said: set[str]) -> Iterator[AttnError]:
    later = [step for step in NAMED_STEPS if step in LATER_STEPS and step in given]
    for step in later[:-1]:
        yield _error(
            problem,
            step,
            f"{step} and {later[-1]} are both given, but {later[-1]} comes after {step}",
            f"the problem begins at one of them: leave the other out, or mark it under expect: {step}",
        )
    if not later:
        return
    begin = later[-1]
    for name in ("Q", "K", "W_Q", "W_K", "b_Q", "b_K", "past_k"):
        if name in given:
            yield _error(
                problem,
                name,
                f"{name} and {begin} are both given, but {begin} comes after {name}",
                f"leave {name} out, or leave {begin} out to have it computed",
            )
    late = STEPS.made_by(begin)
    late += [entry.setting.name for entry in BIASES] if "bias" in late else []
    for name in [*late, *(["d_k"] if begin == "kernel" else [])]:
        if name in said or name in given:
            yield _error(problem, name, f"{name} has no effect: the problem begins at {begin}", f"leave {name} out")


def _sources(problem: Problem, given: set[str]) -> Iterator[AttnError]:
    """Q, K and V each have one source, and each matrix is a source of something."""
    for letter in "QKV":
        for part in (f"W_{letter}", f"b_{letter}"):
            if letter in given and part in given:
                yield _error(
                    problem,
                    part,
                    f"{letter} and {part} are both given, but {letter} stands for the step after {part}",
                    f"leave {part} out, or give X in place of {letter}",
                )
    begins = any(step in given for step in LATER_STEPS)
    data = {"X", "Y"} & given
    if "Q" in given and "X" in given:
        yield _error(
            problem,
            "Q",
            "Q and X are both given: queries come from one of them",
            "Q stands for X W_Q: leave X out, or Q",
        )
    if data and {"K", "V"} <= given and ("Y" in data or ("Q" in given and "X" in data)):
        name = "Y" if "Y" in data else "X"
        yield _error(problem, name, f"{name} is not needed: K and V are given", f"leave {name} out, or K and V")
    if begins and {"X", "Y"} <= given:
        yield _error(problem, "X", "X has no effect: the scores are given, and the values come from Y", "leave X out")
    if begins and data and "V" in given:
        name = min(data)
        yield _error(problem, name, f"{name} has no effect: the scores and V are given", f"leave {name} out")
    yield from _attention(problem, given, begins)
    yield from _values(problem, given)


def _attention(problem: Problem, given: set[str], begins: bool) -> Iterator[AttnError]:
    """What self, cross and attend need, and what they have no use for."""
    kind = problem.attention
    if kind == "self" and "Y" in given:
        yield _error(problem, "Y", "attention: self has no use for Y", "attention: cross takes keys and values from Y")
    if kind == "attend" and {"X", "Y"} & given:
        name = min({"X", "Y"} & given)
        yield _error(
            problem,
            name,
            f"attention: attend has no use for {name}",
            "it takes Q, K and V; attention: self takes X, cross takes X and Y",
        )
    if begins:
        return
    if kind == "self" and "X" not in given and not {"Q", "K"} <= given:
        yield _error(
            problem,
            "attention",
            "X is missing: self-attention takes queries, keys and values from it",
            "or give Q and K themselves",
        )
    elif kind == "cross" and not ({"Y"} & given or {"K"} & given):
        yield _error(
            problem,
            "attention",
            "Y is missing: cross-attention takes keys and values from it",
            "or give K and V themselves",
        )
    elif kind == "cross" and not {"X", "Q"} & given:
        yield _error(
            problem, "attention", "X is missing: cross-attention takes the queries from it", "or give Q itself"
        )
    elif kind == "attend":
        missing = [name for name in ("Q", "K") if name not in given]
        if missing:
            are = "is" if len(missing) == 1 else "are"
            yield _error(
                problem,
                "attention",
                f"{' and '.join(missing)} {are} missing",
                "give Q and K, or X for self-attention, or X and Y for cross-attention, or scores",
            )
        for name in ("W_Q", "W_K", "b_Q", "b_K"):
            if name in given and name[-1] in missing:
                yield _error(problem, name, f"{name} has nothing to project", "give X")


def _values(problem: Problem, given: set[str]) -> Iterator[AttnError]:
    has_values = bool({"V", "X", "Y"} & given)
    for name in ("W_V", "b_V", "W_O", "b_O"):
        if name in given and not has_values:
            yield _error(problem, name, f"{name} is given, but there are no values", "give V, or X")
    if "past_v" in given and not has_values:
        yield _error(problem, "past_v", "past_v is given, but there are no values", "give V, or leave past_v out")
    begins = any(step in given for step in LATER_STEPS)
    if has_values and not begins and ("past_k" in given) != ("past_v" in given):
        name, other = ("past_k", "past_v") if "past_k" in given else ("past_v", "past_k")
        yield _error(problem, name, f"{name} is given without {other}", "keys and values of earlier steps go together")


def _numbers(problem: Problem, said: set[str]) -> Iterator[AttnError]:
    if problem.scale is not None and problem.temperature is not None:
        yield _error(
            problem,
            "temperature",
            "scale and temperature are both given",
            "temperature T is a scale of 1/T on top of the default one: leave one out",
        )
    needs_width = problem.score is not None and _is_scaled(problem.score) and problem.scale is None
    if needs_width and problem.d_k is None and problem.begins in ("scores", "kernel"):
        yield _error(
            problem,
            "score",
            "the scale 1/sqrt(d_k) of scaled-dot needs d_k, which the scores do not tell",
            "give d_k or scale beside the scores; without `score` they are not scaled",
        )
    alignments = list(
        dict.fromkeys(
            single.alignment for choice in problem.masks for single in choice.single() if single.alignment is not None
        )
    )
    if len(alignments) > 1:
        yield _error(
            problem,
            "mask",
            f"masks are aligned {' and '.join(alignments)}",
            "name one alignment: the other masks follow it",
        )
    if "kv_heads" in said and problem.heads is None:
        yield _error(
            problem, "kv_heads", "kv_heads is given without heads", "heads says how many query heads there are"
        )


def _is_scaled(score: ScoreChoice) -> bool:
    return isinstance(score.score, str) and score.score in SCORES and SCORES.find(score.score).scaled


def _brought(problem: Problem) -> Iterator[AttnError]:
    """What entries brought along: of the kind that they ask for, and with what it needs."""
    for name, value in problem.more.items():
        setting = SETTINGS[name]
        if setting.needs and value is not False and not {*setting.needs} & problem.more.keys():
            needed = " or ".join("--" + each.replace("_", "-") for each in setting.needs)
            yield _error(problem, name, f"{name} has no effect without {needed}", f"leave {name} out, or give {needed}")
        if setting.kind in ("matrix", "number") and isinstance(value, Matrix) != (setting.kind == "matrix"):
            is_one, is_not = ("a matrix", "a number")[:: 1 if setting.kind == "matrix" else -1]
            yield _error(problem, name, f"{name} is {is_one}, not {is_not}", "inline as [[...]], or a file")


def _stages(problem: Problem) -> Iterator[AttnError]:
    """One problem has no stages that `encoder.weights` could mean."""
    for address, hand in problem.expect.items():
        stage, step = split_stage(address)
        if stage is not None:
            yield UsageError(f"{address!r}: there is no stage {stage!r} here", place=hand.place, hint=f"write {step}")


def parameter_errors(problem: Problem) -> Iterator[AttnError]:
    """Names of the score's parameters, and whether each is a number or a matrix."""
    choice = problem.score
    if choice is None or not isinstance(choice.score, str):
        return
    known = SCORES.find(choice.score).parameters
    for name, value in choice.parameters.items():
        place = value.place if isinstance(value, Matrix) else choice.place
        if name not in known:
            yield unknown("parameter", name, known or ["none at all"], of=f"the score {choice.score!r}", place=place)
        elif isinstance(known[name], str) != isinstance(value, str):
            what = "a word" if isinstance(known[name], str) else "no word"
            yield UsageError(f"{name} of the score {choice.score!r} is {what}", place=place,
                             hint=" or ".join(SCORES.find(choice.score).words.get(name, ())) or None)  # fmt: skip
        elif isinstance(value, str):
            continue
        elif isinstance(known[name], float | int) and isinstance(value, Matrix):
            yield UsageError(f"{name} of the score {choice.score!r} is a number, not a matrix", place=place)
        elif not isinstance(known[name], float | int) and not isinstance(value, Matrix):
            yield UsageError(
                f"{name} of the score {choice.score!r} is a matrix, not the number {value:g}",
                place=place,
                hint="inline as [[...]], or a file",
            )
