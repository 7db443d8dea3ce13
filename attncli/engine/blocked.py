"""Large problems, of which the weights are not asked for: block by block on all cores, in memory of a block."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attncli.engine.blas import single_blas
from attncli.engine.blocks import BlockedAttention, Unit
from attncli.engine.compiled import compiled
from attncli.engine.threads import Progress, on_threads, thread_count
from attncli.lazy import Array, np
from attncli.pipeline.config import AttentionConfig
from attncli.pipeline.trace import Trace, wanted

_EMPTY, _STRANGE = 1, 2  # states of a query, as the kernel tells them


def attend_by_blocks(
    inputs: Mapping[str, Array],
    config: AttentionConfig,
    steps: Iterable[str],
    *,
    progress: Progress | None = None,
    rows: int | None = None,
) -> Trace:
    """The steps asked for, all of n or m rows, in memory that does not grow with n x m.

    rows: of a block, chosen by the sizes where they are not given.
    progress: called now and then with the share that is done. Raises what `attend` raises.
    """
    keep = wanted(steps) or ()
    blocked = BlockedAttention(inputs, config)
    shape = blocked.shape
    output = blocked.empty_output(shape.n) if blocked.at.has("V") else None
    lse = np.empty((*shape.lead, shape.n), blocked.dtype) if "lse" in keep and blocked.at.has("lse") else None
    kernel = compiled(blocked)

    def by_rows(unit: Unit) -> None:
        """By the definition, some rows at a time. What NumPy would warn of is told in notes, in each thread."""
        with single_blas(), np.errstate(all="ignore"):
            for start in range(unit.start, unit.stop, blocked.block_rows()):
                part = slice(start, min(start + blocked.block_rows(), unit.stop))
                block = blocked.block(Unit(unit.index, part.start, part.stop))
                if output is not None:
                    output[unit.index][part] = block["attended"][0]
                if lse is not None:
                    lse[unit.index][part] = block["lse"][0, :, 0]

    def by_kernel(unit: Unit) -> None:
        assert kernel is not None
        assert output is not None
        part = slice(unit.start, unit.stop)
        states = np.empty(unit.stop - unit.start, np.uint8)
        kernel.attend(unit, output[unit.index][part], states, None if lse is None else lse[unit.index][part])
        empty = states == _EMPTY
        if (states == _STRANGE).any() or (config.empty_rows not in ("zero", "error") and empty.any()):
            by_rows(unit)
        else:
            blocked.empty[unit.index][part, 0] = empty

    work = by_rows if kernel is None else by_kernel
    most = blocked.block_rows() if kernel is None else kernel.block_rows()
    units = blocked.units(min(rows or most, most))
    if config.masks:
        units = sorted(units, key=lambda unit: -unit.start)  # under a causal mask the last rows have most to do
    on_threads(units, work, thread_count() if kernel is None else kernel.threads(), progress)
    blocked.tell()
    if output is not None:
        blocked.finish(output)
    if lse is not None:
        blocked.steps["lse"] = lse[..., None]
    return blocked.trace(keep)
