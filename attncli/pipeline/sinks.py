"""Sinks: a logit in each row's denominator that belongs to no key, one for all heads or one a head.

Letters: n queries, m keys, H heads. Sources: Xiao et al. 2023, arXiv:2309.17453 (as a key); gpt-oss 2025 (a learned
logit a head); Miller 2023, "Attention is off by one" (a sink of 0: 1 in the denominator).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attncli.errors import UsageError
from attncli.lazy import Array, np
from attncli.pipeline.heads import one_a_head, spread_to
from attncli.pipeline.normalizers import NormalizerEntry
from attncli.pipeline.state import State
from attncli.pipeline.steps import value
from attncli.registry import Setting


@value("sink", "table", settings=("sink",), setting=Setting(
    name="sink", kind="numbers", metavar="S",
    help="a logit in each row's denominator, one or one a head; 0 is softmax with 1 in the denominator"))  # fmt: skip
def sink(at: State) -> Any:
    """The logits of the sinks, (H or 1, 1, 1). Raises ShapeError for other heads, UsageError without a denominator."""
    if not at.normalizer.sums_to_one:
        raise UsageError(
            f"sink has no effect: {at.normalizer.name} has no denominator", hint="--normalizer softmax has one"
        )
    numbers: Array = np.ravel(np.asarray(at.config.more["sink"], dtype=np.float64))
    return at.as_number(one_a_head("sink", numbers, at.heads, "one number for all, or one a head"))


def has_sink(at: State) -> bool:
    """Whether the denominators hold more than the keys."""
    return at.config.more.get("sink") is not None and at.begin != "weights"


def sums_to_one(normalizer: NormalizerEntry, more: Mapping[str, Any]) -> bool:
    """Whether a row of weights does, under these settings."""
    return normalizer.sums_to_one and more.get("sink") is None


def beside_sink(at: State, x: Any, over: Array, *, of_kernel: bool = False) -> tuple[Any, Array]:
    """Scores and where they count, (..., n, m + 1): each row has one place more, that of the sink.

    of_kernel: whether they are values of a kernel, of which scores are the logarithm.
    """
    over = spread_to(over, x.shape)
    more = np.broadcast_to(np.exp(at["sink"]) if of_kernel else at["sink"], (*x.shape[:-1], 1))
    seen = np.ones((*over.shape[:-1], 1), bool)
    return np.concatenate([x, more], axis=-1), np.concatenate([over, seen], axis=-1)
