"""How large the numbers behind an engineer's array are: what rounding can move grows with them.

One way through all blocks, so that nothing of size n x m is held but what was asked for. Letters: n queries, m keys,
r rows of a block, d_v the values' width; v the unit round-off of sums; S a row's largest |q| |k| |scale|.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from attncli.engine import attending, plan
from attncli.engine.blocks import BlockedAttention, Unit
from attncli.engine.stream import Stream, stream
from attncli.lazy import Array, np
from attncli.pipeline.attend import attend
from attncli.pipeline.config import AttentionConfig
from attncli.pipeline.heads import split_heads
from attncli.pipeline.state import RowBlock
from attncli.pipeline.trace import NAMED_STEPS, Trace

_LARGEST = 1e30  # of |V|, up to which its sums are held in float32
_FAR = 4  # times the median, from which on the longest key is looked for among those that are seen


class Magnitudes:
    """What is kept of each block: the steps asked for, and the sizes.

    raw_largest: a row's largest |q| |k|, (..., n, 1). sums: |weights| |V|, (..., n, d_v); extra: beside them, where V
    is a product, |weights| times what its own sums may be off in units of v.
    """

    def __init__(self, inputs: Mapping[str, Array], rules: AttentionConfig, steps: Sequence[str]) -> None:
        self.inputs, self.rules, self.steps = inputs, rules, tuple(steps)
        self.blocked = BlockedAttention(inputs, rules)
        at, shape = self.blocked.at, (*self.blocked.shape.lead, self.blocked.shape.n)
        self.at, score = at, at.score
        v = at.latest("value") if at.has("V") else None
        self.has_v = v is not None and bool({"heads", "output"} & {*steps})
        self.dots = at.begin is None and score is not None and (score.dots or score.bilinear)
        # So are those of a kernel that ends somewhere: just within its reach its value is all rounding.
        ends = score is not None and score.kernel == "value"
        self.as_scores = at.normalizer.error == "absolute" or ends
        # The step whose size tells how large the scores are, where they are no dot products.
        self.spread = None
        if not self.dots and at.begin != "weights":
            self.spread = "scores" if at.has("scores") else at.begin
        self.raw_largest = np.zeros((*shape, 1))
        self.sums = np.zeros((*shape, v.shape[-1] if v is not None and self.has_v else 0))
        self.extra = np.zeros(self.sums.shape) if self.has_v and "W_V" in inputs else None
        self._values_of: dict[tuple[int, ...], Array] = {}

    @property
    def scale(self) -> float:
        """What multiplies the scores; of several, that farthest from 0."""
        return float(max(np.ravel(self.blocked.scale), key=abs))

    @property
    def largest(self) -> Array:
        """S, (..., n, 1)."""
        return self.raw_largest * abs(self.scale)

    @property
    def lead(self) -> tuple[int, ...]:
        """The axes before queries and keys, as steps are shown: without heads none of them."""
        shape = self.at.shape
        return shape.lead if shape.heads is not None else shape.batch

    def run(self) -> Trace:
        """Compute; gives the Trace of the steps."""
        trace = self._run()
        if self.at.shape.heads is None:
            self.raw_largest, self.sums = self.raw_largest[..., 0, :, :], self.sums[..., 0, :, :]
            self.extra = None if self.extra is None else self.extra[..., 0, :, :]
        return trace

    def _run(self) -> Trace:
        needed = [*self.steps]
        if self.has_v or self.at.masks is not None:
            needed.append("weights")
        if self.spread is not None:
            needed.append(self.spread)
        needed = list(dict.fromkeys(needed))
        if self._is_small(needed):
            trace = attend(self.inputs, self.rules)
            for step in self.steps:
                trace.rows(step)  # a step that does not exist is told before anything else
            for unit, found in self._whole(trace, needed):
                self._take(unit, found)
            return trace
        blocks = stream(self.inputs, self.rules, needed)
        kept = {step: np.empty(blocks.shape) for step in blocks.steps if step in self.steps}
        for unit, found in blocks:
            for step, array in kept.items():
                array[unit.index][unit.start : unit.stop] = found[step]
            own = unit.index if self.at.shape.heads is not None else (*unit.index, 0)
            self._take(Unit(own, unit.start, unit.stop), found)
        return self._trace(blocks, kept)

    def of_projection(self, name: str) -> Array:
        """d_x (|X| |W| + |b|), what the sums of Q, K or V may be off in units of v; 0 for those in front and behind."""
        data = self.inputs["X" if name == "Q" or "Y" not in self.inputs else "Y"]
        weight, bias = self.inputs.get(f"W_{name}"), self.inputs.get(f"b_{name}")
        x = size_of(np.atleast_2d(data))
        sizes = x if weight is None else x @ size_of(weight)
        sizes = x.shape[-1] * (sizes if bias is None else sizes + size_of(bias).reshape(-1))
        past, behind = self.at.shape.past, self.at.shape.behind
        if name != "Q" and (past or behind):
            other = [np.zeros((*sizes.shape[:-2], count, sizes.shape[-1])) for count in (past, behind)]
            sizes = np.concatenate([other[0], sizes, other[1]], axis=-2)
        return sizes

    def _is_small(self, needed: Sequence[str]) -> bool:
        odd = any(not plan.is_small(step) and not NAMED_STEPS[step].is_pairs for step in needed)
        return (
            odd
            or bool(self.at.line("back"))
            or self.at.begin == "weights"
            or math.prod(self.at.shape.shape) < attending.LARGE
        )

    def _whole(self, trace: Trace, needed: Sequence[str]) -> Iterator[tuple[Unit, dict[str, Array]]]:
        shape = self.at.shape
        lead, n = shape.lead, shape.n

        def table(step: str) -> Array:
            x = trace.rows(step)
            return np.broadcast_to(x[..., None, :, :] if shape.heads is None else x, shape.shape)

        tables = {step: table(step) for step in needed if NAMED_STEPS[step].is_pairs and NAMED_STEPS[step].per_head}
        for index in np.ndindex(*lead):
            yield Unit(index, 0, n), {step: table[index] for step, table in tables.items()}

    def _trace(self, blocks: Stream, kept: dict[str, Array]) -> Trace:
        trace = blocks.trace()
        trace.steps |= kept
        trace.steps = {name: trace.steps[name] for name in NAMED_STEPS if name in trace.steps}
        return trace

    def _take(self, unit: Unit, found: Mapping[str, Array]) -> None:
        rows, weights = slice(unit.start, unit.stop), found.get("weights")
        raw = self._reach(unit, found, weights)
        self.raw_largest[unit.index][rows] = raw
        if self.has_v and weights is not None:
            sizes = np.abs(weights)
            if self.as_scores:
                sizes = sizes + raw * abs(self.scale)
            # How large it is matters here, not its last places.
            summed = sizes.astype(np.float32, copy=False) @ self._values(unit.index)
            width = self.sums.shape[-1]
            self.sums[unit.index][rows] = summed[:, :width]
            if self.extra is not None:
                self.extra[unit.index][rows] = summed[:, width:]

    def _values(self, index: tuple[int, ...]) -> Array:
        """|V| of a sequence and head; beside it, where V is a product, what its sums may be off in units of v."""
        if index in self._values_of:
            return self._values_of[index]
        block = self._block(index)
        values = size_of(block.latest("value")[0])
        if self.extra is not None:
            sizes = self.of_projection("V")
            layout = self.at.layout
            if layout.heads is not None and layout.joined:
                sizes = split_heads("V", sizes, layout.key_heads)
            elif layout.heads is None:
                sizes = sizes[..., None, :, :]
            values = np.concatenate([values, block.cut(sizes, rows=False)[0]], axis=1)
        values = values.astype(np.float32) if values.max(initial=0) < _LARGEST else values
        self._values_of = {index: values}  # blocks come in order: the last one is enough
        return values

    def _block(self, index: tuple[int, ...], rows: slice = slice(None)) -> RowBlock:
        return RowBlock(self.at, index[:-1], index[-1], rows)

    def _reach(self, unit: Unit, found: Mapping[str, Array], weights: Array | None) -> Array | float:
        """A row's largest |q| |k|, or its largest score where scores are no dot products, (r, 1)."""
        at = self.at
        scores: Array | float = 0.0
        if self.spread is not None:
            scores = np.asarray(size_of(found[self.spread]).max(axis=1, keepdims=True, initial=0))
        if at.begin is not None:
            return scores
        block = self._block(unit.index, slice(unit.start, unit.stop))
        own_q, own_k = size_of(block.latest("query")[0]), size_of(block.latest("key")[0])
        if at.score is not None and at.score.bilinear:
            own_q = own_q @ size_of(at.parameters["W"])
        lengths = np.linalg.norm(own_k, axis=1)
        longest: Array | float = lengths.max(initial=0)
        masked = self.at.masks is not None and not {name for name in at.line("logits") if name != "masked"} & {
            *self.steps
        }
        if weights is not None and masked and longest > _FAR * np.median(lengths):
            longest = np.where(weights != 0, lengths, 0).max(axis=1, keepdims=True, initial=0)
        of_q = np.linalg.norm(own_q, axis=1, keepdims=True)
        if self.dots:
            return np.asarray(of_q * longest)
        # A distance or a hidden layer: what it is made of, which may be much more than itself.
        layers = sum(float(np.linalg.norm(size_of(x))) for x in at.parameters.values() if isinstance(x, np.ndarray))
        return np.asarray(scores + 1 + (of_q + longest) ** 2 + layers * (of_q + longest))


def size_of(x: Array) -> Array:
    """|x| in double precision, 0 for what is not finite."""
    x = np.asarray(x).astype(np.float64)
    return np.where(np.isfinite(x), np.abs(x), 0)
