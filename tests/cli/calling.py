"""Two ways to call attncli: in a process of its own, and, for most cases, in this one."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from attncli.cli import call

ROOT = Path(__file__).parents[2]
FIELD_CASES = ROOT / "tests" / "field_cases"


@dataclass
class Result:
    """What a call left: exit status, standard output, standard error."""

    status: int
    out: str
    err: str


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing around the tests decides on colours, widths or encodings."""
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "PYTHONIOENCODING", "ATTNCLI_DEBUG", "PYTHONUNBUFFERED"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def cli(clean_environment: None, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Call attncli in this process, with standard input from bytes and streams of UTF-8 (or another encoding)."""

    def invoke(*arguments: object, stdin: bytes = b"", encoding: str = "utf-8", tty: bool = False) -> Result:
        out, err = io.BytesIO(), io.BytesIO()
        streams = [io.TextIOWrapper(stream, encoding=encoding, write_through=True) for stream in (out, err)]
        if tty:
            streams[0].isatty = lambda: True  # type: ignore[method-assign]
        monkeypatch.setattr(sys, "stdout", streams[0])
        monkeypatch.setattr(sys, "stderr", streams[1])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        status = call([str(argument) for argument in arguments])
        for stream in streams:
            stream.flush()
        return Result(status, out.getvalue().decode(encoding), err.getvalue().decode(encoding))

    return invoke


@pytest.fixture
def process(clean_environment: None, tmp_path: Path) -> Callable[..., Result]:
    """Call attncli in a process of its own."""

    def invoke(
        *arguments: object, stdin: bytes = b"", env: dict[str, str] | None = None, stdout: object = subprocess.PIPE
    ) -> Result:
        done = subprocess.run(
            [sys.executable, "-m", "attncli", *map(str, arguments)],
            input=stdin,
            stdout=stdout,  # type: ignore[call-overload]
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            env={**os.environ, **(env or {})},
            timeout=60,
        )
        return Result(done.returncode, (done.stdout or b"").decode(errors="replace"), done.stderr.decode())

    return invoke
