"""What each of 10,000 problems of 8 x 8 costs in one call: from one file, and from files of their own with a JSON each.

    python tests/benchmarks/batch.py [--count 10000] [--rounds 3]

Prints the processor time of each problem after start-up in milliseconds, and beside it, as a ratio in the same run, the
time that NumPy's own functions need for the same attention (read by yaml.CSafeLoader). Limits: 0.5 and 1.5 ms.
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import yaml


def spent(folder: Path, *arguments: str) -> float:
    """Seconds of processor time of one batch."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "attncli", "batch", *arguments], cwd=folder, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def by_hand(texts: list[str]) -> float:
    """Seconds for the same by yaml and NumPy, without a check of anything."""
    start = time.process_time()
    for text in texts:
        x = np.array(yaml.load(text, Loader=yaml.CSafeLoader)["X"])
        scores = x @ x.T / np.sqrt(x.shape[1])
        e = np.exp(scores - scores.max(axis=1, keepdims=True))
        _ = e / e.sum(axis=1, keepdims=True) @ x
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    draw = random.Random(0)
    texts = [
        f"X: {[[round(draw.uniform(-2, 2), 2) for _ in range(8)] for _ in range(8)]}\n" for _ in range(options.count)
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "one.yaml").write_text("X: [[1, 2]]\n")
        (folder / "many.yaml").write_text("problems:\n" + "".join(f"  - {text}" for text in texts))
        (folder / "in").mkdir()
        for number, text in enumerate(texts):
            (folder / "in" / f"p{number}.yaml").write_text(text)
        start_up = statistics.median(spent(folder, "one.yaml") for _ in range(3))
        plain = statistics.median(by_hand(texts[:1000]) for _ in range(3)) / 1000
        cases = {"one file, nothing written": ["many.yaml"], "files, a JSON each": ["in", "-o", "out", "--force"]}
        for case, arguments in cases.items():
            took = statistics.median(spent(folder, *arguments) for _ in range(options.rounds))
            each = (took - start_up) / options.count
            print(f"{case:28} {each * 1e3:6.3f} ms each, {each / plain:5.2f} x yaml and NumPy by hand")


if __name__ == "__main__":
    main()
