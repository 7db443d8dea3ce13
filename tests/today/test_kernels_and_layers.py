"""Linear attention, layers with biases, graph attention, retention: by the papers' formulas in loops, and refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli import AttnError, attend, load, run, self_attention
from tests.calling import attncli

RNG = np.random.default_rng(12)
Q, K, V = RNG.normal(size=(4, 3)), RNG.normal(size=(5, 3)), RNG.normal(size=(5, 2))
MAPS: dict[str, Callable[[float], float]] = {
    "elu1": lambda x: x + 1 if x > 0 else math.exp(x),
    "relu": lambda x: max(x, 0.0),
    "exp": math.exp,
    "square": lambda x: x * x,
}


def recurrent(q: Any, k: Any, v: Any, phi: Callable[[float], float]) -> np.ndarray:
    """Katharopoulos et al. 2020, equations 18 to 20: a state that grows key by key, no weights at all."""
    state, total, out = np.zeros((q.shape[-1], v.shape[-1])), np.zeros(q.shape[-1]), []
    for i in range(len(q)):
        of_k, of_q = np.array([phi(x) for x in k[i]]), np.array([phi(x) for x in q[i]])
        state, total = state + np.outer(of_k, v[i]), total + of_k
        out.append(of_q @ state / (of_q @ total))
    return np.array(out)


@pytest.mark.parametrize("map", MAPS)
@pytest.mark.parametrize("normalizer", ["sum", "softmax"])
def test_linear_attention_by_its_recurrence(map: str, normalizer: str) -> None:
    x = RNG.normal(size=(9, 6))
    trace = attend(x, x, x, score=("linear", {"map": map}), normalizer=normalizer, mask="causal", heads=2)
    for h in range(2):
        of = slice(3 * h, 3 * h + 3)
        right = recurrent(x[:, of], x[:, of], x[:, of], MAPS[map])
        # Where relu leaves a first row nothing in reach, the row is empty.
        np.testing.assert_allclose(trace.output[:, of], np.nan_to_num(right), rtol=1e-12, atol=1e-13)
    kernel = [[math.fsum(MAPS[map](a) * MAPS[map](b) for a, b in zip(q, k, strict=True)) for k in K] for q in Q]
    np.testing.assert_allclose(attend(Q, K, score=("linear", {"map": map})).kernel, kernel, rtol=1e-14)


def test_a_large_linear_attention_is_the_same() -> None:
    x = RNG.normal(size=(800, 4))
    trace = self_attention(x, score="linear", normalizer="sum", mask="causal", steps=("output",))
    np.testing.assert_allclose(trace.output, recurrent(x, x, x, MAPS["elu1"]), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("activation", ["tanh", "leaky-relu"])
def test_a_layer_with_biases_by_a_loop(activation: str) -> None:
    # Bahdanau et al. 2015 with the biases of framework layers; Brody et al. 2022 (GATv2) with LeakyReLU.
    layer = {"W_q": RNG.normal(size=(4, 3)), "W_k": RNG.normal(size=(4, 3)), "w_v": RNG.normal(size=4),
             "b_q": RNG.normal(size=4), "b_k": RNG.normal(size=4), "b_v": 0.7}  # fmt: skip

    def bent(x: float) -> float:
        return math.tanh(x) if activation == "tanh" else x if x > 0 else 0.2 * x

    right = np.zeros((4, 5))
    for i, j in np.ndindex(4, 5):
        inner = layer["W_q"] @ Q[i] + layer["b_q"] + layer["W_k"] @ K[j] + layer["b_k"]
        right[i, j] = math.fsum(w * bent(x) for w, x in zip(layer["w_v"], inner, strict=True)) + 0.7
    found = attend(Q, K, score=("additive", {**layer, "activation": activation})).scores
    np.testing.assert_allclose(found, right, rtol=0, atol=1e-12)


@pytest.mark.parametrize("W", [None, RNG.normal(size=(2, 3))], ids=["no W", "W"])
def test_graph_attention_by_a_loop(W: np.ndarray | None) -> None:
    # Velickovic et al. 2018, equations 1 to 3: only neighbours are seen.
    x, graph = RNG.normal(size=(5, 3)), RNG.integers(0, 2, (5, 5)) | np.eye(5, dtype=int)
    h = x if W is None else x @ W.T
    a = RNG.normal(size=2 * h.shape[1])
    right = np.zeros((5, 5))
    for i in range(5):
        seen = np.flatnonzero(graph[i])
        raw = [math.fsum(a * np.concatenate([h[i], h[j]])) for j in seen]
        e = [math.exp(s if s > 0 else 0.2 * s) for s in raw]
        right[i, seen] = np.array(e) / math.fsum(e)
    parameters = {"a": a} if W is None else {"a": a, "W": W}
    trace = self_attention(x, score=("gat", parameters), mask={"keep": graph})
    np.testing.assert_allclose(trace.weights, right, rtol=0, atol=1e-14)


@pytest.mark.parametrize("n", [6, 700])
def test_retention_by_its_recurrence(n: int) -> None:
    # Sun et al. 2023, equations 1, 5 and 8: S_n = gamma S_(n-1) + k_n v_n, and q_n S_n; gamma = 1 - 2^(-5 - h).
    x = RNG.normal(size=(n, 6)) / 3
    trace = self_attention(x, heads=3, score="dot", decay="retention", mask="causal", normalizer="none",
                           steps=("output",))  # fmt: skip
    for h in range(3):
        part, state = x[:, 2 * h : 2 * h + 2], np.zeros((2, 2))
        for i in range(n):
            state = (1 - 2.0 ** (-5 - h)) * state + np.outer(part[i], part[i])
            np.testing.assert_allclose(trace.output[i, 2 * h : 2 * h + 2], part[i] @ state, rtol=1e-11, atol=1e-13)


def test_decay_by_a_loop_with_past_keys_and_positions() -> None:
    for options, places in (
        ({"past_k": RNG.normal(size=(2, 3))}, (range(2, 6), range(7))),
        ({"positions": [0, 3, 4, 9], "key_positions": [1, 0, 5, 7, 8]}, ([0, 3, 4, 9], [1, 0, 5, 7, 8])),
    ):
        trace = attend(Q, K, decay=0.75, **options)  # type: ignore[arg-type]
        away = [[abs(i - j) for j in places[1]] for i in places[0]]
        np.testing.assert_allclose(trace["decayed"], trace["scaled"] * 0.75 ** np.array(away), rtol=1e-14)


def test_files_options_and_dry_runs_say_them(tmp_path: Path) -> None:
    argv = ["attend", "[[1, -2]]", "[[1, 0], [0, 1]]", "[[4], [8]]"]
    done = attncli(*argv, "--score", "linear", "--param", "map=exp", "--normalizer", "sum", "--format", "json",
                   "--save-problem", tmp_path / "p.yaml", "--show", "weights")  # fmt: skip
    found = json.loads(done.out)
    assert found["score"] == {"name": "linear", "map": "exp"}
    e, b = math.exp(1) * math.exp(1) + math.exp(-2), math.exp(1) + math.exp(-2) * math.exp(1)
    np.testing.assert_allclose(found["steps"]["weights"], [[e / (e + b), b / (e + b)]], rtol=1e-14)
    np.testing.assert_array_equal(run(load(tmp_path / "p.yaml")).weights, found["steps"]["weights"])
    assert "score: linear map=exp" in attncli("run", tmp_path / "p.yaml", "--dry-run").out
    done = attncli(*argv, "--decay", "0.9", "--dry-run")
    assert "decay: 0.9" in done.out
    assert "decayed: 1 x 2" in done.out


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"decay": 1.5}, "decay is a number above 0, at most 1"),
        ({"decay": [0.5, 0.6]}, "decay has 2 numbers, but there is 1 head"),
        ({"decay": "retain"}, "unknown decay 'retain'\nknown: retention, numbers"),
        ({"decay": 0.5, "score": "gaussian"}, "those of a kernel are its logarithm\n--alibi"),
    ],
)
def test_what_has_no_meaning_is_refused(options: dict[str, Any], what: str) -> None:
    with pytest.raises(AttnError, match=what):
        attend(Q, K, V, **options)


def test_a_word_that_is_not_known_has_its_place(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("Q: [[1, 0]]\nK: [[1, 0]]\nscore: {name: linear, map: elu}\n")
    done = attncli("run", file)
    assert done.status == 2
    assert f"{file}:3:28: unknown map 'elu'" in done.err
    assert "elu1" in done.err
