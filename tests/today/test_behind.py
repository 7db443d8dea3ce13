"""torch's bias_k, bias_v and add_zero_attn: keys behind all others, by a loop as its source has them, and refused."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from attncli import AttnError, attend, check, self_attention
from tests.calling import attncli

RNG = np.random.default_rng(31)
BIAS_K, BIAS_V = RNG.normal(size=(1, 1, 8)), RNG.normal(size=(1, 1, 8))
EITHER: list[dict[str, Any]] = [
    {"add_zero_attn": True},
    {"bias_k": BIAS_K.ravel(), "bias_v": BIAS_V.ravel()},
    {"bias_k": BIAS_K.ravel(), "bias_v": BIAS_V.ravel(), "add_zero_attn": True},
]


def by_loop(q: Any, k: Any, v: Any, heads: int, seen: Any, options: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """As torch's multi_head_attention_forward: the bias is one row more of projected keys and values, then comes a row
    of zeros, and the masks get a column more for each, in which nothing is hidden.
    """
    if "bias_k" in options:
        k, v = np.vstack([k, options["bias_k"]]), np.vstack([v, options["bias_v"]])
        seen = np.hstack([seen, np.ones((len(q), 1), bool)])
    if "add_zero_attn" in options:
        k, v = np.vstack([k, np.zeros(k.shape[1])]), np.vstack([v, np.zeros(v.shape[1])])
        seen = np.hstack([seen, np.ones((len(q), 1), bool)])
    d, weights, output = q.shape[1] // heads, np.zeros((heads, len(q), len(k))), np.zeros((len(q), v.shape[1]))
    for h, i in np.ndindex(heads, len(q)):
        of = slice(h * d, h * d + d)
        e = [math.exp(math.fsum(q[i, of] * k[j, of]) / math.sqrt(d)) if seen[i, j] else 0.0 for j in range(len(k))]
        weights[h, i] = np.array(e) / math.fsum(e)
        output[i, of] = weights[h, i] @ v[:, of]
    return weights, output


@pytest.mark.parametrize("options", EITHER, ids=lambda each: " ".join(each))
@pytest.mark.parametrize("mask", [None, "causal", {"lengths": 2}, {"keep": np.eye(4, 6, dtype=int)}], ids=str)
def test_every_query_sees_them(options: dict[str, Any], mask: Any) -> None:
    q, k, v = RNG.normal(size=(4, 8)), RNG.normal(size=(6, 8)), RNG.normal(size=(6, 8))
    i, j = np.indices((4, 6))
    seen = {"None": j >= 0, "causal": j <= i, "{'lengths': 2}": j < 2}.get(str(mask), i == j)
    trace = attend(q, k, v, heads=2, mask=mask, **options)
    weights, output = by_loop(q, k, v, 2, seen, options)
    np.testing.assert_allclose(trace.weights, weights, rtol=0, atol=1e-14)
    np.testing.assert_allclose(trace.output, output, rtol=0, atol=1e-13)


def test_a_query_that_sees_no_other_key_looks_at_them_alone() -> None:
    trace = attend([[1.0]], [[2.0], [3.0]], [[5.0], [6.0]], mask={"block": [[1, 1]]}, bias_k=[4], bias_v=[7])
    assert trace.weights.tolist() == [[0, 0, 1]]
    assert trace.output.tolist() == [[7]]
    assert list(trace.key_labels) == ["k1", "k2", "bias_k"]


@pytest.mark.parametrize("options", EITHER, ids=lambda each: " ".join(each))
def test_large_problems_and_a_bias(options: dict[str, Any]) -> None:
    x, bias = RNG.normal(size=(400, 8)), RNG.normal(size=(400, 400))
    whole = self_attention(x, heads=2, mask="causal", bias=bias, **options)
    rows = self_attention(x, heads=2, mask="causal", bias=bias, steps=("output",), **options)
    np.testing.assert_allclose(rows.output, whole.output, rtol=0, atol=1e-13)
    assert not whole.biased[..., 400:].any() or options.get("bias_k") is not None


def test_a_hand_without_them_is_wrong_and_one_with_them_agrees() -> None:
    problem = {"X": np.round(RNG.normal(size=(3, 2)), 1).tolist(), "mask": "causal", "add_zero_attn": True}
    trace = self_attention(problem["X"], mask="causal", add_zero_attn=True)
    x = np.array(problem["X"])
    weights, _ = by_loop(x, x, x, 1, np.tri(3, dtype=bool), {"add_zero_attn": True})
    right = np.vectorize(lambda cell: f"{cell:.4f}")(weights[0]).tolist()
    assert check({**problem, "expect": {"weights": {"values": right, "decimals": 4}}}).verdict == "agrees"
    assert trace.weights.shape == (3, 4)
    zeros = {"values": [["0.0000", *row[1:]] for row in right], "decimals": 4}
    assert check({**problem, "expect": {"weights": zeros}}).verdict == "wrong"


def test_options_say_them_and_what_does_not_fit_is_refused() -> None:
    done = attncli("self", "[[1, 0], [0, 1]]", "--add-zero-attn", "--format", "json")
    assert json.loads(done.out)["key_labels"] == ["k1", "k2", "add_zero_attn"]
    q = np.eye(2)
    for options, what in (
        ({"bias_k": [1, 2]}, "bias_k has no effect without --bias-v"),
        ({"bias_k": [1, 2, 3], "bias_v": [1, 2]}, "bias_k has 3 numbers, but K has 2 features"),
        ({"add_zero_attn": True, "rope": 100}, "rope asks where keys stand, which the one of add_zero_attn does not"),
        ({"add_zero_attn": True, "scores": q, "Q": None, "K": None}, "add_zero_attn has no effect"),
    ):
        with pytest.raises(AttnError, match=what):
            attend(**{"Q": q, "K": q, "V": q, **options})  # type: ignore[arg-type]
