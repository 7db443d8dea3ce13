"""Scores that are made of differences go by blocks of queries."""

from __future__ import annotations

import numpy as np
import pytest

from attncli import attend
from tests.core.test_properties import D, random, with_parameters


@pytest.mark.parametrize("score", ["additive", "gaussian", "boxcar"])
def test_blocks_of_queries_are_the_same(score: str, monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, spec = random(2, 7, D), random(2, 5, D), with_parameters(score)
    whole = attend(q, k, score=spec)["scores"]
    monkeypatch.setattr("attncli.pipeline.logits._INSIDE", 64)
    np.testing.assert_allclose(attend(q, k, score=spec)["scores"], whole, rtol=1e-12, atol=1e-12)
