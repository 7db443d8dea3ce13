"""Queries that see one key: their output is its value exactly, whatever e^s of their score is.

Letters: r queries of a block, c keys of a tile.
"""

from __future__ import annotations

from attncli.core.visibility import RowsView, Tile
from attncli.lazy import Array, np


class Lonely:
    """Queries that see one key, where masks have to be asked key by key."""

    def __init__(self, rows: int) -> None:
        self.count = np.zeros(rows, dtype=int)
        self.key = np.zeros(rows, dtype=int)
        self.settled = False

    def see(self, weight: Array | None, tile: Tile) -> None:
        """Count the keys that a tile shows, as long as some query has seen fewer than two."""
        if self.settled:
            return
        shown = np.ones((1, tile.high - tile.low), bool) if weight is None else weight.T > 0
        first = (self.count == 0) & shown.any(axis=1)
        self.key[first] = np.broadcast_to(tile.low + shown.argmax(axis=1), first.shape)[first]
        self.count += np.count_nonzero(shown, axis=1)
        self.settled = bool(self.count.min() > 1)

    def found(self) -> tuple[Array, Array]:
        """Which they are, and the key of each."""
        alone = np.flatnonzero(self.count == 1)
        return alone, self.key[alone]


def settle(output: Array, v: Array, lonely: Lonely | None, view: RowsView | None) -> None:
    """Give queries that see one key its value exactly, whatever e^s of their score is."""
    if view is not None:
        alone = view.alone() if lonely is None else lonely.found()
        if alone is not None:
            output[alone[0]] = v[alone[1]]
    elif len(v) == 1:
        output[...] = v
