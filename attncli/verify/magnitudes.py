"""How large the numbers behind an engineer's array are: what rounding can move grows with them.

One way through all blocks, so that nothing of size n x m is held but what was asked for. Letters: n queries, m keys,
r rows of a block, d_v the values' width; v the unit round-off of sums; S a row's largest |q| |k| |scale|.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attncli.core.attend import Attention, Rules
from attncli.core.blocks import Large, Unit
from attncli.core.large import LARGE, STREAMED, score_count
from attncli.core.projections import split_heads
from attncli.core.streamed import Stream, stream
from attncli.core.trace import STEPS, Trace
from attncli.lazy import Array, np

# Normalizers whose weights are off by as much as the scores, and not in proportion to their own size.
_AS_SCORES = ("none", "sparsemax", "sum")
_LARGEST = 1e30  # of |V|, up to which its sums are held in float32
_FAR = 4  # times the median, from which on the longest key is looked for among those that are seen
_DOTS = ("dot", "scaled-dot", "general")


class Magnitudes:
    """What is kept of each block: the steps asked for, and the sizes.

    raw_largest: a row's largest |q| |k|, (..., n, 1). sums: |weights| |V|, (..., n, d_v); extra: beside them, where V
    is a product, |weights| times what its own sums may be off in units of v.
    """

    def __init__(self, inputs: Mapping[str, Array], rules: Rules, steps: Sequence[str]) -> None:
        self.inputs, self.rules, self.steps = inputs, rules, tuple(steps)
        self.large = large = Large(inputs, rules)
        v, score, shape = large.parts.v, large.score, (*large.lead, large.extent.n)
        self.has_v = v is not None and bool({"heads", "output"} & {*steps})
        self.dots = large.begin is None and score is not None and score.name in _DOTS
        # So are those of a kernel that ends somewhere: just within its reach its value is all rounding.
        ends = score is not None and score.kernel == "value"
        self.as_scores = large.normalizer.name in _AS_SCORES or ends
        # The step whose size tells how large the scores are, where they are no dot products.
        self.spread = None
        if not self.dots and large.begin != "weights":
            self.spread = large.begin if large.begin in ("scaled", "masked") else "scores"
        self.raw_largest = np.zeros((*shape, 1))
        self.sums = np.zeros((*shape, v.shape[-1] if v is not None and self.has_v else 0))
        self.extra = np.zeros(self.sums.shape) if self.has_v and "W_V" in inputs else None
        self._values_of: dict[tuple[int, ...], Array] = {}

    @property
    def largest(self) -> Array:
        """S, (..., n, 1)."""
        return self.raw_largest * abs(self.large.scale)

    def run(self) -> Trace:
        """Compute; gives the Trace of the steps."""
        needed = [*self.steps]
        if self.has_v or self.large.masks is not None:
            needed.append("weights")
        if self.spread is not None:
            needed.append(self.spread)
        needed = list(dict.fromkeys(needed))
        if self._is_small(needed):
            trace = Attention(self.inputs, self.rules).trace(None)
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
            self._take(unit, found)
        return self._trace(blocks, kept)

    def of_projection(self, name: str) -> Array:
        """d_x (|X| |W| + |b|), what the sums of Q, K or V may be off in units of v; 0 for past keys and values."""
        data = self.inputs["X" if name == "Q" or "Y" not in self.inputs else "Y"]
        weight, bias = self.inputs.get(f"W_{name}"), self.inputs.get(f"b_{name}")
        x = size_of(np.atleast_2d(data))
        sizes = x if weight is None else x @ size_of(weight)
        sizes = x.shape[-1] * (sizes if bias is None else sizes + size_of(bias).reshape(-1))
        past = self.large.parts.past
        if past and name != "Q":
            sizes = np.concatenate([np.zeros((*sizes.shape[:-2], past, sizes.shape[-1])), sizes], axis=-2)
        return sizes

    def _is_small(self, needed: Sequence[str]) -> bool:
        large = self.large
        odd = any(step not in STREAMED and STEPS[step].columns != "key" for step in needed)
        return odd or large.rules.both_ways or large.begin == "weights" or score_count(self.inputs, self.rules) < LARGE

    def _whole(self, trace: Trace, needed: Sequence[str]) -> Iterator[tuple[Unit, dict[str, Array]]]:
        lead, n, m = self.large.lead, self.large.extent.n, self.large.extent.m
        tables = {
            step: np.broadcast_to(trace.rows(step), (*lead, n, m)) for step in needed if STEPS[step].columns == "key"
        }
        for index in np.ndindex(*lead):
            yield Unit(index, 0, n), {step: table[index] for step, table in tables.items()}

    def _trace(self, blocks: Stream, kept: dict[str, Array]) -> Trace:
        trace = blocks.trace()
        trace.steps |= kept
        trace.steps = {name: trace.steps[name] for name in STEPS if name in trace.steps}
        return trace

    def _take(self, unit: Unit, found: Mapping[str, Array]) -> None:
        rows, weights = slice(unit.start, unit.stop), found.get("weights")
        raw = self._reach(unit, found, weights)
        self.raw_largest[unit.index][rows] = raw
        if self.has_v and weights is not None:
            sizes = np.abs(weights)
            if self.as_scores:
                sizes = sizes + raw * abs(self.large.scale)
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
        large, v = self.large, self.large.parts.v
        assert v is not None
        values = size_of(large.own(v, index))
        if self.extra is not None:
            sizes = self.of_projection("V")
            if large.extent.heads is not None and large.parts.joined:
                sizes = split_heads("V", sizes, v.shape[-3])
            values = np.concatenate([values, large.own(sizes, index)], axis=1)
        values = values.astype(np.float32) if values.max(initial=0) < _LARGEST else values
        self._values_of = {index: values}  # blocks come in order: the last one is enough
        return values

    def _reach(self, unit: Unit, found: Mapping[str, Array], weights: Array | None) -> Array | float:
        """A row's largest |q| |k|, or its largest score where scores are no dot products, (r, 1)."""
        large, rows = self.large, slice(unit.start, unit.stop)
        q, k = large.parts.q, large.parts.k
        scores: Array | float = 0.0
        if self.spread is not None:
            scores = np.asarray(size_of(found[self.spread]).max(axis=1, keepdims=True, initial=0))
        if large.begin is not None or q is None or k is None:
            return scores
        own_q, own_k = size_of(large.own(q, unit.index)[rows]), size_of(large.own(k, unit.index))
        if large.score is not None and large.score.name == "general":
            own_q = own_q @ size_of(large.parameters["W"])
        lengths = np.linalg.norm(own_k, axis=1)
        longest: Array | float = lengths.max(initial=0)
        masked = large.masks is not None and not {"scores", "scaled"} & {*self.steps}
        if weights is not None and masked and longest > _FAR * np.median(lengths):
            longest = np.where(weights != 0, lengths, 0).max(axis=1, keepdims=True, initial=0)
        of_q = np.linalg.norm(own_q, axis=1, keepdims=True)
        if self.dots:
            return np.asarray(of_q * longest)
        # A distance or a hidden layer: what it is made of, which may be much more than itself.
        layers = sum(float(np.linalg.norm(size_of(x))) for x in large.parameters.values() if isinstance(x, np.ndarray))
        return np.asarray(scores + 1 + (of_q + longest) ** 2 + layers * (of_q + longest))


def size_of(x: Array) -> Array:
    """|x| in double precision, 0 for what is not finite."""
    x = np.asarray(x).astype(np.float64)
    return np.where(np.isfinite(x), np.abs(x), 0)
