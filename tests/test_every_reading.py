"""Every score, normalizer, mask, step and setting, alone and in pairs: what the definition gives, every reading gives.

Blocks of rows give the same numbers; a saved problem is the same problem; its own results agree under `check`;
`explain` ends at the numbers; the plan's shapes are those of the results. What is registered must stand here.
"""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli import AttnError, Trace, check, explain, load, run
from tests.calling import normalizers
from tests.inside import MASKS, NAMED_STEPS, SCORES, SETTINGS_TABLE, large_from, plan_of, save, stream

N, M, D = 4, 5, 4
rng = np.random.default_rng(11)


def numbers(*shape: int) -> list[Any]:
    return np.round(rng.normal(size=shape), 2).tolist()  # type: ignore[no-any-return]


X, Y = numbers(N, D), numbers(M, D)
W = {name: numbers(D, D) for name in ("W_Q", "W_K", "W_V")}
BASE = {"X": X, "Y": Y, **W}
HIDDEN = [[1, 0, 1, 1, 0], [1, 1, 0, 1, 0], [0, 1, 1, 0, 1], [1, 1, 1, 1, 1]]

# Each feature: its group (two of one group are not put together), and what it changes; None takes a key away.
SCORE = {
    "dot": "dot",
    "scaled-dot": "scaled-dot",
    "general": {"name": "general", "W": numbers(D, D)},
    "concat": {"name": "concat", "W": numbers(3, 2 * D), "v": numbers(3)},
    "additive": {"name": "additive", "W_q": numbers(3, D), "W_k": numbers(3, D), "w_v": numbers(3)},
    "gat": {"name": "gat", "W": numbers(3, D), "a": numbers(6)},
    "linear": "linear",
    "cosine": "cosine",
    "gaussian": {"name": "gaussian", "sigma": 2},
    "laplacian": {"name": "laplacian", "sigma": 2},
    "boxcar": {"name": "boxcar", "radius": 3},
    "triangular": {"name": "triangular", "radius": 4},
    "epanechnikov": {"name": "epanechnikov", "radius": 4},
}
MASK: dict[str, Any] = {
    "causal": "causal",
    "window": {"window": [1, 1]},
    "lengths": {"lengths": [4]},
    "lengths-per-query": {"lengths-per-query": [[4, 2, 5, 1]]},
    "keys": {"keys": [1, 0, 1, 1, 0]},
    "prefix": {"prefix": [2]},
    "segments": {"segments": [[0, 0, 1, 1], [0, 1, 1, 0, 1]]},
    "dilated": {"dilated": [2]},
    "queries": {"queries": [1, 1, 0, 1]},
    "query-lengths": {"query-lengths": [3]},
    "prefix-keys": {"or": ["causal", {"prefix-keys": [2]}]},
    "chunk": {"chunk": [2]},
    "packed": {"packed": [[1, 3], [2, 3]]},
    "keep": {"keep": HIDDEN},
    "block": {"block": HIDDEN},
}
ALIGNED: dict[str, Any] = {
    "causal to lengths": "causal:lengths & lengths:4",
    "window to lengths": "window:1,1:lengths & lengths:3",
    "chunk after padding": "chunk:2 & keys:0,1,1,1,1",
    "packed chunk": "packed:1,3/2,3 & chunk:2",
}
BEGIN: dict[str, dict[str, Any]] = {
    "scores": {"scores": numbers(N, M)},
    "kernel": {"kernel": np.abs(numbers(N, M)).tolist()},
    "scaled": {"scaled": numbers(N, M)},
    "masked": {"masked": np.where(np.array(HIDDEN) == 1, numbers(N, M), -np.inf).astype(str).tolist()},
    "weights": {"weights": np.abs(numbers(N, M)).tolist()},
}
SETTING: dict[str, dict[str, Any]] = {
    "scale": {"scale": 0.3},
    "scales of heads": {"scale": [0.3, -1.2], "heads": 2},
    "scales of queries": {"scale": [[0.3], [1], [-1], [2]]},
    "temperature": {"temperature": 1.5},
    "softcap": {"softcap": 1.2},
    "bias": {"bias": numbers(N, M)},
    "W_O": {"W_O": numbers(D, 3)},
    "b_O": {"b_O": numbers(D)},
    "b_Q": {"b_Q": numbers(D)},
    "b_K": {"b_K": numbers(D)},
    "b_V": {"b_V": numbers(D)},
    "past": {"past_k": numbers(2, D), "past_v": numbers(2, D)},
    "heads": {"heads": 2},
    "dtype": {"dtype": "float32"},
    "both_ways": {"both_ways": True},
    "round_steps": {"round_steps": 3},
    "empty_rows": {"empty_rows": "uniform"},
    "mask_value": {"mask_value": -3.0},
    "like": {"like": "torch-sdpa", "weight_layout": "in-out"},
    "out-in": {"weight_layout": "out-in"},
    "columns": {"layout": "columns"},
    "axes": {"axes": "dt", "X": np.array(X).T.tolist(), "Y": np.array(Y).T.tolist()},
    "rope": {"rope": 10000},
    "qk_norm": {"qk_norm": "rms"},
    "layer": {
        "qk_norm": "layer",
        "q_weight": [numbers(D)],
        "k_weight": [numbers(D)],
        "q_shift": [numbers(D)],
        "k_shift": [numbers(D)],
        "eps": 0.01,
    },
    "positions": {"rope": "100:neighbours:width=2", "positions": [0, 2, 3, 7], "key_positions": [3, 1, 0, 2, 9]},
    "alibi": {"alibi": 0.5, "heads": None},
    "packed": {"W_QKV": numbers(D, 3 * D), "b_QKV": numbers(3 * D), "W_Q": None, "W_K": None, "W_V": None},
    "sink": {"sink": 0.4},
    "decay": {"decay": 0.8},
    "average": {"average_heads": True, "heads": 2},
    "behind": {"bias_k": [numbers(D)], "bias_v": [numbers(D)], "add_zero_attn": True},
    "zeros behind": {"add_zero_attn": True, "mask": ["causal"], "bias": numbers(N, M)},
    "retention": {"decay": "retention", "heads": 2, "normalizer": "none", "mask": ["causal"]},
    "biases of a layer": {
        "score": {"name": "additive", "b_q": numbers(D), "b_k": numbers(D), "b_v": 0.3, "activation": "leaky-relu"}
    },
    "squares": {"score": {"name": "linear", "map": "square"}, "normalizer": "sum"},
    "relative": {"relative": [numbers(N + M - 1)]},
    "t5": {"relative": {"t5": [numbers(8)], "max": 6}},
    "shaw": {"relative": {"shaw": numbers(3, D), "max": 1}, "score": "dot"},
    "xl": {"relative": {"xl": numbers(2, N + M - 1, D // 2), "u": numbers(D), "v": numbers(D // 2)}, "heads": 2},
    "past_turned": {"rope": 10000, "past_k": numbers(2, D), "past_v": numbers(2, D), "past_turned": True},
}
FEATURES: dict[str, tuple[str, dict[str, Any]]] = {
    **{f"score {name}": ("score", {"score": value}) for name, value in SCORE.items()},
    **{f"normalizer {name}": ("normalizer", {"normalizer": name}) for name in normalizers()},
    **{f"mask {name}": (f"mask {name}", {"mask": [value]}) for name, value in MASK.items()},
    **{f"mask {name}": ("mask aligned", {"mask": [value]}) for name, value in ALIGNED.items()},
    **{f"begin {name}": ("begin", {**dict.fromkeys(BASE), "V": numbers(M, D), **value})
       for name, value in BEGIN.items()},
    **{f"setting {name}": (name, value) for name, value in SETTING.items()},
    "grouped heads": ("heads", {"heads": 2, "kv_heads": 1, "W_K": numbers(D, 2), "W_V": numbers(D, 2)}),
    "no values": ("values", {"V": None, "W_V": None, "Q": numbers(N, D), "K": numbers(M, D), "X": None, "Y": None,
                             "W_Q": None, "W_K": None}),
    "self": ("source", {"Y": None}),
}  # fmt: skip

# Settings that say how something is read, shown or marked, and not what is computed.
NOT_COMPUTED = {
    "attention", "tokens", "key_tokens", "separator", "decimal", "header", "labels", "expect", "rounded_inputs", "show",
    "precision", "rounding", "top", "atol", "rtol", "expect_dtype", "stats", "format", "title", "name",
    "problems", "stages", "param", "d_k",
}  # fmt: skip


def test_everything_that_is_registered_stands_here() -> None:
    assert {*SCORE} == {*SCORES.names()}
    assert {*MASK} == {*MASKS.names()}
    said = {key for _, changes in FEATURES.values() for key in changes} | {*BASE}
    in_files = {name for name, field in SETTINGS_TABLE.items() if field.in_file}
    assert in_files - NOT_COMPUTED - said == set()
    steps: set[str] = set()
    for _, changes in FEATURES.values():
        steps |= {*run(problem_of(changes)).names(on_request=True)}
    assert {*NAMED_STEPS} - steps == set()


def problem_of(*changes: dict[str, Any]) -> dict[str, Any]:
    """The base with changes; masks are put together; transposed where tokens are columns."""
    problem: dict[str, Any] = dict(BASE)
    for change in changes:
        for key, value in change.items():
            if key == "mask" and "mask" in problem:
                value = [*problem["mask"], *value]
            problem[key] = value
    problem = {key: value for key, value in problem.items() if value is not None}
    if problem.get("layout") == "columns":
        turned = {"X", "Y", "Q", "K", "V", "bias", "past_k", "past_v", *BEGIN}
        problem = {key: np.array(value).T.tolist() if key in turned else value for key, value in problem.items()}
        problem["mask"] = [_turned(mask) for mask in problem.get("mask", [])]
    return problem


def _turned(mask: Any) -> Any:
    tables = {"keep", "block"}
    return {k: np.array(v).T.tolist() for k, v in mask.items()} if isinstance(mask, dict) and tables & {*mask} else mask


def same(one: Trace, other: Trace, steps: list[str], rtol: float) -> None:
    for step in steps:
        np.testing.assert_allclose(other[step], one[step], rtol=rtol, atol=rtol, err_msg=step)


def all_readings(problem: dict[str, Any], monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    trace = run(problem)
    rtol = 1e-5 if trace["weights"].dtype == np.float32 else 1e-11
    steps = trace.names(on_request=True)
    blocks_of_rows(problem, trace, rtol, monkeypatch)
    file = folder / "saved.yaml"
    for path, content in save(load_dict(problem), file).items():
        path.write_bytes(content)
    same(trace, run(load(file)), steps, 0)
    assert plan_of(load_dict(problem)).shapes == {step: trace.rows(step).shape for step in steps}
    if "round_steps" in problem:  # a hand that rounds is no array
        if problem.get("normalizer") != "entmax":  # its threshold has no formula: explain takes that of all digits
            ends_at_the_numbers(problem, trace)
        return
    marked = check({**problem, "expect": {step: trace[step] for step in steps if np.isfinite(trace[step]).all()}})
    assert (marked.verdict, [mark.step for mark in marked.steps if mark.verdict == "wrong"]) == ("agrees", [])
    ends_at_the_numbers(problem, trace)


def load_dict(problem: dict[str, Any]) -> Any:
    return run(problem, steps="weights").problem


def blocks_of_rows(problem: dict[str, Any], trace: Trace, rtol: float, monkeypatch: pytest.MonkeyPatch) -> None:
    # These need all heads, or all queries, at once; or are no work for blocks.
    whole = any(problem.get(name) for name in ("both_ways", "average_heads", "round_steps"))
    with monkeypatch.context() as patch:
        large_from(patch, 1)
        small = [step for step in ("output", "heads", "lse") if step in trace]
        if not whole:
            same(trace, run(problem, steps=small), small, rtol)
    if whole or "weights" in problem:
        return
    pairs = [step for step in trace.names() if NAMED_STEPS[step].is_pairs]
    blocks = stream(load_dict(problem), pairs)
    filled = {step: np.full(trace.rows(step).shape, np.nan) for step in pairs}
    for unit, found in blocks:
        for step in pairs:
            filled[step][unit.index][unit.start : unit.stop] = found[step]
    for step in pairs:
        np.testing.assert_allclose(filled[step], trace.rows(step), rtol=rtol, atol=rtol, err_msg=f"blocks: {step}")


def ends_at_the_numbers(problem: dict[str, Any], trace: Trace) -> None:
    """The last number of an explanation is the last one of the query's output; no term gives another than the step."""
    lines = [line.partition("   (right")[0] for line in explain(problem, query=2).text(precision=9).splitlines()]
    assert not [line for line in lines if "give another number" in line]
    told = [line for line in lines if re.search(r"= -?[0-9.]+(?:e-?\d+)?$", line)]
    step = "output" if "output" in trace else "weights"
    right = trace.rows(step)
    last = float(right[..., 1, -1].ravel()[-1]) if step == "output" else None
    if told and last is not None:
        assert float(told[-1].rpartition("= ")[2]) == pytest.approx(
            last, abs=2e-5 if right.dtype == np.float32 else 2e-9
        )


def fits(*names: str) -> bool:
    """Whether features may stand together: not two of one group, nor what a later beginning leaves without effect."""
    return len({FEATURES[name][0] for name in names}) == len(names)


@pytest.mark.parametrize("name", FEATURES)
def test_alone_and_in_pairs(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    computed = refused = 0
    partners = [None, *(other for other in list(FEATURES)[list(FEATURES).index(name) + 1 :] if fits(name, other))]
    for other in partners:
        problem = problem_of(FEATURES[name][1], *([FEATURES[other][1]] if other else []))
        try:
            run(problem)
        except AttnError:
            refused += 1
            continue
        computed += 1
        try:
            all_readings(problem, monkeypatch, tmp_path)
        except Exception as error:
            raise AssertionError(f"{name} and {other}: {error}") from error
    assert computed or name.startswith("setting b_O")


def test_most_pairs_are_computed() -> None:
    """What is refused is refused for a reason: few pairs, and none of a score, normalizer or mask with another."""
    free = [name for name in FEATURES if name.split()[0] in ("score", "normalizer", "mask")]
    for one, other in combinations(free, 2):
        if fits(one, other):
            run(problem_of(FEATURES[one][1], FEATURES[other][1]))


def test_a_reading_that_forgets_a_step_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Blocks of rows that leave out the soft cap."""
    from attncli.pipeline.state import RowBlock

    compute = RowBlock.compute
    monkeypatch.setattr(
        RowBlock,
        "compute",
        lambda self, entry: self.before("capped") if entry.name == "capped" else compute(self, entry),
    )
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        all_readings(problem_of(FEATURES["setting softcap"][1]), monkeypatch, tmp_path)
