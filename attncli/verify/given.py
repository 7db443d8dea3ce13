"""What a mistake starts from: the steps that follow from the hand's own numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import copy
from functools import cached_property
from typing import Self

from attncli.lazy import Array, np
from attncli.pipeline.masks import Masks, ScoreShape
from attncli.pipeline.steps import STEPS
from attncli.pipeline.trace import NAMED_STEPS
from attncli.verify.frame import Frame
from attncli.verify.pipeline import Pipeline
from attncli.verify.written import Written


class Given(Pipeline):
    """The right numbers as they follow from what the hand wrote before the first wrong step (`target`).

    hand: the numbers of the written steps, in the form of `Frame`. wrong: the wrong cells of the target, if known.
    steps: from the numbers as written, and (R = 2) from the right ones, where those are not the same.
    """

    def __init__(self, frame: Frame, hand: Mapping[str, Written], target: str, wrong: Array | None = None) -> None:
        super().__init__(frame, target)
        order = list(NAMED_STEPS)
        self.written = [name for name in order[: order.index(target)] if name in hand and frame.has(name)]
        self.factors: dict[str, list[float]] = {}
        self.deep = False  # whether slips in single cells of unwritten steps are tried, too
        self.numbers = hand[target]
        self._start_from_hand(hand)
        if wrong is None:
            wrong = ~self.numbers.reproduced(self.as_exact(self[target])[0])
        self.wrong = wrong & ~self.numbers.blank

    def as_exact(self, array: Array) -> Array:
        """The target in full, (..., R, *its shape in the form of `Frame`): axes of 1 are spread."""
        shape = self.numbers.value.shape
        return np.broadcast_to(array, (*array.shape[: array.ndim - len(shape)], *shape))

    @cached_property
    def open(self) -> frozenset[str]:
        """The steps in which the mistake may have happened: the wrong one, and unwritten ones on the way to it."""
        # Steps that a problem lacks are passed through: a mask that nobody asked for happens there, too.
        found: set[str] = set()
        waiting = [self.target]
        while waiting:
            name = waiting.pop()
            absent = name in ("Q", "K", "V") and not self.frame.has(name)
            closed = name in self.written or name in self.frame.inputs or absent
            if name in found or (closed and name != self.target):
                continue
            found.add(name)
            waiting += STEPS.sources(name)
        return frozenset(found)

    @cached_property
    def widths(self) -> dict[str, int]:
        """n, m, and where they are known d_k, d_v (of one head) and d_model (of the data)."""
        sizes = {"n": self.frame.n, "m": self.frame.m}
        if self.rules.d_k is not None:
            sizes["d_k"] = self.rules.d_k
        for name, letter in (("d_k", "k"), ("d_v", "v"), ("d_model", "X")):
            if letter in self:
                sizes[name] = self[letter].shape[-1]
        return sizes

    @property
    def unmasked(self) -> Array:
        """The scores as they meet the mask."""
        return self.before("masked")

    @cached_property
    def masks(self) -> Masks | None:
        """The masks of this problem, bound to its sizes; None without a mask."""
        return None if self.shown is None else Masks(self.rules.masks, self.extent, self.rules.alignment)

    @cached_property
    def extent(self) -> ScoreShape:
        """The sizes that masks are read by."""
        shape = self.exact.steps["weights"].shape
        batch = shape[:-2] if self.exact.heads is None else shape[:-3]
        past = self.frame.inputs["past_k"].shape[-2] if "past_k" in self.frame.inputs else 0
        return ScoreShape(tuple(batch), self.exact.heads, self.frame.n, self.frame.m, past)

    def labels(self, step: str) -> tuple[list[str], list[str]]:
        """The names of a step's rows and columns, tokens as rows."""
        rows, columns = self.exact.labels(step)
        return (columns, rows) if self.exact.layout == "columns" else (rows, columns)

    def displayed(self, text: str) -> str:
        """A sentence of rows and columns, as it is said of what is displayed: in columns the other way round."""
        if self.exact.layout != "columns":
            return text
        other = {"row": "column", "column": "row"}
        return re.sub(r"\b(row|column)", lambda match: other[match[0]], text)

    def product(self, left: str, right: str) -> str:
        """`Q K^T`, or in columns the same product as it is written there: `K^T Q`."""
        return f"{right} {left}" if self.exact.layout == "columns" else f"{left} {right}"

    # -- the hand's numbers -------------------------------------------------------------------------------------

    def _start_from_hand(self, hand: Mapping[str, Written]) -> None:
        """Begin at what was written; what was left blank follows from what stands before it."""
        self.hand: dict[str, Array] = {}
        for name in self.written:
            numbers = hand[name].value[None]
            if hand[name].blank.any():
                numbers = np.where(hand[name].blank, self.frame.at.with_given(self.hand)[name], numbers)
            self.hand[name] = numbers
        self.halves = {
            name: self._half_units(name, hand[name])
            for name in self._starting()
            if not hand[name].fits(self.frame.exact(name))
        }
        starts = self.hand
        if self.halves:
            # A hand that kept all its digits, or cut them, went on from the right numbers: the second of the stack.
            starts = {
                name: np.concatenate(np.broadcast_arrays(x, self.frame.exact(name)[None])) for name, x in starts.items()
            }
        self.at = self.frame.at.with_given(starts)
        self.steps |= self.following(starts)
        if self.halves:
            self.steps |= {
                name: np.concatenate([x, x])
                for name, x in self.steps.items()
                if len(x) < 2 and name in self.exact.steps
            }

    def _half_units(self, name: str, written: Written) -> Array:
        """Half a unit of each number; 0 where a cell is hidden or blank."""
        hidden = self.frame.is_hidden(name)
        fixed = written.blank if hidden is None else written.blank | hidden
        return np.where(fixed, 0, written.unit / 2)[None]

    def _starting(self) -> list[str]:
        """The written steps from whose numbers the target follows."""
        found, waiting = [], STEPS.sources(self.target)
        while waiting:
            name = waiting.pop()
            if name in found:
                continue
            if name in self.hand:
                found.append(name)
            elif name not in self.frame.inputs:
                waiting += STEPS.sources(name)
        return found

    def shifted(self, signs: Mapping[str, Array]) -> Self:
        """The same from the hand's numbers, moved by half a unit as the signs (R, ...) say."""
        moved = {name: self.hand[name] + self.halves[name] * sign for name, sign in signs.items()}
        for name in {"kernel", "exp", "sum", "weights"} & set(moved):
            if name != "weights" or self.frame.sums_to_one:
                moved[name] = np.maximum(moved[name], 0)  # no number within half a unit is one that cannot be
        base = copy(self)
        base.at = self.frame.at.with_given(self.hand)
        base.steps = {name: array[:1] for name, array in self.steps.items()}
        return base.after(moved)
