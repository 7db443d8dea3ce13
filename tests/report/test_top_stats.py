"""--top, --stats, and the tables of attncli list."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from shown import A00, BASE, call, text_of

from tests.inside import large_from

LARGER = {"Q": np.linspace(0.1, 1, 100)[:, None], "K": np.linspace(0, 1, 100)[:, None], "mask": "window:*,*"}


def top(problem: dict[str, Any], count: int, *options: object) -> list[str]:
    return text_of(problem, "--top", count, *options).rstrip("\n").split("\n")


def stats(problem: dict[str, Any], *options: object) -> list[str]:
    return text_of(problem, "--stats", *options).partition("\n\n")[2].rstrip("\n").split("\n")


def test_top_lists_the_largest_and_ties_in_key_order() -> None:
    words = ["[CLS]", "animal", "street"]
    problem = {"weights": [[0.1507, 0.6466, 0.2027], [0.4, 0.2, 0.4]], "tokens": ["the", "cat"], "key_tokens": words}
    assert top(problem, 2) == ["the: animal 0.6466, street 0.2027", "cat: [CLS] 0.4000, street 0.4000"]
    assert top(problem, 9, "--precision", 1)[1] == "cat: [CLS] 0.4, street 0.4, animal 0.2"


def test_many_ties_stay_in_key_order() -> None:
    weights = np.tile([0.2, 0.1], 50)[None]
    order = [*range(1, 101, 2), *range(2, 101, 2)]
    expected = ", ".join(f"k{j} {0.2 if j % 2 else 0.1}" for j in order)
    assert top({"weights": weights}, 100, "--precision", 1) == [f"q1: {expected}"]


def test_top_never_lists_hidden_keys() -> None:
    problem = {
        "scores": np.array([[30.0, 50, 0], [0, 0, 0]]), "mask": {"keep": np.array([[1, 0, 1], [0, 0, 0]])},
        "tokens": ["the", "cat"], "key_tokens": ["the", "cat", "sat"],
    }  # fmt: skip
    expected = ["the: the 1.0000, sat 0.0000", "cat: sees no key"]
    assert top(problem, 3) == expected
    turned = {"scores": problem["scores"].T, "mask": {"keep": problem["mask"]["keep"].T}, "layout": "columns"}
    assert top({**problem, **turned}, 3) == expected


def test_top_of_heads_and_sequences() -> None:
    problem = {**A00, "weights": np.broadcast_to(BASE, (2, 2, 2, 3))}
    lines = top(problem, 1)
    assert [line for line in lines if "head" in line][:2] == ["sequence 1, head 1", "sequence 1, head 2"]
    assert len(lines) == 4 * 3 + 3
    assert top(problem, 1, "--show", "weights[2,1]") == ["sequence 2, head 1", "the: the 0.4011", "cat: cat 0.4011"]


def test_labels_that_stand_twice_are_told_apart() -> None:
    problem = {
        "weights": [[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]],
        "tokens": ["the", "the"],
        "key_tokens": ["the", "a", "the"],
    }
    assert top(problem, 2) == ["the#1: the#1 0.5000, a 0.3000", "the#2: a 0.6000, the#2 0.3000"]
    # -(0.5 ln 0.5 + 0.3 ln 0.3 + 0.2 ln 0.2) and -(0.1 ln 0.1 + 0.6 ln 0.6 + 0.3 ln 0.3)
    assert stats(problem, "--show", "weights")[1:] == ["  the#1  1.0297", "  the#2  0.8979"]


def test_top_stands_below_the_tables_of_other_steps() -> None:
    text = text_of(A00, "--top", 1, "--show", "output,weights", "--format", "plain")
    assert text.startswith("output (2 queries x 2 features)")
    assert text.endswith("\n\nthe: the 0.4011\ncat: cat 0.4011\n")
    assert "weights (" not in text


def test_top_stands_below_them_also_where_a_problem_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    small = text_of(LARGER, "--top", 1, "--show", "scores", "--stats")
    large_from(monkeypatch, 1)
    assert text_of(LARGER, "--top", 1, "--show", "scores", "--stats") == small
    assert "scores (100 queries x 100 keys)" in small
    assert "\n\nq1: k100 " in small


def test_top_without_keys_or_without_a_count() -> None:
    assert top({"weights": np.zeros((1, 0))}, 1) == ["q1: sees no key"]
    assert call(A00, "--top", 0).status == 2


def test_top_escapes_labels() -> None:
    assert top({**A00, "key_tokens": ["\x1b", "b", "c"]}, 1) == [r"the: \x1b 0.4011", "cat: b 0.4011"]


def test_stats_before_and_after_scaling() -> None:
    """Of the visible scores 2, 4, 6; the weights are e, e^2, e^3 of their sum, whose entropy is 0.8324 nats."""
    scores, keep = np.array([[2.0, 4.0, 6.0], [0, 0, 0]]), np.array([[1, 1, 1], [0, 0, 0]])
    problem = {"scores": scores, "scale": 0.5, "mask": {"keep": keep}, "tokens": ["the", "cat"]}
    expected = [
        "scores: mean 4.0000, variance 2.6667, 3 of 6 hidden, left out",
        "scaled: mean 2.0000, variance 0.6667, 3 of 6 hidden, left out",
        "entropy of each query's weights, in nats:",
        "  the  0.8324",
        "  cat  sees no key",
    ]
    assert stats(problem, "--show", "weights") == expected
    turned = {"scores": scores.T, "mask": {"keep": keep.T}, "layout": "columns"}
    assert stats({**problem, **turned}, "--show", "weights") == expected


def test_stats_of_heads_and_of_weights_that_are_no_distribution() -> None:
    scores = np.array([[[1.0, 3.0]], [[-np.inf, 5.0]]])
    problem = {"scores": scores, "heads": 2, "normalizer": "none"}
    assert stats(problem, "--precision", 1, "--show", "weights[1]") == [
        "head 1",
        "scores: mean 2.0, variance 1.0",
        "entropy: not defined, weights after none need not sum to 1",
        "",
        "head 2",
        "scores: mean 5.0, variance 0.0, 1 of 2 hidden, left out",
        "entropy: not defined, weights after none need not sum to 1",
    ]
