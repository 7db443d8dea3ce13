"""Large problems on the command line: what goes by blocks gives what the definition gives, and holds no more."""

from __future__ import annotations

import io
import re
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli import attend
from tests.calling import Result
from tests.inside import Bar, large_from, memory_is, watched_score

Cli = Callable[..., Result]
N, M = 70, 90
MASK = ("--mask", "window:3,2")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """q, k, v of one sequence, and of two sequences with three heads each (h...)."""
    rng = np.random.default_rng(0)
    for name, count in (("q", N), ("k", M), ("v", M)):
        np.save(tmp_path / f"{name}.npy", rng.standard_normal((count, 6)))
        np.save(tmp_path / f"h{name}.npy", rng.standard_normal((2, 3, count, 4)).astype(np.float32))
    return tmp_path


@pytest.fixture
def blocks_only(monkeypatch: pytest.MonkeyPatch, files: Path) -> Path:
    """From a thousand scores on a problem is large."""
    large_from(monkeypatch, 1000)
    return files


@pytest.fixture
def asked() -> Iterator[list[float]]:
    """The first feature of each query of which the score "watched" was asked."""
    found: list[float] = []

    with watched_score(lambda q, k: found.extend(q[..., 0].ravel().tolist())):
        yield found


def _inputs(folder: Path, prefix: str = "") -> list[Path]:
    return [folder / f"{prefix}{name}.npy" for name in "qkv"]


def _expected(folder: Path, prefix: str = "", **options: Any) -> dict[str, np.ndarray]:
    """Every step, of which all are held."""
    trace = attend(*(np.load(path) for path in _inputs(folder, prefix)), **options)
    return {name: trace[name] for name in trace.names(on_request=True)}


def _same(path: Path, expected: np.ndarray, atol: float = 1e-14) -> None:
    got = np.load(path)
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, atol=atol)


@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_big_steps_go_into_files_block_by_block(cli: Cli, blocks_only: Path, layout: str) -> None:
    folder, steps = blocks_only, ("weights", "masked", "exp")
    if layout == "columns":
        for path in _inputs(folder):
            np.save(path, np.ascontiguousarray(np.load(path).T))
    expected = _expected(folder, mask="window:3,2", layout=layout)
    outputs = [word for step in steps for word in ("-o", f"{step}={folder / step}.npy")]
    result = cli("attend", *_inputs(folder), *MASK, "--layout", layout, *outputs, "-o", folder / "o.npy")
    assert (result.status, result.out) == (0, "")
    assert result.err.count("note: wrote") == 4
    for step in steps:
        _same(folder / f"{step}.npy", expected[step])
    _same(folder / "o.npy", expected["output"])
    assert len(list(folder.iterdir())) == 10


def test_heads_and_one_of_them(cli: Cli, blocks_only: Path) -> None:
    folder = blocks_only
    expected = _expected(folder, "h")
    outputs = ["-o", f"weights={folder / 'w.npy'}", "-o", f"weights[2,1]={folder / 'one.npy'}"]
    assert cli("attend", *_inputs(folder, "h"), *outputs).status == 0
    _same(folder / "w.npy", expected["weights"], 1e-6)
    _same(folder / "one.npy", expected["weights"][1, 0], 1e-6)
    assert cli("attend", *_inputs(folder, "h"), *outputs[2:], "--force").status == 0
    _same(folder / "one.npy", expected["weights"][1, 0], 1e-6)


@pytest.mark.parametrize("format", ["csv", "tsv"])
@pytest.mark.parametrize("tokens", [False, True])
def test_text_is_written_and_printed_block_by_block(
    cli: Cli, files: Path, request: pytest.FixtureRequest, format: str, tokens: bool
) -> None:
    labels = (" ".join(f"{letter}{i}" for i in range(count)) for letter, count in (("a", N), ("b", M)))
    more = [*zip(("--tokens", "--key-tokens"), labels, strict=True)] if tokens else []
    given = ("attend", *_inputs(files), *MASK, *(word for pair in more for word in pair))
    whole = cli(*given, "--show", "masked", "--format", format)
    request.getfixturevalue("blocks_only")
    outputs = ["-o", f"masked={files / 'm'}.{format}", "-o", f"masked={files / 'm.npy'}"]
    by_blocks = cli(*given, "--show", "masked", "--format", format, *outputs)
    assert (whole.status, by_blocks.status) == (0, 0), by_blocks.err
    lines = [line.split("," if format == "csv" else "\t")[tokens:] for line in by_blocks.out.splitlines()[tokens:]]
    np.testing.assert_array_equal(np.array(lines, float), np.load(files / "m.npy"))
    assert (files / f"m.{format}").read_text() == by_blocks.out
    assert len(by_blocks.out.splitlines()) == len(whole.out.splitlines()) == N + tokens
    assert by_blocks.out.splitlines()[:tokens] == whole.out.splitlines()[:tokens]
    assert cli(*given, "--show", "masked", "--format", format, "--empty-rows", "error").status == 0


@pytest.mark.parametrize("show", ["output,weights", "weights,output", "scores,weights", "all"])
@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_text_of_a_large_problem_holds_one_step(cli: Cli, blocks_only: Path, show: str, more: tuple[str, ...]) -> None:
    given = ("attend", *_inputs(blocks_only), "--show", show, "--format", "csv", *more)
    for outputs in ((), ("-o", blocks_only / "o.npy"), ("-o", f"weights={blocks_only / 'w.csv'}")):
        result = cli(*given, *outputs)
        assert (result.status, result.out) == (2, "")
        assert "csv holds one array" in result.err
    assert len(list(blocks_only.iterdir())) == 6


def test_columns_with_heads_go_the_plain_way(cli: Cli, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large_from(monkeypatch, 1000)
    for path in _inputs(files, "h"):
        np.save(path, np.ascontiguousarray(np.load(path).swapaxes(-1, -2)))
    given = ("attend", *_inputs(files, "h"), "--layout", "columns")
    assert cli(*given, "-o", f"weights={files / 'w.npy'}").status == 0
    expected = _expected(files, "h", layout="columns")
    _same(files / "w.npy", expected["weights"], 1e-6)
    assert cli(*given, "-o", f"weights[1,3]={files / 'one.npy'}").status == 0
    _same(files / "one.npy", expected["weights"][0, 2], 1e-6)


def test_archives_hold_every_step(cli: Cli, blocks_only: Path) -> None:
    folder = blocks_only
    expected = _expected(folder, mask="window:3,2")
    outputs = ["-o", folder / "all.npz", "-o", f"lse={folder / 'lse.npy'}", "-o", f"weights={folder / 'w.npy'}"]
    assert cli("attend", *_inputs(folder), *MASK, *outputs).status == 0
    archive = np.load(folder / "all.npz")
    assert list(archive) == list(expected)
    for step, array in expected.items():
        np.testing.assert_allclose(archive[step], array, atol=1e-13)
    _same(folder / "lse.npy", expected["lse"])
    assert cli("attend", *_inputs(folder), "--show", "output,lse", "-o", folder / "two.npz").out != ""
    assert list(np.load(folder / "two.npz")) == ["output", "lse"]


@pytest.mark.parametrize("format", ["table", "markdown", "latex"])
@pytest.mark.parametrize("more", [(), ("--show", "weights,scores,output,lse,K"), ("--layout", "columns")])
def test_tables_compute_the_rows_they_show(
    cli: Cli, blocks_only: Path, asked: list[float], monkeypatch: pytest.MonkeyPatch, format: str, more: tuple[str, ...]
) -> None:
    folder = blocks_only
    queries = np.load(folder / "q.npy")[:, 0]
    if "columns" in more:
        for path in _inputs(folder):
            np.save(path, np.load(path).T)
    mask = "keep:" + str(_keep(folder, "columns" in more))
    given = ("attend", *_inputs(folder), "--score", "watched", "--mask", mask, *more, "--format", format)
    result = cli(*given)
    assert sorted(asked) == sorted([*queries[:5], *queries[-5:]])
    with monkeypatch.context() as patch:
        large_from(patch, 10**9)
        plain = cli(*given)
    assert (result.status, result.err) == (0, plain.err)
    assert result.out == re.sub(r"each (row|column) sums", r"each \1 shown sums", plain.out)
    assert "shown sums to 1" in result.out


def _keep(folder: Path, turned: bool) -> Path:
    keep = np.random.default_rng(1).integers(0, 2, (N, M))
    keep[:, 3] = 1
    np.save(folder / "keep.npy", keep.T if turned else keep)
    return folder / "keep.npy"


@pytest.mark.parametrize(
    "more",
    [
        ("--top", "3"),
        ("--top", "200", *MASK),
        ("--top", "2", "--score", "boxcar", "--param", "radius=2"),
        ("--stats", "--show", "output"),
        ("--stats", "--top", "1", "--score", "boxcar", "--param", "radius=2"),
        ("--stats", "--normalizer", "sigmoid", "--show", "weights[1,2]"),
        ("--top", "2", "--show", "weights[2,1],weights[2,3]"),
    ],
)
def test_lines_of_many_queries(
    cli: Cli, blocks_only: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    given = ("attend", *_inputs(blocks_only, "h" if "[" in " ".join(more) else ""), *more)
    result = cli(*given)
    with monkeypatch.context() as patch:
        large_from(patch, 10**9)
        plain = cli(*given)
    assert (result.status, result.err) == (0, plain.err)
    expected = re.sub(r"each row sums", "each row shown sums", plain.out) if "--top" not in more else plain.out
    assert result.out == expected


def test_a_query_that_is_not_shown_may_be_empty(cli: Cli, blocks_only: Path) -> None:
    given = (
        "attend",
        *_inputs(blocks_only),
        "--mask",
        "lengths-per-query:" + "5," * 40 + "0" + ",5" * 29,
    )
    assert cli(*given).err == ""
    refused = cli(*given, "--empty-rows", "error")
    assert refused.status == 2
    assert "query 41 sees no key" in refused.err
    assert "query 41 sees no key" in cli(*given, "-o", blocks_only / "o.npy", "--show", "weights").err


def test_what_is_wrong_is_told_before_anything_is_computed(cli: Cli, blocks_only: Path, asked: list[float]) -> None:
    folder = blocks_only
    (folder / "there.npy").write_bytes(b"")
    for more, told in [
        (("-o", f"weights={folder / 'there.npy'}"), "--force"),
        (("-o", f"heads={folder / 'h.npy'}"), "no step 'heads'"),
        (("-o", f"weights[2]={folder / 'w.npy'}"), "leading axes"),
        (("-o", f"weights={folder / 'no' / 'w.npy'}"), "no folder"),
        (("--show", "heads"), "no step 'heads'"),
    ]:
        result = cli("attend", *_inputs(folder), "--score", "watched", *more)
        assert (result.status, result.out) == (2, ""), result.err
        assert told in result.err
        assert asked == []
    result = cli("attend", *_inputs(folder, "h"), "-o", f"weights={folder / 'w.csv'}")
    assert result.status == 2
    assert "holds 2" in result.err


def test_what_does_not_fit_is_refused(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("q", "k"):
        np.save(tmp_path / f"{name}.npy", np.zeros((3000, 2), np.float32))
    memory_is(monkeypatch, 200 * 2**20)
    given = ("attend", tmp_path / "q.npy", tmp_path / "k.npy")
    for more in [("--show", "weights", "--format", "yaml"), ("--format", "json"), ("-o", tmp_path / "w.json")]:
        result = cli(*given, *more)
        assert (result.status, result.out) == (3, "")
        assert re.search(r"this needs \d+\.\d [MG]iB of memory, but 200\.0 MiB are free", result.err)
        assert "-o weights=FILE.npy" in result.err
    assert not (tmp_path / "w.json").exists()
    assert cli(*given, "-o", f"weights={tmp_path / 'w.npy'}").status == 0
    assert np.load(tmp_path / "w.npy", mmap_mode="r").shape == (3000, 3000)


def test_a_limit_of_the_shell_is_heeded(process: Cli, tmp_path: Path) -> None:
    for name in ("q", "k"):
        np.save(tmp_path / f"{name}.npy", np.zeros((300_000, 1), np.float32))
    given = ("q.npy", "k.npy", "--show", "weights", "--format", "json")
    command = f"ulimit -v 4000000; exec {sys.executable} -m attncli attend {' '.join(given)}"
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (3, "")
    assert re.search(r"needs \d+\.\d TiB of memory", done.stderr)
    assert "-o weights=FILE.npy" in done.stderr


def test_a_bar_is_seen_on_a_terminal_and_after_half_a_second_only(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    for stream, patience, quiet, drawn in [
        (Terminal(), 0.0, False, True),
        (Terminal(), 60.0, False, False),
        (Terminal(), 0.0, True, False),
        (io.StringIO(), 0.0, False, False),
    ]:
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr("attncli.cli.progress.PATIENCE", patience)
        with Bar(quiet) as bar:
            for share in (0.1, 0.5, 1.0):
                bar(share)
        text = stream.getvalue()
        assert ("%" in text) == drawn
        assert not drawn or text.rstrip().endswith("\x1b[2K")  # the line is wiped at the end


def test_an_interruption_ends_within_a_block_and_leaves_nothing(tmp_path: Path) -> None:
    for name in "qkv":
        np.save(tmp_path / f"{name}.npy", np.ones((20_000, 64)))
    before = sorted(tmp_path.iterdir())
    command = [sys.executable, "-m", "attncli", "attend", "q.npy", "k.npy", "v.npy", "-o", "weights=w.npy"]
    running = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    while not any(path.name.startswith(".attncli") and path.stat().st_size for path in tmp_path.iterdir()):
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    _, told = running.communicate(timeout=60)
    assert (running.returncode, told) == (130, "attncli: interrupted\n")
    assert sorted(tmp_path.iterdir()) == before


def test_an_error_in_a_block_leaves_nothing(tmp_path: Path) -> None:
    """The system takes no more than 500 KB a file, which the fourth block of 600 x 600 weights goes beyond."""
    for name in "qkv":
        np.save(tmp_path / f"{name}.npy", np.ones((600, 8)))
    before = sorted(tmp_path.iterdir())
    command = f"ulimit -f 1000; exec {sys.executable} -m attncli attend q.npy k.npy v.npy -o weights=w.npy"
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("attncli: w.npy: the file would be larger than the system allows")
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("more", [("-o", "weights=w.npy"), ("--show", "weights"), ("--top", "3"), ("-o", "o.npy")])
def test_no_step_of_queries_by_keys_is_held(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    n = 4000
    for name in "qkv":
        np.save(f"{name}.npy", np.ones((n, 8)))
    given = ("attend", "q.npy", "k.npy", "v.npy", "--quiet", *more)
    assert "by blocks: no step of n x m is held" in cli(*given, "--dry-run").out
    tracemalloc.start()
    assert cli(*given).status == 0
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * n * n / 2
