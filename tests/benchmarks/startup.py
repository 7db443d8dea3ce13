"""Start-up time of attncli, relative to `python -c "import numpy"` on the same machine.

    python tests/benchmarks/startup.py [--rounds 15] [--json] [--check]

The commands run in turn, round by round, so that a busy moment of the machine meets all of them; medians are compared.
Byte-code is written first, and what slows or speeds Python and OpenBLAS through the environment is unset.
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
from pathlib import Path

# The highest ratio that each command may have.
TARGETS = {
    "--help": 0.8,
    "attend --help": 0.8,
    "usage error": 0.8,
    "completion": 0.8,
    "self x.npy --format csv": 1.45,
    "self x.npy": 1.8,
    "run p.yaml --format csv": 1.65,
}
BASE = "import numpy"
PROBLEM = "attention: self\nX: [[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]]\n"


def program() -> list[str]:
    """The installed script, or the module where there is none."""
    script = Path(sys.executable).with_name("attncli")
    return [str(script)] if script.exists() else [sys.executable, "-m", "attncli"]


def environment() -> dict[str, str]:
    """The environment without what changes start-up."""
    unset = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PYTHONPROFILEIMPORTTIME", "OMP_NUM_THREADS")
    return {key: value for key, value in os.environ.items() if key not in unset and not key.startswith("OPENBLAS_")}


def commands(folder: Path) -> dict[str, tuple[list[str], dict[str, str]]]:
    """What is measured: the command line, and what it adds to the environment."""
    import numpy as np

    np.save(folder / "x.npy", np.arange(12.0).reshape(3, 4))
    (folder / "p.yaml").write_text(PROBLEM)
    completing = {
        "_ATTNCLI_COMPLETE": "complete_bash",
        "COMP_WORDS": "attncli self x.npy --score s",
        "COMP_CWORD": "4",
    }
    attncli = program()
    return {
        BASE: ([sys.executable, "-c", BASE], {}),
        "import typer": ([sys.executable, "-c", "import typer"], {}),
        "import typer, numpy": ([sys.executable, "-c", "import typer, numpy"], {}),
        "--help": ([*attncli, "--help"], {}),
        "attend --help": ([*attncli, "attend", "--help"], {}),
        "usage error": ([*attncli, "self", "x.npy", "--scal", "2"], {}),
        "completion": (attncli, completing),
        "self x.npy --format csv": ([*attncli, "self", "x.npy", "--format", "csv"], {}),
        "self x.npy": ([*attncli, "self", "x.npy"], {}),
        "run p.yaml --format csv": ([*attncli, "run", "p.yaml", "--format", "csv"], {}),
    }


def measure(rounds: int) -> dict[str, float]:
    """The median time in seconds of each command."""
    with tempfile.TemporaryDirectory() as name:
        todo = commands(Path(name))
        times: dict[str, list[float]] = {label: [] for label in todo}
        for turn in range(rounds + 1):
            for label, (command, extra) in todo.items():
                start = time.perf_counter()
                done = subprocess.run(command, cwd=name, env=environment() | extra, capture_output=True)
                spent = time.perf_counter() - start
                if done.returncode != (2 if label == "usage error" else 0):
                    raise SystemExit(f"{label}: exit status {done.returncode}\n{done.stderr.decode()}")
                if turn:  # the first round writes byte-code
                    times[label].append(spent)
    return {label: statistics.median(values) for label, values in times.items()}


def main() -> int:
    """Measure, print, and with --check say by the exit status whether all ratios are within their targets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true", help="print an object instead of a table")
    parser.add_argument("--check", action="store_true", help="exit status 1 if a ratio is above its target")
    options = parser.parse_args()
    medians = measure(options.rounds)
    ratios = {label: median / medians[BASE] for label, median in medians.items()}
    above = [label for label, target in TARGETS.items() if ratios[label] > target]
    if options.json:
        print(json.dumps({"seconds": medians, "ratios": ratios, "targets": TARGETS, "above": above}, indent=1))
    else:
        for label, ratio in ratios.items():
            target = f"  <= {TARGETS[label]:.2f}" if label in TARGETS else ""
            target += "  ABOVE" if label in above else ""
            print(f"{label:26} {1000 * medians[label]:6.0f} ms {ratio:6.2f}{target}")
    return 1 if options.check and above else 0


if __name__ == "__main__":
    sys.exit(main())
