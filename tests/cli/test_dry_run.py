"""--dry-run: shapes, steps, memory and what is assumed, as the computation itself finds them; nothing is computed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from attncli import attend
from tests.calling import Result
from tests.inside import memory_is, never, watched_score

Cli = Callable[..., Result]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for name, count in (("q", 700), ("k", 800), ("v", 800)):
        np.save(tmp_path / f"{name}.npy", rng.standard_normal((count, 8)).astype(np.float32))
    return tmp_path


def _given(folder: Path) -> list[Path]:
    return [folder / f"{name}.npy" for name in "qkv"]


def test_nothing_is_computed(cli: Cli, folder: Path) -> None:
    """A score that nobody may ask: of a small problem, of a large one, of stages."""
    stages = [{"name": "a", "X": [[1, 0]]}, {"name": "b", "X": [[1, 2]], "Y": {"stage": "a", "step": "output"}}]
    (folder / "s.json").write_text(json.dumps({"stages": stages}))
    small, large = ("self", "[[1, 0], [0, 1]]"), ("attend", *_given(folder))
    with watched_score(never) as score:
        for given in (small, large, (*large, "--show", "output"), ("run", folder / "s.json")):
            assert cli(*given, "--score", score, "--dry-run").status == 0
            computed = cli(*given, "--score", score)
            assert computed.status == 70
            assert "something was computed" in computed.err


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
    cli: Cli, folder: Path, options: tuple[str, ...], keywords: dict[str, object]
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
    told = cli("attend", *_given(folder), *options, "--dry-run").out
    steps = dict(re.findall(r"^  (\w+): ([0-9 x]+), [0-9]", told[told.index("steps:") :], re.MULTILINE))
    assert steps == {name: " x ".join(map(str, shape)) for name, shape in shapes.items()}
    if "scaled" in shapes:
        assert float(re.search(r"scale: (\S+) =", told)[1]) == pytest.approx(scale)  # type: ignore[index]


def test_what_is_assumed(cli: Cli, folder: Path) -> None:
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


def test_memory_of_the_whole_and_whether_it_fits(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in _given(folder):
        np.save(path, np.load(path)[:500])
    told = cli("attend", *_given(folder), "--dry-run").out
    assert "scores: 500 x 500, 976.6 KiB" in told
    assert "as a whole: every step is held" in told
    # scores, scaled, weights and two more of 1,000,000 bytes each, the output's 16,000, and 32 MiB aside
    assert "about 36.8 MiB" in told
    memory_is(monkeypatch, 2**20)
    assert "1.0 MiB are free: it would be refused" in cli("attend", *_given(folder), "--dry-run").out


def test_problems_and_stages(cli: Cli, tmp_path: Path) -> None:
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


def told_files(result: Result) -> dict[str, str]:
    """What is told of each file."""
    assert result.status == 0, result.err
    lines = result.out.partition("files:\n")[2].splitlines()
    return dict(line.strip().split(": ", 1) for line in lines)


def in_bytes(told: str) -> int:
    """`about 2.5 KiB` as a number, rounded up by a last place."""
    number, unit = re.search(r"(?:about|at most) ([0-9.]+) (bytes|KiB|MiB)", told).groups()  # type: ignore[union-attr]
    return int((float(number) + 0.05 * (unit != "bytes")) * {"bytes": 1, "KiB": 2**10, "MiB": 2**20}[unit])


def test_files_and_their_sizes_are_those_that_come_out(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    outputs = ["-o", "weights=w.npy", "-o", "all.npz", "-o", "o.csv", "-o", "r.json", "--save-problem", "p.yaml"]
    command = ["attend", "q.npy", "k.npy", "v.npy", "--show", "weights,output", *outputs]
    told = told_files(cli(*command, "--dry-run"))
    assert sorted(path.name for path in folder.iterdir()) == ["k.npy", "q.npy", "v.npy"]
    assert {name: text.rpartition(", ")[0] for name, text in told.items()} == {
        "w.npy": "weights", "all.npz": "weights, output", "o.csv": "output", "r.json": "weights, output",
        "p.yaml": "the problem", "p.npz": "the problem",
    }  # fmt: skip
    assert cli(*command).status == 0
    for name, text in told.items():
        size = (folder / name).stat().st_size
        if "at most" in text:
            assert in_bytes(text) / 3 < size < in_bytes(text)
        else:
            assert size == pytest.approx(in_bytes(text), rel=0.05)


def test_files_that_would_be_refused(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / "there.npy").write_bytes(b"1")
    command = ["attend", "q.npy", "k.npy", "v.npy", "--dry-run"]
    outputs = ["-o", "there.npy", "-o", "q.npy", "-o", "no/x.npy", "-o", "new.npy"]
    told = told_files(cli(*command, *outputs))
    assert told["there.npy"].endswith(": it would be refused: the file exists, --force replaces it")
    assert "it would be refused: this output is also an input" in told["q.npy"]
    assert "it would be refused: there is no folder" in told["no/x.npy"]
    assert "refused" not in told["new.npy"]
    assert "refused" not in told_files(cli(*command, *outputs, "--force"))["there.npy"]
    assert (folder / "there.npy").read_bytes() == b"1"
    assert "files:" not in cli(*command).out


def test_what_a_format_cannot_hold_is_an_error_in_a_dry_run_too(cli: Cli, folder: Path) -> None:
    command = ["attend", *_given(folder), "--heads", "2", "--dry-run"]
    for output, told in (("heads=h.csv", "csv holds 2"), ("capped=c.npy", "no step 'capped'")):
        result = cli(*command, "-o", output)
        assert (result.status, result.out) == (2, "")
        assert told in result.err


@pytest.mark.parametrize(
    ("show", "told"),
    [("weights[3]", "weights[3]"), ("capped", "no step 'capped'"), ("all,lse", None), ("weights[2]", None)],
)
def test_what_cannot_be_shown_is_an_error_in_a_dry_run_too(cli: Cli, folder: Path, show: str, told: str | None) -> None:
    command = ["attend", *_given(folder), "--heads", "2", "--show", show]
    dry, real = cli(*command, "--dry-run"), cli(*command)
    assert dry.status == real.status == (0 if told is None else 2)
    assert told is None or told in dry.err


def test_files_of_stages(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stages = [{"name": "a", "X": [[1, 0]]}, {"name": "b", "X": [[1, 2]], "Y": {"stage": "a", "step": "output"}}]
    (tmp_path / "s.json").write_text(json.dumps({"stages": stages}))
    told = told_files(cli("run", "s.json", "--dry-run", "-o", "a.weights=w.npy", "-o", "o.npy", "-o", "s.json"))
    assert told["w.npy"] == "a.weights, about 136 bytes"
    assert told["o.npy"] == "b.output, about 144 bytes"
    assert "also an input" in told["s.json"] or "the file exists" in told["s.json"]
