"""What a problem needs is known before it starts; what would not fit is refused with the number and the way out."""

from __future__ import annotations

import numpy as np
import pytest

from attncli.core import memory
from attncli.core.attend import Attention, Rules
from attncli.core.masks import mask_spec
from attncli.errors import MachineError


def _inputs(n: int, m: int) -> dict[str, np.ndarray]:
    return {"Q": np.zeros((n, 8)), "K": np.zeros((m, 8)), "V": np.zeros((m, 4))}


def test_each_step_is_counted() -> None:
    rules = Rules(masks=(mask_spec("causal"),))
    needed = memory.memory_by_step(_inputs(300, 200), rules)
    held = {name: array.nbytes for name, array in Attention(_inputs(300, 200), rules).trace(None).steps.items()}
    for step in ("scores", "scaled", "masked", "weights", "output"):
        assert needed[step] == held[step]


def test_outputs_alone_do_not_grow_with_n_times_m() -> None:
    few, many = (memory.memory_needed(_inputs(n, n), Rules(), ("output",)) for n in (10_000, 100_000))
    assert many - few == 90_000 * 4 * 8
    assert memory.memory_needed(_inputs(100_000, 100_000), Rules()) > 4 * 8 * 100_000**2


def test_what_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "memory_available", lambda: 2**30)
    memory.check_memory(_inputs(20_000, 20_000), Rules(), ("output",))
    with pytest.raises(MachineError, match=r"needs \d+\.\d GiB of memory, but 1\.0 GiB are free") as caught:
        memory.check_memory(_inputs(20_000, 20_000), Rules())
    assert "--show output" in str(caught.value)


def test_the_machine_is_asked() -> None:
    free = memory.memory_available()
    assert free is None or free > 2**20


@pytest.mark.parametrize(("size", "words"), [(512, "512 bytes"), (3 * 2**30, "3.0 GiB"), (1536, "1.5 KiB")])
def test_sizes_in_words(size: int, words: str) -> None:
    assert memory.in_words(size) == words
