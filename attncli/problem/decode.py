"""One query at a time, as a decoder generates: which problems can be decoded, and their steps one by one.

Letters: n queries, m keys; leading axes are sequences, then heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attncli.errors import AttnError, UsageError, raise_all
from attncli.pipeline.trace import Trace
from attncli.problem.cache import Cache, Plan, Row
from attncli.problem.labels import query_labels
from attncli.problem.plan import step_shapes
from attncli.problem.problem import Problem
from attncli.problem.stages import Stages, with_steps
from attncli.problem.values import StageRef

_QUERY_SIDE = ("X", "Q")
_KEY_SIDE = ("Y", "K", "V")
_ROWS = ("output", "X", "Q", "K", "V")  # steps of a decoded stage of which each step of decoding gives a row


@dataclass(frozen=True)
class Decoded:
    """One step of decoding, counted from 1: the row of each stage that is decoded, by name; "" without stages."""

    step: int
    rows: dict[str, Row]

    @property
    def last(self) -> Row:
        """The row of the problem, or of the last stage."""
        return next(reversed(self.rows.values()))


class Decoder:
    """A causal problem, or stages of which the last one and those that give its queries are computed row by row.

    count: how many steps there are, one for each query.
    Raises UsageError, before anything is computed, where a query sees keys that do not exist at its step.
    """

    def __init__(self, problem: Problem | Stages) -> None:
        alone = Stages({"": problem}, {"": step_shapes(problem)}) if isinstance(problem, Problem) else problem
        self._stages = alone
        self._decoded = _query_stream(alone)
        self._tokens = _tokens(alone)
        errors: list[AttnError] = []
        self._plans: dict[str, Plan] = {}
        for name in self._decoded:
            try:
                self._plans[name] = self._plan(name)
            except AttnError as error:
                errors += error.errors()
        raise_all(errors)
        self.count = self._plans[alone.last].n

    @property
    def notes(self) -> list[str]:
        """What has to be told of the whole, before any step."""
        return [note for plan in self._plans.values() for note in (*plan.problem.notes, *plan.masks.notes)]

    def steps(self, first: int = 1, last: int | None = None) -> Iterator[Decoded]:
        """The steps first to last, each computed when it is asked for."""
        solved = self._solved()
        caches = {name: Cache(plan, with_steps(plan.problem, solved)) for name, plan in self._plans.items()}
        # Of several stages the earlier rows are keys of later ones; else the cache is filled without their queries.
        start = first - 1 if len(caches) == 1 else 0
        for at in range(start, self.count if last is None else last):
            traces: dict[str, Trace] = {}
            rows: dict[str, Row] = {}
            for name, cache in caches.items():
                traces[name], rows[name] = cache.step(at, traces)
            if at >= first - 1:
                yield Decoded(at + 1, rows)

    def together(self, steps: Sequence[Decoded]) -> dict[str, Trace]:
        """Of each decoded stage a Trace of its weights and outputs, with a row for each of these steps."""
        return {name: plan.together([step.rows[name] for step in steps]) for name, plan in self._plans.items()}

    def _solved(self) -> dict[str, Trace]:
        """The stages that are not decoded, and so whole from the beginning."""
        traces: dict[str, Trace] = {}
        for name, problem in self._stages.problems.items():
            if name not in self._decoded:
                traces[name] = with_steps(problem, traces).solve()
        return traces

    def _plan(self, name: str) -> Plan:
        problem, shapes = self._stages.problems[name], self._stages.shapes[name]
        of = f"the stage {name!r}" if name else "the problem"
        if problem.begins:
            raise UsageError(
                f"{of} begins at {problem.begins}: there are no keys to be cached",
                place=problem.place_of(problem.begins),
                hint="decode takes X, or Q, K and V",
            )
        if problem.both_ways:
            raise UsageError(
                f"{of} is computed both ways, but while it is decoded its queries are not all there",
                place=problem.places.get("both_ways"),
                hint="leave both_ways out",
            )
        for taker, ref in problem.inputs.items():
            if isinstance(ref, StageRef) and ref.stage in self._decoded and ref.step not in _ROWS:
                raise UsageError(
                    f"{taker} is the step {ref.step!r} of a stage that is decoded row by row",
                    place=ref.place,
                    hint=f"it may be one of {', '.join(_ROWS)}",
                )
        plan = Plan(problem, shapes, self._grows(problem), self._tokens)
        try:
            early = plan.first_to_look_ahead()
        except AttnError as error:
            raise problem.placed(error) from None
        if early is not None:
            raise UsageError(
                f"{of} is not causal: query {early} sees keys that do not exist at step {early}",
                place=problem.places.get("mask") or problem.file,
                hint="--mask causal" if not problem.masks else "add the mask causal",
            )
        return plan

    def _grows(self, problem: Problem) -> bool:
        """Whether keys come one by one, as the queries do; those of cross-attention are there from the beginning."""
        sources = [problem.inputs[name] for name in _KEY_SIDE if name in problem.inputs]
        references = [source.stage in self._decoded for source in sources if isinstance(source, StageRef)]
        return any(references) if references else problem.attention != "cross"


def _query_stream(stages: Stages) -> list[str]:
    """The last stage and those from which its queries come, in the order of the file."""
    names, waiting = set[str](), [stages.last]
    while waiting:
        name = waiting.pop()
        names.add(name)
        inputs = stages.problems[name].inputs
        waiting += [ref.stage for side in _QUERY_SIDE if isinstance(ref := inputs.get(side), StageRef)]
    return [name for name in stages.problems if name in names]


def _tokens(stages: Stages) -> dict[str, list[str]]:
    """The labels of each stage's queries, where somebody gave some: to it, or to the stage that they come from."""
    known: dict[str, list[str]] = {}
    for name, problem in stages.problems.items():
        own = query_labels(problem, stages.shapes[name]["weights"][-2])
        sources = (ref.stage for side in _QUERY_SIDE if isinstance(ref := problem.inputs.get(side), StageRef))
        labels = own or next((known[source] for source in sources if source in known), None)
        if labels is not None:
            known[name] = labels
    return known
