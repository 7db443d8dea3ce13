"""Stages that join earlier ones: differential attention, rollout, halves merged by lse, by plain loops."""

from __future__ import annotations

import json
from math import exp, log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli import check, run
from attncli.problem.document import read_document
from attncli.problem.stages import read_stages
from tests.calling import attncli

RNG = np.random.default_rng(41)
Q1, K1, Q2, K2 = (RNG.normal(size=(4, 3)).round(2).tolist() for _ in range(4))
V = RNG.normal(size=(4, 2)).round(2).tolist()


def softmax_rows(q: list[list[float]], k: list[list[float]], seen: Any = lambda i, j: True) -> list[list[float]]:
    rows = []
    for i, query in enumerate(q):
        e = [exp(sum(a * b for a, b in zip(query, key, strict=True)) / sqrt(len(query))) if seen(i, j) else 0.0
             for j, key in enumerate(k)]  # fmt: skip
        rows.append([each / sum(e) for each in e])
    return rows


def solved(stages: list[dict[str, Any]], tmp_path: Path, *more: str) -> dict[str, dict[str, Any]]:
    path = tmp_path / "p.json"
    path.write_text(json.dumps({"stages": stages}))
    done = attncli("run", path, "--format", "json", "--show", "all", *more)
    assert done.status == 0, done.err
    return {name: each["steps"] for name, each in json.loads(done.out)["stages"].items()}


def test_differential_attention(tmp_path: Path) -> None:
    stages: list[dict[str, Any]] = [
        {"name": "first", "Q": Q1, "K": K1, "V": V, "mask": "causal"},
        {"name": "second", "Q": Q2, "K": K2, "mask": "causal"},
        {"name": "both", "weights": {"minus": ["first", "second"], "times": 0.8}, "V": {"stage": "first", "step": "V"}},
    ]
    one, two = (softmax_rows(q, k, lambda i, j: j <= i) for q, k in ((Q1, K1), (Q2, K2)))
    right = [[one[i][j] - 0.8 * two[i][j] for j in range(4)] for i in range(4)]
    output = [[sum(right[i][j] * V[j][c] for j in range(4)) for c in range(2)] for i in range(4)]
    steps = solved(stages, tmp_path)["both"]
    np.testing.assert_allclose(steps["weights"], right, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(steps["output"], output, rtol=1e-12, atol=1e-14)
    # A hand that left lambda out is wrong, and the right one agrees.
    for times, verdict in ((0.8, "agrees"), (1.0, "wrong")):
        hand = [[round(sum((one[i][j] - times * two[i][j]) * V[j][c] for j in range(4)), 4) for c in range(2)]
                for i in range(4)]  # fmt: skip
        marked = check({"stages": [*stages[:2], {**stages[2], "expect": {"output": hand}}]})
        assert (marked[-1] if isinstance(marked, list) else marked).verdict == verdict
    columns = [{key: np.transpose(value).tolist() if key in ("Q", "K", "V") and isinstance(value, list) else value
                for key, value in stage.items()} | {"layout": "columns"} for stage in stages]  # fmt: skip
    np.testing.assert_allclose(
        solved(columns, tmp_path)["both"]["output"], np.transpose(output), rtol=1e-12, atol=1e-14
    )


def test_rollout_averages_heads_and_keeps_the_residual(tmp_path: Path) -> None:
    x = [RNG.normal(size=(3, 4)).round(2).tolist() for _ in range(2)]
    stages = [{"name": "one", "X": x[0], "heads": 2}, {"name": "two", "X": x[1], "heads": 2},
              {"name": "flow", "weights": {"rollout": ["one", "two"]}}]  # fmt: skip
    rolled = [[float(i == j) for j in range(3)] for i in range(3)]
    for each in x:
        heads = [softmax_rows([row[h : h + 2] for row in each], [row[h : h + 2] for row in each]) for h in (0, 2)]
        layer = [[0.5 * (heads[0][i][j] + heads[1][i][j]) / 2 + 0.5 * (i == j) for j in range(3)] for i in range(3)]
        rolled = [[sum(layer[i][k] * rolled[k][j] for k in range(3)) for j in range(3)] for i in range(3)]
    weights = solved(stages, tmp_path)["flow"]["weights"]
    np.testing.assert_allclose(weights, rolled, rtol=1e-12)
    np.testing.assert_allclose(np.sum(weights, axis=1), 1, rtol=1e-12)


def test_halves_merged_by_lse_are_the_whole(tmp_path: Path) -> None:
    # T8's formula: lse = log(e^l1 + e^l2), output = (e^(l1 - lse) o1 + e^(l2 - lse) o2). One half is hidden in row 1.
    stages = [
        {"name": "left", "Q": Q1, "K": K1[:1], "V": V[:1], "mask": [{"keep": [[0], [1], [1], [1]]}]},
        {"name": "right", "Q": Q1, "K": K1[1:], "V": V[1:]},
        {"name": "whole", "masked": {"merge": ["left", "right"]}, "V": {"merge": ["left", "right"]}},
    ]
    steps = solved(stages, tmp_path)
    halves = [steps["left"], steps["right"]]
    for i in range(1, 4):
        l1, l2 = (half["lse"][i][0] for half in halves)
        lse = log(exp(l1) + exp(l2))
        assert steps["whole"]["lse"][i][0] == pytest.approx(lse, rel=1e-12)
        for c in range(2):
            o1, o2 = (half["output"][i][c] for half in halves)
            right = exp(l1 - lse) * o1 + exp(l2 - lse) * o2
            assert steps["whole"]["output"][i][c] == pytest.approx(right, rel=1e-12, abs=1e-14)
    np.testing.assert_allclose(steps["whole"]["output"][0], halves[1]["output"][0], rtol=1e-12)
    seen = lambda i, j: i > 0 or j > 0  # noqa: E731
    np.testing.assert_allclose(steps["whole"]["weights"], softmax_rows(Q1, K1, seen), rtol=1e-12, atol=1e-14)


def test_the_numbers_of_two_halves_alone() -> None:
    # l 1.8150 and 2.2345, outputs 1.6698 and 4.4282: their lse stand for scores.
    trace = run({"scores": [[1.8150, 2.2345]], "V": [[1.6698], [4.4282]]})
    lse = log(exp(1.8150) + exp(2.2345))
    assert trace["lse"][0, 0] == pytest.approx(lse, rel=1e-14)
    assert trace.output[0, 0] == pytest.approx(3.3341, abs=5e-5)


def test_the_dry_run_tells_the_shapes(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(json.dumps({"stages": [
        {"name": "a", "X": Q1, "heads": 3}, {"name": "b", "X": Q2}, {"name": "c", "weights": {"rollout": ["a", "b"]}},
        {"name": "d", "masked": {"merge": ["b", "b"]}, "V": {"merge": ["b", "b"]}},
    ]}))  # fmt: skip
    shapes = read_stages(read_document(path)).shapes
    assert shapes["c"]["weights"] == (4, 4)
    assert (shapes["d"]["masked"], shapes["d"]["output"]) == ((4, 8), (4, 3))
    assert attncli("run", path, "--dry-run").status == 0


@pytest.mark.parametrize(
    ("stage", "told"),
    [
        ("weights: {minus: [a, c]}", "p.yaml:5:34: there is no earlier stage 'c'"),
        ("weights: {minus: [a]}", "p.yaml:5:30: minus takes two stages"),
        ("weights: {rollout: [a, b], times: 2}", "p.yaml:5:47: rollout takes no times"),
        ("weights: {minus: [a, b], times: x}", 'p.yaml:5:45: "x" is not a number'),
        ("V: {rollout: [a, b]}", "p.yaml:5:16: V cannot be a rollout of stages"),
        ("weights: {minus: [a, b]}", "weights is made of 2 x 2 and 1 x 2, which are not of one size"),
        ("weights: {rollout: [b, b]}", "a rollout goes from tokens to the same tokens, but weights is 1 x 2"),
        ("masked: {merge: [a, n]}", "p.yaml:5:33: the stage 'n' has no step 'lse'"),
        ("weights: {minis: [a, b]}", "unknown key 'minis'"),
    ],
)
def test_what_is_refused(stage: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    a, b = "{name: a, Q: [[1], [2]], K: [[1], [2]]}", "{name: b, Q: [[1]], K: [[1], [2]]}"
    n = "{name: n, Q: [[1], [2]], K: [[1], [2]], normalizer: sparsemax}"
    path.write_text(f"stages:\n- {a}\n- {b}\n- {n}\n- {{name: e, {stage}}}\n")
    done = attncli("run", path)
    assert done.status == 2
    assert told in done.err
