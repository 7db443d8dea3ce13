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
    from attncli.engine.attending import attend
    from attncli.pipeline.config import AttentionConfig

    n = 16_384 if small else 65_536
    base = n // 8
    few = inputs(base)
    attend(few, AttentionConfig(), ("output",))
    expected = min(timed(lambda: attend(few, AttentionConfig(), ("output",))) for _ in range(5)) * (n / base) ** 2
    many = inputs(n)
    held = peak()
    taken = timed(lambda: attend(many, AttentionConfig(), ("output",)))
    return {"megabytes": (peak() - held - n * 64 * 4) / MEGABYTE, "seconds": taken, "ratio": taken / expected}


def weights(small: bool) -> dict[str, float]:
    """The weights into a file, and how long a file of that size takes."""
    import numpy as np

    from attncli.engine.attending import attend
    from attncli.engine.stream import stream
    from attncli.pipeline.config import AttentionConfig
    from attncli.problem.formats.by_rows import Target, write_blocks
    from attncli.problem.formats.npy import by_rows
    from attncli.problem.matrix import Matrix

    n = 4096 if small else 16_384
    given = inputs(n)
    held = peak()
    with tempfile.TemporaryDirectory() as folder:
        chunk = np.ones(n * n * 4 // 64, np.uint8)

        def raw() -> None:
            with open(Path(folder, "raw"), "wb") as file:
                for _ in range(64):
                    file.write(chunk.data)

        def into_file() -> None:
            with open(Path(folder, "w.npy"), "wb") as file:
                write_blocks(stream(given, AttentionConfig(), ("weights",)), [Target("weights", None, file, how)])

        how = by_rows(Matrix(np.broadcast_to(np.float32(0), (n, n))), "rows")
        attend(given, AttentionConfig(), ("output",))
        bound = timed(lambda: attend(given, AttentionConfig(), ("output",))) + timed(raw)
        taken = timed(into_file)
    return {"megabytes": (peak() - held) / MEGABYTE, "seconds": taken, "ratio": taken / bound}


def additive(small: bool, dtype: str) -> dict[str, float]:
    """The additive score, and the tanh calls that it cannot do without."""
    import numpy as np

    from attncli.engine.attending import attend
    from attncli.engine.threads import on_threads
    from attncli.pipeline.config import AttentionConfig
    from attncli.pipeline.scores import score_spec

    n, h = (512 if small else 2048), 64
    rng = np.random.default_rng(1)
    parameters = {name: rng.standard_normal((h, 64)).astype(dtype) / 8 for name in ("W_q", "W_k")}
    parameters["w_v"] = rng.standard_normal(h).astype(dtype)
    rules = AttentionConfig(score=score_spec("additive", parameters))
    given = inputs(n, dtype)
    held = peak()

    def tanh_alone() -> None:
        def make() -> Any:
            hidden = rng.standard_normal((h, 1024)).astype(dtype)
            result = np.empty_like(hidden)
            return lambda _: np.tanh(hidden, out=result)

        on_threads(range(n * n // 1024), make)

    attend(given, rules, ("output",))
    pairs = [(timed(tanh_alone), timed(lambda: attend(given, rules, ("output",)))) for _ in range(3)]
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
