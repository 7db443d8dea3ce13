"""Softmax attention over dot products, as the tiles need it: its sizes, and what bounds its scores.

Letters: n queries, m keys, d_k, d_v widths; a tile is a x r queries by b x c keys.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from attncli.core.attend import ENORMOUS_CAP
from attncli.core.blas import thread_count
from attncli.core.blocks import Large, Unit
from attncli.core.scores import cosine, direction, dot, general
from attncli.core.visibility import Index, RowsView
from attncli.lazy import Array, np
from attncli.record import record

LOG2_E = 1.4426950408889634
# Half the exponents of a format, and room for sums of a million and for values: within these 2^s needs no shift. It
# also keeps off NumPy's trap: float32 exp2 does every number beyond +-126 by itself, 0.2 % of them double its time
# and 1 % take six times as long (exp does not, in float32), so exp2 is only used where none can be there.
_ROOM = {"f": 50, "d": 400}  # by the dtype's letter, since its name takes as long as a small product
# What must not be exceeded on the way: an eighth of the largest number.
_REACH = {"f": 2.0**125, "d": 2.0**1021}
# Queries that are scaled to less lose digits, which count beside keys of the size of its inverse.
_LEAST = {"f": 2.0**-100, "d": 2.0**-950}
LARGE_BLOCK = 2**19  # scores: smaller ones are not worth to be cut further
_PART = 2**18  # numbers looked through at once


class Sizes(NamedTuple):
    """A tile of a x r queries by b x c keys."""

    a: int
    r: int
    b: int
    c: int

    @classmethod
    def find(cls, width: int, dtype: np.dtype, n: int, m: int, heads: int, each: int = 4) -> Sizes:
        """The tile for keys and values of that width, and for n queries and m keys of so many sequences and heads.

        Products are just below OpenBLAS's limit of a million steps for those that it does without packing, and scores
        stay in the second-level cache. Many queries at once spare the reading of keys, as long as there are blocks
        enough that no thread waits long for the others, and these not so small that the steps between cost more.
        each: how many blocks a thread should have, at least.
        """
        r = 64
        c = min(128, 10**6 // (r * max(1, width)) // 16 * 16)
        if c < 32:
            return cls(1, 512, 1, 512)
        a = together = 2 ** int(math.log2(2**19 // (r * c * dtype.itemsize)))
        threads = thread_count()
        while a > 1:
            blocks = heads * n // (a * r)
            if a // 2 * r < n and blocks >= threads and (blocks >= each * threads or a * r * m < LARGE_BLOCK):
                break
            a //= 2
        return cls(a, r, together // a, c)


@record
class Head:
    """One sequence and head: its matrices, and the length of its longest key.

    q: (n, d_k)   k: (m, d_k)   v: (m, d_v)
    """

    q: Array
    k: Array
    v: Array
    longest_key: float


@record
class Queries:
    """Queries of a block, q: (r, d_k), and what they are to be multiplied by.

    safe: |q| |k| bounds all scores so that none can overflow or vanish; they are powers of 2 then, not of e.
    shifted: the maximum of a row is to be subtracted from its scores. Neither: it may well go without.
    """

    q: Array
    factor: np.floating
    safe: bool
    shifted: bool


@record
class Dots:
    """One softmax attention over dot products: s = q . k scale, then soft cap, then bias.

    keys, values: k and v in the dtype that is computed in, of one sequence and head at a time.
    view: what a block of queries sees; None where nothing is masked.
    widths: d_k and d_v.
    """

    head: Callable[[Index], Head]
    keys: Callable[[Index], Array]
    values: Callable[[Index], Array]
    bias: Callable[[Index, slice], Array] | None
    view: Callable[[Unit], RowsView] | None
    dtype: np.dtype
    scale: float
    softcap: float | None
    sizes: Sizes
    widths: tuple[int, int]

    def queries(self, unit: Unit, shifted: bool = False) -> Queries | None:
        """The queries of a block, ready for their products with the keys; shifted in any case, if asked for.

        None, a case for the definition: scores overflow, or lose digits on the way, or not all numbers of queries, keys
        and bias are finite (a bias may be -inf).
        """
        head, part = self.head(unit.index), slice(unit.start, unit.stop)
        cap, letter, convert = self.softcap, self.dtype.char, self.dtype.type
        q = head.q[part].astype(self.dtype, copy=False)
        factor = self.scale / (cap or 1)
        longest = _longest(q) * abs(float(convert(factor))) * LOG2_E
        bias, bars = (0.0, False) if self.bias is None else _largest_bias(self.bias(unit.index, part))
        ratio = longest * head.longest_key
        bound = ratio * (cap or 1)  # of the scores, as powers of 2, before the cap
        if not longest + ratio + bound + bias < _REACH[letter]:  # NaN too
            return None
        if 0 < abs(factor) < _LEAST[letter] or head.longest_key > 1 / _LEAST[letter]:
            return None
        if cap is not None:
            bound = min(bound, cap * LOG2_E)
        safe = not shifted and self.bias is None and bound <= _ROOM[letter]
        # NumPy's float64 exp is slow where the result vanishes; and where a bias leaves one key, e^0 gives its value.
        shifted = shifted or (not safe and (self.dtype.itemsize == 8 or bars))
        return Queries(q, convert(factor * LOG2_E if safe and cap is None else factor), safe, shifted)


def find_dots(large: Large, sizes: Sizes | None = None) -> Dots | None:
    """The problem as a softmax over dot products; None where it is none."""
    q, k, v, score = large.parts.q, large.parts.k, large.parts.v, large.score
    masks = large.masks if large.rules.masks else None
    if score is None or q is None or k is None or large.begin is not None:
        return None
    if large.extent.m == 0 or large.dtype.char not in _ROOM or abs(large.rules.softcap or 0) > ENORMOUS_CAP:
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
    longest: dict[Index, float] = {}
    heads: dict[Index, Head] = {}

    def head(index: Index) -> Head:
        found = heads.get(index)
        if found is None:  # two threads may both look; that costs less than to wait for each other
            spot = large.spot(k, index)
            if spot not in longest:  # query heads may share a key head
                longest[spot] = float(np.max([_longest(part) for part in _parts(k[spot], large.dtype)]))
            own_v = large.own(v, index)
            too_large = own_v.dtype.itemsize > large.dtype.itemsize and not _all_finite(own_v, large.dtype)
            found = heads[index] = Head(large.own(q, index), k[spot], own_v, math.inf if too_large else longest[spot])
        return found

    return Dots(
        head=head,
        keys=lambda index: large.converted("K", k, index),
        values=lambda index: large.converted("V", v, index),
        bias=None if large.bias is None else large.bias_rows,
        view=None if masks is None else large.view,
        dtype=large.dtype,
        scale=large.scale,
        softcap=None if large.rules.softcap is None else abs(large.rules.softcap),
        sizes=sizes or _find_sizes(large, max(k.shape[-1], v.shape[-1])),
        widths=(k.shape[-1], v.shape[-1]),
    )


def _find_sizes(large: Large, width: int) -> Sizes:
    """Under masks the last blocks, which see most, are done first, so that fewer of them even out."""
    extent = large.extent
    each = 2 if large.rules.masks else 4
    return Sizes.find(width, large.dtype, extent.n, extent.m, math.prod(large.lead), each)


def _parts(x: Array, dtype: np.dtype) -> Iterator[Array]:
    """So few rows at a time that they stay in the cache, in the dtype that is computed in."""
    rows = max(1, _PART // max(1, x.shape[-1]))
    for i in range(0, len(x), rows):
        yield x[i : i + rows].astype(dtype, copy=False)


def _longest(x: Array) -> float:
    """No less than the length of the longest row; NaN if a number is NaN, inf if the square overflows."""
    lost = x.shape[-1] * float(np.finfo(x.dtype).tiny)  # squares smaller than that vanish
    return math.sqrt(float(np.vecdot(x, x).max(initial=0)) + lost)


def _all_finite(x: Array, dtype: np.dtype) -> bool:
    """Whether all numbers are, in the dtype that is computed in."""
    return all(bool(np.isfinite(part).all()) for part in _parts(x, dtype))


def _largest_bias(x: Array) -> tuple[float, bool]:
    """The largest absolute value, NaN if a number is NaN, but for -inf; and whether there is one, that hides a key."""
    found, bars = [0.0], False
    for part in _parts(x, x.dtype):
        least = float(part.min(initial=0))
        if least == -math.inf:
            bars, least = True, float(part.min(where=~np.isneginf(part), initial=0))
        found += [float(part.max(initial=0)), -least]
    return float(np.max(found)), bars
