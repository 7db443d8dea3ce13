"""Rotary positions: the papers' formulas in a loop, complex numbers, and what must hold of any of them."""

from __future__ import annotations

import cmath
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli import attend, check, run, self_attention
from tests.calling import attncli

RNG = np.random.default_rng(12)
X = np.array([[1, 2, 3, 4], [2, 0, 1, -1], [0, 1, 1, 1.0]])


def rotated(
    x: Any, positions: Any, theta: float, *, neighbours: bool = False, grown: float = 1.0, speeds: Any = None
) -> Any:
    """Each pair as a complex number, times e^(i position speed)."""
    d = x.shape[-1]
    speeds = [theta ** (-2 * c / d) for c in range(d // 2)] if speeds is None else speeds
    result = np.array(x, dtype=float)
    for at in np.ndindex(x.shape[:-1]):
        for c, speed in enumerate(speeds):
            one, other = (2 * c, 2 * c + 1) if neighbours else (c, c + d // 2)
            pair = complex(x[at][one], x[at][other]) * cmath.exp(1j * positions[at[-1]] * speed) * grown
            result[at][one], result[at][other] = pair.real, pair.imag
    return result


def heads_of(x: Any, heads: int) -> Any:
    return np.stack(np.split(x, heads, axis=-1), axis=-3)


@pytest.mark.parametrize(
    ("rope", "weights"),
    [
        (None, [0.072521, 0.883492, 0.043986]),
        ("10000:neighbours", [0.220500, 0.763282, 0.016219]),
        ("10000:halves", [0.174755, 0.811474, 0.013771]),
        (10000, [0.174755, 0.811474, 0.013771]),
    ],
)
def test_pairs_of_neighbours_and_of_halves(rope: Any, weights: list[float]) -> None:
    np.testing.assert_allclose(self_attention(X, rope=rope).weights[1], weights, atol=5e-7)


@pytest.mark.parametrize("neighbours", [False, True])
def test_queries_and_keys_are_turned_head_by_head(neighbours: bool) -> None:
    q, k = RNG.normal(size=(2, 3, 12)), RNG.normal(size=(2, 5, 6))
    trace = attend(q, k, k, heads=2, kv_heads=1, rope="77:neighbours" if neighbours else "77:halves")
    for name, x, heads in (("Q_rotated", q, 2), ("K_rotated", k, 1)):
        right = rotated(heads_of(x, heads), range(9), 77, neighbours=neighbours)
        np.testing.assert_allclose(trace[name], right, atol=1e-13)
    scores = np.einsum("bhid,bgjd->bhij", trace.Q_rotated, trace.K_rotated)
    np.testing.assert_allclose(trace.scores, scores, atol=1e-12)


@pytest.mark.parametrize("rope", ["10000", "10000:neighbours", "500:width=4", "500:ntk=2", "10000:yarn=4,16"])
def test_only_distances_count(rope: str) -> None:
    x = RNG.normal(size=(4, 6))
    near = self_attention(x, rope=rope)
    far = self_attention(x, rope=rope, positions=[100, 101, 102, 103])
    np.testing.assert_allclose(far.weights, near.weights, atol=1e-11)
    assert abs(far.Q_rotated - near.Q_rotated).max() > 0.01


def test_a_part_of_the_width_is_turned() -> None:
    x = RNG.normal(size=(4, 6))
    trace = self_attention(x, rope="10000:width=4")
    np.testing.assert_allclose(trace.Q_rotated[:, :4], rotated(x[:, :4], range(4), 10000), atol=1e-14)
    np.testing.assert_array_equal(trace.Q_rotated[:, 4:], x[:, 4:])


def test_scaling_by_position_interpolation_and_by_the_base() -> None:
    x, d, factor = RNG.normal(size=(5, 8)), 8, 4.0
    linear = self_attention(x, rope="10000:linear=4").K_rotated
    np.testing.assert_allclose(linear, rotated(x, [i / factor for i in range(5)], 10000), atol=1e-14)
    ntk = self_attention(x, rope="10000:ntk=4").K_rotated
    np.testing.assert_allclose(ntk, rotated(x, range(5), 10000 * factor ** (d / (d - 2))), atol=1e-14)


def test_yarn_as_its_authors_compute_it() -> None:
    x, d, theta, factor, length = RNG.normal(size=(3, 64)), 64, 10000.0, 4.0, 2048
    low = math.floor(d * math.log(length / (32 * 2 * math.pi)) / (2 * math.log(theta)))
    high = math.ceil(d * math.log(length / (1 * 2 * math.pi)) / (2 * math.log(theta)))
    assert (low, high) == (8, 21)
    speeds = []
    for c in range(d // 2):
        plain = 1 / theta ** (2 * c / d)
        kept = 1 - min(1, max(0, (c - low) / (high - low)))
        speeds.append(plain / factor * (1 - kept) + plain * kept)
    right = rotated(x, range(3), theta, speeds=speeds, grown=0.1 * math.log(factor) + 1)
    np.testing.assert_allclose(self_attention(x, rope="10000:yarn=4,2048").Q_rotated, right, atol=1e-13)


def test_past_keys_are_turned_as_the_others_are() -> None:
    x = RNG.normal(size=(6, 8))
    whole = self_attention(x, heads=2, rope="10000", mask="causal")
    new = attend(x[4:], x[4:], x[4:], past_k=x[:4], past_v=x[:4], heads=2, rope="10000", mask="causal")
    np.testing.assert_allclose(new.output, whole.output[4:], atol=1e-14)
    cached = np.concatenate([*whole.K_rotated[:, :4].swapaxes(0, 1)], axis=0).reshape(4, 8)
    held = attend(x[4:], x[4:], x[4:], past_k=cached, past_v=x[:4], heads=2, rope="10000", past_turned=True,
                  mask="causal")  # fmt: skip
    np.testing.assert_allclose(held.output, whole.output[4:], atol=1e-14)


def test_positions_differ_by_sequence() -> None:
    x = RNG.normal(size=(2, 3, 4))
    places = [[0, 1, 2], [5, 0, 9]]
    trace = self_attention(x, rope=100, positions=places)
    for b in range(2):
        np.testing.assert_allclose(trace.Q_rotated[b], rotated(x[b], places[b], 100), atol=1e-14)
    one = attend(x[0, 2:], x[0], x[0], rope=100, positions=[[9]], key_positions=[[5], [0], [9]])
    np.testing.assert_allclose(one.K_rotated, rotated(x[0], [5, 0, 9], 100), atol=1e-14)


def test_float32_stays_float32() -> None:
    x = RNG.normal(size=(3, 4)).astype(np.float32)
    trace = self_attention(x, rope=10000)
    assert trace.Q_rotated.dtype == trace.output.dtype == np.float32


def test_a_hand_that_goes_on_from_turned_queries_follows() -> None:
    problem = {"X": X.tolist(), "rope": "10000"}
    trace = run(problem)
    wrong = trace.Q_rotated.round(2)
    wrong[1, 0] = 0.42
    scores = wrong @ trace.K_rotated.T
    marked = check({**problem, "expect": {"Q_rotated": {"values": wrong.tolist(), "decimals": 2},
                                          "scores": {"values": scores.round(4).tolist(), "decimals": 4}}})  # fmt: skip
    assert [(step.step, step.verdict) for step in marked.steps] == [("Q_rotated", "wrong"), ("scores", "follows")]


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ("rope: ten", ":2:1: rope: 'ten' in 'ten' is not a number above 0"),
        ("rope: -1", ":2:1: rope: '-1' in '-1' is not a number above 0"),
        ("rope: 10000:thirds", ":2:1: rope: 'thirds' in '10000:thirds' is not understood"),
        ("rope: 10000:width=3", ":2:1: rope: a width of 3 cannot be turned in pairs"),
        ("rope: 10000:width=8", ":2:1: rope turns 8 features, but one head has 3"),
        ("rope: 10000:yarn=4", ":2:1: rope: 'yarn=4' has 1 numbers"),
        ("rope: 10000", ":2:1: rope turns features in pairs, but one head has 3"),
        ("rope: 10000:width=2\npositions: [[0, 1, 2]]", ":3:1: positions has 3 numbers a row, but there are 2 "),
        ("rope: 10000:width=2\npositions: [[0, 1], [2, 3]]", ":3:1: positions has 2 rows, but there are 1 sequences"),
        ("past_k: [[1, 1, 1]]\npast_v: [[1, 1, 1]]\nrope: 10000:width=2\npositions: [4, 5]",
         ":5:1: positions says where 2 keys stand, but not where the 1 past ones do"),
    ],
)  # fmt: skip
def test_what_does_not_fit_has_its_place(said: str, what: str, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(f"X: [[1, 2, 3], [4, 5, 6]]\n{said}\n")
    for more in ((), ("--dry-run",)):
        done = attncli("run", path, *more)
        assert (done.status, done.out) == (2, "")
        assert what in done.err
        assert len(done.err.splitlines()) == 2  # and the way out


def test_it_comes_too_late_where_a_problem_begins_at_the_scores(tmp_path: Path) -> None:
    done = attncli("attend", "--scores", "[[1, 2]]", "--rope", "10000")
    assert (done.status, "rope has no effect: the problem begins at scores" in done.err) == (2, True)
