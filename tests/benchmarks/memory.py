"""Peak memory and time of large problems, each in a process of its own; the targets stand beside the results.

    python tests/benchmarks/memory.py [--small] [--json FILE] [--check]

--small takes a quarter of the tokens, for a machine in a hurry. Memory counts from what the process held with its
inputs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

MEGABYTE = 10**6
# name: the most megabytes over the inputs (and the output), the highest ratio of times
CASES = {
    "output": (200, 1.15),  # of 65,536 x 64, against quadratic growth from 8192
    "weights": (300, 1.5),  # of 16,384 x 16,384 into a file, against the output only and 1 GiB written raw
    "additive float32": (200, 2.6),  # 2048 x 2048, h = 64, against the tanh calls alone on as many threads
    "additive float64": (200, 1.7),
}


def peak() -> int:
    """The most that this process ever held, in bytes."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def timed(run: Any) -> float:
    """Seconds."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def inputs(n: int, dtype: str = "float32") -> dict[str, Any]:
    """Random Q, K and V of width 64."""
    import numpy as np

    rng = np.random.default_rng(0)
    return {name: rng.standard_normal((n, 64)).astype(dtype) for name in ("Q", "K", "V")}


def output(small: bool) -> dict[str, float]:
    """Output only, of many tokens."""
    from attncli import attend

    n = 16_384 if small else 65_536
    base = n // 8
    few = inputs(base)
    attend(**few, steps=("output",))
    expected = min(timed(lambda: attend(**few, steps=("output",))) for _ in range(5)) * (n / base) ** 2
    many = inputs(n)
    held = peak()
    taken = timed(lambda: attend(**many, steps=("output",)))
    return {"megabytes": (peak() - held - n * 64 * 4) / MEGABYTE, "seconds": taken, "ratio": taken / expected}


def weights(small: bool) -> dict[str, float]:
    """The weights into a file, and how long a file of that size takes."""
    import numpy as np

    from attncli import attend
    from attncli.cli import call

    n = 4096 if small else 16_384
    given = inputs(n)
    held = peak()
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: str(Path(folder, f"{name}.npy")) for name in given}
        for name, array in given.items():
            np.save(paths[name], array)
        chunk = np.ones(n * n * 4 // 64, np.uint8)

        def raw() -> None:
            with open(Path(folder, "raw"), "wb") as file:
                for _ in range(64):
                    file.write(chunk.data)

        def into_file() -> None:
            assert call(["attend", *paths.values(), "--quiet", "-o", f"weights={folder}/w.npy"]) == 0

        attend(**given, steps=("output",))
        bound = timed(lambda: attend(**given, steps=("output",))) + timed(raw)
        taken = timed(into_file)
    return {"megabytes": (peak() - held) / MEGABYTE, "seconds": taken, "ratio": taken / bound}


def additive(small: bool, dtype: str) -> dict[str, float]:
    """The additive score, and the tanh calls that it cannot do without."""
    from concurrent.futures import ThreadPoolExecutor

    import numpy as np

    from attncli import attend

    n, h = (512 if small else 2048), 64
    rng = np.random.default_rng(1)
    parameters = {name: rng.standard_normal((h, 64)).astype(dtype) / 8 for name in ("W_q", "W_k")}
    parameters["w_v"] = rng.standard_normal(h).astype(dtype)
    given = inputs(n, dtype)
    held = peak()

    def tanh_alone() -> None:
        cores = len(os.sched_getaffinity(0))

        def part(_: int) -> None:
            hidden = rng.standard_normal((h, 1024)).astype(dtype)
            result = np.empty_like(hidden)
            for _ in range(n * n // 1024 // cores):
                np.tanh(hidden, out=result)

        with ThreadPoolExecutor(cores) as threads:
            list(threads.map(part, range(cores)))

    said: dict[str, Any] = {**given, "score": ("additive", parameters), "steps": ("output",)}
    attend(**said)
    pairs = [(timed(tanh_alone), timed(lambda: attend(**said))) for _ in range(3)]
    alone, taken = (sorted(times)[1] for times in zip(*pairs, strict=True))
    return {"megabytes": (peak() - held) / MEGABYTE, "seconds": taken, "ratio": taken / alone}


def run(case: str, small: bool) -> dict[str, float]:
    """One case, in this process."""
    if case.startswith("additive"):
        return additive(small, case.split()[1])
    return {"output": output, "weights": weights}[case](small)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--json", metavar="FILE", help="write the results there")
    parser.add_argument("--check", action="store_true", help="exit 1 where a target is missed")
    parser.add_argument("--run", choices=CASES, help="one case, in this process")
    options = parser.parse_args()
    if options.run:
        print(json.dumps(run(options.run, options.small)))
        return 0
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS_")}
    results, missed = {}, 0
    for case, (megabytes, ratio) in CASES.items():
        command = [sys.executable, __file__, "--run", case, *(["--small"] if options.small else [])]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        result = results[case] = json.loads(done.stdout)
        short = result["megabytes"] > megabytes or result["ratio"] > ratio
        missed += short
        print(
            f"{case:18} {result['megabytes']:7.0f} MB (at most {megabytes})   {result['seconds']:6.2f} s, "
            f"ratio {result['ratio']:.2f} (at most {ratio}){'   missed' if short else ''}",
            flush=True,
        )
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1), encoding="utf-8")
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
