"""Which keys the masks hide from a block of queries: not at all, all of them, or some, without asking cell by cell
where a mask is the same along the diagonals.

Letters: r queries of a block, c keys of a tile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attncli.core.masks import At, Extent, Masks
from attncli.lazy import Array, np

Index = tuple[int, ...]


class RowsView:
    """What one block of queries (of one sequence and head) sees.

    shown_by_offset: the masks that look only at i - j, asked once for each difference; None where there are none.
    """

    def __init__(self, masks: Masks, extent: Extent, index: Index, start: int, stop: int) -> None:
        self.index, self.m, self.rows = index, extent.m, stop - start
        batch = index[: len(extent.batch)]
        sequence = int(np.ravel_multi_index(batch, extent.batch)) if batch else 0
        head = index[-1] if extent.heads is not None else 0
        rows = slice(start, stop)
        position = masks.at.position[rows]
        self.at = At(np.array([[sequence]]), np.array([[head]]), masks.at.query[rows], masks.at.key, position)
        relative = [ask for ask, by_offset in masks.predicates if by_offset]
        self.others = [ask for ask, by_offset in masks.predicates if not by_offset]
        self.shown_by_offset: Array | None = None
        if relative and self.rows:
            first = int(position[0, 0]) - self.m + 1
            offsets = np.arange(first, int(position[-1, 0]) + 1)[:, None]
            at = At(self.at.sequence, self.at.head, offsets, np.zeros(1, dtype=int), offsets)
            self.shown_by_offset = _all_of(relative, at, index).reshape(-1)
            self._before = np.concatenate([[0], np.cumsum(self.shown_by_offset)])

    def spans(self, width: int, most: int) -> list[tuple[int, int, bool]]:
        """The tiles that need computing: (first key, key after the last, whether a mask must be asked for it).

        Each is at most `most` strips of `width` keys; strips that no query of the block sees are left out.
        """
        starts = np.arange(0, self.m, width)
        stops = np.minimum(starts + width, self.m)
        partly = np.full(starts.shape, bool(self.others))
        seen = np.ones(starts.shape, dtype=bool)
        if self.shown_by_offset is not None:
            low, high = self.m - stops, self.m - starts + self.rows - 1
            count = self._before[high] - self._before[low]
            seen, partly = count > 0, partly | (count < high - low)
        spans: list[tuple[int, int, bool]] = []
        for start, stop, asked in zip(starts[seen].tolist(), stops[seen].tolist(), partly[seen].tolist(), strict=True):
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
        if self.shown_by_offset is None:
            return visible
        # Cell (i, j) of the tile lies at offset i - j: a window that slides over the offsets, keys backwards.
        width = stop - start
        band = self.shown_by_offset[self.m - stop : self.m - start + self.rows - 1]
        along: Array = np.lib.stride_tricks.sliding_window_view(band, width)[:, ::-1]
        return visible & along if self.others else along


def _all_of(predicates: list[Callable[[At], Any]], at: At, index: Index) -> Array:
    """The predicates combined for one sequence and head: (r or 1, c)."""
    visible: Array = np.ones((1, 1), dtype=bool)
    for predicate in predicates:
        shown = np.asarray(predicate(at))
        leading = shown.shape[:-2]
        own = index[len(index) - len(leading) :]
        shown = shown[tuple(i if size > 1 else 0 for i, size in zip(own, leading, strict=True))]
        visible = visible & shown
    return np.broadcast_to(visible, (visible.shape[0], at.key.size))
