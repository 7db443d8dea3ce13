"""From one problem to its result: the same function in this process, in others and on a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

from attncli.batch.stamp import Stamp
from attncli.batch.writers import WRITERS, How, Shown
from attncli.errors import AttnError, MachineError
from attncli.extensions import fault, load_sources
from attncli.pipeline.trace import Trace
from attncli.problem.matrix import Matrix
from attncli.problem.problem import Problem
from attncli.problem.stages import Solved, Stages
from attncli.report.renderers import default_steps


@dataclass
class Outcome:
    """What came of one problem: its result in the bytes of its file, or what is wrong with it."""

    name: str
    source: str
    stamp: Stamp | None = None
    content: bytes | None = None
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    errors: list[AttnError] = field(default_factory=list)
    skipped: bool = False

    @property
    def told(self) -> str:
        """The verdict, or the shape of the result, or that there is none."""
        if self.stamp is None:
            return "bad"
        return self.stamp.verdict or self.stamp.result


@dataclass
class Task:
    """A problem that was read, and what it will be called."""

    name: str
    source: str
    problem: Problem | Stages
    digest: str = ""


def compute(task: Task, how: How) -> Outcome:
    """Compute one problem; what goes wrong is part of the outcome."""
    outcome, start = Outcome(task.name, task.source), perf_counter()
    try:
        _compute(task, how, outcome)
    except AttnError as error:
        outcome.errors = error.errors()
    except MemoryError as error:
        outcome.errors = [MachineError(f"not enough memory {error}".rstrip(), place=task.source)]
    except Exception as error:
        theirs = fault(error)
        if theirs is None:
            raise
        outcome.errors = [theirs]
    outcome.seconds = perf_counter() - start
    return outcome


def compute_all(tasks: list[Task], how: How) -> list[Outcome]:
    """Several at once, which costs one message between processes."""
    return [compute(task, how) for task in tasks]


def _compute(task: Task, how: How, outcome: Outcome) -> None:
    problem = task.problem
    if isinstance(problem, Problem):
        solved = [Solved("", problem, problem.solve(_kept(how, problem)))]
    else:
        solved = list(problem.solve())
    outcome.notes = [f"{each.name}: {note}" if each.name else note for each in solved for note in each.trace.notes]
    verdicts = [_verdict(each.problem) for each in solved if each.problem.expect]
    worst = next((verdict for verdict in ("wrong", "rounded", "agrees") if verdict in verdicts), None)
    stamp = Stamp(task.digest, _result(solved[-1].trace), worst)
    if how.format is not None:
        writer = WRITERS.find(how.format)
        outcome.content = writer.function(_shown(problem, solved, how, writer.shows), how, stamp)
    outcome.stamp = stamp


def _kept(how: How, problem: Problem) -> Sequence[str] | None:
    """The steps to hold where nothing is written."""
    if how.format is not None:
        return None
    return ["output"] if {"V", "X", "Y"} & problem.inputs.keys() else ["weights"]


def _verdict(problem: Problem) -> str:
    from attncli.verify.check import check

    return check(problem).verdict


def _result(trace: Trace) -> str:
    name = "output" if "output" in trace else "weights"
    return f"{name} {' x '.join(map(str, trace[name].shape))}"


def _shown(problem: Problem | Stages, solved: list[Solved], how: How, shows: str) -> Shown:
    """The steps of --show, of the problem's own `show`, or those that the format shows."""
    if isinstance(problem, Problem):
        trace = solved[0].trace
        wanted = how.show or problem.options.get("show")
        return {"": (trace, _steps(trace, wanted, shows))}
    wanted = how.show or problem.options.get("show")
    if wanted is not None and "all" not in wanted:
        chosen: dict[str, list[str]] = {}
        for stage, step in map(problem.address, wanted):
            chosen.setdefault(stage, []).append(step)
        return {each.name: (each.trace, chosen[each.name]) for each in solved if each.name in chosen}
    if shows == "last" and wanted is None:
        solved = solved[-1:]
    return {each.name: (each.trace, _steps(each.trace, wanted, shows)) for each in solved}


def _steps(trace: Trace, wanted: Sequence[str] | None, shows: str) -> Sequence[str]:
    if wanted is None:
        return default_steps(trace, shows)
    return trace.names(on_request=True) if "all" in wanted else wanted


# --- for other processes ------------------------------------------------------------------------------------------


def compute_there(sources: dict[str, bytes], tasks: list[Task], how: How) -> list[Outcome]:
    """As `compute_all`, in a process of a cluster, with the files that were loaded here."""
    load_sources(sources)
    return compute_all(tasks, how)


class Spelled:
    """The spelling of a matrix that travels: a list where a function was."""

    def __init__(self, texts: list[Any]) -> None:
        self.texts = texts

    def __call__(self) -> list[Any]:
        return self.texts


def portable(task: Task) -> Task:
    """The task as it can be sent to another process: matrices with their spelling read out, cells without places."""
    problem = task.problem
    if isinstance(problem, Stages):
        problems = {name: _portable(each) for name, each in problem.problems.items()}
        return replace(task, problem=replace(problem, problems=problems))
    return replace(task, problem=_portable(problem))


def _portable(problem: Problem) -> Problem:
    def sent(value: Any) -> Any:
        if isinstance(value, Matrix):
            spelled = Spelled(value.spelling()) if problem.expect and value.spelling is not None else None
            return replace(value, spelling=spelled, cell=None)
        return value

    score = problem.score
    if score is not None:
        score = replace(score, parameters={name: sent(value) for name, value in score.parameters.items()})
    return replace(
        problem,
        inputs={name: sent(value) for name, value in problem.inputs.items()},
        score=score,
        masks=[
            choice.changed(lambda single: replace(single, argument=sent(single.argument))) for choice in problem.masks
        ],
        expect={step: replace(hand, matrix=sent(hand.matrix)) for step, hand in problem.expect.items()},
    )
