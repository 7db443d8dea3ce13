"""What decoding computes only once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attncli import load
from attncli.problem.decode import Decoder

rng = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return rng.normal(size=shape)


def test_keys_are_projected_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each token one row goes through W_K, whether keys come one by one or are all there."""
    import attncli.pipeline.projections as module

    rows: list[int] = []
    original = module.project

    def project(name: str, x: Any, weight: Any, bias: Any) -> Any:
        rows.append(x.shape[-2]) if name == "K" and weight is not None and isinstance(x, np.ndarray) else None
        return original(name, x, weight, bias)

    monkeypatch.setattr(module, "project", project)
    list(Decoder(load({"X": normal(4, 3), "W_K": normal(3, 3), "mask": "causal"})).steps())
    assert rows == [1, 1, 1, 1]
    rows.clear()
    list(Decoder(load({"X": normal(4, 3), "Y": normal(6, 3), "W_K": normal(3, 3)})).steps())
    assert rows == [6]
