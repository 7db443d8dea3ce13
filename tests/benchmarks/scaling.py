"""How the time of one attention grows with the number of tokens, from 512 to 65,536.

    python tests/benchmarks/scaling.py [--most N] [--width 64] [--dtype float32] [--causal] [--json FILE]

Prints nanoseconds a score (n x n of them): flat is quadratic growth, which is the best there is.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

for _name in [name for name in os.environ if name.startswith("OPENBLAS_")]:
    del os.environ[_name]  # before NumPy is loaded: what slows or speeds its products

import numpy as np  # noqa: E402

from attncli import attend  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=65_536)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64"])
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--json", metavar="FILE", help="write the results there")
    options = parser.parse_args()
    mask = "causal" if options.causal else None
    rng = np.random.default_rng(0)
    results, n = {}, 512
    while n <= options.most:
        inputs = {name: rng.standard_normal((n, options.width)).astype(options.dtype) for name in ("Q", "K", "V")}
        times = []
        for _ in range(1 if n > 16_384 else 3 if n > 8192 else 7):
            start = time.perf_counter()
            attend(**inputs, mask=mask, steps=("output",))
            times.append(time.perf_counter() - start)
        results[n] = statistics.median(times)
        print(f"{n:6} tokens  {results[n] * 1000:10.1f} ms  {results[n] / n**2 * 1e9:6.2f} ns a score", flush=True)
        n *= 2
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
