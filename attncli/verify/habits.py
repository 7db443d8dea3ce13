"""The pipeline in points, with something that the hand did not write rounded on the way: all habits at once.

A habit says what is rounded (unwritten steps, the terms of sums, the scale or its root, the exponentials), how, and to
how many places p. Each of these choices is an axis in front of the arrays, so that one pass computes every combination;
an axis appears only where rounding changes anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from attncli.lazy import Array, np
from attncli.pipeline.normalizers import NormalizerEntry
from attncli.pipeline.scores import ScoreSpec
from attncli.verify.flow import Flow, Numbers
from attncli.verify.frame import Frame

STEPS, TERMS, SCALE, EXPONENTIALS, HOW, PLACES = range(6)
GRID = 6
CHOICES = (
    ("", "the steps in between", "the step before"),
    ("", "the terms of each sum", "the terms of the sum"),
    ("", "the scale", "the root of d_k"),
    ("", "the exponentials", "the exponentials, shifted by the row's maximum,", "the sum of the exponentials"),
)
HOWS = ("rounded", "cut", "rounded")  # half-even, cut, half-up
_NOISE = 64 * 2.0**-52  # a tie that float arithmetic missed by a few round-offs is a tie


@dataclass(frozen=True)
class Habit:
    """One habit: the choice on each axis, and p."""

    choice: tuple[int, ...]
    places: int

    def told(self, row: str = "row") -> str:
        """`the exponentials cut to 2 places`; row: what a query's numbers are, as displayed."""
        what = " and ".join(names[i].rstrip(",") for names, i in zip(CHOICES, self.choice, strict=False) if i)
        what = what.replace("row's", f"{row}'s")
        return f"{what} {HOWS[self.choice[HOW]]} to {self.places} place{'s' * (self.places != 1)}"


class Habits(Numbers[Array]):
    """Points in front of which stand the six axes of habits."""

    def __init__(self, places: Sequence[int]) -> None:
        self.places = tuple(places)
        self.shape = (*(len(names) for names in CHOICES), len(HOWS), len(self.places))

    def habit(self, index: Sequence[int]) -> Habit:
        """The habit at an index of the six axes."""
        return Habit(tuple(int(i) for i in index[:PLACES]), self.places[int(index[PLACES])])

    def simplest(self, fits: Array) -> Habit | None:
        """The habit that asks least, of those that fit (booleans of `shape`): few things, rounded, many places."""
        found = np.argwhere(fits)
        if not found.size:
            return None
        rank = [
            (int((index[:HOW] > 0).sum()), int(index[HOW]), -int(index[PLACES]), *map(int, index)) for index in found
        ]
        return self.habit(found[min(range(len(rank)), key=rank.__getitem__)])

    def single(self, places: int) -> Array:
        """Which habits round one thing only, to so many places: booleans of `shape`."""
        counts = np.zeros((1,) * GRID, dtype=int)
        for axis in range(HOW):
            counts = counts + self._along(axis, np.arange(self.shape[axis]) > 0)
        right = self._along(PLACES, np.array(self.places) == places)
        return np.broadcast_to((counts == 1) & right, self.shape)

    # -- numbers ------------------------------------------------------------------------------------------------

    def given(self, name: str, array: Array) -> Array:
        return array

    def shaped(self, change: Callable[[Array], Array], x: Array) -> Array:
        return change(x)

    def joined(self, mask: Array, where: Array, elsewhere: Array) -> Array:
        return np.where(mask, where, elsewhere)

    def between(self, x: Array, axes: int, direct: bool) -> Array:
        return self._chosen(STEPS, (False, True, direct), self._rounded(x, axes), x, axes)

    def product(self, a: Array, b: Array, axes: int, last: bool) -> Array:
        with np.errstate(invalid="ignore"):
            plain = a @ b
            terms = a[..., :, :, None] * b[..., None, :, :]
            rounded = self._rounded(terms, axes + 1)
            summed = plain if rounded is terms else rounded.sum(axis=-2)
        return self._chosen(TERMS, (False, True, last), summed, plain, axes)

    def added(self, a: Array, b: Array) -> Array:
        return a + b

    def through(self, increasing: Callable[[Array], Array], x: Array) -> Array:
        with np.errstate(all="ignore"):
            return increasing(x)

    def scored(self, score: ScoreSpec, q: Array, k: Array, axes: int, last: bool) -> Array:
        if score.name in ("dot", "scaled-dot"):
            return self.product(q, k.mT, axes, last)
        if score.name == "general":
            return self.product(self.product(q, score.parameters["W"], axes, last), k.mT, axes, last)
        return score(q, k)

    def scaled(self, x: Array, frame: Frame, axes: int) -> Array:
        if frame.root is None:
            return x * frame.scale
        ones = (1,) * axes
        scale, root = np.full(ones, frame.scale), np.full(ones, frame.root)
        with np.errstate(divide="ignore", invalid="ignore"):
            # The temperature is a number of the problem: only the root of d_k is the hand's own.
            by_root = 1 / (self._rounded(root, axes) * (frame.rules.temperature or 1))
            by_scale = self._chosen(SCALE, (False, True, False), self._rounded(scale, axes), scale, axes)
            factor = self._chosen(SCALE, (False, False, True), by_root, by_scale, axes)
            return x * factor

    def total(self, x: Array) -> Array:
        total: Array = x.sum(axis=-1, keepdims=True)
        return total

    def logsum(self, x: Array) -> Array:
        with np.errstate(all="ignore"):
            top = np.max(x, axis=-1, keepdims=True)
            top = np.where(np.isfinite(top), top, 0)
            total: Array = top + np.log(np.sum(np.exp(x - top), axis=-1, keepdims=True))
        return total

    def shares(self, normalizer: NormalizerEntry, x: Array, visible: Array, axes: int) -> Array:
        with np.errstate(all="ignore"):
            plain: Array = normalizer.function(x, visible)
            if normalizer.name != "softmax":
                return plain
            top = np.max(np.where(visible, x, -np.inf), axis=-1, keepdims=True)
            bare, shifted = np.where(visible, np.exp(x), 0), np.where(visible, np.exp(x - top), 0)
            by_bare, by_shifted = (
                rounded / rounded.sum(axis=-1, keepdims=True)
                for rounded in (self._rounded(bare, axes), self._rounded(shifted, axes))
            )
            by_sum = bare / self._rounded(bare.sum(axis=-1, keepdims=True), axes)
        weights = plain
        for choice, rounded in enumerate((by_bare, by_shifted, by_sum), start=1):
            weights = self._chosen(EXPONENTIALS, tuple(i == choice for i in range(4)), rounded, weights, axes)
        return weights

    def quotient(self, x: Array, total: Array) -> Array:
        with np.errstate(all="ignore"):
            return x / total

    def average(self, logits: Array, visible: Array, v: Array, axes: int) -> None:
        return None

    def hidden(self, x: Array) -> Array:
        hidden: Array = np.isneginf(x)
        return hidden

    # -- rounding -----------------------------------------------------------------------------------------------

    def _along(self, axis: int, values: Array, axes: int = 0) -> Array:
        """Values along one of the habits' axes, before an array of so many axes."""
        return values.reshape((1,) * axis + (-1,) + (1,) * (GRID - 1 - axis + axes))

    def _chosen(self, axis: int, where: tuple[bool, ...], rounded: Array, plain: Array, axes: int) -> Array:
        """The rounded numbers at some places of an axis, the plain ones at the others."""
        if rounded is plain or not any(where):
            return plain
        return np.where(self._along(axis, np.array(where), axes), rounded, plain)

    def _rounded(self, x: Array, axes: int) -> Array:
        """x in each way and to each number of places; x itself where one decimal holds it, so that nothing changes."""
        with np.errstate(invalid="ignore", over="ignore"):
            tenths = x * 10
            if np.all((np.rint(tenths) == tenths) | ~np.isfinite(x)):
                return x
            unit = self._along(PLACES, 10.0 ** -np.array(self.places), axes)
            x = x.reshape((1,) * (GRID + axes - x.ndim) + x.shape)
            in_units = x / unit
            if x.shape[HOW] == 1:
                even = cut = up = in_units
            else:
                even, cut, up = (in_units[:, :, :, :, i : i + 1] for i in range(3))
            noise = _NOISE * np.maximum(np.abs(in_units), 1)
            ties = np.abs(np.abs(in_units - np.rint(in_units)) - 0.5) < noise
            tied = bool(ties.any())
            nearest = np.rint(even)
            ways = [
                np.where(ties[:, :, :, :, :1], 2 * np.rint(even / 2), nearest) if tied else nearest,
                np.trunc(cut * (1 + _NOISE)),
                np.trunc(up * (1 + _NOISE) + np.copysign(0.5, up)) if tied or up is not even else nearest,
            ]
            return np.concatenate(ways, axis=HOW) * unit


HabitFlow = Flow[Array]
