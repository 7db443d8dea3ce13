"""Hints at known names."""

from __future__ import annotations

import pytest

from attncli.errors import nearest


@pytest.mark.parametrize(
    ("name", "known", "found"),
    [
        ("--prec", ["--param", "--precision"], "--precision"),
        ("out", ["heads", "output"], "output"),
        ("out", ["output_back", "output"], "output"),  # of several that begin so, the shorter
        ("--all", ["--scale", "--labels"], None),
        ("w_q", ["W_K", "W_Q"], "W_Q"),
        ("wieghts", ["weights", "heads"], "weights"),
        ("x", ["xyz", "example"], None),
        ("", ["a"], None),
    ],
)
def test_the_nearest_name(name: str, known: list[str], found: str | None) -> None:
    assert nearest(name, known) == found
