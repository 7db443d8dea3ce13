"""The engine for large problems gives what the definition gives: everywhere, at tile borders of small problems."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attncli.core.attend import Attention, Rules
from attncli.core.masks import mask_spec
from attncli.core.normalizers import NORMALIZERS
from attncli.core.online import Sizes
from attncli.core.scores import SCORES, score_spec
from attncli.core.tiled import attend_by_blocks
from attncli.errors import AttnError

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


@settings(max_examples=400, deadline=None)
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


def _unit(inputs: dict[str, Any], expected: np.ndarray) -> float:
    numbers = np.concatenate([np.ravel(inputs["V"]), np.ravel(expected)]).astype(float)
    return float(np.abs(numbers[np.isfinite(numbers)]).max(initial=1))
