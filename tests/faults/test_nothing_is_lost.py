"""No input is written or removed, by any option or name; nothing is removed that attncli did not write."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from faulty import JOURNAL, contents, run

MATRIX = "1,2\n3,4\n"


@pytest.mark.parametrize("more", [["--resume"], ["--force"]])
@pytest.mark.parametrize("heads", ["", "heads: 5\n"])
@pytest.mark.parametrize("name", ["link", "copy of the name", "hard link"])
def test_a_result_never_takes_the_place_of_a_matrix(tmp_path: Path, more: list[str], heads: str, name: str) -> None:
    """Neither of a good problem nor of a bad one, whose older result is taken away."""
    folder = tmp_path / "d"
    folder.mkdir()
    (folder / "r.csv").write_text(MATRIX)
    other = {"link": os.symlink, "hard link": os.link, "copy of the name": lambda *_: None}[name]
    other(folder / "r.csv", folder / "x.csv")
    (folder / "r.yaml").write_text(f"X: {'r' if name == 'copy of the name' else 'x'}.csv\n{heads}")
    done = run(tmp_path, "batch", "d/r.yaml", "-o", "d", "--format", "csv", *more)
    assert done.returncode == 2
    assert (folder / "r.csv").read_text() == MATRIX
    if not heads:
        assert "d/r.csv: this result is also an input" in done.stderr


@pytest.mark.parametrize(
    "second",
    [
        "X: a.csv", "X: [[1, 2]]\nmask: 'keep:a.csv'", "X: [[1]]\nmask: {lengths: a.csv}",
        "X: [[1, 2]]\nbias: {file: a.csv}", "X: [[1, 2]]\ntokens: {file: a.csv}",
        "X: [[1, 2]]\nexpect: {output: a.csv, weights: [[1]]}", "X: [[x]]\nexpect: {weights: [[q]], output: a.csv}",
        "Q: [[1]]\nK: [[1]]\nscore: {name: additive, W_q: b.csv, W_k: a.csv}", "nonsense: 1\nX: a.csv",
        "stages:\n  - {name: s, X: a.csv}\n", "problems:\n  - {X: a.csv}\n",
    ],
)  # fmt: skip
@pytest.mark.parametrize("more", ["--force", "--resume"])
def test_nor_of_a_file_that_a_later_problem_names(tmp_path: Path, second: str, more: str) -> None:
    (tmp_path / "a.yaml").write_text("X: [[1, 2], [2, 1]]\n")
    (tmp_path / "b.yaml").write_text(second)
    (tmp_path / "a.csv").write_text(MATRIX)
    done = run(tmp_path, "batch", "a.yaml", "b.yaml", "-o", ".", "--format", "csv", more)
    assert done.returncode == 2
    assert (tmp_path / "a.csv").read_text() == MATRIX
    assert "also an input" in done.stderr


def test_a_problem_file_is_no_place_for_a_result_by_another_name(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "in/p.yaml").write_text("X: [[1, 2]]\n")
    os.link(tmp_path / "in/p.yaml", tmp_path / "out/p.yaml")
    before = contents(tmp_path)
    for more in ("--force", "--resume"):
        assert run(tmp_path, "batch", "in/p.yaml", "-o", "out", "--format", "yaml", more).returncode == 2
        assert contents(tmp_path, ["summary.csv"]) == before


def test_inputs_of_single_runs(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(MATRIX)
    (tmp_path / "t.txt").write_text("a\nb\n")
    (tmp_path / "e.csv").write_text("1,0\n0,1\n")
    np.savez(tmp_path / "p.npz", X=np.eye(2))
    (tmp_path / "p.yaml").write_text("X: {file: p.npz, name: X}\n")
    (tmp_path / "list.yaml").write_text("stages:\n  - {name: s, X: x.csv}\n")
    os.symlink("x.csv", tmp_path / "l.csv")
    np.save(tmp_path / "large.npy", np.ones((200, 200)))
    before = contents(tmp_path)
    for arguments in (
        ("self", "x.csv", "--tokens", "@t.txt", "-o", "t.txt"),
        ("self", "x.csv", "--expect", "weights=e.csv", "-o", "weights=e.csv"),
        ("self", "l.csv", "-o", "./x.csv"),
        ("self", "x.csv", "-o", "l.csv"),
        ("self", "x.csv", "--save-problem", "p.yaml", "--mask", "keep:e.csv", "-o", "e.csv"),
        ("run", "p.yaml", "--save-problem", "p.yaml"),
        ("run", "p.yaml", "--tokens", "a b", "--wq", "large.npy", "--save-problem", "p.json"),
        ("run", "list.yaml", "-o", "list.yaml"),
        ("run", "list.yaml", "-o", "x.csv"),
        ("decode", "p.yaml", "-o", "p.npz"),
        ("batch", "p.yaml", "-o", "p.jsonl", "--format", "jsonl", "--tokens", "@t.txt", "--wq", "x.csv"),
    ):
        done = run(tmp_path, *arguments, "--force")
        assert contents(tmp_path, ["p.jsonl"]) == before, arguments
        assert done.returncode == 2 or "p.jsonl" in arguments, arguments
    with (tmp_path / "x.csv").open("rb") as stream:
        done = run(tmp_path, "self", "-", "--stdin-format", "csv", "-o", "x.csv", "--force", stdin=stream)
    assert (done.returncode, contents(tmp_path, ["p.jsonl"])) == (2, before)


def test_a_stream_is_not_put_upon_what_was_read_meanwhile(tmp_path: Path) -> None:
    """The matrices of a batch are known only when their turn comes, which is after the stream was begun."""
    (tmp_path / "p.yaml").write_text("X: m.yaml\n")
    (tmp_path / "m.yaml").write_text("[[1, 2], [3, 4]]\n")
    os.link(tmp_path / "m.yaml", tmp_path / "r.jsonl")
    before = contents(tmp_path)
    done = run(tmp_path, "batch", "p.yaml", "-o", "r.jsonl", "--force")
    assert (done.returncode, contents(tmp_path)) == (2, before)
    assert "r.jsonl: this output is also an input" in done.stderr


@pytest.fixture
def batch(tmp_path: Path) -> Callable[..., int]:
    (tmp_path / "p.yaml").write_text("X: [[1, 2], [2, 1]]\n")
    return lambda *more: run(tmp_path, "batch", "p.yaml", "-o", "d", *more).returncode


def test_the_summary_and_the_stream_obey_force(tmp_path: Path, batch: Callable[..., int]) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/summary.csv").write_text("mine\n")
    for more in ((), ("--resume",)):
        assert batch(*more) == 2
        assert contents(tmp_path / "d").keys() == {"summary.csv"}
        assert (tmp_path / "d/summary.csv").read_text() == "mine\n"
    assert batch("--force") == 0
    assert (tmp_path / "d/summary.csv").read_text().startswith("problem,result")
    assert batch("--resume") == 0  # a summary of attncli's own
    (tmp_path / "d/results.jsonl").write_text("mine\n")
    assert batch("--format", "jsonl") == 2
    assert (tmp_path / "d/results.jsonl").read_text() == "mine\n"
    assert batch("--format", "jsonl", "--force") == 0
    assert json.loads((tmp_path / "d/results.jsonl").read_text())["name"] == "p"


@pytest.mark.parametrize("format", ["json", "yaml", "npz", "csv", "npy", "markdown"])
def test_what_attncli_did_not_write_is_neither_replaced_by_resume_nor_taken_away(
    tmp_path: Path, batch: Callable[..., int], format: str
) -> None:
    (tmp_path / "d").mkdir()
    file = tmp_path / "d" / f"p.{'md' if format == 'markdown' else format}"
    file.write_text("mine\n")
    assert batch("--resume", "--format", format) == 2
    assert file.read_text() == "mine\n"
    (tmp_path / "p.yaml").write_text("X: [[1, 2], [3]]\n")
    assert batch("--force", "--format", format) == 2
    assert file.read_text() == "mine\n"
    (tmp_path / "p.yaml").write_text("X: [[1, 2], [2, 1]]\n")
    assert batch("--force", "--format", format) == 0
    assert file.read_bytes() != b"mine\n"
    (tmp_path / "p.yaml").write_text("X: [[1, 2], [3]]\n")
    assert batch("--resume", "--format", format) == 2  # its own older result is taken away
    assert not file.exists()


def test_a_result_that_somebody_changed_is_theirs(tmp_path: Path, batch: Callable[..., int]) -> None:
    assert batch("--format", "csv") == 0
    (tmp_path / "d/p.csv").write_text("mine\n")
    assert batch("--format", "csv", "--resume") == 2
    assert (tmp_path / "d/p.csv").read_text() == "mine\n"


def test_the_journal_survives_a_line_that_was_cut_short(tmp_path: Path, batch: Callable[..., int]) -> None:
    assert batch("--format", "csv") == 0
    journal = tmp_path / "d" / JOURNAL
    journal.write_bytes(journal.read_bytes() + b'\n{"file": "p.c')
    (tmp_path / "p.yaml").write_text("X: [[1, 2], [2, 3]]\n")
    assert batch("--format", "csv", "--resume") == 0
    first = (tmp_path / "d/p.csv").read_bytes()
    done = run(tmp_path, "batch", "p.yaml", "-o", "d", "--format", "csv", "--resume")
    assert "finished before" in done.stdout
    assert (tmp_path / "d/p.csv").read_bytes() == first


def test_a_link_is_followed_to_its_end(tmp_path: Path, batch: Callable[..., int]) -> None:
    (tmp_path / "away").mkdir()
    (tmp_path / "d").mkdir()
    for name in ("p.json", "summary.csv", "results.jsonl"):
        os.symlink(f"../away/{name}", tmp_path / "d" / name)
    assert batch() == 0
    assert batch("--format", "jsonl") == 0
    assert batch("--force") == 0
    for name in ("p.json", "summary.csv", "results.jsonl"):
        assert os.readlink(tmp_path / "d" / name) == f"../away/{name}"
        assert (tmp_path / "away" / name).stat().st_size
    (tmp_path / "p.yaml").write_text("X: [[1, 2], [3]]\n")
    assert batch("--force") == 2
    assert (tmp_path / "d/p.json").is_symlink()  # attncli did not make the link, but its result is gone
    assert not (tmp_path / "away/p.json").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["batch", ""], ["batch", "p.yaml", "-o", ""], ["batch", "jobs.csv", "--problem", ""], ["run", ""],
        ["run", "p.yaml", "-o", ""], ["run", "p.yaml", "-o", "weights="], ["run", "p.yaml", "--save-problem", ""],
        ["check", ""], ["show", ""], ["self", ""], ["self", "[[1]]", "--tokens", "@"], ["explain", "", "--query", "1"],
    ],
)  # fmt: skip
def test_an_empty_name_is_not_the_current_folder(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "p.yaml").write_text("X: [[1, 2], [2, 1]]\n")
    (tmp_path / "jobs.csv").write_text("scale\n1\n2\n")
    before = contents(tmp_path)
    done = run(tmp_path, *arguments)
    assert done.returncode == 2
    assert "empty" in done.stderr or "names no file" in done.stderr
    assert contents(tmp_path) == before
