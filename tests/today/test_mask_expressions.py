"""Masks joined by and, or, not; first keys, chunks, packed sequences: against plain loops, everywhere, and refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli import attend, check, run
from tests.calling import attncli

Seen = Callable[[int, int], bool]
RNG = np.random.default_rng(13)

# i and j count from 0, of 6 queries and 6 keys.
EXPRESSIONS: dict[str, Seen] = {
    "causal & (window:1,0 | prefix-keys:1)": lambda i, j: j <= i and (i - 1 <= j <= i or j < 1),
    "causal and (window:1,0 or prefix-keys:1)": lambda i, j: j <= i and (i - 1 <= j <= i or j < 1),
    "causal & segments:0,0,1,1,1,2": lambda i, j: j <= i and [0, 0, 1, 1, 1, 2][i] == [0, 0, 1, 1, 1, 2][j],
    "causal & chunk:2": lambda i, j: j <= i and i // 2 == j // 2,
    "!causal": lambda i, j: j > i,
    "not causal | keys:1,0,0,0,0,0": lambda i, j: j > i or j == 0,
    "window:0,1 | dilated:3 & !prefix-keys:2": lambda i, j: i <= j <= i + 1 or ((i - j) % 3 == 0 and not j < 2),
    "(window:0,1 | dilated:3) & !prefix-keys:2": lambda i, j: (i <= j <= i + 1 or (i - j) % 3 == 0) and not j < 2,
    "!(causal & !window:2,0)": lambda i, j: not (j <= i and not i - 2 <= j <= i),
    "chunk:4": lambda i, j: i // 4 == j // 4,
    "packed:2,3,1 & causal": lambda i, j: j <= i and [0, 0, 1, 1, 1, 2][i] == [0, 0, 1, 1, 1, 2][j],
}  # fmt: skip
X = RNG.normal(size=(6, 4)).round(2).tolist()


def visible(weights: np.ndarray) -> list[list[bool]]:
    return [[bool(w > 0) for w in row] for row in weights]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_what_is_seen(text: str, tmp_path: Path) -> None:
    right = [[EXPRESSIONS[text](i, j) for j in range(6)] for i in range(6)]
    trace = attend(X, X, X, mask=text)
    assert visible(trace.weights) == right
    # In a problem file, saved and read again, by blocks, marked, and in columns.
    path, saved = tmp_path / "p.yaml", tmp_path / "saved.yaml"
    path.write_text(json.dumps({"X": X, "mask": text}))
    assert attncli("run", path, "--save-problem", saved, "--quiet").status == 0
    for problem in (path, saved):
        np.testing.assert_array_equal(run(problem).weights, trace.weights)
    np.testing.assert_allclose(attend(X, X, X, mask=text, steps=("output",)).output, trace.output, atol=1e-14)
    weights = trace.weights.tolist()
    assert check({"X": X, "mask": text, "expect": {"weights": weights}}).verdict in ("agrees", "rounded")
    turned = attend(np.transpose(X), np.transpose(X), np.transpose(X), mask=text, layout="columns")
    np.testing.assert_array_equal(turned.weights.T, trace.weights)


def test_a_written_structure_is_the_same() -> None:
    said = {"and": ["causal", {"or": [{"window": [1, 0]}, {"prefix-keys": 1}]}]}
    text = "causal & (window:1,0 | prefix-keys:1)"
    np.testing.assert_array_equal(run({"X": X, "mask": [said]}).weights, run({"X": X, "mask": text}).weights)
    turned = run({"X": X, "mask": [{"not": {"keep": np.eye(6, dtype=int).tolist()}}]}).weights
    assert visible(turned) == [[i != j for j in range(6)] for i in range(6)]


def test_files_in_quotes(tmp_path: Path) -> None:
    table = tmp_path / "a & (b).csv"
    table.write_text("1,0\n1,1\n")
    for text in (f"causal & !keep:'{table}'", f"!keep:'{table}' & causal"):
        trace = attend([[1], [2]], [[1], [2]], mask=text)
        assert visible(trace.weights) == [[False, False], [False, False]]
    assert visible(attend([[1], [2]], [[1], [2]], mask=f"keep:'{table}'").weights) == [[True, False], [True, True]]


def test_packed_sequences_of_unlike_lengths() -> None:
    # Queries 2, 1; keys 3, 2; the last query of each stands at its last key. By hand: e^(q k) over their sum.
    trace = attend([[1], [2], [3]], [[1], [0], [2], [1], [3]], score="dot", mask="packed:2,1/3,2 & causal:bottom-right")
    right = [[0.731059, 0.268941, 0, 0, 0], [0.117310, 0.015876, 0.866813, 0, 0], [0, 0, 0, 0.002473, 0.997527]]
    np.testing.assert_allclose(trace.weights, right, atol=5e-7)
    listed = attend([[1], [2], [3]], [[1], [0], [2], [1], [3]], score="dot",
                    mask=[("packed", [[2, 1], [3, 2]]), "causal:bottom-right"])  # fmt: skip
    np.testing.assert_array_equal(listed.weights, trace.weights)


def test_large_packed_and_windows_with_first_keys_by_blocks() -> None:
    x = RNG.normal(size=(700, 8))
    masks: list[Any] = ["packed:300,150,250 & causal", "causal & (window:40,0 | prefix-keys:4)"]
    for mask in masks:
        whole = attend(x, x, x, mask=mask)
        np.testing.assert_allclose(attend(x, x, x, mask=mask, steps=("output",)).output, whole.output, rtol=1e-11,
                                   atol=1e-13)  # fmt: skip
    i, j = np.arange(700)[:, None], np.arange(700)
    np.testing.assert_array_equal(whole.weights > 0, (j <= i) & ((j >= i - 40) | (j < 4)))


def test_an_explanation_tells_the_expression(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(json.dumps({"X": X, "mask": "causal & (window:1,0 | prefix-keys:1)"}))
    done = attncli("explain", path, "--query", "4")
    assert done.status == 0
    assert "(hidden by causal & (window:1,0 | prefix-keys:1))" in done.out


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("causal &", "column 9: a mask is missing at the end"),
        ("(causal", "column 1: a ( without its )"),
        ("causal) & causal", "column 7: a ) without its ("),
        ("causal window:1,0 & causal", "column 8: a sign is missing before 'window:1,0'"),
        ("causal & | causal", "column 10: a mask is missing before '|'"),
        ("causal & foo", "unknown mask 'foo'"),
        ("causal & (window:1 | chunk:2)", "column 11: window takes two numbers, not 1"),
        ('causal & keep:"x', "column 15: '\"' has no end"),
        ("causal:top-left & window:1,0:bottom-right", "masks are aligned top-left and bottom-right"),
        ("packed:2,1", "packed has sequences of 3 queries and 3 keys together, but there are 2 and 2"),
        ("packed:1,1/2", "packed has 2 sequences of queries, but 1 of keys"),
        ("chunk:0", "chunk:0 makes no sense"),
        ("prefix-keys:3", "prefix-keys:3 does not fit 2 keys"),
        ("causal & prefix-keys:3", "prefix-keys:3 does not fit 2 keys"),
    ],
)
def test_what_is_refused(text: str, told: str) -> None:
    done = attncli("attend", "[[1],[2]]", "[[1],[2]]", "--mask", text)
    assert done.status == 2
    assert told in done.err
