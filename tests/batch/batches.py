"""What the tests of batches share: problems, their results, and calls in this process and in others."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

ATTNCLI = [sys.executable, "-m", "attncli"]


def rows(seed: int, n: int = 4, d: int = 3) -> list[list[float]]:
    """Numbers of two decimals."""
    numbers = random.Random(seed)
    return [[round(numbers.uniform(-2, 2), 2) for _ in range(d)] for _ in range(n)]


def write_problems(folder: Path, count: int, *, bad: int | None = None, size: int = 4) -> None:
    """p000.yaml and so on; the one numbered `bad` has rows of unequal length."""
    folder.mkdir(exist_ok=True)
    for number in range(count):
        text = "X: [[1, 2], [3]]\n" if number == bad else f"X: {rows(number, size)}\nmask: causal\n"
        (folder / f"p{number:03}.yaml").write_text(text)


def results(folder: Path) -> dict[str, bytes]:
    """The bytes of all results, the summary aside (it tells seconds)."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "summary.csv"}


def result(path: Path) -> dict[str, Any]:
    """The object of a result."""
    told: dict[str, Any] = json.loads(path.read_text())
    return told


def run(folder: Path, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """A batch in a process of its own."""
    return subprocess.run([*ATTNCLI, "batch", *arguments], cwd=folder, capture_output=True, text=True, timeout=timeout)
