"""Whole rows of softmax weights over dot products, a block of rows at a time: for weights that go to a file.

Letters: r rows of a block, m keys, d_v value width.
"""

from __future__ import annotations

from attncli.core.blocks import Unit
from attncli.core.dots import LOG2_E, Dots
from attncli.lazy import Array, np

STEPS = frozenset({"weights", "output", "lse", "visible"})
_BLOCK_BYTES = 4 * 2**20


def block_rows(m: int, dtype: np.dtype) -> int:
    """How many rows at once keep the weights of a block in the cache, or nearly."""
    return int(min(256, max(8, _BLOCK_BYTES // (max(1, m) * dtype.itemsize))))


def weigh_rows(dots: Dots, unit: Unit, steps: tuple[str, ...]) -> tuple[dict[str, Array], Array] | None:
    """The steps asked for (of `STEPS`) of some rows, and which of these see no key, (r, 1); such rows are zeros.

    None: what goes in or comes out is not finite, a case for the definition.
    visible is no step, but where no key is hidden: booleans (r or 1, m or 1).
    """
    queries = dots.queries(unit)
    if queries is None:
        return None
    dtype, part, k, shifted = dots.dtype, slice(unit.start, unit.stop), dots.keys(unit.index), not queries.safe
    view = dots.view(unit) if dots.view else None
    shown = None if view is None else view.shown(0, k.shape[0])
    weights = (queries.q * queries.factor) @ k.T
    if dots.softcap is not None:
        np.tanh(weights, out=weights)
        weights *= dtype.type(dots.softcap * (1 if shifted else LOG2_E))
    if dots.bias is not None:
        bias = dots.bias(unit.index, part)
        weights += bias
        shown = ~np.isneginf(bias) if shown is None else shown & ~np.isneginf(bias)
    hidden = None if shown is None or shown.all() else np.broadcast_to(~shown, weights.shape)
    largest = _exponentials(weights, hidden, shifted)
    below = weights @ np.ones((k.shape[0], 1), dtype)
    with np.errstate(divide="ignore"):
        logarithm = np.log(below) + largest
    empty = below == 0
    weights /= np.where(empty, 1, below)
    found = {"weights": weights, "lse": logarithm, "visible": np.ones((1, 1), bool) if shown is None else shown}
    if "output" in steps:
        found["output"] = weights @ dots.values(unit.index)
        if not np.isfinite(found["output"]).all():
            return None
    return {step: found[step] for step in steps}, empty


def _exponentials(scores: Array, hidden: Array | None, shifted: bool) -> Array | float:
    """e^s in place of the scores, 0 where hidden, in units of e to the power of what is returned, (r, 1) or 0."""
    if not shifted:
        np.exp2(scores, out=scores)
        if hidden is not None:
            np.copyto(scores, 0, where=hidden)
        return 0.0
    if hidden is not None:
        np.copyto(scores, -np.inf, where=hidden)
    largest: Array = scores.max(axis=1, keepdims=True, initial=-np.inf)
    shift = np.where(np.isneginf(largest), 0, largest)
    scores -= shift
    np.exp(scores, out=scores)
    return largest
