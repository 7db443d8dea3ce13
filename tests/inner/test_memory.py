"""How much memory there is, and sizes in words."""

from __future__ import annotations

import pytest

from attncli.engine import memory


def test_the_machine_is_asked() -> None:
    free = memory.memory_available()
    assert free is None or free > 2**20


@pytest.mark.parametrize(("size", "words"), [(512, "512 bytes"), (3 * 2**30, "3.0 GiB"), (1536, "1.5 KiB")])
def test_sizes_in_words(size: int, words: str) -> None:
    assert memory.in_words(size) == words
