"""How much memory there is, sizes in words, and that nothing holds what was computed."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from attncli.engine import memory
from attncli.engine.plan import attend
from attncli.pipeline.config import AttentionConfig


def test_the_machine_is_asked() -> None:
    free = memory.memory_available()
    assert free is None or free > 2**20


@pytest.mark.parametrize(("size", "words"), [(512, "512 bytes"), (3 * 2**30, "3.0 GiB"), (1536, "1.5 KiB")])
def test_sizes_in_words(size: int, words: str) -> None:
    assert memory.in_words(size) == words


@pytest.mark.parametrize("n", [6, 600])
def test_what_was_computed_is_freed_at_once(n: int) -> None:
    rng = np.random.default_rng(1)
    inputs = {name: rng.standard_normal((n, 8)) for name in "QKV"}
    gc.collect()
    gc.disable()  # it would free what hangs in a ring, too, but late
    try:
        trace = attend(inputs, AttentionConfig(), ("output",) if n > 500 else None)
        scores = weakref.ref(trace.rows("output" if n > 500 else "scores"))
        del trace
        assert scores() is None
    finally:
        gc.enable()
