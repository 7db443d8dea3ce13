"""Which problems are large, so that they go block by block: told by the shapes alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import prod

from attncli.lazy import Array, np
from attncli.pipeline.attend import attend as attend_whole
from attncli.pipeline.config import AttentionConfig
from attncli.pipeline.trace import Trace, wanted

SMALL = frozenset({"X", "Y", "Q", "K", "V", "heads", "output", "lse"})
# From so many scores on, blocks on threads are faster than the plain path.
LARGE = 2**18


def attend(
    inputs: Mapping[str, Array],
    config: AttentionConfig,
    steps: Iterable[str] | None = None,
    progress: Callable[[float], None] | None = None,
) -> Trace:
    """Compute every step, or hold only those asked for; a large problem without its weights goes block by block.

    Raises what the definition raises.
    """
    keep = wanted(steps)
    if keep is not None and is_large(inputs, config, keep):
        from attncli.engine.blocked import attend_by_blocks

        return attend_by_blocks(inputs, config, keep, progress=progress)
    return attend_whole(inputs, config, keep)


def is_large(inputs: Mapping[str, Array], config: AttentionConfig, keep: tuple[str, ...]) -> bool:
    """Whether only steps of n rows are kept, and there are many scores."""
    if not SMALL.issuperset(keep) or config.both_ways or "weights" in inputs:
        return False
    return score_count(inputs, config) >= LARGE


def score_count(inputs: Mapping[str, Array], config: AttentionConfig) -> int:
    """About how many scores a problem has, from the shapes of its inputs."""
    shapes = {name: np.shape(array) for name, array in inputs.items()}
    for name in ("masked", "scaled", "scores", "kernel"):
        if name in shapes:
            return prod(shapes[name])
    queries = shapes.get("Q", shapes.get("X", ()))
    keys = shapes.get("K", shapes.get("Y", shapes.get("X", ())))
    past = shapes.get("past_k", ())
    n, m = (shape[-2] if len(shape) > 1 else 1 for shape in (queries, keys))
    m += past[-2] if len(past) > 1 else len(past)
    leading = [prod(shape[:-2]) for shape in (queries, keys)]
    return n * m * (max(leading) if min(leading) else 0) * (config.heads or 1)  # an empty axis makes all empty
