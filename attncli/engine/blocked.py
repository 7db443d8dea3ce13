"""Large problems, of which the weights are not asked for: block by block on all cores, in memory of a block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from attncli.engine.blocks import BlockedAttention, Unit
from attncli.engine.threads import Progress, on_threads
from attncli.lazy import Array, np
from attncli.pipeline.config import AttentionConfig
from attncli.pipeline.trace import Trace, wanted


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
    lse = np.empty((*shape.lead, shape.n, 1), blocked.dtype) if "lse" in keep and blocked.at.has("lse") else None

    def worker() -> Callable[[Unit], None]:
        def by_rows(unit: Unit) -> None:
            block, part = blocked.block(unit), slice(unit.start, unit.stop)
            if output is not None:
                output[unit.index][part] = block["attended"][0]
            if lse is not None:
                lse[unit.index][part] = block["lse"][0]

        return by_rows

    units = blocked.units(min(rows or blocked.block_rows(), blocked.block_rows()))
    if config.masks:
        units = _heavy_outside(units)
    on_threads(units, worker, progress)
    blocked.tell()
    if output is not None:
        blocked.finish(output)
    if lse is not None:
        blocked.steps["lse"] = lse
    return blocked.trace(keep)


def _heavy_outside(units: list[Unit]) -> list[Unit]:
    """Last rows first, as threads take units from both ends: under a causal mask these have most to do."""
    last_first = sorted(units, key=lambda unit: -unit.start)
    return last_first[::2] + last_first[1::2][::-1]
