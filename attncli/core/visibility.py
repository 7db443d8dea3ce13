"""Which keys the masks hide from a block of queries: none, all, or some; without asking cell by cell where a mask is
the same along the diagonals.

Letters: n queries, m keys, r queries of a block, c keys of a tile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attncli.core.masks import At, Extent, Masks
from attncli.lazy import Array, np

Index = tuple[int, ...]


class Band:
    """The masks that look only at i - j, asked once for each difference from 1 - m to n - 1: (n + m - 1,)."""

    def __init__(self, masks: Masks, extent: Extent) -> None:
        predicates = [ask for ask, by_offset in masks.predicates if by_offset]
        self.there = bool(predicates) and extent.n > 0 and extent.m > 0
        if self.there:
            first = int(masks.at.position[0, 0]) - extent.m + 1
            offsets = np.arange(first, first + extent.n + extent.m - 1)[:, None]
            nowhere = np.zeros((1, 1), dtype=int)
            at = At(nowhere, nowhere, offsets, np.zeros(1, dtype=int), offsets)
            self.shown = np.ascontiguousarray(_all_of(predicates, at, ()).reshape(-1))
            self.before = np.concatenate([[0], np.cumsum(self.shown)])


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

    def spans(self, width: int, most: int) -> list[tuple[int, int, bool]]:
        """The tiles that need computing: (first key, key after the last, whether a mask must be asked for it).

        Each is at most `most` strips of `width` keys; strips that no query of the block sees are left out.
        """
        starts = np.arange(0, self.m, width)
        stops = np.minimum(starts + width, self.m)
        partly = np.full(starts.shape, bool(self.others))
        if self.band.there:
            low, high = self.start + self.m - stops, self.start + self.m - starts + self.rows - 1
            count = self.band.before[high] - self.band.before[low]
            seen = count > 0
            starts, stops, partly = starts[seen], stops[seen], (partly | (count < high - low))[seen]
        spans: list[tuple[int, int, bool]] = []
        for start, stop, asked in zip(starts.tolist(), stops.tolist(), partly.tolist(), strict=True):
            if spans and spans[-1][1] == start and start - spans[-1][0] < width * most:
                spans[-1] = (spans[-1][0], stop, spans[-1][2] or asked)
            else:
                spans.append((start, stop, asked))
        return spans

    def shown(self, start: int, stop: int) -> Array:
        """Booleans (r or 1, c): which of these keys are visible."""
        visible = np.ones((1, stop - start), dtype=bool)
        if self.others:
            part = At(self.at.sequence, self.at.head, self.at.query, self.at.key[start:stop], self.at.position)
            visible = _all_of(self.others, part, self.index)
        if not self.band.there:
            return visible
        # Cell (i, j) of the tile lies at offset i - j: a window that slides over the band, keys backwards.
        shape, first = (self.rows, stop - start), self.start + self.m - 1 - start
        along: Array = np.ndarray(shape, bool, buffer=self.band.shown, offset=first, strides=(1, -1))
        return visible & along if self.others else along


def _all_of(predicates: list[Callable[[At], Any]], at: At, index: Index) -> Array:
    """The predicates combined for one sequence and head: (r or 1, c)."""
    visible: Array = np.ones((1, 1), dtype=bool)
    for predicate in predicates:
        shown = np.asarray(predicate(at))
        leading = shown.shape[:-2]
        own = index[max(0, len(index) - len(leading)) :] or (0,) * len(leading)
        shown = shown[tuple(i if size > 1 else 0 for i, size in zip(own, leading, strict=True))]
        visible = visible & shown
    return np.broadcast_to(visible, (visible.shape[0], at.key.size))
