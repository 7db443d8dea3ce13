"""Attention on this machine: attncli's engine, PyTorch, ONNX Runtime and JAX, and the two matrix products alone.

    pip install --group bench .
    python tests/benchmarks/throughput.py [--rounds 7] [--json FILE] [--case TEXT] [--one-core]

All run in one process, in turn, round by round, so that a busy moment of the machine meets all of them; medians are
compared. A ratio above 1 says that attncli is the faster one. --one-core pins the process to one core and counts
processor time, which is steadier where other work shares the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from typing import Any

for _name in [name for name in os.environ if name.startswith("OPENBLAS_")]:
    del os.environ[_name]  # before NumPy is loaded: what slows or speeds its products

import numpy as np  # noqa: E402
from peers import PEERS  # noqa: E402

from attncli.engine.threads import thread_count  # noqa: E402

# name: heads, n, d, dtype, causal, and the least ratio to each peer (and to the products)
CASES: dict[str, tuple[int, int, int, str, bool, dict[str, float]]] = {
    "8 x 1024 x 64 float32": (8, 1024, 64, "float32", False, {"torch": 0.9, "onnxruntime": 1.5, "jax": 3.0}),
    "4096 x 64 float32": (1, 4096, 64, "float32", False, {"torch": 1.05, "onnxruntime": 1.5, "jax": 3.0}),
    "4096 x 64 float32 causal": (1, 4096, 64, "float32", True, {"torch": 1.1, "onnxruntime": 1.5, "jax": 3.0}),
    "8192 x 64 float32": (1, 8192, 64, "float32", False, {"torch": 1.05, "onnxruntime": 1.5, "jax": 3.0}),
    "8192 x 64 float64": (1, 8192, 64, "float64", False, {"torch": 1.2, "onnxruntime": 1.5, "jax": 3.0}),
    "4096 x 128 float32": (1, 4096, 128, "float32", False, {"torch": 0.95, "onnxruntime": 1.5, "jax": 3.0}),
}
OF_PRODUCTS = 0.75
SETTLED = 0.3  # seconds; OpenBLAS's threads wait busily after a product, and would take from whoever comes next


def measure(case: str, rounds: int, threads: int, clock: Any) -> dict[str, Any]:
    """Median milliseconds of each system, and the largest difference from attncli's output."""
    heads, n, d, dtype, causal, _ = CASES[case]
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, heads, n, d)).astype(dtype) for _ in range(3))
    runs = {name: peer(q, k, v, causal, threads) for name, peer in PEERS.items()}
    there = {name: run for name, run in runs.items() if run is not None}
    outputs = {name: run() for name, run in there.items()}
    times: dict[str, list[float]] = {name: [] for name in there}
    for _ in range(rounds):
        for name, run in there.items():
            time.sleep(SETTLED)
            run()  # so that none pays for cold caches
            start = clock()
            run()
            times[name].append(clock() - start)
    median = {name: statistics.median(taken) * 1000 for name, taken in times.items()}
    apart = {
        name: float(np.abs(output - outputs["attncli"]).max())
        for name, output in outputs.items()
        if output is not None and name != "attncli"
    }
    return {"case": case, "milliseconds": median, "apart": apart}


def processor() -> str:
    """The processor's name, as the system tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", metavar="FILE", help="write the results there")
    parser.add_argument("--case", default="", help="only cases whose name holds this")
    parser.add_argument("--one-core", action="store_true", help="one core, processor time")
    parser.add_argument("--check", action="store_true", help="exit 1 where a target is missed")
    options = parser.parse_args()
    if options.one_core:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    clock, threads = (time.process_time, 1) if options.one_core else (time.perf_counter, thread_count())
    results, missed = [], 0
    print(f"{processor()}, {threads} threads, medians of {options.rounds}; ratios: time of the peer / time of attncli")
    for case in [name for name in CASES if options.case in name]:
        result = measure(case, options.rounds, threads, clock)
        ours = result["milliseconds"]["attncli"]
        result["ratios"] = {name: ms / ours for name, ms in result["milliseconds"].items() if name != "attncli"}
        targets = CASES[case][-1] | {"products": OF_PRODUCTS}
        told = []
        for name, ratio in result["ratios"].items():
            target = targets.get(name)
            short = target is not None and ratio < target
            missed += short
            told.append(f"{name} {ratio:.2f}" + (f" (at least {target})" if short else ""))
        print(f"{case:26} {ours:8.1f} ms   {',  '.join(told)}", flush=True)
        results.append(result)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"processor": processor(), "threads": threads, "results": results}, file, indent=1)
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
