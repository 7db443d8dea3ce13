"""Masks that ask where each sequence begins and ends: lengths, segments, chunks, padded queries, by plain loops."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli import attend, check, run
from tests.calling import attncli

RNG = np.random.default_rng(29)
B, N, M, D = 3, 4, 6, 5
Q, K, V = (RNG.normal(size=(B, count, D)) for count in (N, M, M))
LENGTHS = [4, 6, 2]
TEXTS = [[0, 0, 1, 1], [0, 1, 1, 2], [5, 5, 5, 5]]
KEYS = [[0, 0, 1, 1, 1, 3], [0, 1, 2, 2, 1, 0], [5, 5, 4, 4, 5, 5]]
FIRST = [0, 2, 3]  # the first real key of each sequence, padded on the left
LEFT = [[[int(j >= first) for j in range(M)]] for first in FIRST]

# b, i, j count from 0. The last query stands at the last real key: at LENGTHS[b] - N + i.
Seen = Callable[[int, int, int], bool]
CASES: dict[str, tuple[Any, Seen]] = {
    "causal": ("causal:lengths & lengths:4,6,2",
               lambda b, i, j: j < LENGTHS[b] and j <= LENGTHS[b] - N + i),
    "window": (["window:1,0:lengths", "lengths:4,6,2"],
               lambda b, i, j: j < LENGTHS[b] and LENGTHS[b] - N + i - 1 <= j <= LENGTHS[b] - N + i),
    "either": ("(causal:lengths | prefix-keys:1) & lengths:4,6,2",
               lambda b, i, j: j < LENGTHS[b] and (j <= LENGTHS[b] - N + i or j < 1)),
    "within another": ("keys:1,0,0,0,0,0 | causal:lengths & lengths:4,6,2",
                       lambda b, i, j: j == 0 or (j < LENGTHS[b] and j <= LENGTHS[b] - N + i)),
    "one for all": ("causal:lengths & lengths:5", lambda b, i, j: j < 5 and j <= 5 - N + i),
    "segments": ([{"segments": [TEXTS, KEYS]}], lambda b, i, j: TEXTS[b][i] == KEYS[b][j]),
    "chunk": ([{"keep": LEFT}, "chunk:2:bottom-right"],
              lambda b, i, j: j >= FIRST[b] and (M - N + i - FIRST[b]) // 2 == (j - FIRST[b]) // 2),
    "packed chunk": ("packed:1,3/3,3 & chunk:2:bottom-right",
                     lambda b, i, j: j == 2 if i == 0 else j > 2 and (i - 1) // 2 == (j - 3) // 2),
    "query lengths": ("query-lengths:4,2,0", lambda b, i, j: i < [4, 2, 0][b]),
    "queries": ("queries:1,0,1,1 & lengths:4,6,2", lambda b, i, j: i != 1 and j < LENGTHS[b]),
}  # fmt: skip


def loop(seen: Seen) -> tuple[np.ndarray, np.ndarray]:
    """Weights and output by the formula, one number after the other; a query that sees no key gets zeros."""
    weights, output = np.zeros((B, N, M)), np.zeros((B, N, D))
    for b in range(B):
        for i in range(N):
            e = {j: np.exp(sum(Q[b, i] * K[b, j]) / np.sqrt(D)) for j in range(M) if seen(b, i, j)}
            for j, number in e.items():
                weights[b, i, j] = number / sum(e.values())
                output[b, i] += weights[b, i, j] * V[b, j]
    return weights, output


@pytest.mark.parametrize("name", CASES)
def test_what_is_seen(name: str, tmp_path: Path) -> None:
    mask, seen = CASES[name]
    weights, output = loop(seen)
    problem = {"Q": Q.tolist(), "K": K.tolist(), "V": V.tolist(), "mask": mask}
    trace = run(problem)
    np.testing.assert_allclose(trace.weights, weights, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(trace.output, output, rtol=1e-12, atol=1e-14)
    only = run(problem, steps=("output",))  # by blocks
    np.testing.assert_allclose(only.output, output, rtol=1e-12, atol=1e-14)
    path, saved = tmp_path / "p.json", tmp_path / "saved.yaml"
    path.write_text(json.dumps(problem))
    assert attncli("run", path, "--save-problem", saved, "--quiet").status == 0
    np.testing.assert_array_equal(run(saved).weights, trace.weights)
    assert check({**problem, "expect": {"weights": weights, "output": output}}).verdict == "agrees"
    wrong = weights + 1e-3 * (weights > 0)
    assert check({**problem, "expect": {"weights": wrong}}).verdict == "wrong"


def test_the_published_case() -> None:
    # n 2, m 4, length 3, equal scores, values 0 1 2 3: the queries stand at keys 2 and 3 (ONNX nonpad_kv_seqlen).
    trace = attend([[0], [0]], np.zeros((4, 1)), [[0], [1], [2], [3]], mask="causal:lengths & lengths:3")
    np.testing.assert_allclose(trace.output, [[0.5], [1]], rtol=1e-15)


def test_rotary_positions_and_slopes_follow_the_lengths() -> None:
    mask = "causal:lengths & lengths:4,6,2"
    for more in ({"rope": 100, "score": "dot", "Q": Q[..., :4], "K": K[..., :4]}, {"alibi": 0.25}):
        whole = run({"Q": Q, "K": K, "mask": mask, **more}).weights
        for b, length in enumerate(LENGTHS):
            own = {"Q": Q[b], "K": K[b, :length], **more}
            own |= {name: np.asarray(more[name])[b] for name in ("Q", "K") if name in more}
            own["K"] = own["K"][:length]
            alone = run({**own, "mask": "causal:bottom-right"}).weights
            np.testing.assert_allclose(whole[b, :, :length], alone, rtol=1e-12, atol=1e-15)


def test_segments_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "s.csv"
    file.write_text("0,0,1,1\n0,1,1,2\n5,5,5,5\n")
    trace = attend(Q, Q, mask=f"segments:{file}")
    right = [[[TEXTS[b][i] == TEXTS[b][j] for j in range(N)] for i in range(N)] for b in range(B)]
    np.testing.assert_array_equal(trace.weights > 0, right)
    np.testing.assert_array_equal(run({"Q": Q, "K": Q, "mask": [{"segments": TEXTS}]}).weights, trace.weights)
    two = run({"Q": Q[:2], "K": Q[:2], "mask": [{"segments": TEXTS[:2]}]}).weights
    np.testing.assert_array_equal(two, trace.weights[:2])


def test_drawn() -> None:
    drawn = attncli("list", "masks", "--draw", "4x6").out
    part = drawn[drawn.index("causal:lengths & lengths:4") :].splitlines()[2:6]
    assert [line.split() for line in part] == [["■" if j <= i else "·" for j in range(6)] for i in range(4)]
    assert "window:2,0:lengths & lengths:4" in drawn
    assert "query-lengths:3" in drawn
    assert "queries:1,1,0,1" in drawn


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("causal:lengths", "causal:lengths is aligned to the last real key of each sequence, but no lengths say which"),
        ("causal:lengths | lengths:1", "no lengths say which"),
        ("causal:lengths & lengths:1,2", "lengths are one a query"),
        ("causal & foo", "column 10: unknown mask 'foo'"),
        ("!(windo:1,0)", "column 3: unknown mask 'windo'"),
        ("segments:0,1,1", "segments has 3 numbers for 2 queries and 3 for 2 keys"),
        ("queries:1", "queries has 1 number, but the queries are 2"),
        ("query-lengths:3", "query-lengths: 3 is not among 0..2"),
        ("query-lengths:1,2", "query-lengths has 2 numbers, but there is 1 sequence"),
    ],
)
def test_what_is_refused(text: str, told: str) -> None:
    done = attncli("attend", "[[1],[2]]", "[[1],[2]]", "--mask", text)
    assert done.status == 2
    assert told in done.err
