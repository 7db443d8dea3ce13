"""--top, --stats, and the tables of attncli list."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_traces import BASE, made

from attncli import Trace
from attncli.registry import Registry
from attncli.report.listing import listing, registry_rows
from attncli.report.look import Look
from attncli.report.moments import Moments, entropy
from attncli.report.stats import stats
from attncli.report.top import top
from tests.inside import InputError, UsageError


def test_top_lists_the_largest_and_ties_in_key_order() -> None:
    words = ["[CLS]", "animal", "street"]
    trace = made(steps={"weights": np.array([[0.1507, 0.6466, 0.2027], [0.4, 0.2, 0.4]])}, key_labels=words)
    assert list(top(trace, 2, Look())) == ["the: animal 0.6466, street 0.2027", "cat: [CLS] 0.4000, street 0.4000"]
    assert list(top(trace, 9, Look(precision=1)))[1] == "cat: [CLS] 0.4, street 0.4, animal 0.2"


def test_many_ties_stay_in_key_order() -> None:
    weights = np.tile([0.2, 0.1], 50)[None]
    order = [*range(1, 101, 2), *range(2, 101, 2)]
    expected = ", ".join(f"k{j} {0.2 if j % 2 else 0.1}" for j in order)
    assert list(top(Trace({"weights": weights}), 100, Look(precision=1))) == [f"q1: {expected}"]


def test_top_never_lists_hidden_keys() -> None:
    weights, visible = np.array([[1.0, 0, 0], [0, 0, 0]]), np.array([[True, False, True], [False, False, False]])
    trace = made(steps={"weights": weights}, visible=visible)
    expected = ["the: the 1.0000, sat 0.0000", "cat: sees no key"]
    assert list(top(trace, 3, Look())) == expected
    trace.layout = "columns"
    assert list(top(trace, 3, Look())) == expected


def test_top_of_heads_and_sequences() -> None:
    trace = made(steps={"weights": np.broadcast_to(BASE, (2, 2, 2, 3))}, heads=2)
    lines = list(top(trace, 1, Look()))
    assert [line for line in lines if "head" in line][:2] == ["sequence 1, head 1", "sequence 1, head 2"]
    assert len(lines) == 4 * 3 + 3
    assert list(top(trace, 1, Look(), ["weights[2,1]"])) == ["sequence 2, head 1", "the: the 0.4011", "cat: cat 0.4011"]


def test_top_without_weights_or_keys() -> None:
    assert list(top(Trace({"weights": np.zeros((1, 0))}), 1, Look())) == ["q1: sees no key"]
    with pytest.raises(InputError):
        list(top(Trace({"scores": BASE}), 1, Look()))
    with pytest.raises(UsageError):
        list(top(made(), 0, Look()))


def test_top_escapes_labels() -> None:
    assert list(top(made(key_labels=["\x1b", "b", "c"]), 1, Look())) == [r"the: \x1b 0.4011", "cat: b 0.4011"]


def _moments(*blocks: Any) -> tuple[float, float]:
    moments = Moments()
    for block in blocks:
        moments.add(np.array(block, dtype=float))
    return moments.mean, moments.variance


def test_moments_of_the_text() -> None:
    assert _moments([[1.0, 2], [3, 6]]) == (3.0, 3.5)
    assert _moments([[1.0, 2]], [[-np.inf, -np.inf]], [[3, 6]]) == (3.0, 3.5)
    assert _moments([[-np.inf, 2.0, 4.0]]) == (3.0, 1.0)
    assert all(math.isnan(x) for x in _moments(np.zeros((0, 3))))


def test_entropy_of_known_distributions() -> None:
    rows = np.array([[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [0.25] * 4, [0.0] * 4])
    assert entropy(rows) == pytest.approx([0, math.log(2), math.log(4), 0])
    assert str(entropy(rows)[0]) == "0.0"


@given(st.lists(st.floats(0.001, 1), min_size=1, max_size=8))
def test_entropy_lies_between_0_and_log_m(masses: list[float]) -> None:
    weights = np.array([masses]) / sum(masses)
    assert -1e-12 <= entropy(weights)[0] <= math.log(len(masses)) + 1e-12


def test_stats_before_and_after_scaling() -> None:
    scores = np.array([[2.0, 4.0, 6.0], [0, 0, 0]])
    visible = np.array([[True] * 3, [False] * 3])
    steps = {"scores": scores, "scaled": scores / 2, "weights": np.array([[0.5, 0.5, 0], [0, 0, 0]])}
    trace = made(steps=steps, visible=visible)
    expected = [
        "scores: mean 2.0000, variance 5.3333",
        "scaled: mean 1.0000, variance 1.3333",
        "entropy of each query's weights, in nats:",
        "  the  0.6931",
        "  cat  sees no key",
    ]
    assert list(stats(trace, Look())) == expected
    trace.layout = "columns"
    assert list(stats(trace, Look())) == expected


def test_stats_of_heads_and_of_weights_that_are_no_distribution() -> None:
    scores = np.array([[[1.0, 3.0]], [[-np.inf, 5.0]]])
    trace = Trace({"scores": scores, "weights": scores}, heads=2, normalizer="none")
    assert list(stats(trace, Look(precision=1))) == [
        "head 1",
        "scores: mean 2.0, variance 1.0",
        "entropy: not defined, weights after none need not sum to 1",
        "",
        "head 2",
        "scores: mean 5.0, variance 0.0, 1 of 2 at -inf left out",
        "entropy: not defined, weights after none need not sum to 1",
    ]


def some_registry() -> Registry:
    registry = Registry("thing")

    @registry("first", formula="a + b", source="Someone 1999")
    def first(*, a: float, b: float = 1.0, c: float | None = None) -> None:
        """Add them.

        More of it.
        """

    @registry("second")
    def second() -> None: ...

    return registry


def test_listing_of_a_registry() -> None:
    assert list(listing(registry_rows(some_registry()), Look())) == [
        "name    parameters              formula  source        help",
        "first   a, b=1.0, c (optional)  a + b    Someone 1999  Add them.",
        "second",
    ]


def test_listing_in_a_narrow_terminal() -> None:
    assert list(listing(registry_rows(some_registry()), Look(width=30))) == [
        "first",
        "    parameters: a, b=1.0, c",
        "    (optional)",
        "    formula: a + b",
        "    source: Someone 1999",
        "    help: Add them.",
        "",
        "second",
    ]


def test_listing_of_nothing() -> None:
    assert list(listing([], Look())) == []
