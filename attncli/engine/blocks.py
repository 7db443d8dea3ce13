"""An attention by blocks of rows: each block is the definition, applied to some queries and all keys.

Nothing of size n x m is held. A block is some rows of one sequence and head, an index (*batch, H) and a slice.
Letters: n queries, m keys, d_v value width, H query heads, G key heads.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from attncli.lazy import Array, np
from attncli.pipeline import notes
from attncli.pipeline.attend import tell_empty, trace_of
from attncli.pipeline.config import AttentionConfig
from attncli.pipeline.heads import join_heads, project, spread_to
from attncli.pipeline.logits import applied_scale
from attncli.pipeline.state import RowBlock, plain_state
from attncli.pipeline.steps import STEPS
from attncli.pipeline.trace import Trace

Index: TypeAlias = tuple[int, ...]

# What a thread may hold of rows x m arrays, of which the definition has about ten at once.
_BLOCK_BYTES = 16 * 2**20
_ARRAYS = 10
_MOST_ROWS = 256


@dataclass
class Unit:
    """Rows start:stop of one sequence and head."""

    index: Index
    start: int
    stop: int


class BlockedAttention:
    """A problem that is computed block by block, and what has to be told of its blocks.

    at: the whole, of which only what is n x d or m x d is ever computed.
    """

    def __init__(self, inputs: Mapping[str, Array], config: AttentionConfig) -> None:
        arrays = {name: np.asarray(x) for name, x in inputs.items()}
        # Inputs of n x m stay what they are, so that a file stays a file; they are converted block by block.
        with np.errstate(all="ignore"):
            self.at = at = plain_state(
                arrays, config, frozenset({"bias", *STEPS.beginnings()} - {"weights"}) & arrays.keys()
            )
            self.shape = at.shape
            if at.has("biased") and "bias" in at.inputs:
                _ = at["given_bias"]
            for name in ("q", "k", "v"):
                if at.has(name):
                    _ = at[name]
            self.scale = applied_scale(at)
        if at.masks:
            at.notes += at.masks.notes
        n, m = self.shape.n, self.shape.m
        self.lock = threading.Lock()
        self.empty = np.zeros((*self.shape.lead, n, 1), dtype=bool)
        self.non_finite = notes.NonFinite([], 0, np.zeros((*self.shape.lead, n, 1), dtype=bool))
        self.reached = np.zeros((*self.shape.lead, m), dtype=bool)
        self.of_blocks: set[str] = set()
        self.steps: dict[str, Array] = {}

    @property
    def dtype(self) -> np.dtype:
        """What is computed in."""
        dtype: np.dtype = self.at.dtype
        return dtype

    def units(self, rows: int, only: list[slice] | None = None, parts: set[Index] | None = None) -> list[Unit]:
        """The blocks of that many rows, in order. only: the rows that are wanted; parts: sequences and heads."""
        wanted = [part.indices(self.shape.n) for part in only or [slice(None)]]
        return [
            Unit(index, i, min(i + rows, stop))
            for index in np.ndindex(*self.shape.lead)
            if parts is None or index in parts
            for start, stop, _ in wanted
            for i in range(start, stop, rows)
        ]

    def block_rows(self) -> int:
        """How many rows at once keep a block small."""
        known = self.at.score is None or self.at.score.entry is not None
        widest = 1 if known else 8  # a stranger may hold more than n x m
        held = _ARRAYS * widest * max(1, self.shape.m) * self.dtype.itemsize
        return int(min(_MOST_ROWS, max(1, _BLOCK_BYTES // held)))

    def block(self, unit: Unit) -> RowBlock:
        """One block as a State of its own; what is to be told of it is remembered."""
        block = RowBlock(self.at, unit.index[:-1], unit.index[-1], slice(unit.start, unit.stop))
        with np.errstate(all="ignore"):
            self._remember(unit, block)
        return block

    def _remember(self, unit: Unit, block: RowBlock) -> None:
        rows = slice(unit.start, unit.stop)
        empty = spread_to(block["empty"], (1, unit.stop - unit.start, 1))
        self.empty[unit.index][rows] = empty[0]
        found = notes.spoiled_scores(block["logits"], block["counted"], empty)
        self.non_finite.all_neg_inf[unit.index][rows] = found.all_neg_inf[0]
        reached: Array = np.zeros((1, 1), dtype=bool)
        if block.has("V"):
            reached = notes.spoiled_values(block.latest("value"), block["contributing"])
            _ = block["attended"]
        with self.lock:
            self.non_finite.indices += [(*unit.index, unit.start + row, key) for _, row, key in found.indices]
            self.non_finite.count += found.count
            self.reached[unit.index] |= np.any(reached, axis=0)
            self.of_blocks |= {note for note in block.notes if notes.BEYOND in note}

    def overflowed(self) -> None:
        """Remember that e^s overflows somewhere."""
        with self.lock:
            self.of_blocks.add(notes.OVERFLOW)

    def tell(self) -> None:
        """Note, or refuse, what the blocks came upon, as the definition does for the whole."""
        at = self.at
        starts, told = [name + notes.BEYOND for name in at.inputs], self.of_blocks | {*at.notes}
        beyond = [note for start in starts for note in told if note.startswith(start)]
        at.notes = beyond + [note for note in at.notes if note not in beyond]
        at.notes += [notes.OVERFLOW] if notes.OVERFLOW in self.of_blocks else []
        if self.empty.any():
            tell_empty(at, self.empty)
        self.non_finite.indices.sort()
        at.notes += notes.attended(self.non_finite, self.shape)
        at.notes += notes.attended_values(self.reached, self.shape)
        at.notes += notes.output_weights(at.inputs)

    # -- what is small, and held --------------------------------------------------------------------------------

    def empty_output(self, rows: int) -> Array:
        """Room for what each head gives, such that joining the heads copies nothing: a view (*batch, H, rows, d_v)."""
        width = self.at.latest("value").shape[-1]
        room: Array = np.empty((*self.shape.batch, rows, self.shape.lead[-1], width), self.dtype).swapaxes(-2, -3)
        return room

    def finish(self, heads: Array) -> None:
        """Heads joined and through W_O, as the definition does it."""
        at = self.at
        if at.has("heads"):
            self.steps["heads"] = heads
        with np.errstate(all="ignore"):
            self.steps["output"] = project("W_O", join_heads(heads), at.inputs.get("W_O"), at.inputs.get("b_O"))

    def trace(self, keep: tuple[str, ...]) -> Trace:
        """The Trace that holds these steps, all of them small."""
        return trace_of(self.at.with_given(self.steps), keep)
