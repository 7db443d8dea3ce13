"""Large problems, of which the weights are not asked for, or not all at once: computed block by block on all cores.

What it gives is what the definition in `attend` gives. Softmax over dot products goes tile by tile (`online`),
everything else by whole rows (`blocks`). Letters: n queries, m keys, d_v value width, H heads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from attncli.core.attend import Rules
from attncli.core.blas import thread_count
from attncli.core.blocks import Large, Unit
from attncli.core.dots import LARGE_BLOCK, Sizes, find_dots
from attncli.core.normalizers import NORMALIZERS
from attncli.core.online import Tiler
from attncli.core.projections import join_heads, project
from attncli.core.trace import Trace, wanted
from attncli.core.visibility import Index
from attncli.core.workers import Progress, on_threads
from attncli.lazy import Array, np


def attend_by_blocks(
    inputs: Mapping[str, Array],
    rules: Rules,
    steps: Iterable[str],
    *,
    progress: Progress | None = None,
    sizes: Sizes | None = None,
    rows: int | None = None,
) -> Trace:
    """The steps asked for (of `STREAMED`), in memory that does not grow with n x m.

    sizes, rows: the tile and the rows of a block, chosen by measurement where they are not given.
    progress: called now and then with the share that is done. Raises what `attend` raises.
    """
    keep = wanted(steps) or ()
    large = Large(inputs, rules)
    extent, v = large.extent, large.parts.v
    output = None if v is None else empty_output(large, extent.n, v.shape[-1])
    lse = np.empty((*large.lead, extent.n, 1), large.dtype) if "lse" in keep and is_softmax(large) else None
    dots = find_dots(large, sizes) if is_softmax(large) else None

    def by_rows(unit: Unit) -> None:
        for start in range(unit.start, unit.stop, rows_at_once):
            block = large.block(Unit(unit.index, start, min(start + rows_at_once, unit.stop)))
            part = slice(block.unit.start, block.unit.stop)
            if output is not None:
                output[unit.index][part] = block.steps["output"]
            if lse is not None:
                lse[unit.index][part] = block.lse()

    def worker() -> Callable[[Unit], None]:
        if dots is None:
            return by_rows
        tiler = Tiler(dots)

        def by_tiles(unit: Unit) -> None:
            part = slice(unit.start, unit.stop)
            of_rows = np.empty((unit.stop - unit.start, 0), large.dtype) if output is None else output[unit.index][part]
            with np.errstate(all="ignore"):
                found = tiler.block(unit, of_rows)
            if found is None or spoils_empty(large, unit.index, found[1]):
                by_rows(unit)
                return
            logarithm, large.empty[unit.index][part] = found
            if lse is not None:
                lse[unit.index][part] = logarithm

        return by_tiles

    rows_at_once = min(rows or large.block_rows(), large.block_rows())
    most = rows_at_once if dots is None else dots.sizes.a * dots.sizes.r
    units = large.units(min(rows or most, most))
    if large.rules.masks:
        units = _heavy_outside(units)
    elif dots is not None:
        units = _small_last(units, dots.sizes.r, extent.m)
    on_threads(units, worker, progress)
    large.tell()
    if output is not None:
        if dots is not None and large.empty.any():
            _fill_empty(large, output)
        finish(large, output)
    if lse is not None:
        large.steps["lse"] = lse
    return large.as_trace(keep)


def is_softmax(large: Large) -> bool:
    """Whether the normalizer is softmax itself."""
    return large.normalizer.function is NORMALIZERS.find("softmax").function


def empty_output(large: Large, rows: int, width: int) -> Array:
    """Room for what each head gives, such that joining the heads copies nothing: a view (*batch, H, rows, d_v)."""
    extent = large.extent
    if extent.heads is None:
        return np.empty((*extent.batch, rows, width), large.dtype)
    return np.empty((*extent.batch, rows, extent.heads, width), large.dtype).swapaxes(-2, -3)


def _heavy_outside(units: list[Unit]) -> list[Unit]:
    """Last rows first, as threads take units from both ends: under a causal mask these have most to do."""
    last_first = sorted(units, key=lambda unit: -unit.start)
    return last_first[::2] + last_first[1::2][::-1]


def _small_last(units: list[Unit], r: int, m: int) -> list[Unit]:
    """The last block of each thread in halves, so that none waits long for the others; threads end in the middle."""
    last = min(thread_count(), len(units))
    low = (len(units) - last) // 2
    halves = [half for unit in units[low : low + last] for half in _halves(unit, r, m)]
    return [*units[:low], *halves, *units[low + last :]]


def _halves(unit: Unit, r: int, m: int) -> list[Unit]:
    """The block in two, the first of a multiple of r rows, unless these would be small."""
    half = (unit.stop - unit.start) // 2 // r * r
    if half * m < LARGE_BLOCK:
        return [unit]
    middle = unit.start + half
    return [Unit(unit.index, unit.start, middle), Unit(unit.index, middle, unit.stop)]


def _fill_empty(large: Large, output: Array) -> None:
    """What the rule gives to queries that see no key."""
    rule = large.rules.empty_rows
    if rule == "nan":
        np.copyto(output, np.nan, where=large.empty)
    if rule == "uniform" and large.parts.v is not None:
        for index in np.ndindex(*large.lead):
            rows = large.empty[index][:, 0]
            if rows.any():
                output[index][rows] = uniform(large, index)


def spoils_empty(large: Large, index: Index, empty: Array) -> bool:
    """Whether queries that see no key get values all the same, and these are not all finite: for the definition."""
    if large.rules.empty_rows == "zero" or large.parts.v is None or not empty.any():
        return False
    return not np.isfinite(large.own(large.parts.v, index)).all()


def uniform(large: Large, index: Index) -> Array:
    """The output of a query that looks at all keys alike, (1, d_v)."""
    assert large.parts.v is not None
    share = np.full((1, large.extent.m), 1 / large.extent.m, large.dtype)
    with np.errstate(all="ignore"):
        mean: Array = share @ large.own(large.parts.v, index).astype(large.dtype, copy=False)
    return mean


def finish(large: Large, heads: Array) -> None:
    """Heads joined and through W_O, as the definition does it."""
    if large.extent.heads is not None:
        if large.extent.heads > 1:
            large.steps["heads"] = heads
        heads = join_heads(heads)
    with np.errstate(all="ignore"):
        large.steps["output"] = project("W_O", heads, large.inputs.get("W_O"), large.inputs.get("b_O"))
