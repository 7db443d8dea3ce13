"""Hints at known names, and errors that cross processes."""

from __future__ import annotations

import pickle

import pytest

from tests.inside import InputError, Place, Several, UsageError, nearest


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


def test_errors_go_to_another_process() -> None:
    one = InputError("a", place=Place("f", 1, 2), hint="h")
    for error in (one, Several([UsageError("b"), one])):
        there = pickle.loads(pickle.dumps(error))
        assert (type(there), str(there)) == (type(error), str(error))
        assert list(map(vars, there.errors())) == list(map(vars, error.errors()))
