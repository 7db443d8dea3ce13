"""What tests take from inside attncli: the kinds of errors, and the registries to which they add at run time.

Everything else is called from outside: `from attncli import ...`, the command line, `tests/inner` aside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from attncli.cli.app import COMMANDS
from attncli.cli.progress import Bar
from attncli.errors import InputError, MachineError, Place, Several, ShapeError, UsageError, nearest
from attncli.pipeline.biases import BIASES
from attncli.pipeline.maskargs import whole_numbers
from attncli.pipeline.masks import MASKS
from attncli.pipeline.normalizers import NORMALIZERS
from attncli.pipeline.scores import SCORES
from attncli.pipeline.steps import NAMED_STEPS, STEPS
from attncli.problem.formats.xlsx_cells import spelled as xlsx_spelled
from attncli.problem.large import stream
from attncli.problem.plan import plan_of
from attncli.problem.save import saved_problem as save
from attncli.problem.settings import FIELDS as SETTINGS_TABLE
from attncli.registry import Setting
from attncli.report.renderers import RENDERERS
from attncli.verify.mistakes import MISTAKES, Change, mistake

__all__ = [
    "BIASES",
    "COMMANDS",
    "MASKS",
    "MISTAKES",
    "NAMED_STEPS",
    "NORMALIZERS",
    "RENDERERS",
    "SCORES",
    "SETTINGS_TABLE",
    "STEPS",
    "Bar",
    "Change",
    "InputError",
    "MachineError",
    "Place",
    "Setting",
    "Several",
    "ShapeError",
    "UsageError",
    "large_from",
    "memory_is",
    "mistake",
    "nearest",
    "never",
    "plan_of",
    "save",
    "stream",
    "watched_score",
    "whole_numbers",
    "xlsx_spelled",
]


def large_from(monkeypatch: pytest.MonkeyPatch, scores: int) -> None:
    """From how many scores on a problem goes block by block."""
    monkeypatch.setattr("attncli.engine.attending.LARGE", scores)


def memory_is(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    """How many bytes of memory are free, on two cores."""
    monkeypatch.setattr("attncli.engine.plan.memory_available", lambda: free)
    monkeypatch.setattr("attncli.cli.dry.memory_available", lambda: free)
    monkeypatch.setattr("os.cpu_count", lambda: 2)


@contextmanager
def watched_score(watch: Callable[[Any, Any], None]) -> Iterator[str]:
    """The name of a dot product that tells whenever numbers are asked of it; shapes and the like are no numbers."""

    @SCORES("watched", formula="q . k", kernel=None)
    def watched(q: Any, k: Any) -> Any:
        """As dot."""
        if isinstance(q, np.ndarray):
            watch(q, k)
        return q @ k.mT

    try:
        yield "watched"
    finally:
        SCORES.remove("watched")


def never(q: Any, k: Any) -> None:
    """To watch a score of which nothing may be asked."""
    raise AssertionError("something was computed")
