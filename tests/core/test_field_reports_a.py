"""Field reports of kind A: what users of other systems met, with the numbers of EXPECTED.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli import AttnError, Trace, attend, cross_attention

FOLDER = Path(__file__).parents[1] / "field_cases"
EXPECTED: dict[str, Any] = json.loads((FOLDER / "EXPECTED.json").read_text())


def read(name: str) -> np.ndarray:
    path = FOLDER / name
    return np.load(path) if path.suffix == ".npy" else np.loadtxt(path, delimiter=",", ndmin=2)


def files(item: str) -> dict[str, np.ndarray]:
    return {name: read(file) for name, file in EXPECTED[item]["files"].items()}


def of(item: str, **options: Any) -> Trace:
    f = files(item)
    return attend(f["Q"], f["K"], f["V"], **options)


def is_right(trace: Trace, expected: dict[str, Any], digits: float = 1e-12) -> None:
    for step in ("scores", "weights", "output"):
        if expected.get(step) is not None:
            np.testing.assert_allclose(trace[step], expected[step], rtol=digits, atol=digits, err_msg=step)


def is_not(got: np.ndarray, *bugs: Any) -> None:
    """The fingerprint of a bug is far from what was computed."""
    for bug in bugs:
        bug = np.asarray(bug, dtype=float)
        assert got.shape != bug.shape or np.abs(got - bug).max() > 1e-5


def message(**options: Any) -> str:
    f = files("A00")
    with pytest.raises(AttnError) as caught:
        attend(f["Q"], f["K"], f["V"], **options)
    return str(caught.value)


def test_a00_baseline() -> None:
    is_right(of("A00"), EXPECTED["A00"])


def test_a02_length_zero_is_an_empty_row() -> None:
    trace = of("A02", mask={"lengths": EXPECTED["A02"]["valid_lens"]})
    is_right(trace, EXPECTED["A02"])
    is_not(trace["output"][1], EXPECTED["A02"]["reject"]["uniform_row_output"])
    assert any("query 2" in note for note in trace.notes)


@pytest.mark.parametrize("alignment", ["top-left", "bottom-right"])
def test_a04_causal_of_two_queries_and_five_keys(alignment: str) -> None:
    expected = EXPECTED["A04"]["causal"]
    trace = of("A04", mask=f"causal:{alignment}")
    is_right(trace, {"weights": expected[alignment]["w"], "output": expected[alignment]["o"]})
    assert trace.mask == [f"causal:{alignment}"]
    other = expected["bottom-right" if alignment == "top-left" else "top-left"]
    is_not(trace["weights"], other["w"])


def test_a04_the_alignment_is_told() -> None:
    trace = of("A04", mask="causal")
    assert trace.mask == ["causal:top-left"]
    assert any("2 x 5" in note and "top-left" in note for note in trace.notes)
    assert not of("A32", mask="causal").notes  # square: nothing to tell


def test_a06_keep_and_block() -> None:
    expected, mask = EXPECTED["A06"], files("A06")["mask"]
    keep, block = of("A06", mask={"keep": mask}), of("A06", mask={"block": mask})
    is_right(keep, expected)
    is_right(block, {"weights": expected["if_mask_means_drop"]["w"], "output": expected["if_mask_means_drop"]["o"]})
    np.testing.assert_array_equal(keep.hidden("weights"), mask == 0)
    np.testing.assert_array_equal(block.hidden("weights"), mask == 1)


def test_a08_a_bias_is_added() -> None:
    trace = of("A08", bias=files("A08")["bias"])
    is_right(trace, EXPECTED["A08"])
    is_not(trace["weights"], *EXPECTED["A08"]["reject"].values())


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int8", "uint16"])
def test_a10_whatever_the_stored_dtype(dtype: str) -> None:
    f = files("A10")
    k, v = f["K"].astype(dtype), f["V"].astype(dtype)
    q = f["Q"].astype(dtype if dtype != "uint16" else "int16")
    trace = attend(q, k, v, mask={"keep": f["keep"]}, mask_value=-1e9)
    assert trace["weights"].dtype == (np.float32 if dtype in ("float32", "float16") else np.float64)
    is_right(trace, EXPECTED["A10"], 1e-6 if dtype in ("float32", "float16") else 1e-12)


def test_a12_softmax_over_the_keys() -> None:
    expected = EXPECTED["A12"]
    weights = of("A00")["weights"]
    np.testing.assert_allclose(weights, expected["weights"], atol=1e-12)
    is_not(weights, *expected["reject"].values())
    np.testing.assert_allclose(attend(scores=expected["scores"])["weights"], expected["weights"], atol=1e-12)


def test_a14_scale_multiplies() -> None:
    expected = EXPECTED["A14"]
    trace = of("A00", scale=expected["scale_multiplier"])
    is_right(trace, expected)
    is_not(trace["weights"], expected["reject"]["divided"])
    assert trace.scale == 0.5


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"temperature": 0}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"scale": float("nan")}, "scale"),
        ({"scale": float("inf")}, "scale"),
        ({"scale": "1e400"}, "scale"),
        ({"scale": 1.0, "temperature": 2.0}, "temperature"),
        ({"softcap": 0.0}, "softcap"),
        ({"mask_value": float("nan")}, "mask"),
    ],
)
def test_a16_numbers_that_make_no_sense(options: dict[str, Any], named: str) -> None:
    assert named in message(**options)


@pytest.mark.parametrize("scale", [0.0, -1.0])
def test_a16_zero_and_minus_one_are_scales(scale: float) -> None:
    f = files("A00")
    scores = scale * f["Q"] @ f["K"].T
    powers = np.exp(scores)
    np.testing.assert_allclose(
        of("A00", scale=scale)["weights"], powers / powers.sum(axis=1, keepdims=True), atol=1e-15
    )


def test_a18_scaling_the_queries_first() -> None:
    f = files("A00")
    first = attend(f["Q"] / np.sqrt(2), f["K"], f["V"], scale=1)
    assert np.abs(first["output"] - of("A00")["output"]).max() < 1e-15


def test_a20_zero_times_nan() -> None:
    f = files("A20")
    assert np.isnan(f["V"]).any()
    trace = of("A20", mask={"keep": f["keep"]})
    is_right(trace, EXPECTED["A20"])
    assert not trace.notes


def test_a22_large_scores() -> None:
    is_right(of("A22", scale=EXPECTED["A22"]["scale"]), EXPECTED["A22"])
    for row, weights in [
        ([1000, 999], [0.731059, 0.268941]),
        ([-1000, -1001], [0.731059, 0.268941]),
        ([-745, -746, -747], [0.665241, 0.244728, 0.090031]),
    ]:
        np.testing.assert_allclose(attend(scores=[row])["weights"][0], weights, atol=5e-7)


def test_a24_half_precision_is_summed_in_float32() -> None:
    expected = EXPECTED["A24"]
    trace = of("A24")
    assert trace["weights"].dtype == np.float32
    assert np.all(trace["weights"] == expected["every_weight"])
    np.testing.assert_array_equal(trace["output"], expected["output"])
    is_not(trace["output"], [[expected["reject"]["f16_output"]]])
    big = np.float16([[300.0]])
    assert attend(big, big, score="dot")["scores"] == 90000


def test_a26_no_keys_and_no_queries() -> None:
    f = files("A26")
    trace = of("A26")
    assert trace["weights"].shape == tuple(EXPECTED["A26"]["weights_shape"])
    np.testing.assert_array_equal(trace["output"], EXPECTED["A26"]["output"])
    assert any("query 1" in note for note in trace.notes)
    a = files("A00")
    none = attend(np.zeros((0, 2)), a["K"], a["V"])
    assert none["weights"].shape == (0, 3)
    assert none["output"].shape == (0, 2)
    for normalizer in ("sum", "hardmax", "sparsemax", "sigmoid", "none"):
        assert attend(f["Q"], f["K"], f["V"], normalizer=normalizer)["output"].tolist() == [[0, 0], [0, 0]]
        assert attend(np.zeros((0, 2)), a["K"], a["V"], normalizer=normalizer)["output"].shape == (0, 2)


@pytest.mark.parametrize(("length", "named"), [(4, "4"), (-1, "-1"), (1.5, "1.5"), (float("nan"), "nan")])
def test_a28_lengths_out_of_range(length: float, named: str) -> None:
    told = message(mask={"lengths": [length]})
    assert named in told
    assert "0..3" in told


def test_a30_a_mask_of_another_size() -> None:
    f = files("A30")
    with pytest.raises(AttnError, match=r"2 x 2.*3 x 3"):
        of("A30", mask={"keep": f["mask"]})
    for wrong in (np.ones((3, 1)), np.ones((1, 1)), np.ones((3, 2)), np.ones((4, 3)), np.ones(2), np.ones(())):
        with pytest.raises(AttnError, match=r"3 x 3|single number"):
            of("A30", mask={"keep": wrong})
        with pytest.raises(AttnError, match=r"3 x 3|single number"):
            of("A30", bias=wrong * 0.5)
    np.testing.assert_array_equal(
        of("A30", mask={"keep": np.array([1, 0, 1])})["weights"],
        of("A30", mask={"keep": np.array([[1, 0, 1]] * 3)})["weights"],
    )


def test_a32_bias_and_causal() -> None:
    trace = of("A32", bias=files("A32")["bias"], mask="causal")
    is_right(trace, EXPECTED["A32"])
    is_not(trace["output"], *EXPECTED["A32"]["reject"].values())


@pytest.mark.parametrize(
    ("score", "kernel"), [("boxcar", "box_le"), ("triangular", "tri"), ("epanechnikov", "epa"), ("gaussian", "gauss")]
)
@pytest.mark.parametrize("normalizer", ["sum", "softmax"])
def test_a34_kernels(score: str, kernel: str, normalizer: str) -> None:
    """Softmax of a kernel's logarithm is the kernel divided by its sum."""
    rows = EXPECTED["A34"]["kernels"][kernel]
    trace = of("A34", score=score, normalizer=normalizer)
    np.testing.assert_allclose(trace["weights"], [weights for weights, _ in rows], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(trace["output"][:, 0], [output for _, output in rows], rtol=1e-12)
    if score != "gaussian":
        assert any("query 2" in note for note in trace.notes)
    bugs = {"boxcar": ["box_lt"], "gaussian": ["gauss_wrongsign", "gauss_m2"]}
    for bug in bugs.get(score, []):
        is_not(trace["weights"], [weights for weights, _ in EXPECTED["A34"]["kernels"][bug]])


@pytest.mark.parametrize("normalizer", ["sum", "softmax"])
def test_a34_a_gaussian_is_never_zero(normalizer: str) -> None:
    weights = attend([[0.0]], [[40.0], [41.0]], score="gaussian", normalizer=normalizer)["weights"]
    np.testing.assert_allclose(weights, [[1, np.exp(-40.5)]], rtol=1e-12)


def test_a36_heads_are_not_averaged() -> None:
    expected = EXPECTED["A36"]
    trace = attend(weights=expected["head_weights"], V=np.hstack(expected["head_values"]), heads=2)
    np.testing.assert_array_equal(trace["output"], expected["output"])
    is_not(trace["output"], expected["reject"]["average_then_multiply"])
    np.testing.assert_array_equal(trace["weights[2]"], expected["head_weights"][1])


@pytest.mark.parametrize(("cap", "weights"), [(5.0, None), (1.0, [0.730927, 0, 0.269073])])
@pytest.mark.parametrize("bias", [False, True])
def test_a38_cap_before_mask(cap: float, weights: list[float] | None, bias: bool) -> None:
    keep = files("A38")["keep"]
    hiding: dict[str, Any] = {"bias": np.where(keep == 1, 0, -np.inf)} if bias else {"mask": {"keep": keep}}
    trace = of("A38", scale=EXPECTED["A38"]["scale"], softcap=cap, **hiding)
    if weights is None:
        is_right(trace, EXPECTED["A38"])
        is_not(trace["weights"][0], EXPECTED["A38"]["reject"]["mask_then_cap"])
    else:
        np.testing.assert_allclose(trace["weights"][0], weights, atol=5e-7)


def test_a40_additive() -> None:
    e = EXPECTED["A40"]
    # The report writes q W_q, with W_q d_q x h; the score takes h x d_q.
    parameters = {"W_q": np.transpose(e["Wq"]), "W_k": np.transpose(e["Wk"]), "w_v": e["v"]}
    trace = of("A40", score=("additive", parameters))
    is_right(trace, e)
    is_not(trace["output"], *e["reject"].values())
    assert trace.scale == 1.0


def test_a42_queries_come_from_x() -> None:
    f = files("A42")
    trace = cross_attention(f["X"], f["Y"])
    is_right(trace, EXPECTED["A42"])
    is_not(trace["output"], EXPECTED["A42"]["reject"]["roles_swapped_o"])


def test_every_item_with_values_is_here() -> None:
    items = {name for name in EXPECTED if name.startswith("A")}
    text = Path(__file__).read_text(encoding="utf-8")
    assert {name for name in items if f"def test_{name.lower()}_" not in text} == set()
