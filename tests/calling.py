"""Two ways to call attncli: in a process of its own, and, for most cases, in this one."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from attncli.cli import call

ROOT = Path(__file__).parents[1]
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
    for name in (
        "NO_COLOR",
        "FORCE_COLOR",
        "COLORTERM",
        "COLUMNS",
        "PYTHONIOENCODING",
        "ATTNCLI_DEBUG",
        "PYTHONUNBUFFERED",
    ):
        monkeypatch.delenv(name, raising=False)


def attncli(*arguments: object, stdin: bytes = b"", encoding: str = "utf-8", tty: bool = False) -> Result:
    """Call attncli in this process, with standard input from bytes and streams of UTF-8 (or another encoding)."""
    out, err = io.BytesIO(), io.BytesIO()
    streams = [io.TextIOWrapper(stream, encoding=encoding, write_through=True) for stream in (out, err)]
    if tty:
        streams[0].isatty = lambda: True  # type: ignore[method-assign]
    before = sys.stdout, sys.stderr, sys.stdin
    sys.stdout, sys.stderr = streams
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin))
    try:
        status = call([str(argument) for argument in arguments])
    finally:
        sys.stdout, sys.stderr, sys.stdin = before
    for stream in streams:
        stream.flush()
    return Result(status, out.getvalue().decode(encoding), err.getvalue().decode(encoding))


def listed(what: str) -> list[dict[str, Any]]:
    """What `attncli list` tells of the scores, normalizers, masks, formats, profiles or steps."""
    found: list[dict[str, Any]] = json.loads(attncli("list", what, "--format", "json").out)[what]
    return found


def names(what: str) -> list[str]:
    """The names of the scores, normalizers, masks, formats, profiles or steps."""
    return [entry["name"] for entry in listed(what)]


def normalizers() -> list[str]:
    """How each normalizer can be asked for, one that needs a number with such a one."""
    return [entry["name"] + ":2" * ("required" in entry["parameters"].values()) for entry in listed("normalizers")]


@pytest.fixture
def cli(clean_environment: None) -> Callable[..., Result]:
    """`attncli` in this process, where nothing around the tests decides on colours, widths or encodings."""
    return attncli


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


def on_terminal(arguments: list[str], columns: int, environment: dict[str, str]) -> tuple[int, bytes]:
    """The exit status of attncli on a terminal of that width, and what it writes there."""
    import fcntl
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    env = {**os.environ, "TERM": "xterm", **environment}
    command = [sys.executable, "-m", "attncli", *arguments]
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, cwd=ROOT, env=env) as running:
        os.close(theirs)
        written = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # Linux says so when the other side is closed
                break
            if not piece:
                break
            written += piece
        status = running.wait(30)
    os.close(ours)
    return status, written
