"""Tests of batches call the command in a folder of their own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from attncli.cli import call

Batch = Callable[..., tuple[int, str, str]]


@pytest.fixture
def batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Batch:
    """`attncli batch` in this process, in the folder of the test: exit status, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    for name in ("FORCE_COLOR", "NO_COLOR", "COLUMNS"):
        if name in os.environ:
            monkeypatch.delenv(name)

    def invoke(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = call(["batch", *arguments])
        out, err = capsys.readouterr()
        return status, out, err

    return invoke
