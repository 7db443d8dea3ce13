"""What `attncli run` prints of a problem, and what stands in a drawn table."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from hypothesis import strategies as st

from tests.calling import Result, attncli
from tests.files import problem_file

# Two queries over three keys (A00 of the field cases), from their weights on.
BASE = np.array([[0.401112, 0.197776, 0.401112], [0.197776, 0.401112, 0.401112]])
A00: dict[str, Any] = {
    "weights": BASE,
    "V": [[1, 2], [3, 4], [5, 6]],
    "tokens": ["the", "cat"],
    "key_tokens": ["the", "cat", "sat"],
}
HARD_LABELS = [
    "[CLS]", "[/b]", "[bold]x[/bold]", ":smile:", "中文字符很长的标签", "👨‍👩‍👧‍👦", "🇩🇪", "e\u0301te\u0301",
    "שלום", "مرحبا", "\x1b[31mred", "a\nb", "a\tb", "\u202eevil", "\u2068x", "x\\", "", " ", "│", "0.5",
    "a long label of several words",
]  # fmt: skip
labels = st.sampled_from(HARD_LABELS) | st.text(st.characters(codec="utf-8"), max_size=12)
_DECIDE = ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS", "TERM", "COLORTERM")


def call(
    problem: Mapping[str, Any],
    *options: object,
    width: int | None = None,
    encoding: str = "utf-8",
    tty: bool = False,
    **environment: str,
) -> Result:
    """`attncli run`; nothing but what is given decides on colours and widths."""
    given = {name: value for name, value in os.environ.items() if name not in _DECIDE} | environment
    if width is not None:
        given["COLUMNS"] = str(width)
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, given, clear=True):
        path = problem_file(Path(folder), problem)
        return attncli("run", path, "--quiet", *options, encoding=encoding, tty=tty)


def text_of(problem: Mapping[str, Any], *options: object, **how: Any) -> str:
    """What is printed where all is well."""
    done = call(problem, *options, **how)
    assert (done.status, done.err) == (0, "")
    return done.out


def lines_of(problem: Mapping[str, Any], *options: object, show: str = "weights", **how: Any) -> list[str]:
    """The lines of one step."""
    return text_of(problem, "--show", show, *options, **how).removesuffix("\n").split("\n")


def body_rows(lines: list[str], count: int) -> list[list[str]]:
    """The numbers of each of `count` rows, put together over all blocks of a drawn table."""
    rows: list[list[str]] = [[] for _ in range(count)]
    i = None
    for line in lines:
        if line.startswith(("├", "|-")):
            i = 0
        elif line.startswith(("└", "+-")):
            i = None
        elif i is not None:
            numbers = line.replace("|", "│").rsplit("│", 2)[1].split()
            if numbers:
                rows[i] += numbers
                i += 1
    return rows
