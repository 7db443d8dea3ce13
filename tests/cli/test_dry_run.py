"""--dry-run: shapes, steps, memory and what is assumed, as the computation itself finds them; nothing is computed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from calling import Result

from attncli import attend
from attncli.core import attend as core
from attncli.core import large, streamed, tiled

Cli = Callable[..., Result]


@pytest.fixture
def nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever computes fails."""

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("something was computed")

    monkeypatch.setattr(core.Attention, "trace", fail)
    monkeypatch.setattr(tiled, "attend_by_blocks", fail)
    monkeypatch.setattr(streamed.Stream, "__init__", fail)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for name, count in (("q", 700), ("k", 800), ("v", 800)):
        np.save(tmp_path / f"{name}.npy", rng.standard_normal((count, 8)).astype(np.float32))
    return tmp_path


def _given(folder: Path) -> list[Path]:
    return [folder / f"{name}.npy" for name in "qkv"]


@pytest.mark.parametrize(
    ("options", "keywords"),
    [
        ((), {}),
        (("--heads", "4", "--kv-heads", "2"), {"heads": 4, "kv_heads": 2}),
        (("--mask", "causal", "--softcap", "3"), {"mask": "causal", "softcap": 3}),
        (("--score", "gaussian", "--layout", "columns"), {"score": "gaussian", "layout": "columns"}),
    ],
)
def test_steps_and_shapes_are_those_that_come_out(
    cli: Cli, folder: Path, request: pytest.FixtureRequest, options: tuple[str, ...], keywords: dict[str, object]
) -> None:
    arrays = [np.load(path)[:20] for path in _given(folder)]
    if "columns" in options:
        arrays = [array.T for array in arrays]
    if "kv_heads" in keywords:
        arrays[1:] = [array[:, :4] for array in arrays[1:]]
    for path, array in zip(_given(folder), arrays, strict=True):
        np.save(path, array)
    trace = attend(*arrays, **keywords)
    shapes = {name: trace[name].shape for name in trace.names(on_request=True)}
    scale = trace.scale
    request.getfixturevalue("nothing")
    told = cli("attend", *_given(folder), *options, "--dry-run").out
    steps = dict(re.findall(r"^  (\w+): ([0-9 x]+), [0-9]", told[told.index("steps:") :], re.MULTILINE))
    assert steps == {name: " x ".join(map(str, shape)) for name, shape in shapes.items()}
    if "scaled" in shapes:
        assert float(re.search(r"scale: (\S+) =", told)[1]) == pytest.approx(scale)  # type: ignore[index]


def test_what_is_assumed(cli: Cli, folder: Path, nothing: None) -> None:
    out = folder / "o.npy"
    result = cli("attend", *_given(folder), "--mask", "causal", "--like", "torch-sdpa", "--dry-run", "-o", out)
    assert result.status == 0
    for line in (
        "attend, a token is a row", "computed in float32", "score: scaled-dot", "scale: 0.353553391 = 1/sqrt(8)",
        "mask: causal:top-left", "mask value: -inf", "normalizer: softmax", "a query that sees no key:",
        "the scores are 700 x 800, not square; aligned top-left", "by blocks: no step of n x m is held",
    ):  # fmt: skip
        assert line in result.out
    assert not out.exists()


def test_memory_of_the_whole_and_whether_it_fits(
    cli: Cli, folder: Path, nothing: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large, "LARGE", 10**9)
    told = cli("attend", *_given(folder), "--dry-run").out
    assert "scores: 700 x 800, 2.1 MiB" in told
    assert "as a whole: every step is held" in told
    # scores, scaled, weights and two more of 2.1 MiB each, the output, and 32 MiB aside
    assert "about 42.7 MiB" in told
    monkeypatch.setattr("attncli.cli.dry.memory_available", lambda: 2**20)
    assert "1.0 MiB are free: it would be refused" in cli("attend", *_given(folder), "--dry-run").out


def test_problems_and_stages(cli: Cli, tmp_path: Path, nothing: None) -> None:
    problem = {"X": [[1, 0], [0, 1], [1, 1]]}
    (tmp_path / "two.json").write_text(json.dumps({"problems": [problem, {**problem, "heads": 2}]}))
    told = cli("run", tmp_path / "two.json", "--dry-run").out
    assert "scores: 3 x 3" in told
    assert "scores: 2 x 3 x 3" in told
    stages = [{"name": "a", **problem}, {"name": "b", "X": [[1, 2]], "Y": {"stage": "a", "step": "output"}}]
    (tmp_path / "stages.json").write_text(json.dumps({"stages": stages}))
    told = cli("run", tmp_path / "stages.json", "--dry-run").out
    assert told.count("stage ") == 2
    assert "weights: 1 x 3" in told
