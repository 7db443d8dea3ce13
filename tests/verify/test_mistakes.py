"""Each kind of mistake, by numbers that were published or calculated apart from attncli."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from attncli import check
from tests.inside import MISTAKES, Change, mistake

# Two queries, three keys; and two tokens whose projections are the identity.
BASE = "Q: [[1, 0], [0, 1]]\nK: [[1, 0], [0, 1], [1, 1]]\nV: [[1, 2], [3, 4], [5, 6]]\n"
TOKENS = "attention: self\nX: [[2, 0], [0, 3]]\nW_Q: {identity: 2}\nW_K: {identity: 2}\nW_V: {identity: 2}\n"
PRODUCTS = "Q: [[1, 2], [3, 4]]\nK: [[0, 1], [3, 1]]\n"
COLUMN = "attention: self\nX: [[1, 0], [2, 1]]\nW_Q: [[1, 2], [0, 1]]\n"
KEEP = "mask: {keep: [[1, 0, 0], [1, 1, 0]]}\n"
LATE_KEYS = (
    "Q: [[1, 0], [0, 1]]\nK: [[1, 0], [0, 1], [1, 1], [2, 0], [0, 2]]\nV: [[10], [20], [30], [40], [50]]\n"
    "mask: causal:top-left\n"
)


def diagnosed(tmp_path: Path, text: str) -> list[Any]:
    path = tmp_path / "p.yaml"
    path.write_text(text)
    return check(path).diagnosis


@pytest.mark.parametrize(
    ("problem", "step", "numbers", "name", "told"),
    [
        (TOKENS, "V", "[[2, 0], [3, 3]]", "product-wrong", "k2, feature 1: the product 3 x 0 was taken as 3"),
        (
            TOKENS, "output", "[[2.055807, 0.167422], [2.998280, 2.994841]]",
            "product-wrong", "V, k2, feature 1: the product 3 x 0",
        ),
        (COLUMN, "Q", "[[1, 0], [4, 1]]", "weights-transposed", "the weight matrix of Q was transposed"),
        (COLUMN, "Q", "[[5, 2], [2, 1]]", "product-from-the-left", "Q made as W X, not as X W"),
        ("scores: [[1, 2, 3]]\n", "weights", "[[0.453047, 1.231509, 3.347589]]", "exp-by-score-sum", "sum of the"),
        (
            BASE + KEEP, "weights", "[[0.50349, 0.248255, 0.248255], [0.248255, 0.50349, 0.248255]]",
            "scores-times-mask", "multiplied by the mask",
        ),
        (
            BASE, "weights", "[[0.422319, 0.155362, 0.422319], [0.155362, 0.422319, 0.422319]]",
            "no-scale", "not divided by sqrt(d_k) = 1.4142",
        ),
        (
            BASE, "weights", "[[0.383652, 0.232697, 0.383652], [0.232697, 0.383652, 0.383652]]",
            "scale-d_k", "divided by d_k = 2, not by sqrt(d_k)",
        ),
        (
            BASE, "weights", "[[0.411299, 0.177403, 0.411299], [0.177403, 0.411299, 0.411299]]",
            "scale-fourth-root", "the root was taken twice",
        ),
        (
            BASE, "weights", "[[0.669762, 0.330238, 0.5], [0.330238, 0.669762, 0.5]]",
            "softmax-over-queries", "each column sums to 1",
        ),
        (
            BASE, "weights", "[[0.200556, 0.098888, 0.200556], [0.098888, 0.200556, 0.200556]]",
            "softmax-over-all", "the whole matrix",
        ),
        (
            BASE + "scale: 0.5\n", "weights", "[[0.468311, 0.063379, 0.468311], [0.063379, 0.468311, 0.468311]]",
            "scale-inverted", "divided by 0.5",
        ),
        (
            "scores: [[1, 2], [3, 1]]\n", "weights", "[[0.2689, 0.8808], [0.7311, 0.1192]]",
            "transposed", "rows and columns are exchanged",
        ),
        (BASE + KEEP, "weights", "[[0, 0.330238, 0.669762], [0, 0, 1]]", "mask-inverted", "inverted"),
        (
            BASE + "mask: {lengths-per-query: [2, 0]}\n", "weights",
            "[[0.669762, 0.330238, 0], [0.333333, 0.333333, 0.333333]]", "finite-mask-value", "sees no key",
        ),
        (
            LATE_KEYS, "weights",
            "[[0.221181, 0.109057, 0.221181, 0.448581, 0], [0.098333, 0.199432, 0.199432, 0.098333, 0.40447]]",
            "other-alignment", "aligned bottom-right, not top-left",
        ),
        (PRODUCTS, "scores", "[[9, 12], [4, 6]]", "scores-of-features", "K^T Q"),
        (PRODUCTS, "scores", "[[9, 4], [12, 6]]", "scores-of-features", "Q^T K"),
        (PRODUCTS, "scores", "[[2, 4], [5, 13]]", "scores-transposed", "K Q^T"),
        (PRODUCTS, "scores", "[[6, 3], [12, 7]]", "scores-of-features", "Q K, not Q K^T"),
    ],
)  # fmt: skip
def test_mistakes_that_were_reported(
    tmp_path: Path, problem: str, step: str, numbers: str, name: str, told: str
) -> None:
    found = {one.mistake: one for one in diagnosed(tmp_path, f"{problem}expect: {{{step}: {numbers}}}\n")}
    assert name in found
    assert found[name].exact_match
    assert told in found[name].text
    assert len(found) <= 3


@pytest.mark.parametrize(
    ("numbers", "told"),
    [
        # Equal scores: each visible key of a row has the same share.
        ("[[1, 0, 0], [0.5, 0.5, 0], [0.333333, 0.333333, 0.333333]]", "left out: keys:0,1,1"),
        ("[[0, 0.5, 0.5], [0, 0.5, 0.5], [0, 0.5, 0.5]]", "left out: causal"),
    ],
)
def test_which_of_two_masks_was_forgotten_is_told(tmp_path: Path, numbers: str, told: str) -> None:
    problem = 'scores: [[2, 2, 2], [1, 1, 1], [3, 3, 3]]\nmask: [causal, "keys:0,1,1"]\n'
    found = {one.mistake: one for one in diagnosed(tmp_path, f"{problem}expect: {{weights: {numbers}}}\n")}
    assert told in found["one-mask-forgotten"].text
    assert found["one-mask-forgotten"].exact_match
    assert len(found) <= 3


def turned(grid: str) -> str:
    """`[[1, 2], [3, 4]]` with tokens as columns."""
    return str([list(column) for column in zip(*yaml.safe_load(grid), strict=True)])


@pytest.mark.parametrize(
    ("problem", "step", "numbers", "name", "told"),
    [
        # The softmax of each of the student's rows, where each column is a query's.
        (
            "Q: [[1, 0], [0, 1]]\nK: [[1, 0, 1], [0, 1, 1]]\n", "weights",
            "[[0.669762, 0.330238], [0.330238, 0.669762], [0.5, 0.5]]",
            "softmax-over-queries", "over the queries: each row sums to 1, not each column",
        ),
        (
            "Q: [[1, 0], [0, 1]]\nK: [[1, 0, 1], [0, 1, 1]]\n", "weights",
            turned("[[0.200556, 0.098888, 0.200556], [0.098888, 0.200556, 0.200556]]"),
            "softmax-over-all", "the whole matrix, not each column",
        ),
        # Q = [1 3; 2 4] and K = [0 3; 1 1] by columns: K^T Q is [2 4; 5 13].
        ("Q: [[1, 3], [2, 4]]\nK: [[0, 3], [1, 1]]\n", "scores", "[[2, 5], [4, 13]]", "scores-transposed",
         "the scores are Q^T K, not K^T Q"),
        ("Q: [[1, 3], [2, 4]]\nK: [[0, 3], [1, 1]]\n", "scores", "[[9, 4], [12, 6]]", "scores-of-features",
         "the scores are Q K^T, not K^T Q"),
        ("Q: [[1, 3], [2, 4]]\nK: [[0, 3], [1, 1]]\n", "scores", "[[6, 12], [3, 7]]", "scores-of-features",
         "the scores are K Q, not K^T Q"),
        # W X is right here, with W = [1 2; 0 1], X = [1 0; 2 1]: [5 2; 2 1]; X W is [1 2; 2 5].
        ("attention: self\nX: [[1, 0], [2, 1]]\nW_Q: [[1, 2], [0, 1]]\n", "Q", "[[1, 2], [2, 5]]",
         "product-from-the-left", "Q made as X W, not as W X"),
        ("attention: self\nX: [[1, 0], [2, 1]]\nW_Q: [[1, 0], [2, 1]]\nweight_layout: in-out\n", "Q",
         "[[1, 2], [2, 5]]", "product-from-the-left", "Q made as X W^T, not as W^T X"),
        ("scores: [[1, 3], [2, 1], [0, 4]]\n", "scores", "[[2, 1], [1, 3], [0, 4]]", "rows-exchanged",
         "the rows k1 and k2 were exchanged"),
    ],
)  # fmt: skip
def test_rows_and_columns_are_those_that_are_displayed(
    tmp_path: Path, problem: str, step: str, numbers: str, name: str, told: str
) -> None:
    text = f"layout: columns\n{problem}expect: {{{step}: {numbers}}}\n"
    found = {one.mistake: one.text for one in diagnosed(tmp_path, text)}
    assert told in found.get(name, found)


def test_a_hidden_factor_is_fitted_and_told(tmp_path: Path) -> None:
    # A published page: the weights are those of the scores divided by 4, which it does not say.
    found = diagnosed(
        tmp_path,
        """
scores: [[0.11, 0.0, 0.81, 0.79], [0.19, 0.5, 0.3, 0.48], [0.53, 0.98, 0.95, 0.14], [0.81, 0.86, 0.38, 0.9]]
mask: causal
expect:
  weights:
    values: [[1, 0, 0, 0], [0.48, 0.52, 0, 0], [0.31, 0.35, 0.34, 0], [0.25, 0.26, 0.23, 0.26]]
    decimals: 2
""",
    )
    assert [one.mistake for one in found] == ["constant-factor"]
    assert "divided by 4)" in found[0].text


def test_a_mistake_is_added_in_one_place(tmp_path: Path) -> None:
    @mistake("plus-one", at=("scores",), simplicity=0)
    def plus_one(given: Any) -> Any:
        """One was added to all scores."""
        yield Change({"scores": given["scores"] + 1}, "one was added to all scores")

    try:
        found = diagnosed(tmp_path, PRODUCTS + "expect: {scores: [[3, 6], [5, 14]]}\n")
    finally:
        MISTAKES.remove("plus-one")
    assert (found[0].mistake, found[0].step) == ("plus-one", "scores")
    assert found[0].text == "one was added to all scores"
    assert found[0].exact_match
