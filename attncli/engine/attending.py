"""The way to an attention: as a whole by the definition, or block by block.

Small problems go no further than this module, which loads nothing of what the large ones need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from attncli.lazy import Array, np
from attncli.pipeline.attend import attend as attend_whole
from attncli.pipeline.config import AttentionConfig
from attncli.pipeline.trace import Trace, wanted

if TYPE_CHECKING:
    from attncli.engine.plan import Plan

# From so many scores on, blocks on threads are faster than the plain path.
LARGE = 2**18


def is_tiny(arrays: Mapping[str, Array], config: AttentionConfig) -> bool:
    """Whether there are so few numbers that no plan is needed: no more queries, and no more keys, than numbers."""
    numbers = sum(array.size for array in arrays.values())
    return numbers**2 * (config.heads or 1) < LARGE and all(array.size for array in arrays.values())


def attend(
    inputs: Mapping[str, Array],
    config: AttentionConfig,
    steps: Iterable[str] | None = None,
    progress: Callable[[float], None] | None = None,
    plan: Plan | None = None,
) -> Trace:
    """Compute every step, or hold only those asked for; a large problem without its weights goes block by block.

    plan: where one is made already. Raises what the definition raises.
    """
    keep = wanted(steps)
    if keep is not None and plan is None and not is_tiny(inputs, config):
        shapes = {name: (np.shape(x), False) for name, x in inputs.items()}
        from attncli.engine.plan import Plan

        plan = Plan(config, shapes, np.dtype(float), keep)
    if keep is not None and plan is not None and plan.by_blocks:
        from attncli.engine.blocked import attend_by_blocks

        return attend_by_blocks(inputs, config, keep, progress=progress)
    return attend_whole(inputs, config, keep)
