"""entmax and top: by their definition, by known values, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from attncli import attend
from tests.calling import attncli

RNG = np.random.default_rng(12)


def weights(scores: list[list[float]], normalizer: str, **more: object) -> np.ndarray:
    return np.asarray(attend(scores=scores, normalizer=normalizer, **more).weights)  # type: ignore[arg-type]


def test_top_2() -> None:
    e = math.exp(-1)
    np.testing.assert_allclose(weights([[1, 3, 2, 0]], "top:2"), [[0, 1 / (1 + e), e / (1 + e), 0]], rtol=1e-15)


@pytest.mark.parametrize(("k", "seen"), [(1, 1), (3, 3), (4, 5), (9, 6)])
def test_top_keeps_the_largest_and_what_is_equal_to_the_last(k: int, seen: int) -> None:
    found = weights([[3, 0, 2, 1, 1, 4]] * 2, f"top:{k}", mask={"keep": [[1] * 6, [0] * 6]})
    assert np.count_nonzero(found[0]) == seen
    assert found[1].tolist() == [0] * 6
    np.testing.assert_allclose(found[0].sum(), 1, rtol=1e-15)


def test_entmax_of_1_5_in_closed_form() -> None:
    # Of two keys in the support, s and 0: with x = s / 2, tau = (x - sqrt(2 - x^2)) / 2 gives squares that sum to 1.
    for s in (0.0, 0.3, 1.0, 1.9):
        x = s / 2
        tau = (x - math.sqrt(2 - x * x)) / 2
        np.testing.assert_allclose(weights([[s, 0]], "entmax")[0], [(x - tau) ** 2, tau**2], rtol=1e-14)
    assert weights([[2.0, 0]], "entmax:1.5").tolist() == [[1, 0]]


@pytest.mark.parametrize("alpha", [1.01, 1.2, 1.5, 2, 3.7])
def test_entmax_meets_its_definition(alpha: float) -> None:
    scores = RNG.normal(scale=2, size=(20, 9))
    p = weights(scores.tolist(), f"entmax:{alpha}", mask={"keep": [[1] * 8 + [0]] * 20})
    np.testing.assert_allclose(p.sum(axis=-1), 1, rtol=1e-14)
    assert (p[:, 8] == 0).all()
    for row, s in zip(p, scores, strict=True):
        inside = row > 0
        tau = (alpha - 1) * s[inside] - row[inside] ** (alpha - 1)
        np.testing.assert_allclose(tau, tau[0], atol=1e-12)  # one threshold for all of the support
        assert ((alpha - 1) * s[:8][~inside[:8]] <= tau[0] + 1e-12).all()


def test_entmax_of_2_is_sparsemax() -> None:
    scores = RNG.normal(size=(5, 7)).tolist()
    np.testing.assert_allclose(weights(scores, "entmax:2"), weights(scores, "sparsemax"), atol=1e-15)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("top", "k of the normalizer 'top': it is missing"),
        ("top:0", "k of the normalizer 'top': it must be a whole number from 1 on"),
        ("top:1.5", "k of the normalizer 'top': it must be a whole number from 1 on"),
        ("top:x", "k of the normalizer 'top': 'x' is no number"),
        ("entmax:1", "alpha of the normalizer 'entmax': it must be from 1.01 to 100"),
        ("softmax:2", "the normalizer 'softmax' takes no parameter"),
        ("tip:2", "unknown normalizer 'tip:2'"),
    ],
)
def test_what_is_refused(name: str, told: str, tmp_path: object) -> None:
    done = attncli("attend", "[[1,2]]", "[[1,2],[0,1]]", "--normalizer", name)
    assert done.status == 2
    assert told in done.err
