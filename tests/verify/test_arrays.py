"""An engineer's array: right ones are never called wrong, and of wrong ones the mistake is named."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import kernels
import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from attncli import check
from tests.inside import MISTAKES, Change, InputError, ShapeError, mistake

Array = NDArray[Any]
ALL = np.ones((1, 1), bool)


def checked(
    inputs: dict[str, Array], mask: str | None = None, arrays: dict[str, Array] | None = None, **said: Any
) -> Any:
    """The check of arrays of steps (keyword arguments that are arrays, too) against a problem."""
    arrays = (arrays or {}) | {name: said.pop(name) for name in [*said] if isinstance(said[name], np.ndarray)}
    rules = {"mask": {"keep": lower(N, M)} if mask == "keep" else mask} if mask else {}
    return check({**inputs, **rules, **said, "expect": arrays})


def random_inputs(heads: int, n: int, m: int, d: int, groups: int | None = None, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    shapes = {"Q": (1, heads, n, d), "K": (1, groups or heads, m, d), "V": (1, groups or heads, m, d)}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def output_of(inputs: dict[str, Array], scale: float | None = None, shown: Array = ALL) -> Array:
    """The right output but for the scale and the mask that are given, in float32 as BLAS computes it."""
    q, k, v = (inputs[name][0] for name in "QKV")
    scale = scale or 1 / np.sqrt(q.shape[-1])
    return kernels.blas(q, kernels.spread(k, len(q)), kernels.spread(v, len(q)), scale, shown)[None]


def lower(n: int, m: int, offset: int = 0) -> Array:
    return np.tril(np.ones((n, m), bool), offset)


def named(result: Any) -> list[str]:
    return [diagnosis.mistake for diagnosis in result.diagnosis]


# -- right ones -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_right_outputs_are_never_called_wrong(seed: int) -> None:
    name, inputs, mask, output = kernels.random_right(seed)
    result = checked(inputs, mask, output=output)
    assert result.verdict == "agrees", (name, result.notes)


@pytest.mark.parametrize("made", [lambda x: x, lambda x: np.moveaxis(x, 1, 2), lambda x: x[0],
                                  lambda x: np.moveaxis(x, 1, 2).reshape(1, 5, 12)])  # fmt: skip
def test_heads_may_lie_apart(made: Any) -> None:
    inputs = random_inputs(3, 5, 7, 4)
    output = made(output_of(inputs))
    result = checked(inputs, output=output)
    assert result.verdict == "agrees"
    assert any("heads apart" in note for note in result.notes) == (output.shape != (1, 5, 12))


def test_heads_apart_in_columns() -> None:
    inputs = random_inputs(3, 5, 7, 4)
    result = checked({name: x.mT for name, x in inputs.items()}, layout="columns", output=output_of(inputs).mT)
    assert result.verdict == "agrees"


def test_bfloat16_files(tmp_path: Path) -> None:
    inputs = {name: x.astype(ml_dtypes.bfloat16) for name, x in random_inputs(1, 4, 6, 8).items()}
    output = kernels.flash(*(inputs[name][0] for name in "QKV"), 8**-0.5, ALL)
    for name, array in {**inputs, "output": output}.items():
        np.save(tmp_path / f"{name}.npy", array)
    (tmp_path / "p.yaml").write_text("Q: Q.npy\nK: K.npy\nV: V.npy\nexpect: {output: output.npy}\n")
    result = check(tmp_path / "p.yaml")
    assert result.verdict == "agrees"
    assert any("rounding to bfloat16 (0.00391" in note for note in result.notes)


def test_half_precision_in_float32_is_told_and_has_no_room_beyond_its_own() -> None:
    inputs = random_inputs(1, 8, 64, 16)
    halves = {name: x.astype(np.float16) for name, x in inputs.items()}
    output = kernels.flash(*(halves[name][0] for name in "QKV"), 0.25, ALL)
    assert checked(halves, output=output).verdict == "agrees"
    result = checked({name: x.astype(np.float32) for name, x in halves.items()}, output=output.astype(np.float32))
    assert result.verdict == "agrees"
    assert any("an array of float16" in note for note in result.notes)
    wide = {name: x.astype(np.float32) for name, x in halves.items()}
    result = check({**wide, "expect": {"output": output.astype(np.float32)}, "expect_dtype": "float32"})
    assert result.verdict == "wrong"
    assert named(result) == ["coarser-type"]
    assert not result.diagnosis[0].exact_match


@pytest.mark.parametrize("step", ["scores", "scaled", "masked", "weights", "lse", "exp"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_other_steps(step: str, dtype: str) -> None:
    inputs = {name: x.astype(dtype) for name, x in random_inputs(2, 6, 9, 16).items()}
    q, k = inputs["Q"].astype(np.float32), inputs["K"].astype(np.float32)
    scores = q @ k.mT
    scaled = scores / 4
    masked = np.where(lower(6, 9), scaled, -np.inf)
    exps = np.exp(masked)
    total = exps.sum(-1, keepdims=True)
    steps = {"scores": scores, "scaled": scaled, "masked": masked, "exp": exps, "lse": np.log(total),
             "weights": exps / total}  # fmt: skip
    array = steps[step].astype(dtype)
    assert checked(inputs, "causal:top-left", **{step: array}).verdict == "agrees"
    array[0, 1, 5, 0] += 0.1
    result = checked(inputs, "causal:top-left", **{step: array})
    assert result.verdict == "wrong"
    assert result.first_wrong is not None
    assert result.first_wrong[1].at == (1, 2, 6, 1)


def test_projections_and_an_output_matrix() -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2, 10, 12)).astype(np.float32)
    w = {f"W_{name}": rng.standard_normal((12, 12)).astype(np.float32) / 3 for name in "QKVO"}
    b = {f"b_{name}": rng.standard_normal(12).astype(np.float32) for name in "QKVO"}
    q, k, v = ((x @ w[f"W_{c}"] + b[f"b_{c}"]).reshape(2, 10, 3, 4).swapaxes(1, 2) for c in "QKV")
    heads = kernels.softmax(q @ k.mT / np.float32(2)) @ v
    output = heads.swapaxes(1, 2).reshape(2, 10, 12) @ w["W_O"] + b["b_O"]
    inputs = {"X": x, **w, **b}
    arrays = {"Q": x @ w["W_Q"] + b["b_Q"], "heads": heads, "output": output}
    assert checked(inputs, arrays=arrays, heads=3).verdict == "agrees"
    wrong = heads.swapaxes(1, 2).reshape(2, 10, 12)
    assert named(checked(inputs, heads=3, output=wrong)) == ["no-W_O"]


def test_what_is_hidden_does_not_widen_the_tolerance() -> None:
    inputs = random_inputs(1, 6, 6, 4)
    inputs["K"][0, 0, 4:] = 1e9
    inputs["V"][0, 0, 4:] = np.nan
    good = {name: x[:, :, :4] if name != "Q" else x for name, x in inputs.items()}
    output = output_of(good)
    assert checked(inputs, "lengths:4", output=output).verdict == "agrees"
    assert checked(inputs, "lengths:4", output=output * np.float32(1.0001)).verdict == "wrong"


def test_nan_and_infinity() -> None:
    inputs = {"scores": np.zeros((2, 2), np.float32), "V": np.array([[1, np.nan], [2, 3]], np.float32)}
    assert checked(inputs, output=np.array([[1.5, np.nan]] * 2, np.float32)).verdict == "agrees"
    result = checked(inputs, output=np.array([[1.5, 0], [np.inf, np.nan]], np.float32))
    assert [cell.at for cell in result.steps[0].cells] == [(1, 2), (2, 1)]


# -- mistakes ---------------------------------------------------------------------------------------------------

N, M, HEADS, D = 40, 60, 4, 16


@pytest.mark.parametrize(
    ("mask", "scale", "shown", "name"),
    [
        (None, 1 / np.sqrt(HEADS * D), ALL, "scale-root-all-heads"),
        (None, 1.0, ALL, "no-scale"),
        (None, 1 / D, ALL, "scale-d_k"),
        (None, D**-0.25, ALL, "scale-fourth-root"),
        ("causal:top-left", None, lower(N, M, M - N), "other-alignment"),
        ("causal:bottom-right", None, lower(N, M), "other-alignment"),
        ("causal:bottom-right", None, ALL, "no-mask"),
        ("keep", None, ~lower(N, M), "mask-inverted"),
        ("window:8,0:bottom-right", None, lower(N, M, M - N) & ~lower(N, M, M - N - 10), "window-off-by-one"),
        ("window:8,0:bottom-right", None, lower(N, M, M - N) & ~lower(N, M, M - N - 8), "window-off-by-one"),
        ("window:8,0:bottom-right", None, lower(N, M, M - N + 1) & ~lower(N, M, M - N - 9), "window-off-by-one"),
    ],
)
def test_the_mistake_is_named(mask: str | None, scale: float | None, shown: Array, name: str) -> None:
    inputs = random_inputs(HEADS, N, M, D)
    result = checked(inputs, mask, output=output_of(inputs, scale, shown))
    assert result.verdict == "wrong"
    assert name in named(result)[:3]
    assert result.diagnosis[0].exact_match


def test_tiled_groups() -> None:
    inputs = random_inputs(6, N, M, D, groups=3)
    tiled = {name: x if name == "Q" else np.tile(x, (1, 2, 1, 1)) for name, x in inputs.items()}
    result = checked(inputs, output=output_of(tiled))
    assert named(result) == ["groups-tiled"]
    assert result.steps[0].array is not None
    assert result.steps[0].array.where == ["only in 4 of 6 heads"]


def test_the_root_of_the_data_width() -> None:
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((9, 24)).astype(np.float32), rng.standard_normal((24, 8)).astype(np.float32) / 5
    inputs = {"X": x, "W_Q": w, "W_K": w[::-1].copy(), "W_V": w}
    q, k, v = ((x @ inputs[f"W_{name}"])[None] for name in "QKV")
    output = kernels.blas(q, k, v, 24**-0.5, ALL)[0]
    assert named(checked(inputs, output=output))[0] == "scale-root-d_model"


def test_the_cap_after_the_mask() -> None:
    inputs = random_inputs(1, 10, 10, 8)
    q, k, v = (inputs[name][0] for name in "QKV")
    capped = np.tanh(np.where(lower(10, 10), q @ k.mT / np.sqrt(np.float32(8)), -np.inf))
    result = checked(inputs, "causal", softcap=1.0, output=kernels.softmax(capped) @ v)
    assert named(result)[0] == "softcap-after-mask"


def test_sums_in_half_precision() -> None:
    rng = np.random.default_rng(5)
    q, k = (rng.standard_normal((1, rows, 32)).astype(np.float16) for rows in (16, 512))
    v = (rng.standard_normal((1, 512, 32)) + 1).astype(np.float16)
    weights = kernels.softmax(q.astype(np.float32) @ k.astype(np.float32).mT / np.sqrt(32)).astype(np.float16)
    total = np.zeros((1, 16, 32), np.float16)
    for j in range(512):
        total = (total + weights[..., j, None] * v[..., None, j, :]).astype(np.float16)
    result = checked({"Q": q, "K": k, "V": v}, output=total)
    assert named(result) == ["half-accumulation"]
    right = (weights.astype(np.float32) @ v.astype(np.float32)).astype(np.float16)
    assert checked({"Q": q, "K": k, "V": v}, output=right).verdict == "agrees"


def test_a_mistake_of_one_sequence_is_no_mistake_of_all() -> None:
    inputs = {name: np.concatenate([x, x[:, :, ::-1]]) for name, x in random_inputs(2, 12, 12, 8).items()}
    both = np.concatenate([output_of({name: x[i : i + 1] for name, x in inputs.items()}) for i in range(2)])
    assert checked(inputs, output=both).verdict == "agrees"
    both[1] = output_of({name: x[1:] for name, x in inputs.items()}, scale=1.0)[0]
    result = checked(inputs, output=both)
    assert named(result) == []
    assert result.steps[0].array is not None
    assert result.steps[0].array.where == ["only in sequence 2 of 2"]


def test_what_follows_from_a_wrong_array() -> None:
    inputs = random_inputs(2, 7, 9, 4)
    q, k, v = (inputs[name] for name in "QKV")
    weights = kernels.softmax(q @ k.mT)
    result = checked(inputs, weights=weights, output=weights @ v)
    assert [mark.verdict for mark in result.steps] == ["wrong", "follows"]
    assert named(result) == ["no-scale"]
    assert result.verdict == "wrong"
    assert result.first_wrong is not None
    assert result.first_wrong[0].step == "weights"


def test_a_mistake_that_is_added_is_found_in_arrays_too() -> None:
    @mistake("three-halves", at=("scaled",), simplicity=1)
    def three_halves(given: Any) -> Any:
        """The scores were scaled by half as much again."""
        yield Change({"scaled": given["scaled"] * 1.5}, "half as much again")

    inputs = random_inputs(1, 9, 9, 4)
    try:
        result = checked(inputs, output=output_of(inputs, scale=0.75))
    finally:
        MISTAKES.remove("three-halves")
    assert named(result) == ["three-halves"]


# -- what is told -----------------------------------------------------------------------------------------------


def test_cells_share_and_json() -> None:
    inputs = random_inputs(1, 8, 10, 4)
    output = output_of(inputs)
    output[0, 0, 2, 1] += 1
    output[0, 0, 6, 3] += 2
    result = checked(inputs, output=output)
    told = result.to_dict()["steps"][0]
    assert [cell["at"] for cell in told["cells"]] == [[1, 3, 2], [1, 7, 4]]
    assert (told["cells"][0]["row"], told["cells"][0]["column"]) == ("q3", "2")
    low, high = told["cells"][0]["from_hand"]
    assert low < told["cells"][0]["exact"] < high < float(told["cells"][0]["hand"])
    assert told["array"]["outside"] == 2
    assert told["array"]["share"] == 2 / 32
    assert told["array"]["worst"][0]["at"] == [1, 7, 4]
    assert result.to_dict()["first_wrong"] == {"step": "output", "at": [1, 3, 2], "row": "q3", "column": "2"}


def test_many_wrong_cells_are_not_all_listed() -> None:
    inputs = random_inputs(1, 30, 10, 8)
    result = checked(inputs, output=output_of(inputs) + np.float32(1))
    assert 40 < len(result.steps[0].cells) <= 50
    assert result.steps[0].cells[0].at == (1, 1, 1)


def test_a_hand_beside_an_array(tmp_path: Path) -> None:
    np.save(tmp_path / "o.npy", np.array([[1.5]]))
    text = "scores: [[0, 0]]\nV: [[1], [2]]\nexpect: {weights: [[0.5, 0.6]], output: o.npy}\n"
    (tmp_path / "p.yaml").write_text(text)
    result = check(tmp_path / "p.yaml")
    assert [(mark.step, mark.verdict) for mark in result.steps] == [("weights", "wrong"), ("output", "agrees")]


def test_whole_numbers_and_places_are_a_hand(tmp_path: Path) -> None:
    np.save(tmp_path / "w.npy", np.array([[0.27, 0.73]]))
    text = "scores: [[0, 1]]\nexpect: {weights: {values: w.npy, decimals: 2}}\n"
    (tmp_path / "p.yaml").write_text(text)
    assert check(tmp_path / "p.yaml").verdict == "agrees"


def test_bad_arrays_are_told_together() -> None:
    inputs = random_inputs(2, 5, 7, 4)
    with pytest.raises(ShapeError, match=r"4 x 4, but the step is 1 x 5 x 8"):
        checked(inputs, output=np.zeros((4, 4)))
    with pytest.raises(InputError, match="no step 'masked'"):
        checked(inputs, masked=np.zeros((5, 7)))


@pytest.mark.parametrize(
    ("dtype", "factor", "verdict"),
    [
        ("float16", 1.003, "agrees"),
        ("float16", 1.2, "wrong"),
        ("float32", 1.0003, "agrees"),
        ("float32", 1.02, "wrong"),
    ],
)
def test_a_factor_is_told_within_the_tolerance_and_beyond(dtype: str, factor: float, verdict: str) -> None:
    inputs = {name: x.astype(dtype) for name, x in random_inputs(1, 64, 2048, 32).items()}
    right = output_of({name: x.astype(np.float64) for name, x in inputs.items()})
    found = checked(inputs, output=(right * factor).astype(dtype))
    told = f"all numbers are about {factor} times the right ones"
    assert found.steps[0].verdict == verdict
    if verdict == "agrees":
        assert f"output: within the tolerance, but not by rounding: {told}" in found.notes
    else:
        assert [(each.mistake, each.text) for each in found.diagnosis] == [("constant-factor", told)]
    assert not any("times the right" in note for note in checked(inputs, output=right.astype(dtype)).notes)


def test_memory_does_not_grow_with_the_number_of_mistakes() -> None:
    inputs = random_inputs(4, 256, 512, 32)
    output = output_of(inputs, scale=0.77)
    checked(inputs, output=output)

    def peak() -> int:
        tracemalloc.start()
        with threadpool_limits(1):  # one thread: whether two hold their blocks at once is chance
            checked(inputs, output=output)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    names = [f"nothing-{number}" for number in range(400)]
    try:
        for name in names[:20]:
            mistake(name, at=("scaled",), simplicity=9)(_nothing)
        few = peak()
        for name in names[20:]:
            mistake(name, at=("scaled",), simplicity=9)(_nothing)
        many = peak()
    finally:
        for name in names:
            MISTAKES.remove(name)
    assert many < few * 1.5  # what each makes of the sampled rows would be five times as much
    assert few < 4 * 256 * 512 * 8 * 8  # eight times what all weights take in double precision


def _nothing(given: Any) -> Any:
    """Nothing that would explain anything."""
    yield Change({"scaled": given["scaled"] * 7.0}, "seven times")


@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize(("n", "m"), [(20, None), (3, 20), (20, 3)])
@pytest.mark.parametrize("step", ["Q", "K", "V", "Q_rotated", "K_rotated"])
def test_mistakes_in_queries_keys_and_values_are_named(
    batch: tuple[int, ...], n: int, m: int | None, step: str
) -> None:
    """However many of each there are: transposed weights, and rotated rows know where they stand in the whole."""
    rng = np.random.default_rng(7)
    inputs = {name: rng.standard_normal((4, 4)) for name in ("W_Q", "W_K", "W_V")} | {"X": rng.random((*batch, n, 4))}
    data = inputs["X"]
    if m is not None:
        inputs["Y"] = rng.random((*batch, m, 4))
        data = data if step.startswith("Q") else inputs["Y"]
    wrong = data @ inputs[f"W_{step[0]}"].T
    if step.endswith("rotated"):
        angles = np.arange(data.shape[-2])[:, None] * np.array([1.0, 0.01])
        low, high = wrong[..., :2], wrong[..., 2:]
        cos, sin = np.cos(angles), np.sin(angles)
        wrong = np.concatenate([low * cos - high * sin, high * cos + low * sin], axis=-1)
    said = {"rope": 10000} if step.endswith("rotated") else {}
    assert named(checked(inputs, arrays={step: wrong}, **said)) == ["weights-transposed"]
