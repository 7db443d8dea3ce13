"""Soft alignment both ways: the same scores for each query over the keys, and for each key over the queries."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpmath import exp, mp, mpf

X, Y = [[1, 0], [0, 1], [1, 1]], [[1, 0], [2, 1]]


def exact() -> dict[str, list[list[float]]]:
    """The attend step of decomposable attention by its formulas, in 40 digits."""
    with mp.workdps(40):
        e = [[sum(mpf(a) * b for a, b in zip(x, y, strict=True)) for y in Y] for x in X]
        beta = [[exp(s) / sum(map(exp, row)) for s in row] for row in e]
        columns = [*zip(*e, strict=True)]
        alpha = [[exp(s) / sum(map(exp, column)) for s in column] for column in columns]

        def summed(weights: list[list[Any]], data: list[list[int]]) -> list[list[float]]:
            return [[float(sum(w * row[j] for w, row in zip(each, data, strict=True))) for j in range(2)]
                    for each in weights]  # fmt: skip

        return {
            "scores": [[float(s) for s in row] for row in e],
            "weights": [[float(w) for w in row] for row in beta],
            "output": summed(beta, Y),
            "weights_back": [[float(w) for w in row] for row in alpha],
            "output_back": summed(alpha, X),
        }


@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_the_numbers(layout: str, cli: Callable[..., Any]) -> None:
    turned = [np.array(data).T.tolist() if layout == "columns" else data for data in (X, Y)]
    done = cli("cross", *turned, "--score", "dot", "--both-ways", "--format", "json", "--layout", layout)
    assert done.status == 0, done.err
    steps = json.loads(done.out)["steps"]
    for name, expected in exact().items():
        array = np.array(steps[name]).T if layout == "columns" else np.array(steps[name])
        np.testing.assert_allclose(array, expected, rtol=4e-16, atol=0, err_msg=name)


def test_tables_say_what_sums_to_one(cli: Callable[..., Any]) -> None:
    words = ["--tokens", "i am tired", "--key-tokens", "do sleep", "--score", "dot", "--both-ways", "--format", "plain"]
    rows = cli("cross", X, Y, *words).out
    assert "weights (3 queries x 2 keys): each row sums to 1\n" in rows
    assert "weights_back (2 keys x 3 queries): each row sums to 1\n" in rows
    lines = rows.splitlines()
    at = lines.index("weights_back (2 keys x 3 queries): each row sums to 1")
    assert lines[at + 1].split() == ["i", "am", "tired"]
    assert [line.split()[0] for line in lines[at + 2 : at + 4]] == ["do", "sleep"]
    columns = cli("cross", np.array(X).T.tolist(), np.array(Y).T.tolist(), *words, "--layout", "columns").out
    assert "weights (2 keys x 3 queries): each column sums to 1\n" in columns
    assert "weights_back (3 queries x 2 keys): each column sums to 1\n" in columns


def test_both_ways_needs_x_and_y(cli: Callable[..., Any]) -> None:
    done = cli("attend", X, X, X, "--both-ways")
    assert (done.status, done.out) == (2, "")
    assert "both ways needs X and Y" in done.err


@pytest.mark.parametrize(
    "words", [["attend", "q.npy", "q.npy", "q.npy"], ["self", "q.npy"], ["attend", "--scores", "s.npy"]]
)
@pytest.mark.parametrize("more", [[], ["--dry-run"], ["-o", "weights_back=w.npy"], ["--show", "output_back"]])
def test_large_and_dry_runs_need_x_and_y_too(
    cli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], more: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("q.npy", np.zeros((700, 4), np.float32))
    np.save("s.npy", np.zeros((700, 700), np.float32))
    done = cli(*words, "--both-ways", *more)
    assert done.status == 2
    assert "both ways needs X and Y" in done.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["q.npy", "s.npy"]
