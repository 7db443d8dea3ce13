"""An attention by blocks of rows: each block is the plain definition, applied to some queries and all keys.

Nothing of size n x m is held. A block is some rows of one sequence and head, an index (*batch, H) and a slice.
Letters: n queries, m keys, d_k, d_v widths, H query heads, G key heads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from attncli.core import notes
from attncli.core.attend import Attention, Rules
from attncli.core.maskargs import decide_array_axes
from attncli.core.masks import Extent, Masks
from attncli.core.qkv import as_matrix, query_key_value
from attncli.core.scores import ScoreSpec, additive, concat, hidden_layer
from attncli.core.visibility import Band, Index, RowsView
from attncli.core.workers import scratch
from attncli.lazy import Array, np
from attncli.record import record

# What a thread may hold of rows x m arrays, of which the plain path has about ten at once.
_BLOCK_BYTES = 16 * 2**20
_ARRAYS = 10
_HIDDEN_LAYER = 2**19  # bytes of a hidden layer at once: they stay in the second-level cache
_CONVERTED_BY_BLOCK = ("Q", "K", "V", "bias", "kernel", "scores", "scaled", "masked")


@record
class Unit:
    """Rows start:stop of one sequence and head."""

    index: Index
    start: int
    stop: int


class Large(Attention):
    """A problem that is computed block by block. Inputs are converted by block too, so that a file stays a file."""

    def __init__(self, inputs: Mapping[str, Array], rules: Rules) -> None:
        super().__init__({name: x[:0] for name, x in inputs.items() if np.ndim(x)}, rules)
        arrays = {name: np.asarray(x) for name, x in inputs.items()}
        with np.errstate(over="ignore"):
            now = {n: x.astype(self.dtype, copy=False) for n, x in arrays.items() if n not in _CONVERTED_BY_BLOCK}
        self.inputs = arrays | now
        self.notes = notes.beyond(arrays, now)
        self.lock = threading.Lock()
        with np.errstate(all="ignore"):
            self._prepare()

    def _prepare(self) -> None:
        rules = self.rules
        self.parts = query_key_value(self.inputs, self.begin, rules.heads, rules.kv_heads, spread=False)
        self.steps = self.parts.steps
        self.given = as_matrix(self.begin, self.inputs[self.begin]) if self.begin else None
        arrays = [x for x in (self.parts.q, self.parts.k, self.parts.v, self.given) if x is not None]
        heads = self.parts.heads
        batch = np.broadcast_shapes(*(x.shape[: -2 if heads is None else -3] for x in arrays))
        if self.given is not None:
            n, m = self.given.shape[-2:]
        else:
            assert self.parts.q is not None
            assert self.parts.k is not None
            n, m = self.parts.q.shape[-2], self.parts.k.shape[-2]
        self.extent = Extent(tuple(batch), heads, n, m, self.parts.past)
        self.has_scale = self.find_scale()
        self.bias: Array | None = None
        if "bias" in self.inputs and self.begin != "masked":
            self.bias = self._bias_table()
        self.masks = self.bind_masks()
        if self.masks and rules.masks:
            self.notes += self.masks.notes
            self.band = Band(self.masks, self.extent, self.dtype)
        self.visible = np.ones((1, 1), dtype=bool)
        self.empty = np.zeros((*self.lead, n, 1), dtype=bool)
        self.spoiled = notes.Spoiled([], 0, np.zeros((*self.lead, n, 1), dtype=bool))
        self.of_blocks: set[str] = set()
        self._converted: dict[str, tuple[Index, Array]] = {}
        self.reached = np.zeros((*self.lead, m), dtype=bool)

    @property
    def lead(self) -> tuple[int, ...]:
        """The leading axes of the scores: (*batch, H), or (*batch,) without heads."""
        heads = self.extent.heads
        return self.extent.batch if heads is None else (*self.extent.batch, heads)

    def _bias_table(self) -> Array:
        bias, e = self.inputs["bias"], self.extent
        table, note = decide_array_axes("bias", bias, e.batch, e.heads, e.n, e.m)
        self.notes += [note] if note else []
        rows = bias.reshape(-1, bias.shape[-1]) if bias.size else bias
        if bias.size and all(
            np.all((part == 0) | (part == 1)) for i in range(0, len(rows), 256) for part in (rows[i : i + 256],)
        ):
            self.notes.append("bias: nothing but 0 and 1, added to the scores; a mask is keep:FILE or block:FILE")
        return table

    def units(self, rows: int, only: list[slice] | None = None, parts: set[Index] | None = None) -> list[Unit]:
        """The blocks of that many rows, in order. only: the rows that are wanted; parts: sequences and heads."""
        wanted = [part.indices(self.extent.n) for part in only or [slice(None)]]
        return [
            Unit(index, i, min(i + rows, stop))
            for index in np.ndindex(*self.lead)
            if parts is None or index in parts
            for start, stop, _ in wanted
            for i in range(start, stop, rows)
        ]

    def block_rows(self) -> int:
        """How many rows at once keep a block small."""
        score = self.score
        registered = score is None or score.function.__module__ == additive.__module__
        widest = 1 if registered else 8  # a stranger may hold more than n x m
        return int(min(256, max(1, _BLOCK_BYTES // (_ARRAYS * widest * max(1, self.extent.m) * self.dtype.itemsize))))

    def spot(self, array: Array, index: Index) -> Index:
        """Where the matrix of one sequence and head lies among leading axes that broadcast; grouped heads share one."""
        leading = array.shape[:-2]
        picked = list(index[len(index) - len(leading) :])
        if self.extent.heads is not None and leading:
            picked[-1] = picked[-1] * leading[-1] // self.extent.heads
        return tuple(i if size > 1 else 0 for i, size in zip(picked, leading, strict=True))

    def own(self, array: Array, index: Index) -> Array:
        """The matrix of one sequence and head."""
        matrix: Array = array[self.spot(array, index)]
        return matrix

    def converted(self, name: str, array: Array, index: Index) -> Array:
        """As `own`, in the dtype that is computed in: converted once for all blocks of that sequence and head."""
        own = self.own(array, index)
        if own.dtype == self.dtype:
            return own
        with self.lock:
            known = self._converted.get(name)
            if known is None or known[0] != index:
                with np.errstate(over="ignore"):
                    known = self._converted[name] = index, own.astype(self.dtype)
                self.of_blocks.update(notes.beyond({name: own}, {name: known[1]}))
            return known[1]

    def bias_rows(self, index: Index, rows: slice) -> Array:
        """The bias of some rows, (r or 1, m)."""
        assert self.bias is not None
        table = self.own(self.bias, index)
        return table if table.shape[0] == 1 else table[rows]

    def view(self, unit: Unit) -> RowsView:
        """What the masks let these rows see."""
        assert self.masks is not None
        return RowsView(self.masks, self.extent, self.band, unit.index, unit.start, unit.stop)

    def block(self, unit: Unit) -> Block:
        """Compute one block by the definition, and remember what has to be told of it."""
        block = Block(self, unit)
        with np.errstate(all="ignore"):
            block.trace(())
        if block.notes:
            self.remember(block.notes)
        return block

    def remember(self, told: list[str]) -> None:
        """Keep the notes of a block that are true of the whole: what is too large, for the dtype or for e^s."""
        with self.lock:
            self.of_blocks |= {note for note in told if note == notes.OVERFLOW or notes.BEYOND in note}

    def tell(self) -> None:
        """Note, or refuse, what the blocks came upon, as the definition does for the whole."""
        starts, told = [name + notes.BEYOND for name in self.inputs], self.of_blocks | {*self.notes}
        beyond = [note for start in starts for note in told if note.startswith(start)]
        self.notes = beyond + [note for note in self.notes if note not in beyond]
        self.notes += [notes.OVERFLOW] if notes.OVERFLOW in self.of_blocks else []
        if self.empty.any():
            self.tell_empty(self.empty)
        self.spoiled.indices.sort()
        self.notes += notes.attended(self.spoiled, self.extent)
        self.notes += notes.attended_values(self.reached, self.extent)


class Block(Attention):
    """Some rows of one sequence and head, as a problem of their own: its steps are (r, m) or (r, d_v)."""

    def __init__(self, large: Large, unit: Unit) -> None:
        rows = slice(unit.start, unit.stop)
        parts, inputs = large.parts, {}
        if large.given is not None:
            inputs[large.begin or ""] = large.own(large.given, unit.index)[rows]
        else:
            assert parts.q is not None
            assert parts.k is not None
            inputs = {"Q": large.own(parts.q, unit.index)[rows], "K": large.converted("K", parts.k, unit.index)}
        if parts.v is not None:
            inputs["V"] = large.converted("V", parts.v, unit.index)
        if large.bias is not None:
            inputs["bias"] = large.bias_rows(unit.index, rows)
        scale = large.scale if large.has_scale else None
        rules = replace(large.rules, heads=None, kv_heads=None, scale=scale, temperature=None, both_ways=False)
        if rules.empty_rows == "error":
            rules = replace(rules, empty_rows="zero")  # refused by the whole, which can name them all
        super().__init__(inputs, replace(rules, dtype=large.dtype.name))
        self.large, self.unit = large, unit

    def step(self, name: str) -> Array:
        """A step of these rows. Raises InputError where the problem does not have it."""
        return self.as_trace(None).rows(name)

    def _scored(self, score: ScoreSpec) -> Array:
        q, k = self.parts.q, self.parts.k
        assert q is not None
        assert k is not None
        if score.kernel is not None and score.function.__module__ == additive.__module__:
            return _by_strips(partial(score.function, **self.parameters), q, k)
        if score.function not in (additive, concat):
            return super()._scored(score)
        given = {name: np.asarray(x).astype(self.dtype, copy=False) for name, x in self.parameters.items()}
        if score.function is concat:
            W, d_q = given["W"], q.shape[-1]
            given = {"W_q": W[:, :d_q], "W_k": W[:, d_q:], "w_v": given["v"]}
        return _through_tanh(*hidden_layer(q, k, given.get("W_q"), given.get("W_k"), given.get("w_v")))

    def bind_masks(self) -> Masks | None:
        return _Shown(self.large, self.unit) if self.large.masks else None

    def tell_empty(self, empty: Array) -> None:
        self.large.empty[self.unit.index][self.unit.start : self.unit.stop] = empty

    def tell_scores(self) -> None:
        found, known, unit = notes.spoiled_scores(self.logits, self.counted, self.empty), self.large.spoiled, self.unit
        known.sunk[unit.index][unit.start : unit.stop] = found.sunk
        with self.large.lock:
            known.indices += [(*unit.index, unit.start + row, key) for row, key in found.indices]
            known.count += found.count

    def tell_values(self, values: Array) -> None:
        reached = notes.spoiled_values(values, self.reaching)
        with self.large.lock:
            self.large.reached[self.unit.index] |= reached


class _Shown(Masks):
    """The masks of the whole, asked for one block."""

    def __init__(self, large: Large, unit: Unit) -> None:
        self._large, self._unit = large, unit
        self.notes, self.texts = [], []

    def visible(self, queries: slice = slice(None), keys: slice = slice(None)) -> Array:
        return self._large.view(self._unit).shown(0, self._large.extent.m)


def _by_strips(function: Callable[[Array, Array], Array], q: Array, k: Array) -> Array:
    """function(q, k), whose inside is (r, m, d), for a few queries and a strip of keys at a time: (r, m)."""
    scores = np.empty((q.shape[0], k.shape[0]), q.dtype)
    rows = 4
    strip = max(64, _HIDDEN_LAYER // (2 * rows * max(1, k.shape[1]) * k.itemsize))
    for low in range(0, k.shape[0], strip):
        for row in range(0, q.shape[0], rows):
            scores[row : row + rows, low : low + strip] = function(q[row : row + rows], k[low : low + strip])
    return scores


def _through_tanh(q_h: Array, k_h: Array, w: Array) -> Array:
    """w . tanh(q_h + k_h) for all pairs, (r, m), some queries and a strip of keys at a time.

    All sums of a hidden unit come from one product, [q_h 1] [1; k_h], to the last digit: that takes half the time of
    an addition that broadcasts.
    q_h: (r, h)   k_h: (m, h)   w: (h,)
    """
    (count, h), m, dtype = q_h.shape, k_h.shape[0], q_h.dtype
    scores = np.empty((count, m), dtype)
    rows = min(count, 32)
    strip = min(m, max(16, _HIDDEN_LAYER // (rows * max(1, h) * dtype.itemsize)))
    memory, of_pairs = scratch((h * rows * strip,), dtype), scratch((rows * strip,), dtype)
    queries, keys = np.ones((h, count, 2), dtype), np.ones((h, 2, strip), dtype)
    queries[:, :, 0] = q_h.T
    for low in range(0, m, strip):
        own = k_h[low : low + strip].T
        keys[:, 1, : own.shape[1]] = own
        for row in range(0, count, rows):
            some = queries[:, row : row + rows]
            shape = h, some.shape[1], own.shape[1]
            pairs = shape[1] * shape[2]
            hidden = memory[: h * pairs].reshape(shape)
            np.matmul(some, keys[:, :, : own.shape[1]], out=hidden)
            np.tanh(hidden, out=hidden)
            np.matmul(w, hidden.reshape(h, pairs), out=of_pairs[:pairs])
            scores[row : row + rows, low : low + strip] = of_pairs[:pairs].reshape(shape[1:])
    return scores
