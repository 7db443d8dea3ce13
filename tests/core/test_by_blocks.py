"""Large problems, of which only the results are wanted, go block by block, and give what the definition gives."""

from __future__ import annotations

import gc
import math
import pickle
import threading
import tracemalloc
import warnings
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from attncli import AttnError, attend
from tests.calling import names, normalizers
from tests.inside import InputError

ODD = (np.nan, np.inf, -np.inf, 1e30, 200.0, -200.0)
SCORES = 2**18  # from so many on
MASKS = ("causal", "window", "lengths", "lengths-per-query", "keys", "prefix", "segments", "dilated", "keep", "block")


@st.composite
def problems(draw: st.DrawFn) -> dict[str, Any]:
    """Problems of all kinds, as keywords of `attend`, with odd numbers here and there."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = draw(st.sampled_from(["float64", "float32", "float16"]))
    batch = draw(st.sampled_from([(), (), (2,), (1,)]))
    form = draw(st.sampled_from(["none", "joined", "split"]))
    heads, groups = draw(st.sampled_from([(1, 1), (2, 2), (2, 1), (4, 2)]))
    side = math.isqrt(SCORES // ((heads if form != "none" else 1) * math.prod(batch))) + 1
    n, m = draw(st.integers(side, side + 70)), draw(st.integers(side, side + 90))
    d, d_v = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    strength = draw(st.sampled_from([1.0, 1.0, 30.0, 0.0]))

    def matrix(count: int, width: int, number: int) -> np.ndarray:
        if form == "joined":
            return rng.standard_normal((*batch, count, number * width)).astype(dtype)
        if form == "split":
            return rng.standard_normal((*(batch or (1,)), number, count, width)).astype(dtype)
        return rng.standard_normal((*batch, count, width)).astype(dtype)

    said: dict[str, Any] = {"Q": matrix(n, d, heads) * np.dtype(dtype).type(strength), "K": matrix(m, d, groups)}
    said["V"] = matrix(m, d_v, groups)
    for name in draw(st.lists(st.sampled_from(["Q", "K", "V"]), max_size=2)):
        with np.errstate(over="ignore"):
            said[name].reshape(-1)[rng.integers(said[name].size)] = draw(st.sampled_from(ODD))
    past = draw(st.sampled_from([0, 0, 2])) if form != "split" else 0
    if past:
        said["past_k"], said["past_v"] = matrix(past, d, groups), matrix(past, d_v, groups)
    if form == "joined":
        said |= {"heads": heads, "kv_heads": groups}
    if draw(st.booleans()):
        said["bias"] = bias = rng.standard_normal((draw(st.sampled_from([1, n])), m + past)).astype(np.float32)
        if draw(st.booleans()):
            bias[rng.random(bias.shape) < 0.4] = draw(st.sampled_from([-np.inf, -np.inf, np.nan, np.inf, -1e4]))
    masks = [mask(kind, rng, n, m + past) for kind in draw(st.lists(st.sampled_from(MASKS), max_size=2))]
    if masks:
        said |= {"mask": masks, "mask_value": draw(st.sampled_from([-np.inf, -np.inf, -1e4]))}
    said["score"] = score(draw(st.sampled_from([None, *names("scores")])), rng, d)
    said["normalizer"] = draw(st.sampled_from(["softmax", "softmax", *normalizers()]))
    said["empty_rows"] = draw(st.sampled_from(["zero", "nan", "uniform", "error"]))
    said["softcap"] = draw(st.sampled_from([None, None, 1.5, 1000.0]))
    said["scale"] = draw(st.sampled_from([None, None, 0.0, -1.0, 40.0]))
    if form == "joined" and draw(st.booleans()):
        said["wo"] = rng.standard_normal((heads * d_v, 2)).astype(dtype)
        said["bo"] = rng.standard_normal(2).astype(dtype)
    return said


def mask(kind: str, rng: np.random.Generator, n: int, m: int) -> Any:
    arguments: dict[str, Any] = {
        "window": f"{rng.integers(300)},{rng.integers(200)}",
        "lengths": [int(rng.integers(m + 1))],
        "lengths-per-query": rng.integers(0, m + 1, n).tolist(),
        "keys": rng.integers(0, 2, m).tolist(),
        "prefix": [int(rng.integers(m + 1))],
        "segments": [rng.integers(0, 2, n).tolist(), rng.integers(0, 2, m).tolist()],
        "dilated": [int(rng.integers(1, 4))],
        "keep": rng.integers(0, 2, (rng.choice([1, n]), m)),
        "block": rng.integers(0, 2, (rng.choice([1, n]), m)),
    }
    return "causal" + rng.choice(["", ":bottom-right"]) if kind == "causal" else (kind, arguments[kind])


def score(name: str | None, rng: np.random.Generator, d: int) -> Any:
    shapes = {"W": (d, d), "W_q": (3, d), "W_k": (3, d), "w_v": (3,), "v": (3,)}
    given = {"general": ["W"], "concat": ["W", "v"], "additive": ["W_q", "W_k", "w_v"]}.get(name or "", [])
    if name == "concat":
        shapes["W"] = (3, 2 * d)
    return name and (name, {parameter: rng.standard_normal(shapes[parameter]) for parameter in given})


@settings(max_examples=60)
@given(problems())
def test_blocks_give_what_the_definition_gives(said: dict[str, Any]) -> None:
    """The same results, notes and errors, within the float error of a row of so many numbers."""
    steps = ("output", "lse") if said["normalizer"] == "softmax" else ("output",)
    plain = solved(said)
    if isinstance(plain, str):
        assert solved(said, steps) == plain
        return
    assume(said["normalizer"] != "hardmax" or not tied(plain))
    got = solved(said, steps)
    assert (got.notes, got.mask, got.scale) == (plain.notes, plain.mask, plain.scale)
    finite = plain["scores"][np.isfinite(plain["scores"])]
    largest = max(1.0, float(np.abs(finite).max(initial=0)) * abs(plain.scale))
    tolerance = 16 * float(np.finfo(plain["output"].dtype).eps) * (largest + plain["scores"].shape[-1])
    for step in steps:
        assert got[step].dtype == plain[step].dtype
        values = np.concatenate([np.ravel(said["V"]), np.ravel(plain[step])]).astype(float)
        unit = float(np.abs(values[np.isfinite(values)]).max(initial=1))
        np.testing.assert_allclose(got[step], plain[step], rtol=min(tolerance, 1e-2), atol=unit * tolerance)


def solved(said: dict[str, Any], steps: tuple[str, ...] | None = None) -> Any:
    """The Trace, or what the error says."""
    try:
        return attend(**said, steps=steps)
    except AttnError as error:
        return str(error)


def tied(plain: Any) -> bool:
    """Whether the last bit of a sum decides who is the largest of a row: for hardmax, all or nothing."""
    last = next(step for step in ("masked", "biased", "capped", "scaled", "scores") if step in plain)
    two = np.sort(plain[last].astype(float), axis=-1)[..., -2:]
    with np.errstate(invalid="ignore"):
        return bool((two[..., -1] - two[..., 0] <= 1e-5 * np.abs(two[..., 0])).any())


def _normal(dtype: str = "float32", n: int = 600, width: int = 8) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(9)
    return {name: rng.standard_normal((n, width)).astype(dtype) for name in ("Q", "K", "V")}


def test_large_problems_go_by_blocks_on_their_own() -> None:
    rng = np.random.default_rng(2)
    inputs = {name: rng.standard_normal((700, 16)).astype(np.float32) for name in ("Q", "K", "V")}
    trace = attend(**inputs, mask="causal", softcap=5.0, steps=("output", "lse"))
    plain = attend(**inputs, mask="causal", softcap=5.0, dtype="float64")
    np.testing.assert_allclose(trace["output"], plain["output"], atol=2e-6)
    np.testing.assert_allclose(trace["lse"], plain["lse"], atol=2e-6)
    with pytest.raises(InputError, match="was not kept"):
        trace["weights"]


def test_accuracy_against_float64() -> None:
    rng = np.random.default_rng(4)
    inputs = {name: (rng.standard_normal((1024, 64)) * 2.4).astype(np.float32) for name in ("Q", "K", "V")}
    inputs["V"] /= np.abs(inputs["V"]).max()
    exact = attend(**inputs, dtype="float64")
    got = attend(**inputs, steps=("output",))["output"]
    assert np.abs(exact["scaled"]).max() > 20
    assert np.abs(got - exact["output"]).max() <= 2e-6


@pytest.mark.parametrize("unit", [0.0, 1e-32, 1e-25, 1e30])
def test_values_far_from_one(unit: float) -> None:
    rng = np.random.default_rng(8)
    inputs = {name: rng.standard_normal((600, 8)).astype(np.float32) / 4 for name in ("Q", "K", "V")}
    inputs["Q"][:, 0], inputs["K"][:, 0] = 1, -25  # e^s v of such scores and small values would vanish
    inputs["V"] *= np.float32(unit)
    exact = attend(**inputs, scale=1.0, dtype="float64")
    got = attend(**inputs, scale=1.0, steps=("output",))["output"]
    np.testing.assert_allclose(got, exact["output"], rtol=0, atol=unit * 1e-6)


@pytest.mark.parametrize(
    "predicate",
    [
        lambda at: ((at.key <= at.position) * 2).astype("u1"),
        lambda at: (at.key + at.position) % 3,
        lambda at: (at.key <= at.position).astype(float),
    ],
)
def test_a_predicate_may_give_numbers(predicate: Any) -> None:
    inputs = _normal()
    plain = attend(**inputs, mask=predicate)
    assert 0 < (plain["weights"] > 0).mean() < 1
    np.testing.assert_allclose(attend(**inputs, mask=predicate, steps="output")["output"], plain["output"], atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_query_to_which_a_bias_leaves_one_key_gets_its_value_exactly(dtype: str) -> None:
    inputs = _normal(dtype)
    keys = np.random.default_rng(1).integers(0, 600, 600)
    bias = np.full((600, 600), -np.inf, dtype)
    bias[np.arange(600), keys] = 0.7
    got = attend(**inputs, bias=bias, steps=("output",))["output"]
    assert np.array_equal(got, inputs["V"][keys])


@pytest.mark.parametrize("gone", ["V", "columns of V", "columns of Q and K"])
def test_nothing_to_add_up(gone: str) -> None:
    inputs = _normal()
    if gone == "V":
        del inputs["V"]
    for name in ("V",) if gone == "columns of V" else ("Q", "K") if gone == "columns of Q and K" else ():
        inputs[name] = inputs[name][:, :0]
    steps = ("lse",) if gone == "V" else ("output", "lse")
    plain, got = attend(**inputs, scale=0.5), attend(**inputs, scale=0.5, steps=steps)
    for step in steps:
        assert got[step].shape == plain[step].shape
        np.testing.assert_allclose(got[step], plain[step], atol=1e-5)


@pytest.mark.parametrize("empty_rows", ["zero", "uniform"])
@pytest.mark.parametrize(("name", "masks"), [("V", "lengths:3"), ("V", "lengths:0"), ("bias", "lengths:600")])
def test_what_is_too_large_is_told_even_where_it_is_hidden(name: str, masks: str, empty_rows: str) -> None:
    inputs = _normal("float64")
    inputs["bias"] = np.zeros((600, 600))
    inputs[name][599, 0] = -1e300
    rules: dict[str, Any] = {"mask": masks, "dtype": "float32", "empty_rows": empty_rows}
    plain, got = attend(**inputs, **rules), attend(**inputs, **rules, steps=("output",))
    assert f"{name}: numbers beyond float32 became infinite" in plain.notes
    assert got.notes == plain.notes
    np.testing.assert_allclose(got["output"], plain["output"], atol=1e-5)


@pytest.mark.parametrize("cap", [1e14, 1e16, 1e38, 1e40, 1e300])
@pytest.mark.parametrize("n", [6, 600])
def test_an_enormous_soft_cap_is_none(cap: float, n: int) -> None:
    inputs = _normal(n=n)
    expected = attend(**inputs, steps=("output",))["output"]
    got = attend(**inputs, softcap=cap, steps=("output",))["output"]
    np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.parametrize("scores", [-130, -45, -32, 0, 60])
def test_columns_of_values_may_be_of_very_different_size(scores: float) -> None:
    """Products of small values with e^s vanish unless the largest score is subtracted first."""
    rng = np.random.default_rng(4)
    q, k = np.ones((600, 4), "f"), (scores / 2 + rng.standard_normal((600, 4)) / 10).astype("f")
    size = np.array([1, 1e-30, 1e20, 0])
    v = (rng.uniform(1, 2, (600, 4)) * size).astype("f")
    got = attend(q, k, v, steps=("output",))["output"]
    right = attend(q, k, v, dtype="float64")["output"]
    assert np.all(np.abs(got - right) <= 1e-5 * size)


def test_a_trace_goes_to_another_process() -> None:
    trace = attend(**_normal(n=6))
    there = pickle.loads(pickle.dumps(trace))
    assert there.names(on_request=True) == trace.names(on_request=True)
    assert all(np.array_equal(there[step], trace[step]) for step in trace.names(on_request=True))
    assert repr(there) == repr(trace)


def test_threads_change_no_digit() -> None:
    inputs = _normal(n=2048, width=32)
    inputs["Q"][1500] *= 40
    inputs["K"] *= 2
    first, *others = (attend(**inputs, steps=("output",))["output"] for _ in range(6))
    assert all(np.array_equal(first, other) for other in others)


def test_an_error_in_a_block_ends_all_threads() -> None:
    running = threading.active_count()

    def broken(q: np.ndarray, k: np.ndarray) -> np.ndarray:
        raise InputError("no score today")

    inputs = {name: np.ones((600, 4)) for name in ("Q", "K", "V")}
    with pytest.raises(InputError, match="no score today"):
        attend(**inputs, score=broken, steps=("output",))
    assert threading.active_count() == running


def test_additive_never_holds_its_hidden_layer() -> None:
    rng = np.random.default_rng(7)
    inputs = {name: rng.standard_normal((1024, 64)) for name in ("Q", "K", "V")}
    tracemalloc.start()
    attend(**inputs, score="additive", steps=("output",))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100e6 < 1024 * 1024 * 64 * 8


def test_numbers_beyond_the_dtype_are_told_by_blocks_too() -> None:
    inputs = {name: np.ones((600, 4)) for name in ("Q", "K", "V")}
    for name in inputs:
        inputs[name][500, 0] = 1e300
    plain = attend(**inputs, dtype="float32")
    assert attend(**inputs, dtype="float32", steps=("output",)).notes == plain.notes
    assert "V: numbers beyond float32 became infinite" in plain.notes


@pytest.mark.parametrize("n", [6, 600])
def test_what_was_computed_is_freed_at_once(n: int) -> None:
    step = "output" if n > 500 else "scores"
    inputs = _normal("float64", n=n)
    gc.collect()
    gc.disable()  # it would free what hangs in a ring, too, but late
    try:
        trace = attend(**inputs, steps=("output",) if n > 500 else None)
        held = weakref.ref(trace[step])
        assert held() is not None
        del trace
        assert held() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("steps", [("output",), ("output", "lse")])
def test_no_warning_comes_out_of_a_worker_thread(steps: tuple[str, ...]) -> None:
    """A query that sees nothing has the logarithm of 0; the kernel does not know this score."""
    q, k, v = (np.random.default_rng(0).normal(size=(600, 4)) for _ in range(3))
    keep = np.tril(np.ones((600, 600), int), -1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trace = attend(q, k, v, score="gaussian", mask={"keep": keep}, steps=steps)
    assert trace["output"][0].tolist() == [0, 0, 0, 0]
    if "lse" in steps:
        assert trace["lse"][0].tolist() == [-np.inf]
