"""Which problems are large, so that they are computed block by block: told by the shapes alone.

In a module of its own, since small problems have no use for the engine of the large ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING

from attncli.lazy import Array, np

if TYPE_CHECKING:
    from attncli.core.attend import Rules

STREAMED = frozenset({"X", "Y", "Q", "K", "V", "heads", "output", "lse"})
# From so many scores on, blocks on threads are faster than the plain path.
LARGE = 2**18


def is_large(inputs: Mapping[str, Array], rules: Rules, keep: tuple[str, ...]) -> bool:
    """Whether a problem is to be computed here: only steps of n rows are kept, and there are many scores."""
    if not STREAMED.issuperset(keep) or rules.both_ways or "weights" in inputs:
        return False
    return score_count(inputs, rules) >= LARGE


def score_count(inputs: Mapping[str, Array], rules: Rules) -> int:
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
    return n * m * (max(leading) if min(leading) else 0) * (rules.heads or 1)  # an empty axis makes all empty
