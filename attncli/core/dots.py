"""Softmax attention over dot products of finite numbers, as the tiles need it: its sizes, and what bounds its scores.

Letters: n queries, m keys, d_k, d_v widths; a tile is a x r queries by b x c keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from attncli.core.blocks import Large, Unit
from attncli.core.scores import cosine, direction, dot, general
from attncli.core.visibility import Index, RowsView
from attncli.lazy import Array, np

LOG2_E = 1.4426950408889634
# Half the exponents of a format, and room for sums of a million and for values: within these 2^s needs no shift. It
# also keeps off NumPy's trap: float32 exp2 does every number beyond +-126 by itself, 0.2 % of them double its time
# and 1 % take six times as long (exp does not, in float32), so exp2 is only used where none can be there.
_ROOM = {"float32": 50, "float64": 400}
_PART = 2**18  # numbers looked through at once


class Sizes(NamedTuple):
    """A tile of a x r queries by b x c keys."""

    a: int
    r: int
    b: int
    c: int

    @classmethod
    def for_width(cls, width: int) -> Sizes:
        """The tile for keys and values of that width, which stays in the second-level cache."""
        return cls(4, 64, 4, 128) if width <= 64 else cls(1, 512, 1, 512)


@dataclass
class Dots:
    """One softmax attention over dot products: s = q . k scale, then soft cap, then bias.

    q: (*lead, n, d_k)   k: (*lead, m, d_k)   v: (*lead, m, d_v), of one sequence and head at a time through `own`.
    keys, values: k and v in the dtype that is computed in, of one sequence and head at a time.
    view: what a block of queries sees; None where nothing is masked. Numbers are finite, bias finite or -inf.
    unshifted: no score can overflow or vanish under 2^s (|q| |k| scale bounds it), so no maximum is subtracted.
    widths: d_k and d_v.
    """

    own: Callable[[Index], tuple[Array, Array, Array]]
    keys: Callable[[Index], Array]
    values: Callable[[Index], Array]
    bias: Callable[[Index, slice], Array] | None
    view: Callable[[Unit], RowsView] | None
    dtype: np.dtype
    scale: float
    softcap: float | None
    unshifted: bool
    sizes: Sizes
    widths: tuple[int, int]


def find_dots(large: Large, sizes: Sizes | None = None) -> Dots | None:
    """The problem as a softmax over dot products of finite numbers; None where it is none, or where they overflow."""
    q, k, v, score = large.parts.q, large.parts.k, large.parts.v, large.score
    masks = large.masks if large.rules.masks else None
    if score is None or q is None or k is None or large.begin is not None:
        return None
    if score.function not in (dot, general, cosine) or (masks and not np.isneginf(large.rules.mask_value)):
        return None
    parameters = {name: np.asarray(x).astype(large.dtype, copy=False) for name, x in large.parameters.items()}
    first = (0,) * len(large.lead)
    score.function(*(large.own(x, first)[:0].astype(large.dtype) for x in (q, k)), **parameters)  # do the sizes fit?
    with np.errstate(all="ignore"):
        if score.function is general:
            q = q.astype(large.dtype, copy=False) @ parameters["W"]
        if score.function is cosine:
            q, k = direction(q.astype(large.dtype, copy=False)), direction(k.astype(large.dtype, copy=False))
    v = k[..., :0] if v is None else v
    softcap = large.rules.softcap
    with np.errstate(all="ignore"):
        factor = abs(large.scale) * (1 if softcap is None else 1 / softcap) * LOG2_E
        longest, bound = _longest(q, large.dtype), abs(large.scale)
        bound *= longest * _longest(k, large.dtype)
        value = _longest(v, large.dtype)
        bias = 0.0 if large.bias is None else _largest(large.bias, large.dtype)
        limit = float(np.finfo(large.dtype).max) / 8
        reach = np.max([longest * factor, bound * max(1, factor), bound + bias, value * k.shape[-2]])
    if not reach < limit:  # NaN too
        return None
    capped = bound if softcap is None else min(bound, softcap)
    room = _ROOM[large.dtype.name]
    ordinary = value == 0 or 2.0**-40 < value < 2.0**40
    return Dots(
        own=lambda index: (large.own(q, index), large.own(k, index), large.own(v, index)),
        keys=lambda index: large.converted("K", k, index),
        values=lambda index: large.converted("V", v, index),
        bias=None if large.bias is None else large.bias_rows,
        view=None if masks is None else large.view,
        dtype=large.dtype,
        scale=large.scale,
        softcap=softcap,
        unshifted=large.bias is None and ordinary and capped * LOG2_E <= room,
        sizes=sizes or Sizes.for_width(max(k.shape[-1], v.shape[-1])),
        widths=(k.shape[-1], v.shape[-1]),
    )


def _parts(x: Array, dtype: np.dtype) -> Iterator[Array]:
    """So few rows at a time that they stay in the cache, in the dtype that is computed in."""
    rows = max(1, _PART // max(1, x.shape[-1]))
    for index in np.ndindex(*x.shape[:-2]):
        for i in range(0, x.shape[-2], rows):
            yield x[index][i : i + rows].astype(dtype, copy=False)


def _longest(x: Array, dtype: np.dtype) -> float:
    """The length of the longest row; NaN if a number is NaN, inf if the square overflows."""
    longest = [np.max(np.vecdot(part, part)) for part in _parts(x, dtype) if part.size]
    return float(np.sqrt(np.max(longest))) if longest else 0.0


def _largest(x: Array, dtype: np.dtype) -> float:
    """The largest absolute value, -inf aside; NaN if a number is NaN."""
    found = [np.max(np.abs(np.where(np.isneginf(part), 0, part))) for part in _parts(x, dtype) if part.size]
    return float(np.max(found)) if found else 0.0
