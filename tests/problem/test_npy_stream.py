"""Large steps go into .npy files block by block, and are what the definition gives."""

from __future__ import annotations

import io

import numpy as np
import pytest

from attncli.core.attend import Attention, Rules
from attncli.core.masks import mask_spec
from attncli.core.streamed import stream
from attncli.errors import ShapeError
from attncli.problem.formats.npy_stream import Target, write_npy

RULES = Rules(masks=(mask_spec("causal"),))


def _inputs(*leading: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    return {name: rng.standard_normal((*leading, 70, 6)) for name in ("Q", "K", "V")}


@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_a_file_holds_the_step(layout: str) -> None:
    inputs, shares = _inputs(), []
    files = {"weights": io.BytesIO(), "scaled": io.BytesIO()}
    blocks = stream(inputs, RULES, ("weights", "scaled", "output"))
    targets = [Target(step, None, file) for step, file in files.items()]
    write_npy(blocks, targets, layout=layout, progress=shares.append)
    trace = blocks.trace()
    plain = Attention(inputs, RULES).trace(None)
    for step, file in files.items():
        file.seek(0)
        got = np.load(file)
        np.testing.assert_allclose(got.T if layout == "columns" else got, plain.rows(step), atol=1e-14)
    np.testing.assert_allclose(trace.rows("output"), plain.rows("output"), atol=1e-14)
    assert shares[-1] == 1


def test_heads_lie_one_after_the_other() -> None:
    inputs, file = _inputs(2, 3), io.BytesIO()
    part = io.BytesIO()
    write_npy(stream(inputs, RULES, ("weights",)), [Target("weights", None, file), Target("weights", (1, 2), part)])
    file.seek(0)
    part.seek(0)
    np.testing.assert_allclose(np.load(file), Attention(inputs, RULES).trace(None).rows("weights"), atol=1e-14)
    np.testing.assert_allclose(np.load(part), Attention(inputs, RULES).trace(None).rows("weights")[1, 2], atol=1e-14)
    with pytest.raises(ShapeError, match="columns"):
        write_npy(stream(inputs, RULES, ("weights",)), [Target("weights", None, io.BytesIO())], layout="columns")
