"""The cache of keys and values of one problem that is decoded: each step is one query, and keys that it adds.

Letters: n queries, m keys, d_v value width; leading axes are sequences, then heads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from attncli.engine.attending import attend as compute
from attncli.engine.plan import Sizes as Shape
from attncli.errors import AttnError
from attncli.lazy import Array, np
from attncli.pipeline.biases import named_biases
from attncli.pipeline.config import AttentionConfig
from attncli.pipeline.masks import Masks, MaskSpec, ScoreShape, mask_spec
from attncli.pipeline.normalizers import find_normalizer
from attncli.pipeline.positions import stand
from attncli.pipeline.relative import cut_to_row, has_vectors
from attncli.pipeline.sinks import sums_to_one
from attncli.pipeline.state import HeadLayout, State
from attncli.pipeline.trace import Trace
from attncli.problem.labels import key_labels, past_count, query_labels
from attncli.problem.matrix import Matrix
from attncli.problem.problem import Problem
from attncli.problem.values import StageRef


@dataclass(frozen=True)
class Row:
    """What one step gave, counted from 1: the keys that exist, their weights (..., m_t) and the output (..., d_v).

    keys: their labels. visible: booleans that broadcast to the weights. output is None where there are no values.
    """

    step: int
    query: str
    keys: list[str]
    weights: Array
    output: Array | None
    visible: Array
    notes: list[str] = field(default_factory=list)


class Plan:
    """What is known of a decoded problem before anything is computed.

    grows: keys come one by one, as the queries do. tokens: the labels of stages, for those who take a step of them.
    """

    def __init__(
        self, problem: Problem, shapes: Mapping[str, Shape], grows: bool, tokens: Mapping[str, list[str]]
    ) -> None:
        self.problem, self.grows = problem, grows
        self.rules: AttentionConfig = problem.rules()
        scores = shapes["weights"]
        self.n, self.m = scores[-2:]
        heads = problem.heads if max(len(shapes[name]) for name in "QK") < 4 else scores[-3]
        self.past = past_count(problem)
        self.extent = ScoreShape(scores[: -2 if heads is None else -3], heads, self.n, self.m, self.past)
        self.masks = Masks(self.rules.masks, self.extent, self.rules.alignment)
        # The whole, of which what depends on numbers is never asked.
        self.whole = State(self.rules, {})
        self.whole.shape, self.whole.masks = self.extent, self.masks if self.rules.masks else None
        self.whole.layout = HeadLayout(heads is None, heads, heads or 1)
        own = query_labels(problem, self.n) or _of_stage(problem, ("X", "Q"), tokens, self.n)
        self.queries = own or [f"q{i + 1}" for i in range(self.n)]
        sources = ("K", "Y", "V") if problem.attention == "cross" else ("K", "X", "V")
        keys = key_labels(problem, self.n, self.m, self.past)
        keys = keys or _of_stage(problem, sources, tokens, self.m - self.past)
        keys = keys or [f"k{j + 1}" for j in range(self.m - self.past)]
        self.keys = [f"past {j + 1}" for j in range(self.m - len(keys))] + keys

    def existing(self, at: int) -> int:
        """How many keys, past ones included, exist when the query at that position (from 0) is computed."""
        if not self.grows:
            return self.m
        offset = self.past if self.masks.alignment == "top-left" else self.m - self.n
        return min(self.m, max(self.past, at + offset + 1))

    def visible(self, at: int, keys: slice) -> Array:
        """Which of these keys the query at that position sees: broadcasts to (*batch, H, 1, keys)."""
        return self.masks.visible(slice(at, at + 1), keys)

    def scale(self, at: int) -> float | Array | None:
        """The scale of the query at that position, where there is one a query."""
        scale = self.rules.scale
        is_column = isinstance(scale, np.ndarray) and scale.ndim == 2 and len(scale) == self.n > 1
        return float(scale[at, 0]) if is_column else scale  # type: ignore[index]

    def more(self, at: int) -> Mapping[str, Any]:
        """What steps and biases are told at that position: where its query and the keys so far stand in the whole."""
        more = self.rules.more
        if not more:
            return more
        queries, keys = stand(self.rules, self.extent, self.masks.alignment)
        turned = self.past if more.get("past_turned") else None  # keys of earlier steps are held as they come
        placed = {entry.setting.name for entry in named_biases(self.whole)}  # they come as rows of a bias
        more = {name: x for name, x in more.items() if name not in placed}
        if has_vectors(self.whole):
            more["relative"] = cut_to_row(more["relative"], self.whole, at, self.existing(at))
        here = {"positions": queries[..., at : at + 1], "key_positions": keys[..., : self.existing(at)]}
        told = {name: np.squeeze(x, -2) if x.ndim > 1 else x for name, x in here.items()}
        return {**more, **told, "past_turned": turned}

    def biases(self, at: int) -> list[Array]:
        """What biases that come of positions add, for the query at that position and the keys so far."""
        part = self.whole["places"].part(slice(at, at + 1), slice(0, self.existing(at)))
        more = self.rules.more
        rows = [each.function(self.whole, part, more[each.setting.name]) for each in named_biases(self.whole)]
        return [x if self.extent.heads is not None or x.ndim < 3 else x[..., 0, :, :] for x in rows]

    def first_to_look_ahead(self) -> int | None:
        """The first query, counted from 1, that sees keys which come later; None if none does."""
        for at in range(self.n):
            later = slice(self.existing(at), self.m)
            if later.start < self.m and self.visible(at, later).any():
                return at + 1
        return None

    def together(self, rows: Sequence[Row]) -> Trace:
        """The rows of some steps, one under the other, as a Trace: weights (..., rows, m), output (..., rows, d_v)."""
        m = max(row.weights.shape[-1] for row in rows)
        shape = (*rows[0].weights.shape[:-1], len(rows), m)
        weights = np.zeros(shape, rows[0].weights.dtype)
        visible = np.zeros(shape, bool)
        for i, row in enumerate(rows):
            weights[..., i, : row.weights.shape[-1]] = row.weights
            visible[..., i, : row.weights.shape[-1]] = row.visible
        outputs = [row.output for row in rows if row.output is not None]
        normalizer = find_normalizer(self.problem.normalizer)
        return Trace(
            steps={"weights": weights, **({"output": np.stack(outputs, axis=-2)} if outputs else {})},
            attention=self.problem.attention,
            layout=self.problem.layout,
            mask=self.masks.texts,
            normalizer=normalizer.name,
            sums_to_one=sums_to_one(normalizer, self.rules.more),
            query_labels=[row.query for row in rows],
            key_labels=self.keys[:m],
            labelled=True,
            visible=None if visible.all() else visible,
            heads=self.extent.heads,
        )


class Cache:
    """Keys and values so far, and how the next query is computed over them."""

    def __init__(self, plan: Plan, problem: Problem) -> None:
        self.plan = plan
        self.problem = problem
        known: dict[str, Matrix | StageRef] = {name: x for name, x in problem.inputs.items() if isinstance(x, Matrix)}
        self.references = {name: x for name, x in problem.inputs.items() if isinstance(x, StageRef)}
        self.given = replace(problem, inputs=known).arrays()
        self.held: dict[str, Array] = {name: self.given.pop(name) for name in ("past_k", "past_v") if name in known}
        self.ready = 0  # keys that came in, past ones aside

    def step(self, at: int, traces: Mapping[str, Trace]) -> tuple[Trace, Row]:
        """Compute the query at that position, counted from 0; traces: of this step, of stages before this one."""
        end = self.plan.existing(at) - self.plan.past
        rules = replace(self.plan.rules, masks=self._masks(at), scale=self.plan.scale(at), more=self.plan.more(at))
        try:
            trace = compute(self._inputs(at, end, traces), rules)
        except AttnError as error:
            raise self.problem.placed(error) from None
        if self.plan.grows:
            self.held = {"past_k": trace.rows("K")} | ({"past_v": trace.rows("V")} if "V" in trace else {})
        else:
            self.held = {name: trace.rows(name) for name in "KV" if name in trace}
        self.ready = end
        weights = trace.rows("weights")[..., 0, :]
        visible = np.ones((1, 1), bool) if trace.visible is None else trace.visible
        output = trace.rows("output")[..., 0, :] if "output" in trace else None
        row = Row(
            at + 1,
            self.plan.queries[at],
            self.plan.keys[: weights.shape[-1]],
            weights,
            output,
            visible[..., 0, :],
            [re.sub(r"\bquery 1\b", f"query {at + 1}", note) for note in trace.notes],
        )
        return trace, row

    def _inputs(self, at: int, end: int, traces: Mapping[str, Trace]) -> dict[str, Array]:
        """One row of queries; the keys and values that are new, or all that there are."""
        given, own = (
            self.given,
            {
                name: traces[ref.stage].rows(ref.step)[..., -1:, :]
                for name, ref in self.references.items()
                if ref.stage in traces
            },
        )
        inputs = {name: x for name, x in given.items() if name not in ("X", "Y", "Q", "K", "V", "bias")}
        for name in ("X", "Q"):
            if name in given:
                inputs[name] = _rows(given[name], at, at + 1)
        inputs |= {name: x for name, x in own.items() if name in ("X", "Q")}
        biases = self.plan.biases(at)
        if "bias" in given:
            biases.append(_part(given["bias"], at, self.plan.existing(at)))
        if biases:
            inputs["bias"] = sum(biases[1:], start=biases[0])
        if not self.plan.grows:
            return inputs | self._fixed(inputs)
        news = {
            name: own[name] if name in own else _rows(given[name], self.ready, end)
            for name in ("Y", "K", "V")
            if name in own or name in given
        }
        if "Y" not in news and not {"K", "V"} <= news.keys() and ("X" in given or "X" in own):
            news["Y"] = own["X"] if "X" in own else _rows(given["X"], self.ready, end)
        return inputs | news | self.held

    def _fixed(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """Keys and values that are there from the beginning: projected once, then held."""
        if not self.held or "K" not in self.held:
            return self.held | {name: self.given[name] for name in ("Y", "K", "V") if name in self.given}
        for name in ("W_K", "b_K", "W_V", "b_V"):
            inputs.pop(name, None)
        return self.held

    def _masks(self, at: int) -> tuple[MaskSpec, ...]:
        """All masks together, as the table of this query and the keys that exist."""
        if not self.plan.rules.masks:
            return ()
        keys = self.plan.existing(at)
        shown = self.plan.visible(at, slice(0, keys))
        if shown.ndim > 2:
            extent = self.plan.extent
            shown = np.broadcast_to(shown, (*extent.lead, 1, keys)) if shown.size != keys else shown.reshape(1, keys)
            if extent.heads is None and shown.ndim > 2:
                shown = shown[..., 0, :, :]
        return (mask_spec("keep", shown.astype(np.float64)),)


def _rows(tokens: Array, start: int, stop: int) -> Array:
    tokens = tokens[None, :] if tokens.ndim == 1 else tokens
    return tokens[..., start:stop, :]


def _part(bias: Array, at: int, keys: int) -> Array:
    """A bias's row for one query, and the keys that exist."""
    bias = bias[None, :] if bias.ndim == 1 else bias
    row = bias if bias.shape[-2] == 1 else bias[..., at : at + 1, :]
    return row[..., :keys]


def _of_stage(
    problem: Problem, names: tuple[str, ...], tokens: Mapping[str, list[str]], count: int
) -> list[str] | None:
    """The labels of the stage from which the first of these matrices comes."""
    for name in names:
        ref = problem.inputs.get(name)
        if isinstance(ref, StageRef) and len(tokens.get(ref.stage, ())) == count:
            return tokens[ref.stage]
    return None
