"""What the tests of faults share: runs in processes of their own, and what they may and may not leave."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from attncli.cli import call

ATTNCLI = [sys.executable, "-m", "attncli"]
JOURNAL = ".attncli-digests"


def run(folder: Path, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """One run in a folder; whatever happens, it ends, and there is no traceback."""
    done = subprocess.run(
        [*ATTNCLI, *map(str, arguments)], cwd=folder, capture_output=True, timeout=60, errors="surrogateescape",
        **{"stdin": subprocess.DEVNULL, **options},
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode != 70, done.stderr
    return done


def here(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """The same in this process, which is quicker, where nothing can hang."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = call([*map(str, arguments)])
    told = [stream.buffer.getvalue().decode() for stream in (out, err)]  # type: ignore[attr-defined]
    assert status != 70, told[1]
    return subprocess.CompletedProcess([*map(str, arguments)], status, *told)


def start(folder: Path, *arguments: object) -> subprocess.Popen[bytes]:
    """A run that is not waited for."""
    return subprocess.Popen(
        [*ATTNCLI, *map(str, arguments)], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def contents(folder: Path, leave_out: Sequence[str] = ()) -> dict[str, str]:
    """A digest of each file of a folder and those below it."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name not in leave_out]
    return {str(path.relative_to(folder)): blake2b(path.read_bytes()).hexdigest() for path in files}


def litter(folder: Path) -> list[str]:
    """What only a killed run may leave."""
    return [path.name for path in folder.rglob(".attncli-*") if path.name != JOURNAL]
