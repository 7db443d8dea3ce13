"""The steps stand in the order of the pipeline, whichever module is imported first."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.inside import NAMED_STEPS


@pytest.mark.parametrize(
    "module", ["logits", "shares", "positions", "norms", "relative", "steps, definition", "attend"]
)
def test_whichever_module_comes_first(module: str) -> None:
    program = (
        f"from attncli.pipeline import {module}; from attncli.pipeline.trace import NAMED_STEPS; print(*NAMED_STEPS)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.split() == [*NAMED_STEPS]
