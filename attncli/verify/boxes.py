"""The pipeline in intervals: what follows from numbers that are only known to lie between two bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attncli.lazy import Array, np
from attncli.pipeline.normalizers import NormalizerEntry
from attncli.pipeline.scores import ScoreSpec
from attncli.verify import intervals
from attncli.verify.flow import Flow, Numbers
from attncli.verify.frame import Frame
from attncli.verify.interval_scores import score_of
from attncli.verify.intervals import Box

# Narrower than this, an interval holds nothing but float noise.
_NOISE = 1e-9
_MONOTONE = ("softmax", "hardmax", "sparsemax", "sigmoid", "none")


class Boxes(Numbers[Box]):
    """Intervals. uncertain: half a unit for each input that is known to its written places only."""

    def __init__(self, uncertain: Mapping[str, Array] | None = None) -> None:
        self.uncertain = uncertain or {}

    def given(self, name: str, array: Array) -> Box:
        half = self.uncertain.get(name)
        if half is None:
            return Box.of(array)
        half = half.reshape(array.shape)
        return Box(array - half, array + half)

    def shaped(self, change: Callable[[Array], Array], x: Box) -> Box:
        return x.shaped(change)

    def joined(self, mask: Array, where: Box, elsewhere: Box) -> Box:
        return intervals.joined(mask, where, elsewhere)

    def between(self, x: Box, axes: int, direct: bool) -> Box:
        return x

    def product(self, a: Box, b: Box, axes: int, last: bool) -> Box:
        return intervals.product(a, b)

    def added(self, a: Box, b: Box) -> Box:
        return intervals.added(a, b)

    def through(self, increasing: Callable[[Array], Array], x: Box) -> Box:
        return x.through(increasing, 8)

    def scored(self, score: ScoreSpec, q: Box, k: Box, axes: int, last: bool) -> Box:
        return score_of(score, q, k)

    def scaled(self, x: Box, frame: Frame, axes: int) -> Box:
        scale = np.full(1, frame.scale)
        noise = 0 if frame.root is None or frame.root == np.rint(frame.root) else 1
        return intervals.multiplied(x, intervals.widened(scale, scale, noise))

    def total(self, x: Box) -> Box:
        return intervals.product(x, Box.of(np.ones((x.low.shape[-1], 1))))

    def logsum(self, x: Box) -> Box:
        return x.through(_logsum, 8 + x.low.shape[-1])

    def shares(self, normalizer: NormalizerEntry, x: Box, visible: Array, axes: int) -> Box:
        if normalizer.name == "hardmax" and x.width <= _NOISE:
            # Ties are ties, float noise or not.
            near = np.round((x.low + x.high) / 2, 12)
            return Box.of(normalizer.function(near, visible))
        name = normalizer.name
        monotone = name in _MONOTONE or (name == "sum" and bool(np.all(np.where(visible, x.low, 0) >= 0)))
        bounded = name in ("softmax", "sigmoid", "hardmax")
        found = intervals.normalized(normalizer.function, x, visible, monotone=monotone, bounded=bounded)
        if normalizer.sums_to_one and monotone:
            return Box(np.maximum(found.low, 0), np.minimum(found.high, 1))
        return found

    def quotient(self, x: Box, total: Box) -> Box:
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = [a / b for a in (x.low, x.high) for b in (total.low, total.high)]
        return intervals.widened(np.minimum.reduce(ends), np.maximum.reduce(ends), 2)

    def average(self, logits: Box, visible: Array, v: Box, axes: int) -> Box | None:
        if logits.width <= _NOISE and v.width <= _NOISE:
            return None
        return intervals.average(logits, visible, v)

    def hidden(self, x: Box) -> Array:
        hidden: Array = np.isneginf(x.high)
        return hidden


BoxFlow = Flow[Box]


def _logsum(x: Array) -> Array:
    top = np.max(x, axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    total: Array = np.log(np.sum(np.exp(x - top), axis=-1, keepdims=True))
    return top + total
