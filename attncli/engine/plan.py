"""The plan of one attention, made once from shapes: its steps, how large they are, and how they are computed.

Nothing is computed for it: the definition is read in shapes. Letters: n queries, m keys.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from attncli.arithmetic.shapes import Shape
from attncli.engine import attending
from attncli.engine.memory import in_words, memory_available
from attncli.errors import MachineError, Opaque
from attncli.lazy import Array, np
from attncli.pipeline.attend import check_steps, displayed
from attncli.pipeline.config import AttentionConfig
from attncli.pipeline.heads import broadcast_leading
from attncli.pipeline.state import State
from attncli.pipeline.steps import NAMED_STEPS, STEPS, Step

Sizes = tuple[int, ...]

# What blocks take on each thread, measured; and the program itself.
_THREAD = 32 * 2**20
_ASIDE = 32 * 2**20
# Arrays of n x m that the definition holds at once besides the steps, measured: of exponentials, of one that sorts.
_PASSING, _SORTING = 2, 6
# So few scores fit anywhere, and what they need is not counted.
_FEW = 2**22

# Of an array's type, its bytes a number, and whether computing needs a copy of it.
Stored = tuple[Sizes, bool]


class ShapeState(State):
    """The steps in shapes. Which keys are visible does not change them, and is not asked."""

    only_sizes = True

    def compute(self, entry: Step) -> Any:
        if entry.truth:
            return np.ones((1, 1, 1), dtype=bool)
        if entry.line == "place":
            return entry.function(self).part(slice(0, 1), slice(0, 1))
        own = entry.name == "similarity" and self.score is not None and self.score.entry is None
        if not own:  # a function of the user's own is called where its numbers are wanted, and not before
            try:
                return entry.function(self)
            except Opaque:
                if entry.name != "similarity":
                    raise
        q, k = self.latest("query"), self.spread("K", self.latest("key"))  # a score of the user's own: n x m
        return Shape(*broadcast_leading(q.shape[:-2], k.shape[:-2]), q.shape[-2], k.shape[-2])


def is_small(name: str) -> bool:
    """Whether a step has no number for each query and key, nor is made of whole rows of such."""
    entry = STEPS.find(name)
    return not entry.is_pairs and entry.line not in ("back",) and name != "sum"


@dataclass(eq=False, repr=False)
class Plan:
    """What is known of an attention before anything is computed.

    stored: the shape of each input, and whether computing needs a copy of it. dtype: what is computed in.
    wanted: the steps that are to be held, None for all but those on request.
    """

    config: AttentionConfig
    stored: Mapping[str, Stored]
    dtype: np.dtype
    wanted: tuple[str, ...] | None = None

    @cached_property
    def at(self) -> State:
        """The definition in shapes."""
        return ShapeState(self.config, {name: Shape(*shape) for name, (shape, _) in self.stored.items()})

    @cached_property
    def shapes(self) -> dict[str, Sizes]:
        """The shape of each step that the problem has, as it is shown, tokens as rows."""
        _ = self.at.shape
        return {name: displayed(self.at, name, self.at[name]).shape for name in self.at.names(on_request=True)}

    @property
    def heads(self) -> int | None:
        """How many heads the scores have an axis for; None where there is no such axis."""
        return self.at.layout.heads

    @property
    def scores(self) -> int:
        """How many scores there are."""
        return prod(self.at.shape.shape)

    @property
    def may_go_by_blocks(self) -> bool:
        """Whether there are so many scores, all of which go by blocks of rows."""
        rounds = self.config.round_steps is not None  # a calculation by hand: as a whole, and slowly
        return not (rounds or self.at.line("back") or self.at.begin == "weights") and self.scores >= attending.LARGE

    @property
    def by_blocks(self) -> bool:
        """Whether the wanted steps come block by block, so that no n x m is held."""
        return self.wanted is not None and all(map(is_small, self.wanted)) and self.may_go_by_blocks

    def check_steps(self) -> None:
        """Raise InputError where a step is wanted that the problem does not have."""
        check_steps(self.at, self.wanted or ())

    def memory(self, *, by_blocks: bool | None = None) -> dict[str, int]:
        """The bytes of each step besides the inputs; under "blocks", "passing" and "aside" what is held besides.

        by_blocks: whether no n x m is held, where another way than the plan's own is asked about.
        """
        blocks = self.by_blocks if by_blocks is None else by_blocks
        keep, size = self.wanted or (), self.dtype.itemsize
        held = [name for name in self.shapes if name not in self.stored]
        if blocks:
            held = [name for name in held if is_small(name) and (not NAMED_STEPS[name].on_request or name in keep)]
            held = [name for name in held if not NAMED_STEPS[name].per_head or NAMED_STEPS[name].on_request]
        else:
            held = [name for name in held if not NAMED_STEPS[name].on_request or name in keep]
        needed = {name: prod(self.shapes[name]) * size for name in held}
        if blocks:
            return needed | {"blocks": _THREAD * (os.cpu_count() or 1), "aside": _ASIDE}
        converted = sum(prod(shape) * size for shape, copied in self.stored.values() if copied)
        passing = _PASSING if self.at.normalizer.exponentials else _SORTING
        return needed | {"passing": passing * self.scores * size + converted, "aside": _ASIDE}

    def check_memory(self, *, by_blocks: bool | None = None, besides: int = 0) -> None:
        """Refuse, with the number and the way out, what would not fit. Raises MachineError.

        besides: bytes that are needed for what becomes of the steps, such as their text.
        """
        if all(prod(shape) < _FEW for shape in self.shapes.values()):
            return
        blocks = self.by_blocks if by_blocks is None else by_blocks
        needed, there = sum(self.memory(by_blocks=blocks).values()) + besides, memory_available()
        if there is not None and needed > there:
            whole = not blocks or not all(map(is_small, self.wanted or NAMED_STEPS))
            raise MachineError(
                f"this needs {in_words(needed)} of memory, but {in_words(there)} are free",
                hint="--show output, or -o weights=FILE.npy, holds one block at a time"
                if whole
                else "--dtype float32 halves it",
            )


def is_copied(array: Array, size: int) -> bool:
    """Whether it is computed with a copy, of numbers of that many bytes: of another type, or of rows that overlap."""
    other = array.dtype.itemsize != size or array.dtype.kind != "f"
    return other or not (array.flags.c_contiguous or array.flags.f_contiguous or array.base is None)
