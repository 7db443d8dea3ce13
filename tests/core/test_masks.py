"""Each mask against a loop over its sentence in the table of the interface, and each message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from attncli import AttnError, Trace, attend
from tests.calling import names
from tests.inside import MASKS, UsageError, whole_numbers

Sees = Callable[[int, int], bool]
SIZES = [(1, 1), (3, 3), (2, 5), (5, 2), (4, 3)]
ALIGNMENTS = [None, "top-left", "bottom-right"]


def solve(n: int, m: int, mask: Any, past: int = 0, lead: tuple[int, ...] = (), **options: Any) -> Trace:
    """An attention of n queries over m keys, `past` of them of earlier steps."""
    k = np.ones((*lead, m, 2))
    if past:
        options |= {"past_k": k[..., :past, :], "past_v": k[..., :past, :]}
    return attend(np.ones((*lead, n, 2)), k[..., past:, :], k[..., past:, :], mask=mask, **options)


def visible(trace: Trace) -> np.ndarray:
    hidden = trace.hidden("weights")
    shown = np.ones(trace["weights"].shape, dtype=bool) if hidden is None else ~hidden
    # Equal scores: the visible ones share the weight, and nothing else has any.
    np.testing.assert_array_equal(trace["weights"] > 0, shown)
    return shown


def by_loop(n: int, m: int, sees: Sees) -> np.ndarray:
    return np.array([[sees(i, j) for j in range(m)] for i in range(n)]).reshape(n, m)


# i counts the keys up to the query's own position, j is the key, both from 0.
POSITIONAL: dict[str, Sees] = {
    "causal": lambda i, j: j <= i,
    "window:0,0": lambda i, j: j == i,
    "window:2,0": lambda i, j: j in (i - 2, i - 1, i),
    "window:1,2": lambda i, j: j in (i - 1, i, i + 1, i + 2),
    "window:*,1": lambda i, j: j <= i + 1,
    "window:1,*": lambda i, j: j >= i - 1,
    "window:*,*": lambda i, j: True,
    "dilated:1": lambda i, j: True,
    "dilated:2": lambda i, j: (i % 2) == (j % 2),
    "dilated:3": lambda i, j: (i % 3) == (j % 3),
    "prefix:0": lambda i, j: j <= i,
    "chunk:2": lambda i, j: i // 2 == j // 2,
    "prefix:1": lambda i, j: j <= i or j == 0,
}


@pytest.mark.parametrize("alignment", ALIGNMENTS)
@pytest.mark.parametrize("spec", POSITIONAL)
def test_masks_by_position(spec: str, alignment: str | None) -> None:
    text = spec if alignment is None else f"{spec}:{alignment}"
    for n, m in SIZES:
        for past in range(m):
            offset = m - n if alignment == "bottom-right" else past
            expected = by_loop(n, m, lambda i, j, offset=offset: POSITIONAL[spec](i + offset, j))
            trace = solve(n, m, text, past)
            np.testing.assert_array_equal(visible(trace), expected, err_msg=f"{text} {n} x {m}, past {past}")
            assert trace.mask == [f"{spec}:{alignment or 'top-left'}"]


@pytest.mark.parametrize("lead", [(), (2,), (2, 3), (2, 1, 3)])
def test_positions_are_those_of_every_sequence_and_head(lead: tuple[int, ...]) -> None:
    shown = visible(solve(2, 4, ["causal:bottom-right", "dilated:2"], lead=lead))
    assert shown.shape == (*lead, 2, 4)
    assert np.all(shown == by_loop(2, 4, lambda i, j: j <= i + 2 and (i - j) % 2 == 0))


def test_where_one_names_its_alignment_the_others_follow() -> None:
    trace = solve(2, 4, ["causal:bottom-right", "window:1,0"])
    np.testing.assert_array_equal(visible(trace), by_loop(2, 4, lambda i, j: j in (i + 1, i + 2)))
    assert trace.mask == ["causal:bottom-right", "window:1,0:bottom-right"]
    assert trace.notes == ["window: aligned bottom-right, as causal says"]
    assert not solve(3, 3, ["causal:bottom-right", "window:1,0"]).notes
    assert solve(2, 4, ["window:1,0", "causal"]).mask == ["window:1,0:top-left", "causal:top-left"]


def test_the_alignment_of_a_profile() -> None:
    trace = solve(2, 4, "causal", like="flash")
    assert trace.mask == ["causal:bottom-right"]
    np.testing.assert_array_equal(visible(trace), by_loop(2, 4, lambda i, j: j <= i + 2))


def test_a_note_tells_an_alignment_that_nobody_named() -> None:
    assert any("2 x 4" in note and "top-left" in note for note in solve(2, 4, "causal").notes)
    assert any("2 x 4" in note for note in solve(2, 4, "window:1,0").notes)
    assert any("after 2 past keys" in note for note in solve(2, 4, "causal", past=2).notes)
    for quiet in (solve(3, 3, "causal"), solve(2, 4, "causal:top-left"), solve(2, 4, "keys:1,1,1,0")):
        assert not quiet.notes


@pytest.mark.parametrize("length", range(5))
def test_one_length_for_all(length: int) -> None:
    for lead in ((), (2,), (2, 3)):
        shown = visible(solve(2, 4, f"lengths:{length}", lead=lead))
        assert np.all(shown == by_loop(2, 4, lambda i, j: j < length))


def test_lengths_one_a_sequence() -> None:
    shown = visible(solve(3, 4, "lengths:3,1", lead=(2,)))
    for b, length in enumerate((3, 1)):
        np.testing.assert_array_equal(shown[b], by_loop(3, 4, lambda i, j, length=length: j < length))
    with_heads = visible(solve(3, 4, "lengths:3,1", lead=(2, 5)))
    assert np.all(with_heads == shown[:, None])
    two_batch_axes = visible(solve(3, 4, "lengths:3,1", lead=(2, 1, 5)))
    assert np.all(two_batch_axes == shown[:, None, None])
    np.testing.assert_array_equal(visible(solve(3, 4, "lengths:3,1", lead=(2,), heads=2))[:, 0], shown)


def test_lengths_count_past_keys() -> None:
    np.testing.assert_array_equal(visible(solve(1, 4, "lengths:3", past=2)), [[True, True, True, False]])


def test_lengths_of_a_single_sequence_count_by_query() -> None:
    expected = by_loop(3, 4, lambda i, j: j < (4, 0, 2)[i])
    for lead in ((), (1,), (1, 2), (1, 1, 2)):
        assert np.all(visible(solve(3, 4, "lengths:4,0,2", lead=lead)) == expected)
    np.testing.assert_array_equal(visible(solve(3, 4, "lengths-per-query:4,0,2")), expected)


def test_lengths_per_query() -> None:
    shown = visible(solve(2, 4, "lengths-per-query:4,1", lead=(2,)))
    assert np.all(shown == by_loop(2, 4, lambda i, j: j < (4, 1)[i]))
    table = [[4, 1], [0, 2]]
    for name in ("lengths", "lengths-per-query"):
        shown = visible(solve(2, 4, {name: np.array(table)}, lead=(2, 3)))
        for b in range(2):
            assert np.all(shown[b] == by_loop(2, 4, lambda i, j, b=b: j < table[b][i]))


def test_keys() -> None:
    for mask in ("keys:1,0,0,1", {"keys": [1, 0, 0, 1]}, ("keys", np.array([True, False, False, True]))):
        assert np.all(visible(solve(3, 4, mask, lead=(2,))) == [True, False, False, True])


def test_prefix_lets_all_see_the_first_keys() -> None:
    for prefix in range(5):
        shown = visible(solve(4, 4, f"prefix:{prefix}"))
        np.testing.assert_array_equal(shown, by_loop(4, 4, lambda i, j, prefix=prefix: j <= i or j < prefix))


def test_segments() -> None:
    numbers = (7, 7, -1, 7)
    expected = by_loop(4, 4, lambda i, j: numbers[i] == numbers[j])
    for mask in ("segments:7,7,-1,7", {"segments": [7, 7, -1, 7]}):
        np.testing.assert_array_equal(visible(solve(4, 4, mask)), expected)
    queries, keys = (0, 1), (0, 0, 1, 2)
    for mask in ("segments:0,1/0,0,1,2", {"segments": [[0, 1], [0, 0, 1, 2]]}):
        trace = solve(2, 4, mask)
        np.testing.assert_array_equal(visible(trace), by_loop(2, 4, lambda i, j: queries[i] == keys[j]))
        assert trace.mask == ["segments:0,1/0,0,1,2"]


@pytest.mark.parametrize("dtype", [bool, int, float, np.uint8, np.float32])
def test_keep_and_block(dtype: Any) -> None:
    table = np.random.default_rng(1).integers(0, 2, (3, 4)).astype(dtype)
    np.testing.assert_array_equal(visible(solve(3, 4, {"keep": table})), table == 1)
    np.testing.assert_array_equal(visible(solve(3, 4, {"block": table})), table == 0)
    row = table[1]
    assert np.all(visible(solve(3, 4, {"keep": row})) == (row == 1))
    assert np.all(visible(solve(3, 4, {"block": row[None]}, lead=(2,))) == (row == 0))


def test_leading_axes_of_a_table() -> None:
    """Three axes are the sequences where there are no heads, the heads where there are no sequences."""
    random = np.random.default_rng(2)
    table = random.integers(0, 2, (2, 3, 4)) == 1
    np.testing.assert_array_equal(visible(solve(3, 4, {"keep": table}, lead=(2,))), table)
    np.testing.assert_array_equal(visible(solve(3, 4, {"keep": table}, heads=2)), table)
    assert np.all(visible(solve(3, 4, {"keep": table}, lead=(1, 2))) == table)
    sequences, heads = solve(3, 4, {"keep": table}, lead=(2, 5)), solve(3, 4, {"keep": table}, lead=(5, 2))
    np.testing.assert_array_equal(visible(sequences), np.broadcast_to(table[:, None], (2, 5, 3, 4)))
    np.testing.assert_array_equal(visible(heads), np.broadcast_to(table, (5, 2, 3, 4)))
    assert "keep: its first axis, 2, counts the sequences" in sequences.notes
    assert any("counts the heads" in note for note in heads.notes)
    shared = solve(3, 4, {"keep": table[:1]}, lead=(2, 5))
    np.testing.assert_array_equal(visible(shared), np.broadcast_to(table[0], (2, 5, 3, 4)))
    assert not [note for note in shared.notes if note.startswith("keep")]
    four = random.integers(0, 2, (2, 5, 3, 4)) == 1
    np.testing.assert_array_equal(visible(solve(3, 4, {"keep": four}, lead=(2, 5))), four)
    np.testing.assert_array_equal(visible(solve(3, 4, {"block": four[:, :1]}, lead=(2, 5)))[:, 3], ~four[:, 0])


def test_a_bias_has_the_same_axes() -> None:
    bias = np.random.default_rng(3).normal(size=(2, 3, 4))
    for options in ({"lead": (2,)}, {"heads": 2}, {"lead": (1, 2)}):
        trace = solve(3, 4, None, bias=bias, **options)
        np.testing.assert_allclose((trace["biased"] - trace["scaled"]).reshape(2, 3, 4), bias, atol=1e-15)
    with pytest.raises(AttnError, match="which is it"):
        solve(3, 4, None, bias=bias, lead=(2, 2))


def test_a_key_is_visible_where_every_mask_lets_it_be() -> None:
    table = np.array([[1, 1, 0, 1]] * 4)
    trace = solve(4, 4, ["causal", "window:2,*", {"keep": table}, "lengths:3"])
    np.testing.assert_array_equal(
        visible(trace), by_loop(4, 4, lambda i, j: j <= i and j >= i - 2 and bool(table[i, j]) and j < 3)
    )
    assert trace.mask == ["causal:top-left", "window:2,*:top-left", "keep", "lengths:3"]


def test_values_that_have_a_batch_where_queries_and_keys_have_none() -> None:
    v = np.arange(12.0).reshape(2, 3, 2)
    trace = attend(np.ones((1, 2)), np.ones((3, 2)), v, mask="lengths:1,2")
    np.testing.assert_allclose(trace["output"], [[[0, 1]], [[7, 8]]])
    heads = attend(np.ones((1, 4)), np.ones((3, 4)), np.concatenate([v, v], axis=-1), mask="lengths:1,2", heads=2)
    np.testing.assert_allclose(heads["output"], np.concatenate([trace["output"]] * 2, axis=-1))


@pytest.mark.parametrize("value", [-1e6, -3.0])
def test_a_mask_value_stands_for_hidden_scores(value: float) -> None:
    trace = attend(scores=[[1.0, 2.0], [3.0, 4.0]], mask={"keep": [[1, 0], [0, 0]]}, mask_value=value)
    np.testing.assert_array_equal(trace["masked"], [[1, value], [-np.inf, -np.inf]])
    share = np.exp(value) / (np.exp(1) + np.exp(value))
    np.testing.assert_allclose(trace["weights"], [[1 - share, share], [0, 0]], atol=1e-15)


@pytest.mark.parametrize("normalizer", ["sum", "none"])
@pytest.mark.parametrize("score", ["dot", "gaussian", "boxcar"])
def test_what_is_linear_has_no_use_for_a_mask_value(score: str, normalizer: str) -> None:
    """A hidden cell has weight 0 in each normalizer; -1e6 as a share of a sum would be nonsense."""
    q, k = [[1.0, 2.0]], [[0.5, 1.0], [3.0, 1.0], [1.0, 1.5]]
    options: dict[str, Any] = {"score": score, "normalizer": normalizer, "mask": "keys:1,0,1"}
    trace = attend(q, k, mask_value=-1e6, **options)
    np.testing.assert_array_equal(trace["weights"], attend(q, k, **options)["weights"])
    assert trace["weights"][0, 1] == 0


def test_predicates_from_outside() -> None:
    def every_second(at: Any) -> Any:
        return at.key % 2 == 0

    trace = solve(2, 4, [every_second, "causal:bottom-right"])
    np.testing.assert_array_equal(visible(trace), by_loop(2, 4, lambda i, j: j % 2 == 0 and j <= i + 2))
    assert trace.mask[0] == "every_second"
    by_head = solve(2, 4, lambda at: at.key >= at.head, lead=(2, 3))
    for h in range(3):
        assert np.all(visible(by_head)[:, h] == (np.arange(4) >= h))
    numbers = solve(2, 4, lambda at: (at.key < 2).astype(int))  # 0 and 1 will do
    assert np.all(visible(numbers) == [True, True, False, False])


def test_a_mask_of_ones_own() -> None:
    """Registered by name, with an argument and a message of its own."""

    @MASKS("every", formula="j is a multiple of N", takes="numbers", parse=whole_numbers, spec="every:N")
    def every(extent: Any, numbers: list[int]) -> Any:
        if numbers[0] > extent.m:
            raise UsageError(f"every:{numbers[0]} sees one key only")
        return lambda at: at.key % numbers[0] == 0

    try:
        trace = solve(2, 5, ["every:2", "causal:bottom-right"])
        np.testing.assert_array_equal(visible(trace), by_loop(2, 5, lambda i, j: j % 2 == 0 and j <= i + 3))
        assert trace.mask == ["every:2", "causal:bottom-right"]
        with pytest.raises(AttnError, match="every:9 sees"):
            solve(2, 5, "every:9")
        with pytest.raises(AttnError, match=r"(?s)needs an argument.*every:N"):
            solve(2, 5, "every")
    finally:
        MASKS.remove("every")
    with pytest.raises(AttnError, match="unknown mask 'every'"):
        solve(2, 5, "every:2")


def test_specs_are_spelled_as_options() -> None:
    for text, n, m, lead in (
        ("causal:top-left", 2, 2, ()),
        ("window:2,0:bottom-right", 2, 2, ()),
        ("lengths:3,2", 2, 3, (2,)),
        ("keys:1,0", 2, 2, ()),
        ("segments:0/0,1", 1, 2, ()),
        ("prefix:2:top-left", 2, 2, ()),
        ("window:*,1:top-left", 2, 2, ()),
    ):
        assert solve(n, m, text, lead=lead).mask == [text]
    assert solve(2, 3, {"lengths": np.array([3, 2])}, lead=(2,)).mask == ["lengths:3,2"]
    assert solve(2, 3, {"lengths": np.array([[3, 2], [1, 1]])}, lead=(2,)).mask == ["lengths"]
    assert solve(2, 2, {"keep": np.ones((2, 2))}).mask == ["keep"]


MESSAGES: list[tuple[Any, dict[str, Any], str]] = [
    ("casual", {}, "unknown mask 'casual'.*causal"),
    ("causal:2", {}, "takes no argument"),
    ("causal:upper-left", {}, "top-left"),
    ("keys:1,1,1,1:top-left", {}, "not a number"),
    (["causal:top-left", "window:1,1:bottom-right"], {}, "(?=.*top-left).*bottom-right"),
    ("window", {}, "needs an argument"),
    ("window:1", {}, "two numbers, not 1"),
    ("window:1,2,3", {}, "two numbers, not 3"),
    ("window:-1,2", {}, "-1 is negative"),
    ("window:1.5,2", {}, "1.5 is not a whole number"),
    ("window:a,2", {}, "'a' is not a number"),
    ("lengths:", {}, "needs an argument"),
    ("lengths:5", {}, r"5 is not among 0\.\.4"),
    ("lengths:-1", {}, r"-1 is not among 0\.\.4"),
    ("lengths:1.5", {}, r"1\.5 is not among 0\.\.4"),
    ("lengths:nan", {}, r"nan is not among 0\.\.4"),
    ("lengths:1_0", {}, "'1_0' is not a number"),
    ({"lengths": ["٣"]}, {}, "'٣' is not a number"),
    ({"lengths": ["two"]}, {}, "'two' is not a number"),
    ({"lengths": [None]}, {}, "None is not a number"),
    ("lengths:1,2", {}, "2 numbers, but there is one sequence of 3 queries"),
    ("lengths:1,2,3", {"lead": (2,)}, "3 numbers, but there are 2 sequences"),
    ("lengths-per-query:1,2", {}, "1 x 2, but there are 1 sequences of 3 queries"),
    ("lengths-per-query:9,2,1", {}, r"9 is not among 0\.\.4"),
    ({"lengths": [[1, 2], [3]]}, {}, "unlike length"),
    ("keys:1,0", {}, "keys has 2 numbers, but there are 4 keys"),
    ("keys:1,0,2,1", {}, "only 0 and 1"),
    ("prefix:5", {}, r"does not fit 4 keys"),
    ("prefix:1,2", {}, "does not fit 4 keys"),
    ("dilated:0", {}, "makes no sense"),
    ("segments:0,0,1", {}, "3 numbers for 3 queries and 3 for 4 keys"),
    ("segments:0,0,1/0,1", {}, "3 numbers for 3 queries and 2 for 4 keys"),
    ("segments:0/1/2", {}, "one `/`"),
    ("segments:0,x,1/0,1,1,1", {}, "'x' is not a number"),
    ({"keep": [[1, 0, 2, 0]] * 3}, {}, "only 0 and 1"),
    ({"keep": [[0.0, -np.inf, 0, 0]]}, {}, "--bias"),
    ({"block": [[1, 0, np.nan, 0]] * 3}, {}, "only 0 and 1"),
    ({"keep": np.ones((4, 3))}, {}, "keep is 4 x 3, but the scores are 3 x 4"),
    ({"block": np.ones((3, 1))}, {}, "block is 3 x 1, but the scores are 3 x 4"),
    ({"keep": np.ones((2, 3, 4))}, {}, "leading axes"),
    ({"keep": np.ones((3, 3, 4))}, {"lead": (2,)}, "leading axes"),
    ({"keep": np.ones((2, 3, 4))}, {"lead": (2, 2)}, "which is it"),
    ({"keep": np.ones((4, 3, 4))}, {"lead": (2, 3)}, "2 sequences and 3 heads"),
    ({"keep": np.ones((2, 4))}, {"lead": (2,)}, r"2 x 1 x 4 \(sequences x 1 x keys\); or lengths:"),
    ({"keep": np.ones((2, 4))}, {"lead": (2, 3)}, r"2 x 1 x 1 x 4 \(sequences x 1 x 1 x keys\)"),
    ({"keep": np.ones((3, 2, 4))}, {"lead": (3,)}, "one row of 4 keys for all queries"),
    ({"keep": np.ones((3, 2, 3, 4))}, {"lead": (2, 3)}, "leading axes"),
]


@pytest.mark.parametrize(("mask", "options", "message"), MESSAGES, ids=[str(mask)[:40] for mask, _, _ in MESSAGES])
def test_messages(mask: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(AttnError, match=f"(?s){message}"):
        solve(3, 4, mask, **options)


def test_every_mask_is_tested() -> None:
    named = {text.split(":")[0] for text in POSITIONAL} | {
        "lengths",
        "lengths-per-query",
        "keys",
        "segments",
        "keep",
        "block",
        "packed",
        "prefix-keys",
        "queries",  # tests/today/test_masks_of_sequences.py
        "query-lengths",
    }
    assert set(names("masks")) == named
