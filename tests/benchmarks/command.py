"""The whole command beside the engine that it calls: what reading, starting and writing add.

    python tests/benchmarks/command.py [--rounds 15] [--json FILE] [--check]

`attncli attend q.npy k.npy v.npy -o out.npy` at 4096 x 64, float32, may take as long as the engine in a process that
is warm, and 1.6 times `python -c "import numpy"` besides. All three run in turn, round by round, so that a busy moment
of the machine meets all of them; medians are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for _name in [name for name in os.environ if name.startswith("OPENBLAS_")]:
    del os.environ[_name]  # before NumPy is loaded: what slows or speeds its products

import numpy as np  # noqa: E402
from startup import environment, program  # noqa: E402

from attncli import attend  # noqa: E402

TOKENS, WIDTH = 4096, 64
MOST = 1.6


def timed(run: Callable[[], Any]) -> float:
    """Seconds."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measure(rounds: int) -> dict[str, float]:
    """The median seconds of the engine, of importing NumPy, and of the command."""
    rng = np.random.default_rng(0)
    inputs = {name: rng.standard_normal((TOKENS, WIDTH)).astype(np.float32) for name in ("Q", "K", "V")}
    with tempfile.TemporaryDirectory() as folder:
        for name, matrix in inputs.items():
            np.save(Path(folder, f"{name}.npy"), matrix)
        command = [*program(), "attend", "Q.npy", "K.npy", "V.npy", "-o", "out.npy", "--force", "--quiet"]

        def process(arguments: list[str]) -> None:
            subprocess.run(arguments, cwd=folder, env=environment(), check=True)

        todo: dict[str, Callable[[], Any]] = {
            "engine": lambda: attend(**inputs, steps=("output",)),
            "import numpy": lambda: process([sys.executable, "-c", "import numpy"]),
            "command": lambda: process(command),
        }
        times: dict[str, list[float]] = {name: [] for name in todo}
        for turn in range(rounds + 1):
            for name, run in todo.items():
                taken = timed(run)
                if turn:  # the first round writes byte-code
                    times[name].append(taken)
        written = np.load(Path(folder, "out.npy"))
        assert np.allclose(written, attend(**inputs, steps=("output",))["output"])
    return {name: statistics.median(taken) for name, taken in times.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", metavar="FILE", help="write the results there")
    parser.add_argument("--check", action="store_true", help="exit 1 where the target is missed")
    options = parser.parse_args()
    seconds = measure(options.rounds)
    for name, median in seconds.items():
        print(f"{name:14} {1000 * median:6.1f} ms")
    besides = (seconds["command"] - seconds["engine"]) / seconds["import numpy"]
    print(f"besides the engine, the command takes {besides:.2f} x import numpy (at most {MOST})")
    if options.json:
        Path(options.json).write_text(json.dumps(seconds | {"besides": besides}, indent=1), encoding="utf-8")
    return 1 if options.check and besides > MOST else 0


if __name__ == "__main__":
    sys.exit(main())
