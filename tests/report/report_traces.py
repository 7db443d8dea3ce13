"""Traces made by hand, and what stands in a drawn table."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from attncli import Trace

BASE = np.array([[0.401112, 0.197776, 0.401112], [0.197776, 0.401112, 0.401112]])
HARD_LABELS = [
    "[CLS]", "[/b]", "[bold]x[/bold]", ":smile:", "中文字符很长的标签", "👨‍👩‍👧‍👦", "🇩🇪", "e\u0301te\u0301",
    "שלום", "مرحبا", "\x1b[31mred", "a\nb", "a\tb", "\u202eevil", "\u2068x", "x\\", "", " ", "│", "0.5",
    "a long label of several words",
]  # fmt: skip
labels = st.sampled_from(HARD_LABELS) | st.text(st.characters(codec="utf-8"), max_size=12)
OUTPUT = np.array([[3, 4], [3.406673, 4.406673]])


def made(**changes: Any) -> Trace:
    """Two queries over three keys (A00 of the field cases), with what is to differ."""
    facts: dict[str, Any] = {
        "steps": {"weights": BASE.copy(), "output": OUTPUT.copy()},
        "query_labels": ["the", "cat"],
        "key_labels": ["the", "cat", "sat"],
    }
    return Trace(**(facts | changes))


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
