"""A parameter of a score that is of the wrong kind is told once, whatever NumPy makes of a matrix of one number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attncli import AttnError, attend


@pytest.mark.parametrize(
    ("score", "parameters", "told"),
    [
        ("gaussian", {"sigma": [[1]]}, "sigma of the score 'gaussian' is a number, not a matrix"),
        ("gaussian", {"sigma": np.array([2.0])}, "sigma of the score 'gaussian' is a number, not a matrix"),
        ("additive", {"w_v": 2}, "w_v of the score 'additive' is a matrix, not the number 2"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_the_wrong_kind_is_told_once(score: str, parameters: dict[str, Any], told: str) -> None:
    with pytest.raises(AttnError) as caught:
        attend([[1, 2]], [[1, 2]], score=(score, parameters))
    assert [error.what for error in caught.value.errors()] == [told]
