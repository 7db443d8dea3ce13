"""The right numbers of an engineer's array in double precision, and how far a right computation may be off them.

Block by block, so that nothing of size n x m is held but what was asked for. Letters: n queries, m keys, d_k, d_v
widths, H heads; u the unit round-off of the array, v that of the sums; S a row's largest |q| |k| |scale|.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from attncli.core.attend import Attention, Rules
from attncli.core.blocks import Large, Unit
from attncli.core.large import LARGE, STREAMED, score_count
from attncli.core.masks import Extent
from attncli.core.projections import join_heads
from attncli.core.streamed import Stream, stream
from attncli.core.trace import STEPS, Trace
from attncli.lazy import Array, np
from attncli.verify.precision import Precision

TOLERANCE = "4 u (|weights| |V|) + 2 u |output| + m v (|weights| |V|)"
# From this S on, scores that are stored in the array's type have lost more than the weights' own rounding.
LARGE_SCORES = 16
# Normalizers whose weights are off by as much as the scores, and not in proportion to their own size.
_AS_SCORES = ("none", "sparsemax", "sum")
_LARGEST = 1e30  # of |V|, up to which its sums are held in float32
_FAR = 4  # times the median, from which on the longest key is looked for among those that are seen
_DOTS = ("dot", "scaled-dot", "general")


@dataclass(frozen=True)
class Right:
    """The right numbers of a step, tokens as rows, and what an array may be off: relative |exact| + absolute."""

    exact: Array
    relative: Array | float
    absolute: Array | float

    def ratio(self, given: Array, index: tuple[int, ...] = ()) -> Array:
        """How far the given numbers are off in units of what they may be; 0 for equal infinities and NaN."""
        exact = self.exact[index]
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            room = _at(self.relative, index, exact.ndim) * np.abs(exact) + _at(self.absolute, index, exact.ndim)
            off = np.abs(given - exact)
            ratio = np.where(off == 0, 0, off / room)
            same = (given == exact) | (np.isnan(given) & np.isnan(exact))
            found: Array = np.where(same, 0, np.where(np.isnan(ratio), np.inf, ratio))
            return found


def _at(bound: Array | float, index: tuple[int, ...], axes: int) -> Array | float:
    return bound[index] if isinstance(bound, np.ndarray) and bound.ndim > axes else bound


def right_numbers(
    inputs: Mapping[str, Array], rules: Rules, steps: Sequence[str], precision: Precision
) -> tuple[Trace, dict[str, Right], Extent]:
    """The Trace that holds these steps, what each may be off, and the sizes of the scores.

    inputs: as `core.attend.attend` takes them; rules: in double precision. Raises what the core raises, and InputError
    for a step that the problem does not have.
    """
    bounds = _Bounds(inputs, rules, steps, precision)
    trace = bounds.run()
    return trace, {step: bounds.right(step, trace.rows(step)) for step in steps}, bounds.large.extent


class _Bounds:
    """One way through all blocks: what is kept of each is the steps asked for, |weights| |V|, and S."""

    def __init__(self, inputs: Mapping[str, Array], rules: Rules, steps: Sequence[str], precision: Precision) -> None:
        self.inputs, self.rules, self.steps, self.precision = inputs, rules, tuple(steps), precision
        self.large = large = Large(inputs, rules)
        self.has_v = large.parts.v is not None and bool({"heads", "output"} & {*steps})
        score = large.score
        self.dots = large.begin is None and score is not None and score.name in _DOTS
        # So are those of a kernel that ends somewhere: just within its reach its value is all rounding.
        ends = score is not None and score.kernel == "value"
        self.as_scores = large.normalizer.name in _AS_SCORES or ends
        lead, n = large.lead, large.extent.n
        self.largest = np.zeros((*lead, n, 1))
        self.raw_largest = np.zeros((*lead, n, 1))
        width = large.parts.v.shape[-1] if large.parts.v is not None else 0
        self.sums = np.zeros((*lead, n, width)) if self.has_v else np.zeros(0)
        self.extra = np.zeros((*lead, n, width)) if self.has_v and "W_V" in inputs else None
        self._values_of: dict[tuple[int, ...], Array] = {}

    def run(self) -> Trace:
        """Compute; gives the Trace of the steps."""
        trace: Trace | None = None
        needed = [*self.steps]
        if self.has_v or self.large.masks is not None:
            needed.append("weights")
        self.spread = None if self.dots else self._logits()
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

    def _logits(self) -> str | None:
        """The step whose size tells how large the scores are, where they are no dot products."""
        begin = self.large.begin
        return None if begin == "weights" else begin if begin in ("scaled", "masked") else "scores"

    def _take(self, unit: Unit, found: Mapping[str, Array]) -> None:
        large, rows = self.large, slice(unit.start, unit.stop)
        weights = found.get("weights")
        raw = self._reach(unit, found, weights)
        self.raw_largest[unit.index][rows] = raw
        self.largest[unit.index][rows] = raw * abs(large.scale)
        if self.has_v and weights is not None and large.parts.v is not None:
            values = self._values(unit.index)
            sizes = np.abs(weights)
            if self.as_scores:
                sizes = sizes + self.largest[unit.index][rows]
            # How large it is matters here, not its last places.
            summed = sizes.astype(np.float32, copy=False) @ values
            width = large.parts.v.shape[-1]
            self.sums[unit.index][rows] = summed[:, :width]
            if self.extra is not None:
                self.extra[unit.index][rows] = summed[:, width:]

    def _values(self, index: tuple[int, ...]) -> Array:
        """|V| of a sequence and head; beside it, where V is a product, what its sums may be off in units of v."""
        large = self.large
        assert large.parts.v is not None
        if index in self._values_of:
            return self._values_of[index]
        values = _size(large.own(large.parts.v, index))
        if self.extra is not None:
            values = np.concatenate([values, self._product_sizes("V", index)], axis=1)
        values = values.astype(np.float32) if values.max(initial=0) < _LARGEST else values
        self._values_of = {index: values}  # blocks come in order: the last one is enough
        return values

    def _product_sizes(self, name: str, index: tuple[int, ...]) -> Array:
        """d_x (|X| |W| + |b|) of V, its own sequence and head; 0 for past values."""
        large, sizes = self.large, self._projected(name)
        past = large.parts.past
        if past:
            sizes = np.concatenate([np.zeros((*sizes.shape[:-2], past, sizes.shape[-1])), sizes], axis=-2)
        assert large.parts.v is not None
        heads = large.parts.v.shape[-3] if large.extent.heads is not None else 1
        if large.extent.heads is not None and large.parts.joined:
            sizes = sizes.reshape(*sizes.shape[:-1], heads, sizes.shape[-1] // heads).swapaxes(-2, -3)
        own: Array = large.own(sizes, index)
        return own

    def _projected(self, name: str) -> Array:
        """d_x (|X| |W| + |b|), what the sums of a projection may be off in units of v."""
        data = self.inputs["X" if name == "Q" or "Y" not in self.inputs else "Y"]
        weight = self.inputs.get(f"W_{name}")
        x = _size(np.atleast_2d(data))
        sizes = x if weight is None else x @ _size(weight)
        bias = self.inputs.get(f"b_{name}")
        found: Array = x.shape[-1] * (sizes if bias is None else sizes + _size(bias).reshape(-1))
        return found

    def _reach(self, unit: Unit, found: Mapping[str, Array], weights: Array | None) -> Array | float:
        """A row's largest |q| |k|, or its largest score where scores are no dot products, (r, 1)."""
        large, rows = self.large, slice(unit.start, unit.stop)
        q, k = large.parts.q, large.parts.k
        scores: Array | float = 0.0
        if self.spread is not None:
            scores = np.asarray(_size(found[self.spread]).max(axis=1, keepdims=True, initial=0))
        if large.begin is not None or q is None or k is None:
            return scores
        own_q, own_k = _size(large.own(q, unit.index)[rows]), _size(large.own(k, unit.index))
        if large.score is not None and large.score.name == "general":
            own_q = own_q @ _size(large.parameters["W"])
        lengths = np.linalg.norm(own_k, axis=1)
        longest: Array | float = lengths.max(initial=0)
        masked = large.masks is not None and not {"scores", "scaled"} & {*self.steps}
        if weights is not None and masked and longest > _FAR * np.median(lengths):
            longest = np.where(weights != 0, lengths, 0).max(axis=1, keepdims=True, initial=0)
        of_q = np.linalg.norm(own_q, axis=1, keepdims=True)
        if self.dots:
            return np.asarray(of_q * longest)
        # A distance or a hidden layer: what it is made of, which may be much more than itself.
        layers = sum(float(np.linalg.norm(_size(x))) for x in large.parameters.values() if isinstance(x, np.ndarray))
        return np.asarray(scores + 1 + (of_q + longest) ** 2 + layers * (of_q + longest))

    # -- bounds -------------------------------------------------------------------------------------------------

    def right(self, step: str, exact: Array) -> Right:
        """The step with what it may be off."""
        u, v = self.precision.u, self.precision.v
        exact = np.asarray(exact, dtype=np.float64)
        if step in ("heads", "output"):
            return Right(exact, 2 * u, self._of_output(step) + self.precision.tiny)
        if step in ("X", "Y", "Q", "K", "V"):
            product = f"W_{step}" in self.inputs or f"b_{step}" in self.inputs
            sizes: Array | float = self._projected(step) if product else 0.0
            past = self.large.parts.past if step in ("K", "V") and product else 0
            if past and isinstance(sizes, np.ndarray):
                sizes = np.concatenate([np.zeros((*sizes.shape[:-2], past, sizes.shape[-1])), sizes], axis=-2)
            return Right(exact, 2 * u, (v + self._first_rounding()) * sizes)
        if step in ("weights_back", "output_back"):
            return self._backward(step, exact)
        return self._of_scores(step, exact)

    def _of_scores(self, step: str, exact: Array) -> Right:
        """Scores and what is made of them, up to the weights: the error of dot products, then of e^s."""
        u, v, tiny, m = self.precision.u, self.precision.v, self.precision.tiny, self.large.extent.m
        shape = exact.shape[:-2] if exact.ndim - 2 < len(self.large.lead) else None
        raw, scaled = (x if shape is None else x.max(axis=tuple(range(len(self.large.lead) - len(shape))))
                       for x in (self._off(self.raw_largest), self._off(self.largest)))  # fmt: skip
        largest = self.largest if shape is None else self.largest.max()
        if self.as_scores and self.large.score is not None and self.large.score.kernel == "value":
            with np.errstate(over="ignore"):  # the logarithm of what is nearly 0
                raw, scaled = (off * (1 + np.minimum(np.exp(-exact), 1e12)) for off in (raw, scaled))
        if step == "scores":
            return Right(exact, 2 * u, raw + tiny)
        if step in ("scaled", "capped", "biased", "masked"):
            return Right(exact, 4 * u, scaled + (2 * u * largest if step in ("biased", "masked") else 0) + tiny)
        if step == "lse":
            return Right(exact, 2 * u, scaled + 4 * u + (m + 8) * v)
        if step == "kernel":
            return Right(exact, raw + 4 * u + 2 * u * largest, raw if self.as_scores else tiny)
        stored = 2 * u * largest  # scores kept in the array's own type
        if step in ("exp", "sum"):
            return Right(exact, scaled + 4 * u + stored + (m + 8) * v, tiny)
        absolute = scaled + tiny if self.as_scores else tiny
        return Right(exact, scaled + 4 * u + stored + (m + 8) * v, absolute)

    def _off(self, largest: Array) -> Array:
        """What scores may be off: the dot products of d_k terms, and inputs that were rounded first."""
        k = self.large.parts.k
        terms = 2 * k.shape[-1] + 8 if k is not None and self.large.begin is None else 8
        return largest * (terms * self.precision.v + self._first_rounding())

    def _first_rounding(self) -> float:
        """Twice u where Q and K were rounded before their product."""
        projected = any(name in self.inputs for name in ("W_Q", "W_K"))
        return 2 * self.precision.u if projected or self.precision.rounded else 0.0

    def _of_output(self, step: str) -> Array:
        """The tolerance but for 2 u |output|; through W_O its size, and the sums of that product.

        More than the formula is allowed only where dot products are so long, or scores so large, that rounding them
        moves the weights by more: m is at least 4 S, and 4 at least S where S is large.
        """
        u, v, m, s = self.precision.u, self.precision.v, self.large.extent.m, self.largest
        of_weights = np.where(s > LARGE_SCORES, np.maximum(4, s), 4) * u + np.maximum(m, 4 * s) * v
        of_weights += self._first_rounding() * s
        rounded = self.precision.rounded or self.extra is not None
        absolute = self.sums * (of_weights + (u if rounded else 0))
        if self.extra is not None:
            absolute += v * self.extra
        joined = step == "output" and self.large.extent.heads is not None
        absolute, sums = (join_heads(x) if joined else x for x in (absolute, self.sums))
        weight, bias = self.inputs.get("W_O"), self.inputs.get("b_O")
        if step == "output" and weight is not None:
            absolute = (absolute + (2 * u + weight.shape[0] * v) * sums) @ _size(weight)
        if step == "output" and bias is not None:
            absolute = absolute + 2 * u * _size(bias).reshape(-1)
        return absolute

    def _backward(self, step: str, exact: Array) -> Right:
        """Weights over the queries, n of them, and what they give of the queries' own data."""
        u, v, n = self.precision.u, self.precision.v, self.large.extent.n
        largest = float(self._off(self.largest).max(initial=0))
        relative = largest + 4 * u + 2 * u * float(self.largest.max(initial=0)) + (n + 8) * v
        if step == "weights_back":
            return Right(exact, relative, self.precision.tiny)
        x = _size(self.inputs["X"])
        values = x @ _size(self.inputs["W_V"]) if "W_V" in self.inputs else x
        return Right(exact, 2 * u, (relative + x.shape[-1] * v + u) * values.max(axis=-2, keepdims=True, initial=0))


def _size(x: Array) -> Array:
    """|x| in double precision, 0 for what is not finite."""
    x = np.asarray(x).astype(np.float64)
    return np.where(np.isfinite(x), np.abs(x), 0)
