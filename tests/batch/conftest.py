"""Tests of batches call the command in a folder of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.calling import Result

Batch = Callable[..., tuple[int, str, str]]


@pytest.fixture
def batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Callable[..., Result]) -> Batch:
    """`attncli batch` in the folder of the test: exit status, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments: str) -> tuple[int, str, str]:
        done = cli("batch", *arguments)
        return done.status, done.out, done.err

    return invoke
