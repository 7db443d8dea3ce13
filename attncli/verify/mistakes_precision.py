"""What machines do and people do not: sums that are held in half precision.

Entries as in `mistakes.py`, for an engineer's array alone (`rounding`). The order of a machine's sums is not known, so
that these are compared by how much of the error they leave. Letters: r rows, m keys, H heads, d_k, d_v widths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attncli.lazy import Array, np
from attncli.verify.given import Given
from attncli.verify.mistakes import Change, Changes, mistake
from attncli.verify.precision import to_bfloat16, to_float16
from attncli.verify.rows import RowsGiven

Round = Callable[[Array], Array]
_RUNS = (1, 16, 64)  # terms that are summed exactly before the sum is rounded


ROUNDINGS: dict[str, Round] = {"float16": to_float16, "bfloat16": to_bfloat16}


@mistake("half-accumulation", at=("scores", "heads", "output"), source="sums in float16", simplicity=8, rounding=True)
def half_accumulation(given: Given) -> Changes:
    """Sums were held in half precision, not in float32."""
    if not isinstance(given, RowsGiven):
        return
    for name, rounded in ROUNDINGS.items():
        if given.target in ("heads", "output") and "v" in given:
            yield from _values_summed(given, name, rounded)
        if "scores" in given.open and "q" in given and given.frame.score.dots:
            yield from _scores_summed(given, name, rounded)


def _values_summed(given: Given, name: str, rounded: Round) -> Iterator[Change]:
    text = f"the sum of weights times V was held in {name}, not in float32"
    for run in _RUNS:
        yield Change({"heads": _summed(rounded(given["weights"]), given["v"], run, rounded)}, text, given.target)
    if not given.exponentials or given.begin == "weights":
        return
    shifted = np.exp(given.logits - given.logits.max(axis=-1, keepdims=True))
    below = shifted.sum(axis=-1, keepdims=True)
    for run in _RUNS:  # divided at the end
        yield Change({"heads": _summed(rounded(shifted), given["v"], run, rounded) / below}, text, given.target)


def _scores_summed(given: Given, name: str, rounded: Round) -> Iterator[Change]:
    text = f"the dot products of Q and K were summed in {name}, not in float32"
    for run in _RUNS[:2]:
        yield Change({"scores": _summed(given["q"], given["k"].mT, run, rounded)}, text, "scores")


def _summed(left: Array, right: Array, run: int, rounded: Round) -> Array:
    """left @ right, rounded after every `run` terms: (..., r, t) @ (..., t, c)."""
    total: Array = np.zeros((*np.broadcast_shapes(left.shape[:-2], right.shape[:-2]), left.shape[-2], right.shape[-1]))
    for start in range(0, left.shape[-1], run):
        part = slice(start, start + run)
        total = rounded(total + left[..., part] @ right[..., part, :])
    return total
