"""What is told of numbers that are none, wherever they stand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from attncli import attend


@pytest.mark.parametrize("n", [1, 600])
@pytest.mark.parametrize(("name", "value"), [("wo", [[4, 1], [math.nan, 1]]), ("bo", [math.inf, 0])])
def test_nan_in_the_output_projection(n: int, name: str, value: list[object]) -> None:
    x = np.ones((n, 2))
    for steps in (None, ("output",)):
        trace = attend(x, x, x, steps=steps, **{name: value})
        assert not np.isfinite(trace.output[:, 0]).any()
        kind = name[0].upper() + "_O" if name == "wo" else "b_O"
        assert f"NaN or infinity in {kind} reaches the output: feature 1" in trace.notes
