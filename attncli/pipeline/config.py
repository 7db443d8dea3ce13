"""How to compute: everything that is no matrix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from attncli.errors import UsageError
from attncli.lazy import Array
from attncli.pipeline.masking import MaskSpec
from attncli.pipeline.scores import ScoreSpec

# What a query gets that sees no key; "error" refuses it.
EMPTY_ROWS = ("zero", "nan", "uniform", "error")


@dataclass(eq=False, repr=False)
class AttentionConfig:
    """The rules of one attention.

    score, normalizer None: the default ones; but where a problem begins at the scores, only a scale, a
    temperature or d_k scales them.
    scale multiplies the scores: one number, a row of one a head, or a column of one a query; a temperature t is a
    scale of 1/t on top of the default one.
    d_k: the key width that the default scale is made of; None: that of the keys.
    round_steps: the places to which each step is rounded before the next is made of it; None: all digits are kept.
    more: what was said to steps and biases that bring a setting of their own.
    """

    score: ScoreSpec | None = None
    scale: float | Array | None = None
    temperature: float | None = None
    d_k: int | None = None
    softcap: float | None = None
    masks: tuple[MaskSpec, ...] = ()
    mask_value: float = -float("inf")
    empty_rows: str = "zero"
    normalizer: str | Callable[..., Any] | None = None
    heads: int | None = None
    kv_heads: int | None = None
    dtype: str | None = None
    alignment: str = "top-left"
    both_ways: bool = False
    round_steps: int | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.empty_rows not in EMPTY_ROWS:
            raise UsageError(f"unknown rule for empty rows {self.empty_rows!r}", hint=", ".join(EMPTY_ROWS))
        if self.scale is not None and self.temperature is not None:
            raise UsageError("scale and temperature are both given", hint="a temperature t is a scale of 1/t")
