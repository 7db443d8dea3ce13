"""Large steps go into files block by block, and are what the definition gives."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from attncli.engine.stream import stream
from attncli.pipeline.attend import attend
from attncli.pipeline.config import AttentionConfig
from attncli.pipeline.masks import mask_spec
from attncli.problem.formats import FORMATS, encode
from attncli.problem.formats.by_rows import Target, write_blocks
from attncli.problem.matrix import Matrix

RULES = AttentionConfig(masks=(mask_spec("causal"),))


def _inputs(*leading: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    return {name: rng.standard_normal((*leading, 70, 6)) for name in ("Q", "K", "V")}


def _how(shape: tuple[int, ...], format: str = "npy", layout: str = "rows", **labels: list[str]) -> Any:
    return FORMATS.find(format).by_rows(Matrix(np.broadcast_to(0.0, shape), **labels), layout)


@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_a_file_holds_the_step(layout: str) -> None:
    inputs, shares = _inputs(), []
    files = {"weights": io.BytesIO(), "scaled": io.BytesIO()}
    blocks = stream(inputs, RULES, ("weights", "scaled", "output"))
    targets = [Target(step, None, file, _how((70, 70), layout=layout)) for step, file in files.items()]
    write_blocks(blocks, targets, shares.append)
    trace = blocks.trace()
    plain = attend(inputs, RULES)
    for step, file in files.items():
        file.seek(0)
        got = np.load(file)
        np.testing.assert_allclose(got.T if layout == "columns" else got, plain.rows(step), atol=1e-14)
    np.testing.assert_allclose(trace.rows("output"), plain.rows("output"), atol=1e-14)
    assert shares[-1] == 1


def test_heads_lie_one_after_the_other() -> None:
    inputs, file = _inputs(2, 3), io.BytesIO()
    part = io.BytesIO()
    targets = [Target("weights", None, file, _how((2, 3, 70, 70))), Target("weights", (1, 2), part, _how((70, 70)))]
    write_blocks(stream(inputs, RULES, ("weights",)), targets)
    file.seek(0)
    part.seek(0)
    np.testing.assert_allclose(np.load(file), attend(inputs, RULES).rows("weights"), atol=1e-14)
    np.testing.assert_allclose(np.load(part), attend(inputs, RULES).rows("weights")[1, 2], atol=1e-14)


@pytest.mark.parametrize("format", ["csv", "tsv", "txt"])
@pytest.mark.parametrize("labelled", [(), ("row_labels",), ("row_labels", "column_labels")])
def test_text_is_that_of_the_whole(format: str, labelled: tuple[str, ...]) -> None:
    labels = {name: [f"a token, {i}" for i in range(70)] for name in labelled}
    inputs, file = _inputs(2), io.BytesIO()
    write_blocks(stream(inputs, RULES, ("weights",)), [Target("weights", (1,), file, _how((70, 70), format, **labels))])
    whole = stream(inputs, RULES, ("weights",))
    rows = np.concatenate([block["weights"] for unit, block in whole if unit.index == (1,)])
    assert file.getvalue() == encode(format, {"weights": Matrix(rows, **labels)}, {})


@pytest.mark.parametrize(
    ("format", "layout", "shape"),
    [("npy", "columns", (2, 70, 70)), ("csv", "columns", (70, 70)), ("csv", "rows", (2, 70, 70))],
)
def test_what_does_not_go_by_rows(format: str, layout: str, shape: tuple[int, ...]) -> None:
    assert _how(shape, format, layout) is None
