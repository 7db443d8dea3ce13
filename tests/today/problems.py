"""Problems with what today's attention needs, small enough to be worked out, by name."""

from __future__ import annotations

from typing import Any

import numpy as np


def drawn(seed: int, *shape: int) -> list[Any]:
    """Numbers of three decimals, between -2 and 2."""
    numbers: list[Any] = np.random.default_rng(seed).uniform(-2, 2, shape).round(3).tolist()
    return numbers


X = [[1, 2, 3, 4], [2, 0, 1, -1], [0, 1, 1, 1]]
QKV = {"Q": drawn(1, 3, 8), "K": drawn(2, 5, 8), "V": drawn(3, 5, 8)}
HEADS = {"X": drawn(4, 4, 8), "heads": 2}

PROBLEMS: dict[str, dict[str, Any]] = {
    "rope": {"X": X, "rope": 10000, "mask": "causal"},
    "rope: neighbours, heads": {**HEADS, "rope": "10000:neighbours", "mask": "causal"},
    "rope: past keys, part of the width": {
        "X": drawn(5, 2, 8), "past_k": drawn(6, 3, 8), "past_v": drawn(7, 3, 8), "heads": 2, "rope": "500:width=2",
    },
    "rope: yarn, positions": {**HEADS, "rope": "10000:yarn=4,32", "positions": [[7, 9, 10, 30]]},
    "rope: past keys that are turned": {
        "X": drawn(5, 2, 8), "past_k": drawn(6, 3, 8), "past_v": drawn(7, 3, 8), "rope": "100", "past_turned": True,
        "mask": "causal",
    },
    "norm before the rotation": {
        **HEADS, "qk_norm": "rms", "q_weight": drawn(8, 4), "k_weight": drawn(9, 8), "eps": 0.001, "rope": 10000,
        "mask": "causal",
    },
    "sink": {"Q": [[2, 1], [-1, 0]], "K": [[1, 0], [1, 1]], "V": [[4], [8]], "sink": 0.7},
    "sink: one a head, causal": {**HEADS, "sink": [0.5, -1], "mask": "causal"},
    "norm: layer": {**QKV, "qk_norm": "layer"},
}  # fmt: skip
