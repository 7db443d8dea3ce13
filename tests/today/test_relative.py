"""Biases by distance: ALiBi's slopes as its authors' code gives them, tables, T5's buckets, vectors of Shaw and
Transformer-XL, each in a loop."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli import attend, self_attention
from tests.calling import attncli

RNG = np.random.default_rng(3)


def slopes_as_published(n: int) -> list[float]:
    """`get_slopes` of the authors' repository, as it stands there."""

    def power_of_two(n: int) -> list[float]:
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    if math.log2(n).is_integer():
        return power_of_two(n)
    closest = 2 ** math.floor(math.log2(n))
    return power_of_two(closest) + slopes_as_published(2 * closest)[0::2][: n - closest]


def slopes(heads: int, how: str) -> Any:
    x = np.zeros((2, heads))
    return -self_attention(x, heads=heads, alibi=how, score="dot").biased.reshape(heads, 2, 2)[:, 1, 0]


@pytest.mark.parametrize("heads", [1, 2, 3, 5, 8, 12, 20, 33])
def test_published_slopes_of_any_number_of_heads(heads: int) -> None:
    np.testing.assert_allclose(slopes(heads, "published"), slopes_as_published(heads), rtol=1e-14)


def test_the_two_slopes_of_three_heads() -> None:
    np.testing.assert_allclose(slopes(3, "published"), [0.0625, 0.00390625, 0.25], rtol=1e-15)
    np.testing.assert_allclose(slopes(3, "geometric"), [0.157490, 0.024803, 0.003906], atol=5e-7)
    np.testing.assert_allclose(slopes(8, "geometric"), slopes(8, "published"), rtol=1e-14)
    np.testing.assert_allclose(slopes(2, "0.5, 1/4"), [0.5, 0.25])


def test_alibi_with_a_causal_mask_and_without() -> None:
    x = RNG.normal(size=(4, 6))
    plain = self_attention(x, heads=2).scaled
    causal, free = (self_attention(x, heads=2, alibi=[0.5, 0.1], mask=mask) for mask in ("causal", None))
    for h, slope in enumerate((0.5, 0.1)):
        for i in range(4):
            for j in range(4):
                assert causal.biased[h, i, j] == pytest.approx(plain[h, i, j] + slope * (j - i), abs=1e-15)
                assert free.biased[h, i, j] == pytest.approx(plain[h, i, j] - slope * abs(j - i), abs=1e-15)


def test_alibi_counts_past_keys_and_follows_the_alignment() -> None:
    x = RNG.normal(size=(6, 4))
    whole = self_attention(x, alibi=0.5, mask="causal").output
    past = attend(x[4:], x[4:], x[4:], past_k=x[:4], past_v=x[:4], alibi=0.5, mask="causal").output
    right = attend(x[4:], x, x, alibi=0.5, mask="causal:bottom-right").output
    placed = attend(x[[3]], x[:4], x[:4], alibi=0.5, positions=[3], key_positions=[0, 1, 2, 3]).output
    np.testing.assert_allclose([*past, *right, *placed], [*whole[4:], *whole[4:], whole[3]], rtol=1e-12)


def test_it_adds_to_a_bias_that_is_given() -> None:
    x, bias = RNG.normal(size=(3, 2)), RNG.normal(size=(3, 3))
    both = self_attention(x, alibi=0.5, bias=bias)
    np.testing.assert_allclose(both.biased, self_attention(x, alibi=0.5).biased + bias, rtol=1e-13)


@pytest.mark.parametrize("heads", [None, 2])
@pytest.mark.parametrize("mask", ["causal:top-left", "causal:bottom-right", None])
def test_a_table_by_distance(heads: int | None, mask: str | None) -> None:
    q, k = RNG.normal(size=(3, 4)), RNG.normal(size=(5, 4))
    table = RNG.normal(size=(heads or 1, 7))
    trace = attend(q, k, k, heads=heads, relative=table, mask=mask)
    offset = 2 if mask == "causal:bottom-right" else 0  # of the first query
    least = -(offset + 2)
    added = trace.biased.reshape(-1, 3, 5) - trace.scaled.reshape(-1, 3, 5)
    for h in range(heads or 1):
        for i in range(3):
            for j in range(5):
                assert added[h, i, j] == pytest.approx(table[h, j - (i + offset) - least], abs=1e-14)


def bucket(away: int, buckets: int, most: int, *, causal: bool) -> int:
    """`_relative_position_bucket` of T5 for one distance (memory position - context position)."""
    found = 0
    if causal:
        away = -min(away, 0)
    else:
        buckets //= 2
        found += buckets if away > 0 else 0
        away = abs(away)
    exact = buckets // 2
    if away < exact:
        return found + away
    far = exact + int(np.float32(math.log(away / exact)) / np.float32(math.log(most / exact)) * (buckets - exact))
    return found + min(far, buckets - 1)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("buckets", "most"), [(32, 128), (32, 20), (8, 16)])
def test_buckets_of_t5(*, causal: bool, buckets: int, most: int) -> None:
    n = 150
    x, table = np.zeros((n, 2)), RNG.normal(size=(buckets, 2))
    mask = "causal" if causal else None
    added = self_attention(x, heads=2, score="dot", relative={"t5": table, "max": most}, mask=mask).biased
    for i in range(0, n, 7):
        for j in range(i + 1 if causal else n):
            np.testing.assert_array_equal(added[:, i, j], table[bucket(j - i, buckets, most, causal=causal)])


@pytest.mark.parametrize("clipped", [True, False])
def test_vectors_of_shaw(clipped: bool) -> None:
    q, k = RNG.normal(size=(3, 4)), RNG.normal(size=(5, 4))
    table = RNG.normal(size=(5 if clipped else 7, 4))
    trace = attend(q, k, k, relative={"shaw": table, **({"max": 2} if clipped else {})})
    for i in range(3):
        for j in range(5):
            vector = table[min(max(j - i, -2), 2) + 2 if clipped else j - i + 2]
            assert trace.scores[i, j] == pytest.approx(sum(q[i] * (k[j] + vector)), rel=1e-12, abs=1e-13)
    np.testing.assert_allclose(trace.scaled, trace.scores / 2, rtol=1e-15)


def test_transformer_xl_by_its_shift() -> None:
    """(q + u) . k + (q + v) . r, the second part by the published code's shift of a table of distances."""
    n, heads, d = 4, 2, 3
    x, table = RNG.normal(size=(n, heads * d)), RNG.normal(size=(heads, 2 * n - 1, d))
    u, v = RNG.normal(size=(2, heads, d))
    trace = self_attention(x, heads=heads, relative={"xl": table, "u": u, "v": v}, mask="causal")
    q = x.reshape(n, heads, d).swapaxes(0, 1)
    content = (q + u[:, None]) @ q.mT
    position = (q + v[:, None]) @ table[:, :n].mT  # distances -(n - 1) to 0, as a causal layer has them
    padded = np.concatenate([np.zeros((heads, n, 1)), position], axis=-1)
    shifted = padded.reshape(heads, n + 1, n)[:, 1:]
    lower = np.tril(np.ones((n, n), bool))
    np.testing.assert_allclose(trace.scores[:, lower], (content + shifted)[:, lower], rtol=1e-12)


def test_vectors_per_head_are_blocked_as_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.inside import large_from

    x, table = RNG.normal(size=(5, 6)), RNG.normal(size=(2, 9, 3))
    vectors = {"xl": table, "u": RNG.normal(size=(2, 3)), "v": RNG.normal(size=3)}
    given: dict[str, Any] = {"heads": 2, "relative": vectors}
    whole = self_attention(x, **given).output
    large_from(monkeypatch, 1)
    np.testing.assert_allclose(self_attention(x, steps="output", **given).output, whole, rtol=1e-12)


@pytest.mark.parametrize(
    "said",
    [
        {"alibi": "published"},
        {"relative": RNG.normal(size=(2, 7)).tolist()},
        {"relative": {"t5": RNG.normal(size=(8, 2)).tolist(), "max": 5}},
        {"relative": {"shaw": RNG.normal(size=(7, 4)).tolist()}},
        {"relative": {"shaw": RNG.normal(size=(3, 4)).tolist(), "max": 1}},
        {"relative": {"xl": RNG.normal(size=(2, 7, 4)).tolist(), "v": RNG.normal(size=4).tolist()}},
    ],
    ids=str,
)
def test_decoding_finds_the_same_distances(said: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps({"X": RNG.normal(size=(4, 8)).tolist(), "heads": 2, "mask": "causal", **said}))
    whole = json.loads(attncli("run", path, "--format", "json").out)["steps"]["output"]
    lines = attncli("decode", path, "--format", "json").out.splitlines()
    np.testing.assert_allclose([json.loads(line)["output"] for line in lines], whole, rtol=1e-12)


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ("alibi: [0.5, 1, 2]", ":3:1: alibi has 3 slopes, but there are 2 heads"),
        ("alibi: publsihed", ":3:8: unknown alibi 'publsihed'"),
        ("relative: [0, 1]", ":3:1: relative has 2 distances, but those from -1 to 1 are 3"),
        ("relative: [[0, 1, 1], [1, 2, 3], [3, 4, 5]]", ":3:1: relative has 3 rows, but there are 2 heads"),
        ("relative: {t5: [[1, 2]], max: 8}", ":3:1: relative: t5 has 1 buckets, too few for distances up to 8"),
        ("relative: {t6: [[1, 2]]}", ":3:12: unknown relative 't6'"),
        ("relative: {t5: [[1, 2]], most: 3}", ":3:26: unknown relative 'most'"),
        ("relative: {shaw: [[1, 2]], max: 1}", ":3:1: relative: shaw has 1 distance, but those from -1 to 1 are 3"),
        ("relative: {shaw: [[1, 2, 3]]}", ":3:1: relative: shaw is 1 x 3, but one head has 2 features"),
        ("relative: {shaw: [[1, 2]], max: 1}\nscore: cosine",
         ":3:1: relative: shaw meets queries in a dot product, which this score is not"),
    ],
)  # fmt: skip
def test_what_does_not_fit_has_its_place(said: str, what: str, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(f"X: [[1, 2, 3, 4], [4, 5, 6, 7]]\nheads: 2\n{said}\n")
    done = attncli("run", path)
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 2), done.err
    assert what in done.err


def test_no_effect_where_a_problem_begins_after_it(tmp_path: Path) -> None:
    done = attncli("attend", "--masked", "[[1, 2]]", "--alibi", "published")
    assert (done.status, "alibi has no effect: the problem begins at masked" in done.err) == (2, True)
    path = tmp_path / "p.yaml"
    path.write_text("scores: [[1, 2]]\nrelative: {shaw: [[1], [2]]}\n")
    done = attncli("run", path)
    assert (done.status, ":2:1: relative has no effect: the problem begins at scores" in done.err) == (2, True)
