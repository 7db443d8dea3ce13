"""Which attentions the compiled kernel knows, and how they are put to it; all else goes by rows of the definition.

Letters: n queries, m keys, R ranges of keys that a row sees.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attncli.engine.blocks import BlockedAttention, Index
from attncli.engine.kernel import Softmax, available
from attncli.lazy import Array, np
from attncli.pipeline.biases import named_biases
from attncli.pipeline.logits import ENORMOUS_CAP, applied_scale
from attncli.pipeline.masking import Masks, ScoreIndices
from attncli.pipeline.relative import has_vectors
from attncli.pipeline.sinks import has_sink
from attncli.pipeline.state import RowBlock, State
from attncli.pipeline.steps import STEPS

_LEAST = 1e-15
_MOST_RANGES = 8  # of a row; a mask of more is asked block by block


class Blocks(Softmax):
    """Softmax of a problem whose masks, if they are no ranges, are asked block by block."""

    visible: Callable[[Index, slice], Array] | None = None

    def _table(self, table: Array | None, index: Index, rows: slice, dtype: Any) -> Array | None:
        if table is None and np.dtype(dtype).kind == "b" and self.visible is not None:
            return np.ascontiguousarray(self.visible(index, rows))
        return super()._table(table, index, rows, dtype)


def is_known(at: State) -> bool:
    """Whether the kernel computes this: softmax over dot products, by steps that say that it knows them."""
    config, score = at.config, at.score
    steps = [*at.line("logits"), *at.line("shares"), *at.line("output")]
    return bool(
        available() is not None
        and at.begin is None
        and score is not None
        and score.dots
        and at.normalizer.default
        and config.round_steps is None
        and np.isneginf(config.mask_value)
        and abs(config.softcap or 0) <= ENORMOUS_CAP
        and not at.line("back")
        and at.has("V")
        and all(STEPS.find(name).fast for name in steps)
        and not (named_biases(at) or has_vectors(at))
        and all(at.inputs[name].dtype == at.dtype for name in ("bias",) if name in at.inputs)
        and isinstance(applied_scale(at), float)
        and _is_ordinary(applied_scale(at), config.softcap)
        and min(at.shape.shape) > 0
        and at.latest("query").shape[-1] > 0
        and at.latest("value").shape[-1] > 0
    )


def _is_ordinary(scale: float, softcap: float | None) -> bool:
    """Whether queries that are scaled first lose no digits to numbers near the smallest."""
    factor = abs(scale) if softcap is None else abs(scale) / softcap
    return scale == 0 or _LEAST <= factor <= 1 / _LEAST


def compiled(blocked: BlockedAttention) -> Blocks | None:
    """The problem as the kernel takes it; None where it does not know it."""
    at = blocked.at
    with np.errstate(all="ignore"):
        if not is_known(at):
            return None
        masks, dtype = at.masks, blocked.dtype
        ranges = None if masks is None else _ranges(masks, at.shape.m)
        problem = Blocks(
            at.latest("query"), at.latest("key"), at.latest("value"), scale=float(dtype.type(applied_scale(at))),
            softcap=at.config.softcap, ranges=ranges, bias=at["given_bias"] if at.has("biased") else None,
            sink=at["sink"][:, 0, 0] if has_sink(at) else None,
        )  # fmt: skip
    if masks is not None and ranges is None:

        def visible(index: Index, rows: slice) -> Array:
            block = RowBlock(at, index[:-1], index[-1], rows)
            shown: Array = np.broadcast_to(block["shown"], (1, rows.stop - rows.start, at.shape.m))[0]
            return shown

        problem.visible = visible
    return problem


def _ranges(masks: Masks, m: int) -> Array | None:
    """The keys that each query sees, (..., n, R, 2), where all masks look only at position - key and few ranges do."""
    position = masks.indices.position
    if not all(by_offset for _, by_offset in masks.predicates) or not position.size:
        return None
    low, high = int(position.min()) - (m - 1), int(position.max())
    offsets = np.arange(low, high + 1)[:, None]
    nowhere = np.zeros((1, 1, 1), dtype=int)
    at = ScoreIndices(nowhere, nowhere, offsets, np.zeros(1, dtype=int), offsets)
    shown = np.ones(len(offsets), dtype=bool)
    for predicate, _ in masks.predicates:
        shown &= np.asarray(predicate(at), dtype=bool).reshape(-1)
    edges = np.diff(np.concatenate([[False], shown, [False]]).astype(np.int8))
    starts, stops = np.flatnonzero(edges == 1) + low, np.flatnonzero(edges == -1) + low
    if len(starts) > _MOST_RANGES:
        return None
    if not len(starts):
        starts = stops = np.zeros(1, dtype=int)
    # A key j is seen where start <= position - j < stop.
    return np.clip(np.stack([position - stops + 1, position - starts + 1], axis=-1), 0, m)
