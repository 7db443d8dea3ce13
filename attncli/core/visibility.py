"""Which keys the masks hide from a block of queries: none, all, or some; without asking cell by cell where a mask is
the same along the diagonals.

Letters: n queries, m keys, r queries of a block, c keys of a tile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from attncli.core.masks import At, Extent, Masks
from attncli.lazy import Array, np

Index = tuple[int, ...]


class Band:
    """The masks that look only at i - j, asked once for each difference from 1 - m to n - 1: (n + m - 1,)."""

    def __init__(self, masks: Masks, extent: Extent, dtype: np.dtype) -> None:
        self.dtype = dtype
        predicates = [ask for ask, by_offset in masks.predicates if by_offset]
        self.there = bool(predicates) and extent.n > 0 and extent.m > 0
        if self.there:
            first = int(masks.at.position[0, 0]) - extent.m + 1
            offsets = np.arange(first, first + extent.n + extent.m - 1)[:, None]
            nowhere = np.zeros((1, 1), dtype=int)
            at = At(nowhere, nowhere, offsets, np.zeros(1, dtype=int), offsets)
            self.shown = np.ascontiguousarray(_all_of(predicates, at, ()).reshape(-1))
            self.weight = self.shown.astype(dtype)
            self.before = np.concatenate([[0], np.cumsum(self.shown)])


class Tile(NamedTuple):
    """Keys low:high of a block, and parts first:last of its queries; cells: the strips and parts, counted from these,
    in which a mask may hide a key.
    """

    low: int
    high: int
    first: int
    last: int
    cells: list[list[int]]


class RowsView:
    """What one block of queries (of one sequence and head) sees."""

    def __init__(self, masks: Masks, extent: Extent, band: Band, index: Index, start: int, stop: int) -> None:
        self.index, self.m, self.start, self.rows, self.band = index, extent.m, start, stop - start, band
        self.others = [ask for ask, by_offset in masks.predicates if not by_offset]
        if self.others:
            batch = index[: len(extent.batch)]
            sequence = int(np.ravel_multi_index(batch, extent.batch)) if batch else 0
            head = index[-1] if extent.heads is not None else 0
            rows = slice(start, stop)
            self.at = At(
                np.array([[sequence]]), np.array([[head]]), masks.at.query[rows], masks.at.key, masks.at.position[rows]
            )

    def tiles(self, r: int, b: int, c: int) -> list[Tile]:
        """The tiles that need computing, of strips of c keys, b at most, and parts of r queries.

        Strips and parts at the ends that see nothing of each other are left out.
        """
        firsts = np.arange(0, self.rows, r)
        starts = np.arange(0, self.m, c)
        stops = np.minimum(starts + c, self.m)
        sees = np.ones((len(starts), len(firsts)), bool)
        hides = np.full(sees.shape, bool(self.others))
        if self.band.there:
            since = self.start + self.m + firsts - stops[:, None]
            until = self.start + self.m + np.minimum(firsts + r, self.rows) - 1 - starts[:, None]
            count = self.band.before[until] - self.band.before[since]
            sees = count > 0
            hides |= count < until - since
        first: list[int] = sees.argmax(axis=1).tolist()
        last: list[int] = (len(firsts) - sees[:, ::-1].argmax(axis=1)).tolist()
        partly = np.atleast_1d(hides.any(axis=1)).tolist()
        runs: list[list[int]] = []
        seen: list[int] = np.flatnonzero(sees.any(axis=1)).tolist()
        for strip in seen:
            whole = (strip + 1) * c <= self.m  # a narrow strip is a tile of its own
            if runs and whole and runs[-1][-1] == strip - 1 and len(runs[-1]) < b:
                runs[-1].append(strip)
            else:
                runs.append([strip])
        tiles = []
        for run in runs:
            low, high = run[0], run[-1] + 1
            of_run = min(first[low:high]), max(last[low:high])
            cells = np.argwhere(hides[low:high, slice(*of_run)]).tolist() if any(partly[low:high]) else []
            tiles.append(Tile(low * c, min(high * c, self.m), *of_run, cells))
        return tiles

    def weight(self, start: int, stop: int) -> Array | None:
        """1 where these keys are visible and 0 where they are hidden, (c, r); None: all visible, as masks say that
        look at keys.
        """
        if not self.others:
            return self._along(self.band.weight, start, stop).T
        shown = self.shown(start, stop)
        if shown.all():
            return None
        weight = np.ascontiguousarray(shown.T).astype(self.band.dtype)
        return np.broadcast_to(weight, (stop - start, self.rows))

    def alone(self) -> tuple[Array, Array] | None:
        """The rows that see one key, and that key, where all masks look only at i - j; None: there are none."""
        before, start = self.band.before, self.start
        came = before[start : start + self.rows]
        count = before[start + self.m : start + self.m + self.rows] - came
        if count.min() > 1:
            return None
        rows = np.flatnonzero(count == 1)
        # The offset that is shown is where the count first goes beyond what came before.
        offsets = np.searchsorted(before, came[rows], side="right") - 1
        return rows, start + rows + self.m - 1 - offsets

    def shown(self, start: int, stop: int) -> Array:
        """Booleans (r or 1, c): which of these keys are visible."""
        visible = np.ones((1, stop - start), dtype=bool)
        if self.others:
            part = At(self.at.sequence, self.at.head, self.at.query, self.at.key[start:stop], self.at.position)
            visible = _all_of(self.others, part, self.index)
        if not self.band.there:
            return visible
        along = self._along(self.band.shown, start, stop)
        return visible & along if self.others else along

    def _along(self, band: Array, start: int, stop: int) -> Array:
        """(r, c) of a band. Cell (i, j) lies at offset i - j: a window that slides over it, keys backwards."""
        first = (self.start + self.m - 1 - start) * band.itemsize
        strides = band.itemsize, -band.itemsize
        return np.ndarray((self.rows, stop - start), band.dtype, buffer=band, offset=first, strides=strides)


def _all_of(predicates: list[Callable[[At], Any]], at: At, index: Index) -> Array:
    """The predicates combined for one sequence and head: (r or 1, c)."""
    visible: Array = np.ones((1, 1), dtype=bool)
    for predicate in predicates:
        shown = np.asarray(predicate(at), dtype=bool)  # a user's own may give numbers
        leading = shown.shape[:-2]
        own = index[max(0, len(index) - len(leading)) :] or (0,) * len(leading)
        shown = shown[tuple(i if size > 1 else 0 for i, size in zip(own, leading, strict=True))]
        visible = visible & shown
    return np.broadcast_to(visible, (visible.shape[0], at.key.size))
