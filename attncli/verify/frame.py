"""One problem as the checker sees it: its right numbers, and every array in one form.

Letters: n queries, m keys, H heads, G key heads. In this form the sequences come first, always as many axes, then (in
the steps from `kernel` to `heads`) the heads, 1 where there are none: data, Q, K, V and output are (..., n, d), scores
and weights (..., H, n, m). More axes may stand in front: several computations at once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from attncli.lazy import Array, np
from attncli.pipeline.attend import tell, trace_of
from attncli.pipeline.heads import as_matrix, join_heads, repeat_heads, split_heads
from attncli.pipeline.logits import is_scaled
from attncli.pipeline.scores import SCORES, ScoreSpec, score_spec
from attncli.pipeline.sinks import sums_to_one
from attncli.pipeline.state import State, plain_state
from attncli.pipeline.trace import NAMED_STEPS, Trace
from attncli.problem.labels import set_labels
from attncli.problem.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

JOINED = ("X", "Y", "Q", "K", "V", "output", "output_back", "past_k", "past_v")
# Each step from the scores on is made from the last of those before it that the problem has.


def is_of_all_heads(step: str) -> bool:
    """Whether a step is a table of queries and keys that has no axis of heads."""
    entry = NAMED_STEPS.get(step)
    return entry is not None and entry.is_pairs and not entry.per_head


class Frame:
    """The facts of a problem that is marked. Everything is computed in double precision, whatever `dtype` says.

    at: some rows of the problem, in double precision; None stands for all of it.
    """

    def __init__(self, problem: Problem, at: State | None = None) -> None:
        whole = at is None
        if at is None:
            at = plain_state(problem.arrays(), replace(problem.rules(), dtype="float64", round_steps=None))
            tell(at)
        self.at = at
        self._exact: dict[str, Array] = {}  # what is asked for again and again
        self.trace: Trace = trace_of(at)
        self.rules = at.config
        self.trace.attention, self.trace.layout = problem.attention, problem.layout
        if whole:
            set_labels(problem, self.trace)
        self.weight_layout = problem.weight_layout
        self.begin = at.begin
        self.joined: bool = at.layout.joined
        self.heads = at.heads
        self.key_heads = at.layout.key_heads if self.joined else 1
        # No number where there is one a head, so that no mistake takes it for one.
        self.scale: float = self.trace.scale if isinstance(self.trace.scale, float) else np.nan
        self.normalizer = at.normalizer
        self.sequences = max(array.ndim - self._own_axes(name) for name, array in self.trace.steps.items())
        self.n, self.m = at.shape.n, at.shape.m
        self.inputs = {name: self._input(name, array, dict(at.inputs)) for name, array in at.inputs.items()}
        self._masks(at)

    def has(self, step: str) -> bool:
        """Whether this problem has the step."""
        return step in self.trace

    def exact(self, step: str) -> Array:
        """The right numbers of a step."""
        if step not in self._exact:
            self._exact[step] = self.uniform(step, self.trace.rows(step))
        return self._exact[step]

    def uniform(self, step: str, array: Array) -> Array:
        """A step, shaped as in the Trace, in the one form."""
        if not self._is_joined(step) and self.trace.heads is None:
            array = array[..., None, :, :]
        return array.reshape((1,) * (self.axes(step) - array.ndim) + array.shape)

    def axes(self, step: str) -> int:
        """How many axes a step has in the one form."""
        return self.sequences + (2 if self._is_joined(step) else 3)

    def _own_axes(self, step: str) -> int:
        return 2 if self._is_joined(step) else 2 + (self.trace.heads is not None)

    def _is_joined(self, step: str) -> bool:
        return is_of_all_heads(step) or (step in JOINED and (self.joined or step.startswith("output")))

    def split(self, name: str, array: Array) -> Array:
        """Q, K or V, a matrix of its own for each query head."""
        if self.joined:
            array = split_heads(name, array, self.heads if name == "Q" else self.key_heads)
        return array if name == "Q" else repeat_heads(name, array, self.heads)

    def source(self, name: str) -> str:
        """Which data Q, K or V is projected from."""
        return "Y" if name != "Q" and "Y" in self.inputs else "X"

    def before(self, step: str) -> str:
        """The step of the scores that this one is made from."""
        line = self.at.line("logits")
        return line[line.index(step) - 1] if step in line else line[-1]

    @property
    def root(self) -> float | None:
        """sqrt(d_k), where the scale is its reciprocal (over the temperature); None where another scale was given."""
        if self.rules.scale is not None or not is_scaled(self.at) or self.scale in (0, 1):
            return None
        return 1 / (self.scale * (self.rules.temperature or 1))

    @property
    def score(self) -> ScoreSpec:
        """The score, its parameters in double precision."""
        score = self.rules.score or score_spec(SCORES.default.name)
        doubles = {
            name: np.asarray(value, dtype=np.float64) if isinstance(value, np.ndarray) else value
            for name, value in score.parameters.items()
        }
        return replace(score, parameters=doubles)

    def _input(self, name: str, array: Array, inputs: dict[str, Array]) -> Array:
        if name in ("past_k", "past_v"):
            letter = name[-1].upper()
            now = as_matrix(letter, inputs[letter if letter in inputs else self._data(inputs)])
            array = as_matrix(name, array)
            if self.joined and self.trace.heads is not None and array.ndim == now.ndim + 1:
                array = join_heads(array)
        if name in NAMED_STEPS:
            array = as_matrix(name, array)
        return self.uniform(name, array) if name in NAMED_STEPS or name in JOINED else array

    @staticmethod
    def _data(inputs: dict[str, Array]) -> str:
        return "Y" if "Y" in inputs else "X"

    def _masks(self, at: State) -> None:
        """shown: where no mask hides a key. counts: where, as far as masks and bias go, a key has a say."""
        self.bias: Array | None = self._table(at["bias_table"]) if self.has("biased") else None
        self.shown = self._table(at["shown"])
        unbarred = np.ones((1, 1), dtype=bool) if self.bias is None else ~np.isneginf(self.bias)
        self.counts = unbarred & self.shown
        if not np.isneginf(self.rules.mask_value) and not self.normalizer.visible_only:
            sees = np.any(self.counts, axis=-1, keepdims=True)
            self.counts = self.counts | (sees & ~self.shown)
        self.sums_to_one = sums_to_one(self.normalizer, self.rules.more)

    def _table(self, table: Array) -> Array:
        return table.reshape((1,) * (self.sequences + 3 - table.ndim) + table.shape)

    def is_hidden(self, step: str) -> Array | None:
        """Where a step of scores or weights has hidden cells, in the one form; None where there are none."""
        if self.trace.visible is None or step not in ("masked", "exp", "weights", "weights_back"):
            return None
        hidden = np.broadcast_to(~self._table(self.at["visible"]), self.exact("weights").shape)
        return hidden.mT if step == "weights_back" else hidden


def index_of(frame: Frame, step: str, indices: Sequence[int]) -> tuple[int | slice, ...]:
    """The leading index, in the one form and from 0, of a part such as weights[1,2]."""
    own = len(frame.trace.rows(step).shape) - 2
    has_head = frame.axes(step) == frame.sequences + 3
    padding = frame.axes(step) - 2 - own - (has_head and frame.trace.heads is None)
    index: tuple[int | slice, ...] = (0,) * padding + tuple(i - 1 for i in indices)
    index += (slice(None),) * (own - len(indices))
    return (*index, 0) if has_head and frame.trace.heads is None else index
