"""The right numbers of an engineer's array in double precision, and how far a right computation may be off them.

Letters: n queries, m keys, d_k the keys' width; u the unit round-off of the array, v that of the sums; S a row's
largest |q| |k| |scale|.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attncli.lazy import Array, np
from attncli.pipeline.config import AttentionConfig
from attncli.pipeline.heads import join_heads
from attncli.pipeline.masks import ScoreShape
from attncli.pipeline.steps import STEPS
from attncli.pipeline.trace import Trace
from attncli.verify.frame import is_of_all_heads
from attncli.verify.magnitudes import Magnitudes, size_of
from attncli.verify.precision import Precision

_ASKED = 10_000  # numbers that tell what one may be off
# From this S on, scores that are stored in the array's type have lost more than the weights' own rounding.
_LARGE_SCORES = 16


@dataclass(frozen=True)
class Right:
    """The right numbers of a step, tokens as rows, and what an array may be off: relative |exact| + absolute."""

    exact: Array
    relative: Array | float
    absolute: Array | float

    def part(self, index: tuple[int, ...], more: Array | float = 0.0) -> Right:
        """A part of it. more: what its numbers may be off besides."""
        exact = self.exact[index]
        relative, absolute = (_at(bound, index, exact.ndim) for bound in (self.relative, self.absolute))
        return Right(exact, relative, absolute + more if np.any(more) else absolute)

    def typical(self) -> float:
        """What a number may be off: the median of some, of those that are not 0 (hidden) if there are any."""
        every = max(1, self.exact.size // _ASKED)
        x, relative, absolute = (
            np.broadcast_to(part, self.exact.shape).flat[::every] for part in (self.exact, self.relative, self.absolute)
        )
        room = relative * np.abs(x) + absolute
        room, x = room[np.isfinite(room)], x[np.isfinite(room)]
        shown = room[x != 0] if x.any() else room
        return float(np.median(shown)) if shown.size else 0.0

    def ratio(self, given: Array) -> Array:
        """How far the given numbers are off in units of what they may be; 0 for equal infinities and NaN."""
        exact = self.exact
        room = self.relative * np.abs(exact) + self.absolute
        off = np.abs(given - exact)
        ratio = np.where(off == 0, 0, off / room)
        same = (given == exact) | (np.isnan(given) & np.isnan(exact))
        found: Array = np.where(same, 0, np.where(np.isnan(ratio), np.inf, ratio))
        return found


def _at(bound: Array | float, index: tuple[int, ...], axes: int) -> Array | float:
    return bound[index] if isinstance(bound, np.ndarray) and bound.ndim > axes else bound


def right_numbers(
    inputs: Mapping[str, Array], rules: AttentionConfig, steps: Sequence[str], precision: Precision
) -> tuple[Trace, dict[str, Right], ScoreShape]:
    """The Trace that holds these steps, what each may be off, and the sizes of the scores.

    inputs: as `core.attend.attend` takes them; rules: in double precision. Raises what the core raises, and InputError
    for a step that the problem does not have.
    """
    sizes = Magnitudes(inputs, rules, steps)
    trace = sizes.run()
    bounds = _Bounds(sizes, precision)
    return trace, {step: bounds.right(step, trace.rows(step)) for step in steps}, sizes.at.shape


class _Bounds:
    """What each step may be off, by the sizes of what it is made from."""

    def __init__(self, sizes: Magnitudes, precision: Precision) -> None:
        self.sizes, self.precision = sizes, precision
        self.inputs, self.at = sizes.inputs, sizes.at

    def right(self, step: str, exact: Array) -> Right:
        """The step with what it may be off."""
        u, v = self.precision.u, self.precision.v
        exact = np.asarray(exact, dtype=np.float64)
        if step in ("heads", "output"):
            return Right(exact, 2 * u, self._of_output(step) + self.precision.tiny)
        if step in ("X", "Y", "Q", "K", "V"):
            product = f"W_{step}" in self.inputs or f"b_{step}" in self.inputs
            sizes: Array | float = self.sizes.of_projection(step) if product else 0.0
            return Right(exact, 2 * u, (v + self._first_rounding()) * sizes)
        if step in ("weights_back", "output_back"):
            return self._backward(step, exact)
        if STEPS.find(step).line in ("query", "key"):
            return self._changed(step, exact)
        return self._of_scores(step, exact)

    def _changed(self, step: str, exact: Array) -> Right:
        """Queries or keys, normalized or turned: each number is made from a row's, and may be off by as much."""
        u, v = self.precision.u, self.precision.v
        name = "Q" if STEPS.find(step).line == "query" else "K"
        product = f"W_{name}" in self.inputs or f"b_{name}" in self.inputs
        sizes: Array | float = self.sizes.of_projection(name) if product else 0.0
        largest = np.abs(exact).max(axis=-1, keepdims=True, initial=0)
        projected = size_of(self.at[name]).max(initial=0)
        share = (v + self._first_rounding()) * np.max(sizes, initial=0) / projected if projected else 0.0
        return Right(exact, 2 * u, (8 * u + 2 * exact.shape[-1] * v + 2 * share) * np.maximum(largest, 1e-300))

    def _of_scores(self, step: str, exact: Array) -> Right:
        """Scores and what is made of them, up to the weights: the error of dot products, then of e^s."""
        u, v, tiny, m = self.precision.u, self.precision.v, self.precision.tiny, self.at.shape.m
        raw, scaled = self._off(self.sizes.raw_largest), self._off(self.sizes.largest)
        largest: Array | float = self.sizes.largest
        if is_of_all_heads(step) and self.at.shape.heads is not None:
            raw, scaled, largest = (x.max(axis=-3) for x in (raw, scaled, self.sizes.largest))
        elif exact.ndim - 2 < len(self.sizes.lead):
            missing = tuple(range(len(self.sizes.lead) - exact.ndim + 2))
            raw, scaled, largest = raw.max(axis=missing), scaled.max(axis=missing), self.sizes.largest.max()
        if self.sizes.as_scores and self.at.score is not None and self.at.score.kernel == "value":
            # The logarithm of what is nearly 0 is off by more.
            raw, scaled = (off * (1 + np.minimum(np.exp(-exact), 1e12)) for off in (raw, scaled))
        if step == "scores":
            return Right(exact, 2 * u, raw + tiny)
        if step in self.at.line("logits"):
            return Right(exact, 4 * u, scaled + (2 * u * largest if step in ("biased", "masked") else 0) + tiny)
        if step == "lse":
            return Right(exact, 2 * u, scaled + 4 * u + (m + 8) * v)
        if step == "kernel":
            return Right(exact, raw + 4 * u + 2 * u * largest, raw if self.sizes.as_scores else tiny)
        stored = 2 * u * largest  # scores kept in the array's own type
        if step in ("exp", "sum"):
            return Right(exact, scaled + 4 * u + stored + (m + 8) * v, tiny)
        absolute = scaled + tiny if self.sizes.as_scores else tiny
        return Right(exact, scaled + 4 * u + stored + (m + 8) * v, absolute)

    def _off(self, largest: Array) -> Array:
        """What scores may be off: the dot products of d_k terms, and inputs that were rounded first."""
        terms = 2 * self.at.latest("key").shape[-1] + 8 if self.at.begin is None else 8
        return largest * (terms * self.precision.v + self._first_rounding())

    def _first_rounding(self) -> float:
        """Twice u where Q and K were rounded before their product."""
        projected = any(name in self.inputs for name in ("W_Q", "W_K"))
        return 2 * self.precision.u if projected or self.precision.rounded else 0.0

    def _of_output(self, step: str) -> Array:
        """(4 u + m v) (|weights| |V|), beside 2 u |output|; through W_O its size, and the sums of that product.

        More than the formula is allowed only where dot products are so long, or scores so large, that rounding them
        moves the weights by more: m is at least 4 S, and 4 at least S where S is large.
        """
        u, v, m, s = self.precision.u, self.precision.v, self.at.shape.m, self.sizes.largest
        of_weights = np.where(s > _LARGE_SCORES, np.maximum(4, s), 4) * u + np.maximum(m, 4 * s) * v
        of_weights += self._first_rounding() * s
        rounded = self.precision.rounded or self.sizes.extra is not None
        absolute: Array = self.sizes.sums * (of_weights + (u if rounded else 0))
        if self.sizes.extra is not None:
            absolute += v * self.sizes.extra
        joined = step == "output" and self.at.layout.heads is not None
        absolute, sums = (join_heads(x) if joined else x for x in (absolute, self.sizes.sums))
        weight, bias = self.inputs.get("W_O"), self.inputs.get("b_O")
        if step == "output" and weight is not None:
            absolute = (absolute + (2 * u + weight.shape[0] * v) * sums) @ size_of(weight)
        if step == "output" and bias is not None:
            absolute = absolute + 2 * u * size_of(bias).reshape(-1)
        return absolute

    def _backward(self, step: str, exact: Array) -> Right:
        """Weights over the queries, n of them, and what they give of the queries' own data."""
        u, v, n = self.precision.u, self.precision.v, self.at.shape.n
        largest = float(self._off(self.sizes.largest).max(initial=0))
        relative = largest + 4 * u + 2 * u * float(self.sizes.largest.max(initial=0)) + (n + 8) * v
        if step == "weights_back":
            return Right(exact, relative, self.precision.tiny)
        x = size_of(self.inputs["X"])
        values = x @ size_of(self.inputs["W_V"]) if "W_V" in self.inputs else x
        return Right(exact, 2 * u, (relative + x.shape[-1] * v + u) * values.max(axis=-2, keepdims=True, initial=0))
