"""The engine's tests once more, in a build that watches every access to memory and every undefined operation."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.sanitizer
def test_no_access_outside_and_nothing_undefined(tmp_path: Path) -> None:
    compiler = os.environ.get("CC", "gcc").split()[0]
    runtimes = [_runtime(compiler, name) for name in ("libasan.so", "libubsan.so")]
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "attncli", tmp_path / "attncli", ignore=ignored)
    shutil.copytree(ROOT / "tests" / "engine", tmp_path / "tests" / "engine", ignore=ignored)
    flags = ["-O1", "-g", "-fPIC", "-shared", "-Wno-psabi", "-ffp-contract=fast", "-fsanitize=address,undefined"]
    build = [compiler, *flags, "-fno-sanitize-recover=all", f"-I{sysconfig.get_paths()['include']}", "_tile.c"]
    subprocess.run([*build, "-o", "_tile.abi3.so", "-lm"], cwd=tmp_path / "attncli" / "engine", check=True)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = sanitizer\npythonpath = .\n")
    watched = {
        **os.environ,
        "LD_PRELOAD": " ".join(runtimes),
        "ASAN_OPTIONS": "detect_leaks=0",  # the interpreter's own
        "PYTHONMALLOC": "malloc",
    }
    tests = [sys.executable, "-m", "pytest", "-sq", "-m", "not sanitizer", "-p", "no:cacheprovider", "tests"]
    run = subprocess.run(tests, cwd=tmp_path, env=watched, capture_output=True, text=True, timeout=3000)
    assert run.returncode == 0, run.stdout[-5000:] + run.stderr[-5000:]
    assert "skipped" not in run.stdout


def _runtime(compiler: str, name: str) -> str:
    """Where the compiler has that library, which has to be loaded before the interpreter."""
    found = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return found.stdout.strip()
