"""Problems to explain: those of the worked cases, and one for each score, normalizer and rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import yaml

DATA = Path(__file__).parent.parent / "data"
CASES: list[dict[str, Any]] = yaml.safe_load((DATA / "worked_cases.yaml").read_text())["cases"]
X = [[1, 0, 2, -1], [0.5, 1, 0, 2], [2, -1, 1, 0.5]]
I4 = np.eye(4).tolist()
W = [[1, 0], [0, 1], [1, 1], [0, 2]]
EXTRA: dict[str, dict[str, Any]] = {
    "general": {"Q": X, "K": [[1, 2], [0, 1]], "score": {"name": "general", "W": [[1, 0], [0, 2], [1, 1], [0.5, 0]]}},
    "concat": {"Q": [[1, 2]], "K": [[3], [1]], "score": {"name": "concat", "W": [[1, 0, 2], [0, 1, -1]], "v": [1, 2]}},
    "layer form": {"Q": X, "K": X, "score": "additive"},
    "sparsemax": {"X": X, "normalizer": "sparsemax"},
    "sigmoid": {"X": X, "normalizer": "sigmoid"},
    "none": {"X": X, "normalizer": "none"},
    "hardmax": {"X": [[1, 0], [1, 0], [0, 1]], "normalizer": "hardmax"},
    "sum of kernel": {"X": X, "score": "gaussian", "normalizer": "sum"},
    "sum of scaled kernel": {"X": X, "score": "laplacian", "normalizer": "sum", "scale": 0.5},
    "temperature": {"X": X, "temperature": 2},
    "cap, bias, mask": {"X": X, "softcap": 2, "bias": [[0, 1, 2], [0.5, 0, 1], [1, -1, 0]], "mask": "causal"},
    "mask value": {"X": X, "mask": {"window": [0, 1]}, "mask_value": -1},
    "large scores": {"X": [[30, 1], [1, 40], [2, 2]]},
    "projections": {"X": X, "W_Q": [[1, 0]] * 4, "b_Q": [1, 2], "W_K": [[0, 1]] * 4, "W_V": I4, "b_V": [1] * 4},
    "grouped heads": {
        "X": X, "heads": 4, "kv_heads": 2, "W_K": W, "W_V": [[1, 0], [0, 1], [2, 1], [0, 1]],
        "W_O": [[1, 0, 2], [0, 1, 1], [1, 1, 0], [2, 0, 1]], "b_O": [1, 2, 3],
    },
    "one head through W_O": {"X": X, "W_O": [[1, 0], [0, 1], [1, 1], [2, 0]]},
    "past": {"X": X, "past_k": [[1, 1, 0, 0]], "past_v": [[0, 2, 1, 1]], "W_K": I4, "heads": 2},
    "sequences": {"Q": [X, X], "K": [X, X], "V": [X, X], "mask": {"lengths": [2, 3]}},
    "columns, stored in-out": {"X": X, "layout": "columns", "weight_layout": "in-out", "W_Q": W[:3], "W_K": W[:3]},
    "begins at weights": {"weights": [[0.25, 0.75]], "V": [[1, 2], [3, 4]]},
    "begins at kernel": {"kernel": [[1, 3], [2, 0]], "V": [[1], [3]]},
}  # fmt: skip
