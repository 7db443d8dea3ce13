"""The compiled engine against PyTorch on this processor.

    pip install --group bench . && python tests/benchmarks/engine.py [--rounds 9] [--case TEXT] [--json FILE]

Both run in one process, in turn, round by round, after a call that is not counted, so that a busy moment meets both;
medians are compared. A ratio above 1 says that attncli is the faster. PyTorch's time is that of its
scaled_dot_product_attention, with a mask where it needs one, or of its compiled FlexAttention, whichever is less.
ATTNCLI_ENGINE=x86-64-v3 measures another instruction set. GFLOPS count products of visible pairs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

for _name in [name for name in os.environ if name.startswith("OPENBLAS_")]:
    del os.environ[_name]  # before NumPy is loaded

import numpy as np  # noqa: E402
import torch  # noqa: E402
from throughput import processor  # noqa: E402
from torch.nn.attention.flex_attention import create_block_mask, flex_attention  # noqa: E402

from attncli.engine.kernel import attend_softmax, available  # noqa: E402
from attncli.engine.threads import thread_count  # noqa: E402

Run = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """heads may share key heads (groups); rules: softcap, sink, window, causal; floor and aim of the ratio."""

    name: str
    heads: int
    n: int
    d: int
    floor: float
    aim: float
    dtype: str = "float32"
    groups: int | None = None
    rules: dict[str, Any] = field(default_factory=dict)


CASES = [
    Case("8 x 1024 x 64", 8, 1024, 64, 0.9, 1.2),
    Case("4096 x 64", 1, 4096, 64, 1.05, 1.3),
    Case("4096 x 64 causal", 1, 4096, 64, 1.1, 1.4, rules={"causal": True}),
    Case("8192 x 64", 1, 8192, 64, 1.05, 1.3),
    Case("8192 x 64 float64", 1, 8192, 64, 1.2, 1.6, dtype="float64"),
    Case("4096 x 128", 1, 4096, 128, 0.95, 1.2),
    Case("16384 x 64 window 256", 1, 16384, 64, 1.3, 1.3, rules={"window": 256}),
    Case("4096 x 64 soft cap", 1, 4096, 64, 1.3, 1.3, rules={"softcap": 20.0}),
    Case("4 x 2048 x 64 sinks", 4, 2048, 64, 1.3, 1.3, rules={"sink": 0.5}),
    Case("8 over 2 x 2048 x 64 causal", 8, 2048, 64, 1.3, 1.3, groups=2, rules={"causal": True}),
]


def ours(case: Case, q: Any, k: Any, v: Any) -> Run:
    i = np.arange(case.n)
    low = np.maximum(i - case.rules["window"] + 1, 0) if "window" in case.rules else 0 * i
    ranges = np.stack([low, i + 1], axis=1)[:, None] if {"window", "causal"} & case.rules.keys() else None
    rules = {name: case.rules[name] for name in ("softcap", "sink") if name in case.rules}
    return lambda: attend_softmax(q, k, v, scale=case.d**-0.5, ranges=ranges, **rules).output


def plain(case: Case, q: Any, k: Any, v: Any) -> Run | None:
    """scaled_dot_product_attention; it knows no soft cap, and a sink as one more key that has no value."""
    rules, sdpa = case.rules, torch.nn.functional.scaled_dot_product_attention
    more: dict[str, Any] = {"enable_gqa": True} if case.groups else {}
    if "softcap" in rules:
        return None
    if "sink" in rules:
        k, v = one_more(k), one_more(v)
        more["attn_mask"] = torch.cat([torch.zeros(case.n, case.n), torch.full((case.n, 1), rules["sink"])], dim=1)
    if "window" in rules:
        more["attn_mask"] = torch.ones(case.n, case.n, dtype=torch.bool).tril().triu(1 - rules["window"])
    return partial(sdpa, q, k, v, is_causal=bool(rules.get("causal")), **more)


def flexible(case: Case, q: Any, k: Any, v: Any) -> Run | None:
    """FlexAttention, compiled."""
    rules, mask = case.rules, None
    if not rules or case.dtype == "float64":
        return None

    def visible(_b: Any, _h: Any, i: Any, j: Any) -> Any:
        return (i >= j) & (i - j < rules.get("window", case.n))

    def capped(s: Any, _b: Any, _h: Any, _i: Any, _j: Any) -> Any:
        return rules["softcap"] * torch.tanh(s / rules["softcap"])

    def sunk(s: Any, _b: Any, _h: Any, _i: Any, j: Any) -> Any:
        return torch.where(j == case.n, rules["sink"], s)

    if {"window", "causal"} & rules.keys():
        mask = create_block_mask(visible, None, None, case.n, case.n, device="cpu")
    torch.compiler.reset()
    compiled = torch.compile(flex_attention, dynamic=False)
    more: dict[str, Any] = {"block_mask": mask, "enable_gqa": bool(case.groups)}
    if "softcap" in rules:
        more["score_mod"] = capped
    if "sink" in rules:
        k, v, more["score_mod"] = one_more(k), one_more(v), sunk
    return partial(compiled, q, k, v, **more)


def one_more(x: Any) -> Any:
    """Keys or values with one of zeros at the end, for a sink."""
    return torch.cat([x, torch.zeros_like(x[:, :, :1])], dim=2)


def measure(case: Case, rounds: int) -> dict[str, Any]:
    rng, groups = np.random.default_rng(0), case.groups or case.heads
    shapes = [(heads, case.n, case.d) for heads in (case.heads, groups, groups)]
    q, k, v = (rng.standard_normal(shape).astype(case.dtype) for shape in shapes)
    tensors = [torch.from_numpy(x)[None] for x in (q, k, v)]
    runs = {"attncli": ours(case, q, k, v), "sdpa": plain(case, *tensors), "flex": flexible(case, *tensors)}
    there = {name: run for name, run in runs.items() if run is not None}
    times: dict[str, list[float]] = {name: [] for name in there}
    expected = there["attncli"]()
    with torch.no_grad():
        for name, run in there.items():
            apart = float(np.abs(np.asarray(run()).reshape(expected.shape) - expected).max())
            assert apart < (1e-4 if case.dtype == "float32" else 1e-11), (case.name, name, apart)
        for _ in range(rounds):
            for name, run in there.items():
                time.sleep(0.02)  # threads of the one before may still wait busily
                run()
                start = time.perf_counter()
                run()
                times[name].append(time.perf_counter() - start)
    median = {name: statistics.median(taken) * 1000 for name, taken in times.items()}
    i = np.arange(case.n)
    pairs = (
        np.minimum(i + 1, case.rules.get("window", case.n)).sum() if case.rules.keys() & {"window", "causal"} else None
    )
    work = 4 * case.heads * case.d * (case.n**2 if pairs is None else int(pairs))
    peer = min(ms for name, ms in median.items() if name != "attncli")
    return {
        "case": case.name,
        "milliseconds": median,
        "ratio": peer / median["attncli"],
        "gflops": work / median["attncli"] / 1e6,
        "floor": case.floor,
        "aim": case.aim,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--case", default="", help="only cases whose name holds this")
    parser.add_argument("--json", metavar="FILE", help="write the results there")
    options = parser.parse_args()
    torch.set_num_threads(thread_count())
    print(f"{processor()}, {available()}, {thread_count()} threads, medians of {options.rounds}")
    print(f"{'':28} {'attncli':>9} {'sdpa':>9} {'flex':>9}   ratio (floor, aim)   GFLOPS")
    results = []
    for case in [case for case in CASES if options.case in case.name]:
        result = measure(case, options.rounds)
        ms = [
            f"{result['milliseconds'][name]:9.1f}" if name in result["milliseconds"] else f"{'-':>9}"
            for name in ("attncli", "sdpa", "flex")
        ]
        told = f"{result['ratio']:.2f} ({case.floor}, {case.aim})"
        print(f"{case.name:28} {' '.join(ms)}   {told:20} {result['gflops']:6.0f}", flush=True)
        results.append(result)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"processor": processor(), "engine": available(), "results": results}, file, indent=1)
    return 1 if any(result["ratio"] < result["floor"] for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
