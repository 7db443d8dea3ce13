"""Softmax attention tile by tile, for scores that are dot products of finite numbers: what a row needs is a running
maximum, a running sum and a running output, so that no more than a tile of scores is ever held.

Letters: n queries, m keys, d_k, d_v widths; a tile is a parts of r queries by b strips of c keys, and lies with the
keys first, (b, a, c, r). A part by a strip is a product small enough for OpenBLAS not to pack its factors first, which
is a seventh of the time of a large product. Sums are kept by strip until the block is done, which saves a pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import accumulate, pairwise

from attncli.core.blocks import Unit
from attncli.core.dots import LOG2_E, Dots, Queries
from attncli.core.lonely import Lonely, settle
from attncli.core.visibility import Tile
from attncli.core.workers import scratch
from attncli.lazy import Array, np
from attncli.record import record

# Products of smaller values with e^s that is not shifted may vanish, and what vanished may count in a smaller sum.
_TINY = {"f": 2.0**-40, "d": 2.0**-500}


@record
class _Memory:
    """A tile's part of the memory: scores (strips, parts, c, r), the same transposed, and what it adds to what."""

    queries: Array
    scores: Array
    weights: Array
    products: Array
    sums: Array
    ones: Array
    into: list[tuple[Array, Array]]
    whole: bool


class Tiler:
    """The memory of one thread, and the way through one block of queries.

    largest: (a, r)   below: sums of e^s, (b, a, 1, r)   total: sums of e^s v, (b, a, r, d_v), both in units of
    e^largest, which stays 0 where the scores need no shift.
    """

    def __init__(self, dots: Dots) -> None:
        self.dots = dots
        a, r, b, c = dots.sizes
        d_k, d_v = dots.widths
        dtype = dots.dtype
        self.scores = scratch((b * a * c * r,), dtype)
        self.turned = scratch((a, d_k, r), dtype)
        self.ones = np.ones((1, c), dtype)
        self.largest = scratch((a, r), dtype)
        # Total and below lie side by side, so that a tile is added to both at once.
        self.so_far, self.more = scratch((b * a * r * (d_v + 1),), dtype), scratch((b * a * r * (d_v + 1),), dtype)
        self.total, self.below = _side_by_side(self.so_far, (b, a, r, d_v), (b, a, 1, r))
        self.memories: dict[tuple[int, int, int, int], _Memory] = {}

    def block(self, unit: Unit, output: Array) -> tuple[Array, Array] | None:
        """Fill the output (rows, d_v); log of the sum (rows, 1) and which queries see nothing (rows, 1).

        None: what goes in or comes out is not finite, a case for the definition.
        """
        queries = self.dots.queries(unit)
        if queries is None:
            return None
        sums, logarithm = self._attend(unit, queries, output)
        largest = _largest(output)
        if not (self.queries.shifted or self._went_well(unit, largest, sums)):
            queries = self.dots.queries(unit, shifted=True)
            assert queries is not None
            sums, logarithm = self._attend(unit, queries, output)
            largest = _largest(output)
        finite = largest.max(initial=0) < math.inf  # not where one is NaN
        return (logarithm, sums == 0) if finite else None

    def _went_well(self, unit: Unit, largest: Array, sums: Array) -> bool:
        """Whether unshifted e^s neither overflowed nor vanished, nor its products with the small values of a column.

        largest: how far the columns of the output reach, (d_v,).
        """
        tiny = _TINY[self.dots.dtype.char]
        small = largest < tiny
        if not largest.max(initial=0) < math.inf or (small.any() and self.dots.head(unit.index).v[:, small].any()):
            return False
        return self.queries.safe or (float(sums.min()) >= tiny and float(sums.max()) < math.inf)

    def _attend(self, unit: Unit, queries: Queries, output: Array) -> tuple[Array, Array]:
        """Fill the output; the sums of e^s, in units of what was subtracted, and their logarithm."""
        dots, head = self.dots, self.dots.head(unit.index)
        (a, r, b, c), k, v = dots.sizes, head.k, head.v
        rows, m = unit.stop - unit.start, len(k)
        self.queries, self.fresh = queries, True
        self._turn(queries)
        self.largest[...] = -np.inf if queries.shifted else 0
        view = dots.view(unit) if dots.view else None
        bias = dots.bias(unit.index, slice(unit.start, unit.stop)) if dots.bias else None
        by_key = view is not None and bool(view.others)  # a mask that has to be asked key by key
        lonely = Lonely(rows) if by_key and not queries.shifted else None
        for tile in all_tiles(m, b, c, -(-rows // r)) if view is None else view.tiles(r, b, c):
            weight = view.weight(tile.low, tile.high) if view is not None and tile.cells else None
            if lonely is not None:
                lonely.see(weight, tile)
            if not by_key or weight is None or weight.any():
                own = slice(tile.low, tile.high)
                self._see(tile, k[own], v[own], weight, None if bias is None else bias[:, own])
        if self.fresh:
            self._begin()
        sums = np.add.reduce(self.below, axis=0).reshape(a * r, 1)[:rows]
        total = (self.total[0] if b == 1 else np.add.reduce(self.total, axis=0)).reshape(a * r, v.shape[1])[:rows]
        empty = sums == 0
        np.divide(total, np.where(empty, 1, sums) if empty.any() else sums, out=output)
        if not self.queries.shifted:
            settle(output, v, lonely, view)
        return sums, np.log(sums) + self.largest.reshape(-1, 1)[:rows]

    def _begin(self) -> None:
        self.so_far[...] = 0
        self.fresh = False

    def _turn(self, queries: Queries) -> None:
        """The queries, scaled, with the features first: (a, d_k, r); rows that fill up the last part are zeros."""
        q, factor, r = queries.q, queries.factor, self.dots.sizes.r
        rows, d_k = q.shape
        whole = rows // r
        np.multiply(q[: whole * r].reshape(whole, r, d_k).swapaxes(1, 2), factor, out=self.turned[:whole])
        if rows > whole * r:
            np.multiply(q[whole * r :].T, factor, out=self.turned[whole, :, : rows - whole * r])
            self.turned[whole, :, rows - whole * r :] = 0

    def _memory(self, strips: int, first: int, last: int, width: int) -> _Memory:
        """Where a tile of that shape is computed, and added to."""
        a, r, b, _ = self.dots.sizes
        shape, d_v = (strips, last - first), self.dots.widths[1]
        (scores,) = _side_by_side(self.scores, (*shape, width, r))
        products, sums = _side_by_side(self.more, (*shape, r, d_v), (*shape, 1, r))
        whole = shape == (b, a)
        return _Memory(
            queries=self.turned[first:last],
            scores=scores,
            weights=scores.swapaxes(2, 3),
            products=products,
            sums=sums,
            ones=self.ones[:, :width],
            into=[(self.so_far, self.more)]
            if whole
            else [(self.total[:strips, first:last], products), (self.below[:strips, first:last], sums)],
            whole=whole,
        )

    def _see(self, tile: Tile, keys: Array, values: Array, weight: Array | None, bias: Array | None) -> None:
        """Add to the sums what the keys of a tile give. weight: 1 where visible, 0 where hidden, (keys, rows)."""
        dots, width = self.dots, min(self.dots.sizes.c, len(keys))
        shape = len(keys) // width, tile.first, tile.last, width
        memory = self.memories.get(shape)
        if memory is None:
            memory = self.memories[shape] = self._memory(*shape)
        scores = memory.scores
        if keys.dtype != scores.dtype or values.dtype != scores.dtype:
            keys, values = keys.astype(scores.dtype), values.astype(scores.dtype)
        np.matmul(keys.reshape(len(scores), 1, width, keys.shape[1]), memory.queries, out=scores)
        if dots.softcap is not None:
            np.tanh(scores, out=scores)
            scores *= dots.dtype.type(dots.softcap * (LOG2_E if self.queries.safe else 1))
        if bias is not None:
            _add(scores, tile, bias.astype(dots.dtype, copy=False))
        if self.fresh and not (self.queries.safe or self.queries.shifted) and _is_steep(scores):
            self.queries = Queries(self.queries.q, self.queries.factor, safe=False, shifted=True)
            self.largest[...] = -np.inf
        if self.fresh and not memory.whole:
            self._begin()
        if self.queries.shifted:
            for cell, visible in _cells(scores, tile, weight):
                cell += np.log(visible)
            self._exponentials(scores, slice(tile.first, tile.last))
        else:
            (np.exp2 if self.queries.safe else np.exp)(scores, out=scores)
            for cell, visible in _cells(scores, tile, weight):
                cell *= visible
        values = values.reshape(len(scores), 1, width, values.shape[1])
        np.matmul(memory.weights, values, out=self.total if self.fresh else memory.products)
        np.matmul(memory.ones, scores, out=self.below if self.fresh else memory.sums)
        if not self.fresh:
            for so_far, more in memory.into:
                np.add(so_far, more, out=so_far)
        self.fresh = False

    def _exponentials(self, scores: Array, parts: slice) -> None:
        """e^s in place of the scores, in units of the largest so far, and what was summed before, in these too."""
        largest = self.largest[parts]
        now = np.maximum(largest, np.maximum.reduce(scores, axis=(0, 2)))
        shift = np.where(np.isneginf(now), 0, now)
        scores -= shift[:, None, :]
        if scores.itemsize == 8:
            # NumPy's float64 exp is slow, one number at a time, where the result vanishes.
            vanishing = scores < -700
            np.maximum(scores, -700, out=scores)
            np.exp(scores, out=scores)
            np.copyto(scores, 0, where=vanishing)
        else:
            np.exp(scores, out=scores)
        if not self.fresh:
            factor = np.exp(largest - shift)
            self.total[:, parts] *= factor[:, :, None]
            self.below[:, parts] *= factor[:, None, :]
        largest[...] = now


def _is_steep(scores: Array) -> bool:
    """Whether a first tile makes a shift look likely, so that it is better begun with; e^88 is too much for float32."""
    largest = np.maximum.reduce(scores, axis=(0, 2))
    return not (largest.max() < 60 and largest.min() > -20)


def _largest(x: Array) -> Array:
    """The largest absolute value of each column, NaN where one is NaN."""
    reach: Array = np.maximum(x.max(axis=0), -x.min(axis=0))
    return reach


def _side_by_side(memory: Array, *shapes: tuple[int, ...]) -> list[Array]:
    """Arrays of these shapes, one after the other from the beginning of some memory."""
    ends = [0, *accumulate(math.prod(shape) for shape in shapes)]
    return [memory[ends[i] : ends[i + 1]].reshape(shape) for i, shape in enumerate(shapes)]


def _add(scores: Array, tile: Tile, bias: Array) -> None:
    """Add the bias (rows or 1, keys) to a tile."""
    strips, parts, width, r = scores.shape
    for strip, part in np.ndindex(strips, parts):
        first = (tile.first + part) * r
        own = (bias if len(bias) == 1 else bias[first : first + r])[:, strip * width : (strip + 1) * width].T
        cell = scores[strip, part][:, : None if len(bias) == 1 else own.shape[1]]
        cell += own


def _cells(scores: Array, tile: Tile, weight: Array | None) -> Iterator[tuple[Array, Array]]:
    """The cells of a tile in which keys may be hidden, each with its part of the weight."""
    if weight is None:
        return
    width, r = scores.shape[2:]
    for strip, part in tile.cells:
        first = (tile.first + part) * r
        own = weight[strip * width : (strip + 1) * width, first : first + r]
        yield scores[strip, part, :, : own.shape[1]], own


def all_tiles(m: int, b: int, c: int, parts: int) -> list[Tile]:
    """The tiles where nothing is masked; a strip that is narrower than c is one of its own."""
    edges = [*range(0, m - m % c, b * c), *([m - m % c] if m % c else []), m]
    return [Tile(low, high, 0, parts, []) for low, high in pairwise(edges)]
