"""Nesting that no parser may be handed: libyaml before 0.2.6 crashes the process over it, so each text has its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from attncli import run

DEEP = 60_000


@pytest.mark.parametrize(
    "text",
    [
        "[" * DEEP,
        "[" * DEEP + "]" * DEEP,
        "{a: " * DEEP,
        '["]", ' * DEEP,  # brackets that end nothing
        "['}', " * DEEP,
        "[ # ]\n" * DEEP,
        "[!<a]> x, " * DEEP,
        "[[1, 2], " * DEEP,
        '{"}": [1], a: ' * DEEP,
        "? [" * DEEP,
    ],
    ids=lambda text: text[:14],
)
def test_what_is_too_deep_is_told(text: str) -> None:
    command = [sys.executable, "-m", "attncli", "show", "-", "--stdin-format", "yaml"]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("attncli: ")
    assert "nested more than 64 levels deep" in done.stderr


@pytest.mark.parametrize("row", ["[1, 0.5]", '["1", "0.5"]', "[1, 1/2]", "[1, # one ]\n 0.5]", "[ 1 , '0.5' ]"])
@pytest.mark.parametrize("form", ["[{}]", "\n{}"])
def test_many_rows_are_not_deep(row: str, form: str, tmp_path: Path) -> None:
    rows = ", ".join([row] * 1000) if form == "[{}]" else "".join(f"  - {row}\n" for _ in range(1000))
    (tmp_path / "p.yaml").write_text(f"Q: {form.format(rows)}\nK: [[1, 0]]\n")
    assert run(tmp_path / "p.yaml")["Q"].tolist() == [[1, 0.5]] * 1000
