"""The node cases of the onnx package (`test_attention*`, opsets 23 to 25), through the public `attend`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.backend.test.case.node as node_cases
import onnx.backend.test.case.node.attention
import pytest

from attncli import Trace, attend

TOLERANCE = {"float32": 1e-6, "float16": 2e-3, "bfloat16": 1e-2}
LEFT_OUT: dict[str, str] = {}  # name: reason


@dataclass
class Node:
    """One case: its attributes, and its arrays by the operator's own names for them."""

    attributes: dict[str, Any]
    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]


def _cases() -> dict[str, Any]:
    cases = (case for case in node_cases._NodeTestCases if case.name.startswith("test_attention"))
    return {case.name: case for case in cases if not case.name.endswith("_expanded")}


CASES = _cases()


def read(case: Any) -> Node:
    node = case.model.graph.node[0]
    inputs, outputs = case.data_sets[0]
    schema = onnx.defs.get_schema("Attention", case.model.opset_import[0].version)
    # Omitted inputs and outputs have an empty name in the node, and no array.
    in_names = [formal.name for formal, name in zip(schema.inputs, node.input, strict=False) if name]
    out_names = [formal.name for formal, name in zip(schema.outputs, node.output, strict=False) if name]
    return Node(
        {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute},
        dict(zip(in_names, inputs, strict=True)),
        dict(zip(out_names, outputs, strict=True)),
    )


def pad_keys(mask: np.ndarray, m: int) -> np.ndarray:
    """The operator pads a short mask on the right: those keys are hidden."""
    fill = False if mask.dtype == bool else -np.inf
    widths = [(0, 0)] * (mask.ndim - 1) + [(0, m - mask.shape[-1])]
    return np.pad(mask, widths, constant_values=fill)


def four_axes(mask: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A mask is aligned on the right, as NumPy broadcasts: three axes are heads x queries x keys."""
    full = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
    return np.broadcast_to(full, (*full.shape[:2], *shape))


def external_cache(a: dict[str, Any], lengths: np.ndarray, n: int, m: int) -> np.ndarray:
    """What `nonpad_kv_seqlen` shows: the first keys of each sequence; the last query stands at the last of them."""
    key = np.arange(m)
    position = (np.arange(n) + (lengths - n)[:, None])[..., None] if a.get("is_causal") or windowed(a) else None
    keep = np.broadcast_to(key < lengths[:, None, None], (len(lengths), n, m))
    if a.get("is_causal"):
        keep = keep & (key <= position)
    left, right = a.get("left_window_size", -1), a.get("right_window_size", -1)
    if left >= 0:
        keep = keep & (key >= position - left)
    if right >= 0:
        keep = keep & (key <= position + right)
    return keep[:, None]


def windowed(a: dict[str, Any]) -> bool:
    return a.get("left_window_size", -1) >= 0 or a.get("right_window_size", -1) >= 0


def solve(node: Node) -> Trace:
    a, given = node.attributes, node.inputs
    q, k = given["Q"], given["K"]
    n, m = q.shape[-2], k.shape[-2] + (given["past_key"].shape[-2] if "past_key" in given else 0)
    options: dict[str, Any] = {"like": "onnx"}
    masks: list[Any] = []
    if q.ndim == 3:
        options |= {"heads": a["q_num_heads"], "kv_heads": a["kv_num_heads"]}
    if "scale" in a:
        options["scale"] = a["scale"]
    if a.get("softcap"):
        options["softcap"] = a["softcap"]
    if "past_key" in given:
        options |= {"past_k": given["past_key"], "past_v": given["past_value"]}
    if "attn_mask" in given:
        table = four_axes(pad_keys(given["attn_mask"], m), (n, m))
        if table.dtype == bool:
            masks.append({"keep": table})
        else:
            options["bias"] = table
    if "nonpad_kv_seqlen" in given:
        masks.append({"keep": external_cache(a, given["nonpad_kv_seqlen"], n, m)})
    else:
        if a.get("is_causal"):
            masks.append("causal")
        if windowed(a):
            sides = (a.get("left_window_size", -1), a.get("right_window_size", -1))
            masks.append({"window": [side if side >= 0 else "*" for side in sides]})
    return attend(q, k, given["V"], mask=masks or None, **options)


def split(x: np.ndarray, like: np.ndarray) -> np.ndarray:
    """(B, n, H d) as (B, H, n, d), where the operator keeps heads apart."""
    if x.ndim == like.ndim and x.shape == like.shape:
        return x
    batch, heads, n, d = like.shape
    return x.reshape(batch, n, heads, d).swapaxes(1, 2)


def result(node: Node, trace: Trace, name: str) -> np.ndarray:
    expected = node.outputs[name]
    if name == "Y":
        return split(trace["output"], expected)
    if name in ("present_key", "present_value"):
        return split(trace["K" if name == "present_key" else "V"], expected)
    mode = node.attributes.get("qk_matmul_output_mode", 0)
    step = ["scaled", "capped", "masked" if "masked" in trace else "biased", "weights"][mode]
    return trace[step]


def tolerance(node: Node, expected: np.ndarray) -> float:
    return max(TOLERANCE[str(array.dtype)] for array in (node.inputs["Q"], expected))


def test_all_cases_are_here() -> None:
    assert len(CASES) == 93
    assert len(LEFT_OUT) <= 3
    assert set(LEFT_OUT) <= set(CASES)
    assert sum(len(read(case).outputs) > 1 for case in CASES.values()) == 29


@pytest.mark.parametrize("name", [name for name in CASES if name not in LEFT_OUT])
def test_onnx(name: str) -> None:
    node = read(CASES[name])
    trace = solve(node)
    for output, expected in node.outputs.items():
        got = result(node, trace, output)
        assert got.shape == expected.shape
        assert got.dtype == np.float32
        wide = expected.astype(np.float32)
        np.testing.assert_allclose(got, wide, rtol=0, atol=tolerance(node, expected), err_msg=output)


def test_a_wrong_rule_is_seen() -> None:
    """The cases tell rules apart: with the other causal alignment, and without the cap, they fail."""
    causal = read(CASES["test_attention_4d_causal"])
    causal.attributes["is_causal"] = 0
    assert np.abs(result(causal, solve(causal), "Y") - causal.outputs["Y"]).max() > 1e-3
    capped = read(CASES["test_attention_4d_softcap"])
    capped.attributes["softcap"] = 0.0
    assert np.abs(result(capped, solve(capped), "Y") - capped.outputs["Y"]).max() > 1e-3


def test_half_precision_is_read() -> None:
    node = read(CASES["test_attention_4d_causal_bf16"])
    assert node.inputs["Q"].dtype == ml_dtypes.bfloat16
    assert read(CASES["test_attention_4d_fp16"]).inputs["Q"].dtype == np.float16
