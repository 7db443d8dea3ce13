"""Published calculations: every field that agrees with the exact numbers is reproduced to all its printed places."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from attncli import Trace, attend, self_attention
from tests.calling import names

FILE = Path(__file__).parents[1] / "data" / "worked_examples.yaml"
EXAMPLES = {e["id"]: e for e in yaml.load(FILE.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)["examples"]}

# Published fields that agree, but are no step.
LEFT_OUT = {
    ("raimi_karim_attn_illustrated", "alignment_vectors"): "the single products of a weight and its value are no step; "
    "their sum is the output",
}
# Rows of a published field that are made by a rule outside the contract.
LEFT_OUT_ROWS = {
    ("tf_keras_dot_masked", "output_query_masked"): {2: "a query mask sets the output of a hidden query to 0"},
}

SCORES = {
    "dot": "dot",
    "scaled_dot": "scaled-dot",
    "additive: sum_d v_d tanh(q_d + k_d)": "additive",
    "additive_no_weights: sum_d tanh(q_d + k_d)": "additive",
    "additive or scaled_dot (any: keys are equal)": "scaled-dot",
    "given": None,
}
# Where the example's own words name a step otherwise, or change the rules for one field.
FIELDS: dict[str, tuple[str, dict[str, Any]]] = {
    "scaled_scores": ("scaled", {}),
    "masked_scores": ("masked", {}),
    "scores_masked_unscaled": ("masked", {"score": "dot"}),
    "weights_unmasked": ("weights", {"mask": None}),
    "output_unmasked": ("output", {"mask": None}),
    "weights_sum_normalised_query_2": ("weights", {"normalizer": "sum"}),
    "output_query_masked": ("output", {}),
    "output_head_1": ("heads[1]", {}),
    "cached_weights": ("weights", {"cached": True}),
    "cached_output": ("output", {"cached": True}),
}
ROWS = {"weights_sum_normalised_query_2": 1}


def masks(example: dict[str, Any]) -> Any:
    inputs = example["inputs"]
    if "mask_true_is_attend" in inputs:
        return {"keep": inputs["mask_true_is_attend"]}
    if "key_mask_true_is_attend" in inputs:
        return {"keys": inputs["key_mask_true_is_attend"]}
    if "valid_lens" in inputs:
        return {"lengths": inputs["valid_lens"]}
    return "causal" if str(example.get("mask", "")).startswith("causal") else None


def solve(example: dict[str, Any], cached: bool = False, **rules: Any) -> Trace:
    """The example through the public API; `rules` win over its own."""
    inputs = {name: value for name, value in example["inputs"].items() if name != "note"}
    options: dict[str, Any] = {"mask": masks(example), "score": SCORES[example["score"]]}
    if example["convention"].startswith("columns"):
        options["layout"] = "columns"
    if "v" in inputs:
        options["param"] = {"w_v": inputs["v"]}
    if "d_k" in inputs:
        options |= {"d_k": inputs["d_k"]}
    options |= rules
    if "scores" in inputs:
        return attend(scores=inputs["scores"], **options)
    if "valid_lens" in inputs:  # queries are random in the example; only the equality of the keys counts
        queries, keys = np.linspace(-1, 1, 4).reshape(2, 1, 2), np.ones((2, 10, 2))
        return attend(queries, keys, np.array([inputs["V"]] * 2), **options)
    if "Q" in inputs:
        return attend(inputs["Q"], inputs["K"], inputs.get("V"), **options)
    if "heads" in inputs:
        joined = {name: np.hstack([head[name] for head in inputs["heads"]]) for name in ("W_Q", "W_K", "W_V")}
        inputs = {**inputs, **joined}
        options["heads"] = len(inputs["heads"])
    weights = {f"w{letter.lower()}": inputs.get(f"W_{letter}") for letter in "QKV"}
    if cached:
        options |= {"past_k": inputs["past_key"], "past_v": inputs["past_value"]}
        return self_attention(inputs["X_new"], **weights, **options)
    x = inputs["X"] if "X" in inputs else inputs["X_past"] + inputs["X_new"]
    return self_attention(x, **weights, **options)


def half_units(field: dict[str, Any], values: np.ndarray) -> np.ndarray:
    """Half a unit of the last printed place, by cell."""
    if "decimals" in field:
        return np.full(values.shape, 0.5 * 10.0 ** -field["decimals"])
    exponents = np.floor(np.log10(np.abs(np.where(np.isfinite(values) & (values != 0), values, 1))))
    return 0.5 * 10.0 ** (exponents - field["significant_digits"] + 1)


def agreeing() -> list[tuple[str, str]]:
    return [
        (example["id"], field)
        for example in EXAMPLES.values()
        for field, comparison in (example.get("comparison") or {}).items()
        if comparison.get("agrees_to_printed_digits") is True
    ]


def computed(id_: str, field: str, shape: tuple[int, ...]) -> np.ndarray:
    step, rules = FIELDS.get(field, (field, {}))
    got = solve(EXAMPLES[id_], **rules)[step]
    got = got[ROWS[field]] if field in ROWS else got
    return got.reshape(shape) if id_ == "d2l_additive_constant_keys" else got


def differences(id_: str, field: str) -> tuple[np.ndarray, np.ndarray]:
    """How far each cell is from the printed number, and how far it may be."""
    published = EXAMPLES[id_]["published"][field]
    values = np.array(published["values"], dtype=float)
    got = computed(id_, field, values.shape)
    assert got.shape == values.shape
    out = [row - 1 for row in LEFT_OUT_ROWS.get((id_, field), {})]
    values, got = np.delete(values, out, axis=0), np.delete(got, out, axis=0)
    with np.errstate(invalid="ignore"):
        off = np.where(values == got, 0, np.abs(values - got))
    return off, half_units(published, values)


def test_the_whole_file_is_here() -> None:
    fields = agreeing()
    assert len(fields) == 69
    assert set(LEFT_OUT) | set(LEFT_OUT_ROWS) <= set(fields)
    assert {field for _, field in fields} - set(FIELDS) - {field for _, field in LEFT_OUT} <= set(names("steps"))


@pytest.mark.parametrize(("id_", "field"), [case for case in agreeing() if case not in LEFT_OUT])
def test_published_numbers(id_: str, field: str) -> None:
    off, allowed = differences(id_, field)
    assert np.all(off <= allowed + 1e-12), (off / allowed).max()


def test_what_a_page_has_wrong_is_not_reproduced() -> None:
    """The fields that do not agree are told from those that do, by the same comparison."""
    for id_, field in [
        ("amanailab_code_lab_case1", "output"),
        ("ainiketan_bahdanau_code_comment", "scores"),
        ("alammar_gpt2_masked_softmax", "weights"),
        ("keras3_concat_and_additive_correctness", "weights"),
        ("raimi_karim_self_attention", "output"),
    ]:
        assert EXAMPLES[id_]["comparison"][field]["agrees_to_printed_digits"] is False
        off, allowed = differences(id_, field)
        assert not np.all(off <= allowed)


def test_hidden_division_by_four() -> None:
    """alammar_gpt2_masked_softmax: the printed weights are those of the scores divided by 4."""
    example = EXAMPLES["alammar_gpt2_masked_softmax"]
    weights = solve(example, scale=0.25)["weights"]
    assert np.abs(weights - np.array(example["published"]["weights"]["values"])).max() <= 0.005


def test_alignment_vectors_sum_to_the_output() -> None:
    example = EXAMPLES["raimi_karim_attn_illustrated"]
    vectors = np.array(example["published"]["alignment_vectors"]["values"])
    assert np.abs(solve(example)["output"] - vectors.sum(axis=0)).max() < 0.5


def test_recomputed_numbers_of_the_file() -> None:
    """What the file itself computed in float64 under the names of steps."""
    compared = 0
    for example in EXAMPLES.values():
        if example["id"] == "d2l_additive_constant_keys":
            continue
        trace = solve(example)
        for field, values in (example.get("recomputed_float64") or {}).items():
            if field in trace and np.shape(values) == trace[field].shape:
                np.testing.assert_allclose(
                    trace[field], values, rtol=1e-12, atol=1e-12, err_msg=f"{example['id']} {field}"
                )
                compared += 1
    assert compared > 50
