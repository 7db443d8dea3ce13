"""The Problem: what to compute, in normal forms, merged from profile, file and options; `solve` gives its Trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from attncli.engine.attending import attend as compute
from attncli.engine.attending import is_tiny
from attncli.errors import AttnError, InputError, Place, raise_all
from attncli.lazy import np
from attncli.pipeline.attend import told_state, trace_of
from attncli.pipeline.config import AttentionConfig
from attncli.pipeline.heads import split_heads
from attncli.pipeline.joined import joined_spec
from attncli.pipeline.masks import MASKS, MaskSpec, mask_spec
from attncli.pipeline.scores import SCORES, ScoreSpec, score_spec
from attncli.pipeline.trace import ORDER, Trace, wanted
from attncli.problem.matrix import Matrix
from attncli.problem.settings import LATER_STEPS
from attncli.problem.values import Hand, MaskChoice, ScoreChoice, StageRef, placed

if TYPE_CHECKING:
    from attncli.engine.plan import Plan
    from attncli.lazy import Array
    from attncli.pipeline.state import State


@dataclass(eq=False, repr=False)
class Problem:
    """One attention with everything that was said about it, in the layout in which it was said.

    inputs: matrices by name (X, W_Q, scores ...); a StageRef stands for one that an earlier stage will give.
    score is None where the problem begins later and names none. alignment: of causal masks that name none.
    more: what was said to steps and biases that bring a setting of their own, by its name.
    axes: the letters of the results where their axes are not those of the definition, which `inputs` have already.
    options: how results are to be shown (show, precision, format ...). places: where each setting was said.
    """

    inputs: dict[str, Matrix | StageRef] = field(default_factory=dict)
    attention: str = "attend"
    layout: str = "rows"
    weight_layout: str = "in-out"
    heads: int | None = None
    kv_heads: int | None = None
    score: ScoreChoice | None = None
    scale: float | Matrix | None = None
    temperature: float | None = None
    d_k: int | None = None
    softcap: float | None = None
    masks: list[MaskChoice] = field(default_factory=list)
    mask_value: float = float("-inf")
    empty_rows: str = "zero"
    normalizer: str | Callable[..., Any] | None = None
    alignment: str = "top-left"
    like: str | None = None
    axes: str | None = None
    dtype: str | None = None
    both_ways: bool = False
    round_steps: int | None = None
    more: dict[str, Any] = field(default_factory=dict)
    tokens: list[str] | None = None
    key_tokens: list[str] | None = None
    expect: dict[str, Hand] = field(default_factory=dict)
    rounded_inputs: bool = False
    title: str | None = None
    name: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    places: dict[str, Place | str | None] = field(default_factory=dict)
    file: str | None = None
    # Whether `make_problem` has found that the sizes fit; a changed copy (`replace`) is checked anew.
    checked: bool = field(default=False, init=False, repr=False, compare=False)

    def __repr__(self) -> str:
        """`Problem(self; X: 3 x 4, W_Q: 4 x 2, p.yaml)`: the inputs with their shapes."""
        told = [
            f"{name}: {' x '.join(map(str, matrix.array.shape)) if isinstance(matrix, Matrix) else matrix.stage}"
            for name, matrix in self.inputs.items()
        ]
        return f"Problem({self.attention}; {', '.join([*told, *([self.file] if self.file else [])])})"

    @property
    def begins(self) -> str | None:
        """The later step (scores, kernel, scaled, masked, weights) that is given as an input, or None."""
        return next((step for step in LATER_STEPS if step in self.inputs), None)

    @property
    def heads_apart(self) -> bool:
        """Whether the output has an axis of heads: where axes are named, the data have one, and no W_O joins it."""
        if self.axes is None or {"W_O", "b_O"} & self.inputs.keys():
            return False
        names = ("Q", "K", "V", "X", "Y", *LATER_STEPS)
        given = [self.inputs[name] for name in names if name in self.inputs]
        return any(isinstance(matrix, Matrix) and matrix.array.ndim >= len(ORDER) for matrix in given)

    def solve(self, steps: Iterable[str] | None = None, progress: Callable[[float], None] | None = None) -> Trace:
        """Compute the Trace; of `steps` only those asked for are kept. progress: called with the share that is done.

        Raises ShapeError (all together) where sizes disagree, UsageError and InputError as the core does, MachineError
        for what would not fit into memory.
        """
        keep = wanted(steps)
        with self._planned(keep) as (arrays, rules, plan):
            trace = compute(arrays, rules, keep, progress, plan)
        return self.dressed(trace)

    def solve_whole(self) -> tuple[Trace, State]:
        """All steps by the definition, and the State that they come from. Raises as `solve` does."""
        with self._planned(None) as (arrays, rules, _):
            at = told_state(arrays, rules)
            with np.errstate(all="ignore"):
                trace = trace_of(at)
        return self.dressed(trace), at

    @contextmanager
    def _planned(self, keep: tuple[str, ...] | None) -> Iterator[tuple[dict[str, Array], AttentionConfig, Plan | None]]:
        """The matrices, the rules and the plan (where one is needed), once it is sure that they fit."""
        from attncli.problem.plan import plan_of
        from attncli.problem.sizes import size_errors

        if not self.checked:
            raise_all(size_errors(self))
        try:
            arrays, rules = self.arrays(), self.rules()
            plan = None if is_tiny(arrays, rules) else plan_of(self, keep)
            if plan is not None:
                plan.check_steps()
                plan.check_memory()
            yield arrays, rules, plan
        except AttnError as error:
            raise self.placed(error) from None

    def dressed(self, trace: Trace) -> Trace:
        """The Trace of the core with what only the problem knows: the layout, the labels, what was told on the way."""
        from attncli.problem.labels import set_labels

        trace.problem = self
        trace.attention = self.attention
        trace.layout = self.layout
        trace.stored = self.axes
        if self.heads_apart and trace.heads and "output" in trace.steps:
            trace.steps["output"] = split_heads("output", trace.steps["output"], trace.heads)
        trace.apart = self.heads_apart
        trace.notes[:0] = self.notes
        set_labels(self, trace)
        return trace

    def arrays(self) -> dict[str, Array]:
        """The inputs as the core wants them: tokens as rows, weights in x out, biases as vectors."""
        arrays = {}
        for name, matrix in self.inputs.items():
            if isinstance(matrix, StageRef):
                raise InputError(
                    f"{name} comes from the stage {matrix.stage!r}, which is not solved yet",
                    place=matrix.place,
                    hint="run the whole file with its stages",
                )
            arrays[name] = self._as_rows(name, matrix.array)
        return arrays

    def rules(self) -> AttentionConfig:
        """What the core is told besides the arrays. Raises UsageError for parameters that do not fit."""
        return AttentionConfig(
            score=self.score_spec(),
            scale=_plain(self.scale),
            temperature=self.temperature,
            d_k=self.d_k,
            softcap=self.softcap,
            masks=tuple(self.mask_spec(choice) for choice in self.masks),
            mask_value=self.mask_value,
            empty_rows=self.empty_rows,
            normalizer=self.normalizer,
            heads=self.heads,
            kv_heads=self.kv_heads,
            dtype=self.dtype,
            alignment=self.alignment,
            both_ways=self.both_ways,
            round_steps=self.round_steps,
            more={name: _plain(x) for name, x in self.more.items()},
        )

    def score_spec(self) -> ScoreSpec | None:
        """The core's score; None where the problem begins later and names none."""
        if self.score is None:
            return None
        choice = self.score
        parameters = {
            name: value.array if isinstance(value, Matrix) else value for name, value in choice.parameters.items()
        }
        with placed(choice.place):
            if self.begins and isinstance(choice.score, str):
                # The scores are there already: the name only tells whether they are scaled, and needs no parameters.
                entry = SCORES.find(choice.score)
                return ScoreSpec(entry.name, entry.function, parameters, entry)
            return score_spec(choice.score, parameters)

    def mask_spec(self, choice: MaskChoice) -> MaskSpec:
        """The core's mask: tables of the scores' shape as rows, lengths as they are."""
        if choice.parts:
            with placed(choice.place):
                return joined_spec(str(choice.mask), [self.mask_spec(part) for part in choice.parts])
        argument: Any = choice.argument
        if isinstance(argument, Matrix):
            argument = argument.array
            is_table = isinstance(choice.mask, str) and MASKS.find(choice.mask).takes == "array"
            if not is_table and 1 in argument.shape:
                argument = argument.reshape(-1)  # one row or column of a file is the list that an option would hold
            if is_table and self.layout == "columns" and argument.ndim >= 2:
                argument = argument.mT
        with placed(choice.place):
            return mask_spec(choice.mask, argument, choice.alignment)

    def placed(self, error: AttnError, default: Place | str | None = None) -> AttnError:
        """The error, at the place of the first matrix or setting that it speaks of, where it knows none itself."""
        import re

        for inner in error.errors():
            if inner.place is None:
                words = re.findall(r"[A-Za-z_]\w*", inner.what)
                places = (self.place_of(word) for word in words)
                inner.place = next((place for place in places if place is not None), None)
                inner.place = inner.place or default or (Place(self.file) if self.file else None)
        return error

    def place_of(self, name: str) -> Place | str | None:
        """Where a matrix, a score's parameter or a setting was said; Q also where its weights were."""
        parameters = self.score.parameters if self.score else {}
        for candidate in (name, f"W_{name}" if name in ("Q", "K", "V") else name):
            value = self.inputs.get(candidate, parameters.get(candidate))
            if isinstance(value, Matrix | StageRef) and value.place is not None:
                return value.place
            if self.places.get(candidate) is not None:
                return self.places[candidate]
        return None

    def _as_rows(self, name: str, array: Array) -> Array:
        if name.startswith("b_"):
            return array.reshape(-1)
        if array.ndim == 1:
            return array[None, :]
        turned = self.weight_layout == "out-in" if name.startswith("W_") else self.layout == "columns"
        return array.mT if turned and array.ndim >= 2 else array


def _plain(said: Any) -> Any:
    """What was said to a setting, matrices as arrays."""
    if isinstance(said, dict):
        return {name: _plain(x) for name, x in said.items()}
    return said.array if isinstance(said, Matrix) else said
