"""Weights averaged over the heads, as frameworks return them.

Letters: n queries, m keys, H heads. Source: torch.nn.MultiheadAttention (average_attn_weights).
"""

from __future__ import annotations

from typing import Any

from attncli.pipeline.state import State
from attncli.pipeline.steps import QUERY_KEY, step
from attncli.registry import Setting


@step(
    "average",
    line="back",
    axes=QUERY_KEY,
    made_from=("weights",),
    when=lambda at: bool(at.config.more.get("average_heads")),
    formula="mean of weights over the heads",
    about="the weights averaged over the heads",
    shape="n x m",
    comes_of="it comes of --average-heads",
    expected_as="weights",
    setting=Setting(name="average_heads", kind="flag", default="",
                    help="also the mean of the weights over the heads: the step average"),
)  # fmt: skip
def average(at: State) -> Any:
    """The mean of the weights over the heads, (..., n, m)."""
    return at["weights"].mean(axis=-3)
