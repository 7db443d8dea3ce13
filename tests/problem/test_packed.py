"""Weights as frameworks store them: packed projections and kernels with an axis of heads, against einsum formulas."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli import AttnError, check, cross_attention, load, run, self_attention
from tests.calling import Result

E, H, D = 8, 2, 4
CHANCE = np.random.default_rng(5)
X = CHANCE.normal(size=(2, 5, E))
Y = CHANCE.normal(size=(2, 3, E))
W = CHANCE.normal(size=(E, 3 * E))
B = CHANCE.normal(size=3 * E)
W_O, B_O = CHANCE.normal(size=(E, E)), CHANCE.normal(size=E)


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores)
    return powers / powers.sum(-1, keepdims=True)


def layer(x: np.ndarray, y: np.ndarray, packed: np.ndarray, bias: np.ndarray, groups: int = H) -> np.ndarray:
    """The layer head by head: head h has d columns of the queries, and those of key head floor(h G / H)."""
    heads = []
    for h in range(H):
        g = h * groups // H
        at = [h * D, (H + g) * D, (H + groups + g) * D]
        q, k, v = (
            data @ packed[:, start : start + D] + bias[start : start + D]
            for data, start in zip((x, y, y), at, strict=True)
        )
        heads.append(softmax(np.einsum("bnd,bmd->bnm", q, k) / np.sqrt(D)) @ v)
    return np.concatenate(heads, -1)


def kernels(packed: np.ndarray = W, groups: int = H) -> dict[str, np.ndarray]:
    at = [0, H * D, (H + groups) * D, (H + 2 * groups) * D]
    return {
        name: packed[:, start:stop].reshape(E, -1, D)
        for name, start, stop in zip(("wq", "wk", "wv"), at, at[1:], strict=False)
    }


@pytest.mark.parametrize(
    "options",
    [
        {"wqkv": W},
        {"wqkv": W.T, "weight_layout": "out-in"},
        {"wqkv": W.T, "like": "torch-mha"},
    ],
)
@pytest.mark.parametrize("shape", [(3 * E,), (1, 3 * E), (3 * E, 1)])
def test_packed(options: dict[str, Any], shape: tuple[int, ...]) -> None:
    found = self_attention(X, bqkv=B.reshape(shape), heads=H, **options)
    np.testing.assert_allclose(found.output, layer(X, X, W, B), rtol=1e-12)


def test_packed_in_columns() -> None:
    found = self_attention(X.mT, wqkv=W.T, bqkv=B, heads=H, layout="columns")
    np.testing.assert_allclose(found.output, layer(X, X, W, B).mT, rtol=1e-12)


def test_packed_of_cross_attention() -> None:
    found = cross_attention(X, Y, wqkv=W, bqkv=B, heads=H)
    np.testing.assert_allclose(found.output, layer(X, Y, W, B), rtol=1e-12)


def test_packed_of_grouped_heads() -> None:
    packed, bias = W[:, : (H + 2) * D], B[: (H + 2) * D]
    found = self_attention(X, wqkv=packed, bqkv=bias, heads=H, kv_heads=1)
    np.testing.assert_allclose(found.output, layer(X, X, packed, bias, groups=1), rtol=1e-12)


@pytest.mark.parametrize("groups", [H, 1])
def test_kernels_say_how_many_heads_there_are(groups: int) -> None:
    width = (H + 2 * groups) * D
    packed, bias = W[:, :width], B[:width]
    at = [0, H * D, (H + groups) * D, width]
    biases = {
        name: bias[start:stop].reshape(-1, D) for name, start, stop in zip(("bq", "bk", "bv"), at, at[1:], strict=False)
    }
    output = {"wo": W_O.reshape(H, D, E), "bo": B_O}
    found = self_attention(X, **kernels(packed, groups), **biases, **output, like="keras-mha")
    np.testing.assert_allclose(found.output, layer(X, X, packed, bias, groups) @ W_O + B_O, rtol=1e-12)
    assert found.weights.shape == (2, H, 5, 5)


def test_on_the_command_line(tmp_path: Path, cli: Callable[..., Result]) -> None:
    for name, array in {"x": X, "w": W.T, "b": B, **kernels()}.items():
        np.save(tmp_path / f"{name}.npy", array)

    def output(*options: object) -> np.ndarray:
        done = cli("self", tmp_path / "x.npy", *options, "-o", tmp_path / "o.npy", "--force")
        assert done.status == 0, done.err
        return np.load(tmp_path / "o.npy")

    packed = ("--wqkv", tmp_path / "w.npy", "--bqkv", tmp_path / "b.npy", "--like", "torch-mha", "--heads", H)
    np.testing.assert_allclose(output(*packed), layer(X, X, W, B), rtol=1e-12)
    three = [each for name in ("wq", "wk", "wv") for each in (f"--{name}", tmp_path / f"{name}.npy")]
    np.testing.assert_allclose(output(*three), layer(X, X, W, 0 * B), rtol=1e-12)
    told = cli("self", tmp_path / "x.npy", *packed, "--dry-run")
    assert "W_QKV: 8 + 8 + 8 outputs are W_Q, W_K, W_V, stored out-in" in " ".join(told.err.split())


PROBLEM = """
X: [[1, 2], [0, 1]]
W_QKV: [[1, 0, sqrt(2), 0, 1, 1], [0, 1, 0, 1/3, 2, 0]]
score: dot
"""
BY_HAND = {"Q": [[1, 2], [0, 1]], "K": [[2**0.5, 2 / 3], [0, 1 / 3]], "V": [[5, 1], [2, 0]]}


def test_in_a_problem_file(tmp_path: Path, cli: Callable[..., Result]) -> None:
    path, saved = tmp_path / "p.yaml", tmp_path / "saved.yaml"
    path.write_text(PROBLEM + "expect: {K: [[1.41, 0.67], [0, 0.33]], V: [[5, 1], [2, 0]]}\n")
    for step, rows in BY_HAND.items():
        np.testing.assert_allclose(run(path)[step], rows, rtol=1e-15)
    assert check(path).verdict == "agrees"
    assert cli("run", path, "--save-problem", saved, "--quiet").status == 0
    np.testing.assert_array_equal(run(saved).output, run(path).output)
    exact = cli("explain", path, "--query", "1", "--exact", "--quiet")
    assert "sqrt(2)" in exact.out


def test_a_part_knows_where_its_numbers_stand(tmp_path: Path) -> None:
    (tmp_path / "w.csv").write_text("1,2,3,4,5,6\n7,8,9,10,11,12\n")
    (tmp_path / "p.yaml").write_text("X: [[1, 2]]\nW_QKV: w.csv\n")
    weights = load(tmp_path / "p.yaml").inputs["W_K"]
    assert weights.array.tolist() == [[3, 4], [9, 10]]
    assert (weights.at((1, 1)).line, weights.at((1, 1)).column) == (2, 4)


@pytest.mark.parametrize(
    ("options", "what", "mends"),
    [
        ({"wqkv": W.T}, "W_QKV (24 x 8, stored in-out): it takes 24 features, but the data have 8",
         "transposed it would fit: --weight-layout out-in"),
        ({"wqkv": W, "weight_layout": "out-in"}, "it takes 24 features", "--weight-layout in-out"),
        ({"wqkv": W[:, :23]}, "it has 23 outputs, which are not three equal parts", "3E of them"),
        ({"wqkv": W, "heads": 5}, "which 15 heads (5 + 5 + 5) cannot share equally", "--kv-heads"),
        ({"wqkv": W, "wk": W[:, :8]}, "W_QKV and W_K both say the same", "leave one of them out"),
        ({"wqkv": W.reshape(E, 3, E)}, "W_QKV is 8 x 3 x 8, but packed weights have two axes", ""),
        ({"wqkv": 3}, "W_QKV is a single number", ""),
        ({"wqkv": W, "bqkv": B[:5]}, "b_QKV: it has 5 outputs, which are not three equal parts", ""),
        ({"wqkv": W, "bqkv": B[:6]}, "b_Q has 2 numbers, but Q has 8 features", ""),
        ({**kernels(), "heads": 4}, "W_Q is 8 x 2 x 4, with 2 heads, but heads is 4", "one head's width"),
        ({**kernels(), "weight_layout": "out-in"}, "W_Q is 8 x 2 x 4: a kernel with an axis of heads is stored in-out",
         "--weight-layout in-out"),
        ({"wq": W[:, :8], "bq": B[:8].reshape(4, 2)}, "b_Q is 4 x 2, but the bias of a projection is a vector", ""),
    ],
)  # fmt: skip
def test_what_does_not_fit(options: dict[str, Any], what: str, mends: str) -> None:
    with pytest.raises(AttnError) as told:
        self_attention(X, **options)
    assert what in str(told.value)
    assert mends in str(told.value)
    assert str(told.value).count("W_Q is a ") == 0  # nothing more is said of what could not be unpacked


def test_a_stage_gives_no_packed_weights() -> None:
    first = {"name": "a", "Q": [[1]], "K": [[1]], "V": [[1]]}
    stages = {"stages": [first, {"name": "b", "X": [[1]], "W_QKV": {"stage": "a", "step": "output"}}]}
    with pytest.raises(AttnError, match="W_QKV cannot come from a stage"):
        check(stages)
