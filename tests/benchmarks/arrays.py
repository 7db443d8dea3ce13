"""An engineer's array: false alarms, named mistakes, time and memory.

Run as `python tests/benchmarks/arrays.py [--count 500] [--seed 0]`. Right outputs come from kernels that share nothing
with attncli and accumulate in their own ways; the exit status is 1 where one of them is called wrong, a mistake is not
named first, or the search takes more than 20 times the processor time of the plain computation.
"""

from __future__ import annotations

import argparse
import sys
import time
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "verify"))

import kernels

from attncli import attend, check

MOST = 20  # times the plain computation


def checked(inputs: dict[str, Any], output: Any, *masks: str) -> Any:
    return check({**inputs, "mask": list(masks), "expect": {"output": output}})


def false_alarms(count: int, seed: int) -> int:
    """Random right outputs that are called wrong."""
    alarms, kinds, largest = 0, Counter[str](), dict[str, float]()
    for number in range(seed, seed + count):
        name, inputs, mask, output = kernels.random_right(number)
        masks = ["causal:bottom-right"] if mask else []
        result = checked(inputs, output, *masks)
        kinds[name] += 1
        ratio = result.steps[0].array.largest if result.steps[0].array else 0.0
        largest[name] = max(largest.get(name, 0.0), ratio)
        if result.verdict != "agrees":
            alarms += 1
            print(f"seed {number}, {name}: {result.notes}")
    for name, cases in sorted(kinds.items()):
        print(f"{name}: {cases} right ones, the largest error {largest[name]:.2f} of the tolerance")
    print(f"{alarms} of {count} right ones called wrong")
    return alarms


def named() -> int:
    """Mistakes of float32 arrays of 8 heads x 1024 x 64 that are not told first; their times."""
    rng = np.random.default_rng(0)
    n, m, d = 1024, 1024, 64
    q, k, v = (rng.standard_normal((8, n, d)).astype(np.float32) for _ in range(3))
    longer = [np.concatenate([x, rng.standard_normal((8, 512, d)).astype(np.float32)], axis=1) for x in (k, v)]
    all_keys, low = np.ones((n, m), bool), np.tril(np.ones((n, m), bool))
    window = low & ~np.tril(low, -65)
    scale = d**-0.5
    tiled = [np.tile(x[:2], (4, 1, 1)) for x in (k, v)]
    shifted = np.tril(np.ones((n, m + 512), bool), 512)
    cases: list[tuple[str, tuple[Any, Any, Any], Any, list[str]]] = [
        ("scale-root-all-heads", (q, k, v), kernels.blas(q, k, v, (8 * d) ** -0.5, all_keys), []),
        ("no-scale", (q, k, v), kernels.blas(q, k, v, 1.0, all_keys), []),
        ("other-alignment", (q, *longer), kernels.blas(q, *longer, scale, shifted), ["causal"]),
        ("groups-tiled", (q, k[:2], v[:2]), kernels.blas(q, *tiled, scale, all_keys), []),
        ("window-off-by-one", (q, k, v), kernels.blas(q, k, v, scale, window), ["window:63,0"]),
        ("window-off-by-one", (q, k, v), kernels.blas(q, k, v, scale, window), ["window:65,0"]),
        ("no-mask", (q, k, v), kernels.blas(q, k, v, scale, all_keys), ["causal"]),
        ("none", (q, k, v), np.roll(kernels.blas(q, k, v, scale, all_keys), 1, axis=2), []),
    ]
    failed = 0
    print(f"NumPy in one piece: {1e3 * fastest(lambda: kernels.blas(q, k, v, scale, all_keys)):.0f} ms")
    for name, arrays, output, masks in cases:
        inputs = dict(zip("QKV", (x[None] for x in arrays), strict=True))
        result = checked(inputs, output[None], *masks)
        plain = fastest(lambda i=inputs: attend(**i, steps=("output",)))  # type: ignore[misc]
        seconds = fastest(lambda i=inputs, o=output, c=masks: checked(i, o[None], *c))  # type: ignore[misc]
        told = [diagnosis.mistake for diagnosis in result.diagnosis] or ["none"]
        good = told[0] == name and seconds <= MOST * plain
        failed += not good
        print(f"{name}: told {', '.join(told)}; {1e3 * seconds:.0f} ms, {seconds / plain:.1f} times attend")
    tracemalloc.start()
    checked({"Q": q[None], "K": k[None], "V": v[None]}, cases[-1][2][None])
    print(f"memory beside the inputs: {tracemalloc.get_traced_memory()[1] / 2**20:.0f} MiB")
    tracemalloc.stop()
    return failed


def fastest(call: Any, times: int = 5) -> float:
    """The least processor time of some calls, in seconds: it does not depend on what else the machine does."""
    best = float("inf")
    for _ in range(times):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    return 1 if false_alarms(options.count, options.seed) + named() else 0


if __name__ == "__main__":
    sys.exit(main())
