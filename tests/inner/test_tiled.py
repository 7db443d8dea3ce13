"""The engine for large problems gives what the definition gives: everywhere, at tile borders of small problems."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from attncli import AttnError
from attncli.core.attend import Attention, Rules, attend
from attncli.core.blocks import Large
from attncli.core.dots import Sizes
from attncli.core.masks import mask_spec
from attncli.core.scores import SCORES, score_spec
from attncli.core.streamed import stream
from attncli.core.tiled import attend_by_blocks
from tests.inside import NORMALIZERS

SMALL = (Sizes(1, 1, 1, 1), Sizes(2, 2, 2, 3), Sizes(1, 4, 2, 2), Sizes(3, 2, 1, 5), Sizes(4, 64, 4, 128))
ODD = (np.nan, np.inf, -np.inf, 1e30, 200.0, -200.0)


@st.composite
def problems(draw: st.DrawFn) -> tuple[dict[str, Any], Rules]:
    """Inputs and rules of all kinds, small, with odd numbers here and there."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = draw(st.sampled_from(["float64", "float32", "float16"]))
    n, m, d, d_v = (draw(st.integers(1, size)) for size in (9, 11, 4, 3))
    batch = draw(st.sampled_from([(), (), (2,), (1,)]))
    form = draw(st.sampled_from(["none", "joined", "split"]))
    heads, groups = draw(st.sampled_from([(1, 1), (2, 2), (2, 1), (4, 2)]))
    strength = draw(st.sampled_from([1.0, 1.0, 30.0, 0.0]))

    def matrix(count: int, width: int, number: int) -> np.ndarray:
        if form == "joined":
            return rng.standard_normal((*batch, count, number * width)).astype(dtype)
        if form == "split":
            return rng.standard_normal((*(batch or (1,)), number, count, width)).astype(dtype)
        return rng.standard_normal((*batch, count, width)).astype(dtype)

    inputs = {"Q": matrix(n, d, heads) * np.dtype(dtype).type(strength), "K": matrix(m, d, groups)}
    inputs["V"] = matrix(m, d_v, groups)
    for name in draw(st.lists(st.sampled_from(["Q", "K", "V"]), max_size=2)):
        with np.errstate(over="ignore"):
            inputs[name].reshape(-1)[rng.integers(inputs[name].size)] = draw(st.sampled_from(ODD))
    past = draw(st.sampled_from([0, 0, 2])) if form != "split" else 0
    if past:
        inputs["past_k"], inputs["past_v"] = matrix(past, d, groups), matrix(past, d_v, groups)
    total = m + past
    options: dict[str, Any] = {"heads": heads, "kv_heads": groups} if form == "joined" else {}
    if draw(st.booleans()):
        bias = rng.standard_normal((draw(st.sampled_from([1, n])), total)).astype(np.float32)
        if draw(st.booleans()):
            bias[rng.random(bias.shape) < 0.4] = draw(st.sampled_from([-np.inf, -np.inf, np.nan, np.inf, -1e4]))
        inputs["bias"] = bias
    masks = []
    for kind in draw(st.lists(st.sampled_from(_MASKS), max_size=2)):
        masks.append(_mask(kind, rng, n, total))
    if masks:
        options["masks"] = tuple(masks)
        options["mask_value"] = draw(st.sampled_from([-np.inf, -np.inf, -1e4]))
    options["score"] = _score(draw(st.sampled_from([None, *SCORES.names()])), rng, d)
    options["normalizer"] = draw(st.sampled_from(["softmax", "softmax", *NORMALIZERS.names()]))
    options["empty_rows"] = draw(st.sampled_from(["zero", "nan", "uniform", "error"]))
    options["alignment"] = draw(st.sampled_from(["top-left", "bottom-right"]))
    options["softcap"] = draw(st.sampled_from([None, None, 1.5, 1000.0]))
    options["scale"] = draw(st.sampled_from([None, None, 0.0, -1.0, 40.0]))
    if form == "joined" and draw(st.booleans()):
        inputs["W_O"] = rng.standard_normal((heads * d_v, 2)).astype(dtype)
        inputs["b_O"] = rng.standard_normal(2).astype(dtype)
    return inputs, Rules(**options)


_MASKS = ("causal", "window", "lengths", "lengths-per-query", "keys", "prefix", "segments", "dilated", "keep", "block")


def _mask(kind: str, rng: np.random.Generator, n: int, m: int) -> Any:
    arguments: dict[str, Any] = {
        "causal": None,
        "window": f"{rng.integers(3)},{rng.integers(2)}",
        "lengths": [int(rng.integers(m + 1))],
        "lengths-per-query": rng.integers(0, m + 1, n).tolist(),
        "keys": rng.integers(0, 2, m).tolist(),
        "prefix": [int(rng.integers(m + 1))],
        "segments": [rng.integers(0, 2, n).tolist(), rng.integers(0, 2, m).tolist()],
        "dilated": [int(rng.integers(1, 4))],
        "keep": rng.integers(0, 2, (rng.choice([1, n]), m)),
        "block": rng.integers(0, 2, (rng.choice([1, n]), m)),
    }
    return mask_spec(kind, arguments[kind])


def _score(name: str | None, rng: np.random.Generator, d: int) -> Any:
    shapes = {"W": (d, d), "W_q": (3, d), "W_k": (3, d), "w_v": (3,), "v": (3,)}
    if name is None:
        return None
    given = {"general": ["W"], "concat": ["W", "v"], "additive": ["W_q", "W_k", "w_v"]}.get(name, [])
    if name == "concat":
        shapes["W"] = (3, 2 * d)
    return score_spec(name, {parameter: rng.standard_normal(shapes[parameter]) for parameter in given})


def _plain(inputs: dict[str, Any], rules: Rules, steps: tuple[str, ...] | None) -> Any:
    try:
        return Attention(inputs, rules).trace(steps)
    except AttnError as error:
        return str(error)


@settings(max_examples=400)
@given(problems(), st.sampled_from(SMALL), st.integers(1, 5))
def test_tiles_give_what_the_definition_gives(problem: tuple[dict[str, Any], Rules], sizes: Sizes, rows: int) -> None:
    inputs, rules = problem
    steps = ("output", "lse") if rules.normalizer == "softmax" else ("output",)
    plain = _plain(inputs, rules, None)
    if isinstance(plain, str):
        with pytest.raises(AttnError) as caught:
            attend_by_blocks(inputs, rules, steps, sizes=sizes, rows=rows)
        assert str(caught.value) == plain
        return
    assume(rules.normalizer != "hardmax" or not _tied(plain))
    tiled = attend_by_blocks(inputs, rules, steps, sizes=sizes, rows=rows)
    assert tiled.notes == plain.notes
    assert tiled.mask == plain.mask
    assert tiled.scale == plain.scale
    finite = plain.rows("scores")[np.isfinite(plain.rows("scores"))]
    largest = max(1.0, float(np.abs(finite).max(initial=0)) * abs(plain.scale))
    tolerance = 16 * float(np.finfo(plain.rows("output").dtype).eps) * (largest + plain.rows("scores").shape[-1])
    for step in steps:
        expected, got = plain.rows(step), tiled.rows(step)
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=min(tolerance, 1e-2), atol=_unit(inputs, expected) * tolerance)


def _tied(plain: Any) -> bool:
    """Whether the last bit of a sum decides who is the largest of a row: for hardmax, all or nothing."""
    last = next(step for step in ("masked", "biased", "capped", "scaled", "scores") if step in plain)
    two = np.sort(plain.rows(last).astype(float), axis=-1)[..., -2:]
    with np.errstate(invalid="ignore"):
        return bool((two[..., -1] - two[..., 0] <= 1e-5 * np.abs(two[..., 0])).any())


def _unit(inputs: dict[str, Any], expected: np.ndarray) -> float:
    numbers = np.concatenate([np.ravel(inputs["V"]), np.ravel(expected)]).astype(float)
    return float(np.abs(numbers[np.isfinite(numbers)]).max(initial=1))


@settings(max_examples=150)
@given(problems())
def test_rows_one_after_the_other_are_the_whole(problem: tuple[dict[str, Any], Rules]) -> None:
    inputs, rules = problem
    plain = _plain(inputs, rules, None)
    steps = ("weights", "output") if rules.normalizer != "softmax" else ("weights", "lse", "output")
    if isinstance(plain, str):
        with pytest.raises(AttnError) as caught:
            _gather(stream(inputs, rules, steps))
        assert str(caught.value) == plain
        return
    assume(rules.normalizer != "hardmax" or not _tied(plain))
    got, trace = _gather(stream(inputs, rules, steps))
    assert trace.notes == plain.notes
    finite = plain.rows("scores")[np.isfinite(plain.rows("scores"))]
    largest = max(1.0, float(np.abs(finite).max(initial=0)) * abs(plain.scale))
    tolerance = 16 * float(np.finfo(got.dtype).eps) * (largest + got.shape[-1])
    np.testing.assert_allclose(got, plain.rows("weights"), rtol=min(tolerance, 1e-2), atol=tolerance)
    for step in steps[1:]:
        expected = plain.rows(step)
        unit = _unit(inputs, expected)
        np.testing.assert_allclose(trace.rows(step), expected, rtol=min(tolerance, 1e-2), atol=unit * tolerance)


def _gather(blocks: Any) -> tuple[np.ndarray, Any]:
    whole = np.empty(blocks.shape, blocks.dtype)
    for unit, found in blocks:
        whole[unit.index][unit.start : unit.stop] = found["weights"]
    return whole, blocks.trace()


def test_a_stream_gives_the_rows_that_a_table_shows() -> None:
    rng = np.random.default_rng(1)
    inputs = {name: rng.standard_normal((300, 8)) for name in ("Q", "K", "V")}
    rules = Rules(masks=(mask_spec("causal"),))
    whole = Attention(inputs, rules).trace(("weights",)).rows("weights")
    shown = stream(inputs, rules, ("weights",), only=[slice(5), slice(-5, None)])
    rows = {row: found["weights"][row - unit.start] for unit, found in shown for row in range(unit.start, unit.stop)}
    assert sorted(rows) == [*range(5), *range(295, 300)]
    for row, weights in rows.items():
        np.testing.assert_allclose(weights, whole[row], atol=1e-15)


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_a_query_with_one_key_gets_its_value_exactly(scale: float) -> None:
    rng = np.random.default_rng(3)
    inputs = {name: rng.standard_normal((300, 8)).astype(np.float32) for name in ("Q", "K", "V")}
    for masks in ("window:0,0", "lengths:1"):
        name, _, argument = masks.partition(":")
        rules = Rules(masks=(mask_spec(name, argument),), scale=scale)
        got = attend_by_blocks(inputs, rules, ("output",)).rows("output")
        expected = inputs["V"] if name == "window" else np.broadcast_to(inputs["V"][:1], got.shape)
        assert np.array_equal(got, expected)


@pytest.mark.parametrize("level", [0, 30, 60, 85, 100, 300])
@pytest.mark.parametrize("signs", [(-1.0,), (1.0,), (-1.0, 1.0)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("masks", [(), ("causal",), ("lengths",)])
def test_scores_far_from_zero(level: float, signs: list[float], dtype: str, masks: tuple[str, ...]) -> None:
    rng = np.random.default_rng(7)
    inputs = {name: rng.standard_normal((300, 8)) for name in ("Q", "K", "V")}
    # Rows of scores near level, near -level, and both side by side in one block.
    inputs["Q"][:, 0] = rng.choice(signs, 300)
    inputs["K"][:, 0] = level
    inputs = {name: x.astype(dtype) for name, x in inputs.items()}
    rules = Rules(scale=1.0, masks=tuple(mask_spec(name, [299] if name == "lengths" else None) for name in masks))
    exact = Attention({name: x.astype(float) for name, x in inputs.items()}, rules).trace(None)
    got = attend_by_blocks(inputs, rules, ("output", "lse"), sizes=Sizes(2, 32, 2, 32))
    largest = float(np.abs(exact.rows("scores")).max())
    tolerance = 4 * float(np.finfo(dtype).eps) * (largest + 300) * float(np.abs(inputs["V"]).max())
    np.testing.assert_allclose(got.rows("output"), exact.rows("output"), rtol=0, atol=tolerance)
    np.testing.assert_allclose(got.rows("lse"), exact.rows("lse"), rtol=0, atol=tolerance)


@pytest.mark.parametrize(("n", "m"), [(1, 70), (64, 128), (65, 129), (513, 257), (1100, 300)])
@pytest.mark.parametrize("width", [1, 64, 100, 300, 600])
def test_tiles_of_all_widths_at_their_borders(n: int, m: int, width: int) -> None:
    rng = np.random.default_rng(n + m + width)
    inputs = {"Q": rng.standard_normal((n, width)), "K": rng.standard_normal((m, width))}
    inputs["V"] = rng.standard_normal((m, width))
    rules = Rules(masks=(mask_spec("window", "400,90"),))
    plain = Attention(inputs, rules).trace(("output", "lse"))
    got = attend_by_blocks(inputs, rules, ("output", "lse"))
    for step in ("output", "lse"):
        np.testing.assert_allclose(got.rows(step), plain.rows(step), rtol=1e-12, atol=1e-12)


def test_a_half_precision_file_is_converted_by_block(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    inputs = {}
    for name in ("Q", "K", "V"):
        np.save(tmp_path / f"{name}.npy", rng.standard_normal((600, 8)).astype(np.float16))
        inputs[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
    large = Large(inputs, Rules())
    assert all(np.shares_memory(large.inputs[name], inputs[name]) for name in inputs)
    got = attend(inputs, Rules(), ("output",)).rows("output")
    assert got.dtype == np.float32
    expected = Attention({name: x.astype(float) for name, x in inputs.items()}, Rules()).trace(None).rows("output")
    np.testing.assert_allclose(got, expected, atol=2e-6)


def test_grouped_heads_are_shared_not_copied() -> None:
    rng = np.random.default_rng(8)
    inputs = {"Q": rng.standard_normal((1, 8, 300, 4)), "K": rng.standard_normal((1, 2, 300, 4))}
    inputs["V"] = rng.standard_normal((1, 2, 300, 4))
    large = Large(inputs, Rules())
    assert np.shares_memory(large.own(large.parts.k, (0, 3)), inputs["K"][0, 0])
    assert np.shares_memory(large.own(large.parts.k, (0, 4)), inputs["K"][0, 1])
    plain = Attention(inputs, Rules()).trace(None).rows("output")
    np.testing.assert_allclose(attend(inputs, Rules(), ("output",)).rows("output"), plain, atol=1e-14)


@pytest.mark.parametrize("score", [None, "additive"])
def test_half_precision_keys_are_converted_once_for_all_blocks(score: str | None) -> None:
    rng = np.random.default_rng(9)
    inputs = {name: rng.standard_normal((2, 300, 8)).astype(np.float16) for name in ("Q", "K", "V")}
    rules = Rules(score=score_spec(score) if score else None)
    blocks = stream(inputs, rules, ("weights", "output"))
    assert blocks.large.converted("K", blocks.large.parts.k, (1,)) is blocks.large.converted(
        "K", blocks.large.parts.k, (1,)
    )
    got, trace = _gather(blocks)
    plain = Attention(inputs, rules).trace(None)
    np.testing.assert_allclose(got, plain.rows("weights"), atol=1e-6)
    np.testing.assert_allclose(trace.rows("output"), plain.rows("output"), atol=1e-5)
