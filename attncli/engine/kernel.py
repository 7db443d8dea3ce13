"""Softmax over dot products by the compiled tile: what goes in is cut into blocks of queries, which run on threads.

Letters: n queries, m keys, d and d_v the widths of keys and values, H heads, G heads of the keys. An array has any
leading axes; those of all arrays broadcast, and the last of them, the heads, may be grouped: head h of H reads head
floor(h G / H) of G. A row's digits depend on nothing but its own query, keys and values: not on the block or thread.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from attncli.engine.blocks import Unit
from attncli.engine.threads import Progress, in_order, on_threads, thread_count
from attncli.lazy import Array, np

Index = tuple[int, ...]

_ROWS = 256  # of a block: a tile of keys is read from the second-level cache for all of them
_ALONE = 2**24  # products: below, a thread costs more than it saves
_AHEAD = 2**25  # bytes of weights at once, about
_EMPTY, _STRANGE = 1, 2  # states of a query, as the compiled module tells them


@cache
def _levels() -> dict[str, int]:
    """The numbers of the compiled kernels that run on this processor, by name, the best first."""
    try:
        from attncli.engine import _tile
    except ImportError:
        return {}
    return {name: number for number, name in _tile.levels()}


def available() -> str | None:
    """The instruction set of the compiled engine, such as x86-64-v3; None where there is no compiled engine.

    The environment variable ATTNCLI_ENGINE asks for another one that this processor has, or for "none".
    """
    asked = os.environ.get("ATTNCLI_ENGINE")
    return next((name for name in _levels() if asked in (None, "", name)), None)


def _level() -> int:
    name = available()
    if name is None:
        raise RuntimeError("there is no compiled engine")
    return _levels()[name]


@dataclass(frozen=True)
class Result:
    """output: (..., n, d_v)   lse: (..., n)   empty, nonfinite: (..., n), bool.

    An empty row sees no key: its output is 0, its lse -inf, with a sink too. A row that is not finite has met an
    infinity, NaN or numbers whose products may be too large: its output is to be computed by the definition.
    """

    output: Array
    lse: Array | None
    empty: Array
    nonfinite: Array


@dataclass(frozen=True)
class Rows:
    """Some rows of one sequence and head: weights (r, m), output (r, d_v), the rest (r,), as in Result."""

    unit: Unit
    weights: Array
    output: Array
    lse: Array
    empty: Array
    nonfinite: Array


class Softmax:
    """softmax(scale q k^T + bias) v, with a soft cap on the scores before the bias, among the keys that are visible.

    q: (..., n, d)   k: (..., m, d)   v: (..., m, d_v), or None   float32 or float64, the dtype of q
    softcap: c in c tanh(s / c)   sink: a logit in each denominator, one number or (..., H)
    ranges: (..., n or 1, R, 2), keys low <= j < high that a row sees, in any of R ranges that may be empty
    bias: (..., n or 1, m or 1)   shown: the same, bool, True where a key may be seen
    """

    def __init__(
        self,
        q: Array,
        k: Array,
        v: Array | None = None,
        *,
        scale: float,
        softcap: float | None = None,
        sink: Array | float | None = None,
        ranges: Array | None = None,
        bias: Array | None = None,
        shown: Array | None = None,
    ) -> None:
        self.q, self.k, self.dtype = q, k, q.dtype.newbyteorder("=")
        self.v = np.empty((*k.shape[:-1], 0), self.dtype) if v is None else v
        self.ranges = None if ranges is None else np.ascontiguousarray(ranges, np.int64)
        self.bias, self.shown = bias, shown
        self.scale, self.softcap = float(scale), float(softcap or 0)
        self.n, self.m = q.shape[-2], k.shape[-2]
        self.lead = _broadcast(x.shape[:-2] for x in (q, k, self.v))
        self.sinks = np.broadcast_to(np.asarray(-math.inf if sink is None else sink, float), self.lead)
        self._level = _level()
        self._lock = threading.Lock()
        self._converted: dict[str, tuple[Index, Array]] = {}

    def block_rows(self) -> int:
        """How many rows a block has at most, so that no thread waits long for the last."""
        each = math.prod(self.lead) * self.n / (4 * thread_count())
        return int(max(32, min(_ROWS, math.ceil(each / 32) * 32)))

    def units(self, rows: int | None = None) -> list[Unit]:
        """Blocks of at most that many rows, in order."""
        rows = rows or self.block_rows()
        starts = range(0, self.n, rows)
        return [Unit(index, i, min(i + rows, self.n)) for index in np.ndindex(*self.lead) for i in starts]

    def threads(self) -> int:
        """How many threads are worth their start."""
        products = math.prod(self.lead) * self.n * self.m * (self.q.shape[-1] + self.v.shape[-1])
        return thread_count() if products > _ALONE else 1

    def attend(self, unit: Unit, out: Array, states: Array, lse: Array | None, weights: Array | None = None) -> None:
        """Compute a block: out (r, d_v), states (r,) uint8, lse (r,), weights (r, m). From any thread."""
        from attncli.engine import _tile

        rows = slice(unit.start, unit.stop)
        _tile.attend(
            self._level,
            _ready(self.q[_spot(self.q, self.lead, unit.index)][rows], self.dtype),
            self._whole("k", self.k, unit.index),
            self._whole("v", self.v, unit.index),
            out,
            weights,
            lse,
            states,
            None if self.ranges is None else _rows(self.ranges[_spot(self.ranges, self.lead, unit.index, 3)], rows),
            self._table(self.bias, unit.index, rows, self.dtype),
            self._table(self.shown, unit.index, rows, np.dtype(bool)),
            self.scale,
            self.softcap,
            self.sinks[unit.index],
        )

    def rows_of_weights(self, rows: int | None = None) -> Iterator[Rows]:
        """The weights, and what comes with them, block by block in order; threads work ahead of the reader."""
        threads = self.threads()
        if rows is None:
            rows = max(1, min(_ROWS, _AHEAD // (threads * max(1, self.m) * self.dtype.itemsize)))

        def work(unit: Unit) -> Rows:
            count = unit.stop - unit.start
            weights = np.empty((count, self.m), self.dtype)
            output, lse = np.empty((count, self.v.shape[-1]), self.dtype), np.empty(count, self.dtype)
            states = np.empty(count, np.uint8)
            self.attend(unit, output, states, lse, weights)
            return Rows(unit, weights, output, lse, states == _EMPTY, states == _STRANGE)

        return in_order(self.units(rows), work, threads)

    def _whole(self, name: str, array: Array, index: Index) -> Array:
        """The keys or values of a head, converted once for all its blocks where they have to be."""
        spot = _spot(array, self.lead, index)
        own: Array = array[spot]
        if _is_ready(own, self.dtype):
            return own
        with self._lock:
            known = self._converted.get(name)
            if known is None or known[0] != spot:
                known = self._converted[name] = spot, _ready(own, self.dtype)
            return known[1]

    def _table(self, table: Array | None, index: Index, rows: slice, dtype: Any) -> Array | None:
        return None if table is None else _ready(_rows(table[_spot(table, self.lead, index)], rows), dtype)


def attend_softmax(
    q: Array,
    k: Array,
    v: Array,
    *,
    scale: float,
    softcap: float | None = None,
    sink: Array | float | None = None,
    ranges: Array | None = None,
    bias: Array | None = None,
    shown: Array | None = None,
    want_lse: bool = False,
    out: Array | None = None,
    progress: Progress | None = None,
) -> Result:
    """The output of `Softmax`, on all cores. out: where it is to go, (..., n, d_v).

    progress is called now and then with the share that is done. Ctrl-C, and what progress raises, end it within a
    block of each thread.
    """
    problem = Softmax(q, k, v, scale=scale, softcap=softcap, sink=sink, ranges=ranges, bias=bias, shown=shown)
    shape = (*problem.lead, problem.n)
    output: Array = np.empty((*shape, v.shape[-1]), problem.dtype) if out is None else out
    room = output if _is_ready(output, problem.dtype) else np.empty(output.shape, problem.dtype)
    states = np.empty(shape, np.uint8)
    lse = np.empty(shape, problem.dtype) if want_lse else None

    def work(unit: Unit) -> None:
        rows: Any = (*unit.index, slice(unit.start, unit.stop))
        problem.attend(unit, room[rows], states[rows], None if lse is None else lse[rows])

    on_threads(_heavy_first(problem.units(), ranges), work, problem.threads(), progress)
    if room is not output:
        output[...] = room
    return Result(output, lse, states == _EMPTY, states == _STRANGE)


def _heavy_first(units: list[Unit], ranges: Array | None) -> list[Unit]:
    """Last rows first, as these have most to do under a causal mask, so that no thread ends with a long block."""
    return units if ranges is None else sorted(units, key=lambda unit: -unit.start)


def _broadcast(leads: Iterable[Index]) -> Index:
    """All leading axes together; of the heads, which may be grouped, the most."""
    given = [lead for lead in leads if lead]
    return (*np.broadcast_shapes(*(lead[:-1] for lead in given)), max(lead[-1] for lead in given)) if given else ()


def _spot(array: Array, lead: Index, index: Index, trailing: int = 2) -> Index:
    """Where an array has what belongs to one sequence and head."""
    axes = array.shape[:-trailing]
    if not axes:
        return ()
    own = index[len(index) - len(axes) :]
    batch = (0 if size == 1 else i for i, size in zip(own[:-1], axes[:-1], strict=True))
    return (*batch, own[-1] * axes[-1] // lead[-1])


def _rows(table: Array, rows: slice) -> Array:
    """Some rows of a table, or the one that stands for all."""
    some: Array = table if len(table) == 1 else table[rows]
    return some


def _is_ready(array: Array, dtype: Any) -> bool:
    """Whether the kernel can read it as it lies: of that dtype, aligned, a row's numbers side by side."""
    beside = array.shape[-1] < 2 or array.strides[-1] == array.itemsize
    return bool(array.dtype == dtype and array.flags.aligned and beside)


def _ready(array: Array, dtype: Any) -> Array:
    if _is_ready(array, dtype):
        return array
    with np.errstate(over="ignore"):  # what is too large for the dtype is told as not finite
        return np.require(array, dtype, ["C", "ALIGNED"])
