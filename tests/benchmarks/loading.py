"""How fast text is read, against the C readers: CSV against numpy.loadtxt, YAML against yaml.CSafeLoader.

    python tests/benchmarks/loading.py [--rounds 7]

Prints medians of interleaved rounds and their ratios: at most 2.5 for CSV of 2,000 x 500, 0.9 for YAML of 256 x 128.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from attncli.problem.formats import read_matrix


def seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def compare(name: str, limit: float, ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int) -> None:
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(rounds)]
    mine, others = (statistics.median(side) for side in zip(*pairs, strict=True))
    print(f"{name:24} {mine:8.4f} s  {others:8.4f} s  ratio {mine / others:5.2f}  (at most {limit})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        for name, pattern in (("CSV 2000 x 500, %.6g", "%.6g"), ("CSV 2000 x 500, %.17g", "%.17g")):
            path = Path(folder) / "big.csv"
            np.savetxt(path, random.normal(size=(2000, 500)), delimiter=",", fmt=pattern)
            compare(name, 2.5, lambda: read_matrix(str(path)), lambda: np.loadtxt(path, delimiter=","), rounds)  # noqa: B023
        text = Path(folder) / "big.yaml"
        rows = random.normal(size=(256, 128)).tolist()
        text.write_text("X:\n" + "".join(f"  - {row}\n" for row in rows))

        def load() -> Any:
            return yaml.load(text.read_bytes(), Loader=yaml.CSafeLoader)

        compare("YAML 256 x 128", 0.9, lambda: read_matrix(str(text)), load, rounds)


if __name__ == "__main__":
    main()
