"""What comes from a file, its name or a label is shown escaped, and only regular files are read."""

from __future__ import annotations

import csv
import json
import os
import subprocess
from pathlib import Path

import pytest
from faulty import here, run

pytestmark = pytest.mark.skipif(os.name != "posix", reason="names and pipes as POSIX has them")

HAND = "scores: [[1, 2]]\nexpect: {weights: [[0.3, 0.7]]}\n"
ESCAPE, BYTE = "e\x1b[31mv\nil", os.fsdecode(b"no\xff")
NAMES = pytest.mark.parametrize(("name", "told"), [(ESCAPE, "e\\x1b[31mv\\nil"), (BYTE, "no\\udcff")])


def shows(done: subprocess.CompletedProcess[str], told: str) -> bool:
    """Whether the name is told, and nothing raw reaches a terminal or a line of its own."""
    whole = done.stdout + done.stderr
    assert "\x1b" not in whole
    assert whole.encode("utf-8")  # no byte that is no UTF-8
    assert "\nil" not in whole
    return told in whole


@NAMES
def test_in_what_is_told(tmp_path: Path, name: str, told: str) -> None:
    (tmp_path / f"{name}.yaml").write_text(HAND)
    (tmp_path / f"{name}.csv").write_text("1,2\n3,x\n")
    (tmp_path / f"{name}.npy").write_text("")
    os.symlink(f"{name}.none", tmp_path / "link.csv")
    os.symlink(tmp_path / name, tmp_path / f"{name}.json")
    for arguments in (
        ("check", f"{name}.yaml"),
        ("check", f"{name}.yaml", "--format", "csv"), ("check", f"{name}.yaml", f"{name}.csv"),
        ("run", f"{name}.csv"), ("run", f"{name}"), ("run", f"{name}.json"), ("show", f"{name}.csv"),
        ("show", "link.csv"), ("show", f"{name}.npy"), ("attend", f"{name}.csv", "[[1]]"),
        ("diff", f"{name}.csv", "[[1]]"), ("batch", f"{name}.yaml"), ("batch", f"{name}*"), ("batch", f"{name}"),
        ("run", f"{name}.yaml", "-o", f"{name}.npz", "--dry-run"), ("run", f"{name}.yaml", "-o", f"{name}/o.npz"),
        ("run", f"{name}.yaml", "-o", f"{name}.npz"), ("run", f"{name}.yaml", "-o", f"{name}.npz"),
        ("run", f"{name}.yaml", "--save-problem", f"{name}-saved.yaml"), ("explain", f"{name}.csv", "--query", "1"),
        ("self", "[[1]]", "--tokens", f"@{name}"), ("self", "[[1]]", "--mask", f"keep:{name}.csv"),
        ("self", "[[1]]", "--expect", f"weights={name}.csv"),
    ):  # fmt: skip
        assert shows(here(tmp_path, *arguments), told), arguments


@NAMES
@pytest.mark.parametrize("format", ["json", "csv", "npz", "markdown", "jsonl"])
def test_in_results_and_the_summary(tmp_path: Path, name: str, told: str, format: str) -> None:
    (tmp_path / f"{name}.yaml").write_text(HAND)
    (tmp_path / "in.yaml").write_text(f"problems:\n  - {{name: {json.dumps('a' + chr(0x202E))}, scores: [[1]]}}\n")
    target = "d.jsonl" if format == "jsonl" else "d"
    for more in ([], ["--force"] if format == "jsonl" else ["--resume"]):
        done = run(tmp_path, "batch", f"{name}.yaml", "in.yaml", "-o", target, "--format", format, *more)
        assert done.returncode == 0
        assert shows(done, told)
        assert "\u202e" not in done.stdout
    if format == "jsonl":
        lines = (tmp_path / target).read_text().splitlines()
        assert [json.loads(line)["name"] for line in lines] == [told, "a\\u202e"]
        return
    with (tmp_path / "d/summary.csv").open(newline="", encoding="utf-8") as stream:
        assert [row["problem"] for row in csv.DictReader(stream)] == [told, "a\\u202e"]


def test_json_and_csv_of_a_check_name_the_file_as_every_reader_takes_it(tmp_path: Path) -> None:
    (tmp_path / f"{BYTE}.yaml").write_text(HAND)
    assert json.loads(run(tmp_path, "check", f"{BYTE}.yaml", "--format", "json").stdout)[0]["file"] == "no\\udcff.yaml"
    rows = [*csv.reader(run(tmp_path, "check", f"{BYTE}.yaml", "--format", "csv").stdout.splitlines())]
    assert rows[1][0] == "no\\udcff.yaml"
    (tmp_path / f"{BYTE}.csv").write_text("1,2\n")
    told = json.loads(run(tmp_path, "diff", f"{BYTE}.csv", f"{BYTE}.csv", "--format", "json").stdout)
    assert told["a"]["file"] == "no\\udcff.csv"


def test_labels_and_titles(tmp_path: Path) -> None:
    label = "\x1b[31mRED\u202e\n"
    problem = {"title": label, "tokens": [label, "b"], "X": [[1, 0], [0, 1]], "expect": {"scaled": [[0.5, 0], [0, 9]]}}
    (tmp_path / "p.yaml").write_text(json.dumps(problem))
    (tmp_path / "s.yaml").write_text(json.dumps({"stages": [{"name": label, "X": [[1, 0]], "tokens": [label]}]}))
    for arguments in (
        ("check", "p.yaml"), ("check", "p.yaml", "s.yaml"), ("check", "p.yaml", "--format", "markdown"),
        ("check", "p.yaml", "--format", "latex"), ("check", "p.yaml", "--format", "csv"),
        ("check", "p.yaml", "--format", "json"), ("run", "p.yaml"), ("run", "p.yaml", "--dry-run"),
        ("run", "s.yaml"), ("run", "s.yaml", "--dry-run"), ("run", "s.yaml", "--format", "json"),
        ("run", "p.yaml", "--top", "1"), ("run", "p.yaml", "--stats"), ("run", "p.yaml", "--format", "markdown"),
        ("explain", "p.yaml", "--query", "1"), ("explain", "p.yaml", "--query", "z"), ("decode", "p.yaml"),
        ("run", "p.yaml", "--mask", "keys:0,0"), ("run", "p.yaml", "--mask", "keys:0,0", "--empty-rows", "error"),
        ("run", "p.yaml", "--tokens", "a b c"), ("batch", "p.yaml", "s.yaml"),
    ):  # fmt: skip
        whole = (done := here(tmp_path, *arguments)).stdout + done.stderr
        assert "\x1b" not in whole, arguments
        assert "\u202e" not in whole or "--format" in arguments, arguments  # data keep labels as they are


@pytest.mark.parametrize("kind", ["a named pipe", "a device", "a folder", "a socket"])
def test_only_regular_files_are_read(tmp_path: Path, kind: str) -> None:
    """Nothing waits for a writer that never comes, or reads what never ends."""
    (tmp_path / "x.csv").write_text("1,2\n")
    (tmp_path / "p.yaml").write_text("X: x.csv\n")
    made = []
    for suffix in (".yaml", ".csv", ".npz", ".npy", ".json", ".txt"):
        path = tmp_path / f"odd{suffix}"
        if kind == "a named pipe":
            os.mkfifo(path)
        elif kind == "a device":
            os.symlink("/dev/zero", path)
        elif kind == "a folder":
            path.mkdir()
        else:
            import socket

            made.append(socket.socket(socket.AF_UNIX))
            made[-1].bind(os.path.relpath(path))
    every = kind in ("a named pipe", "a device")  # which wait, or have no end
    for arguments in (("show", "odd.yaml"), ("self", "odd.npy"), ("batch", "p.yaml", "odd.csv"))[: 0 if every else 3]:
        done = run(tmp_path, *arguments)
        assert (done.returncode, kind in done.stderr) == (2, kind != "a folder" or arguments[0] != "batch")
    for arguments in () if not every else (
        ("show", "odd.yaml"), ("show", "odd.npz::a"), ("check", "odd.json"), ("self", "odd.npy"),
        ("self", "x.csv", "--mask", "keep:odd.csv"), ("self", "x.csv", "--tokens", "@odd.txt"),
        ("batch", "p.yaml", "odd.yaml"), ("batch", "odd.csv", "--problem", "p.yaml"),
    ):  # fmt: skip
        done = run(tmp_path, *arguments)
        assert (done.returncode, kind in done.stderr) == (2, True), (arguments, done.stderr)


def test_a_result_that_lies_there_as_a_pipe_is_no_result(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("X: [[1, 2]]\n")
    (tmp_path / "d").mkdir()
    os.mkfifo(tmp_path / "d/p.json")
    for more in ("--force", "--resume"):
        done = run(tmp_path, "batch", "p.yaml", "-o", "d", more)
        assert (done.returncode, "no regular file" in done.stderr) == (2, True)
    os.unlink(tmp_path / "d/p.json")
    os.mkfifo(tmp_path / "d/.attncli-digests")
    assert run(tmp_path, "batch", "p.yaml", "-o", "d", "--format", "csv", "--force").returncode == 2


def test_standard_input_by_its_names(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("1,2\n")
    for name in ("-", "/dev/stdin", "/dev/fd/0"):
        with (tmp_path / "x.csv").open("rb") as stream:
            piped = subprocess.Popen(["cat"], stdin=stream, stdout=subprocess.PIPE)
        done = run(tmp_path, "self", name, "--stdin-format", "csv", "--format", "csv", stdin=piped.stdout)
        assert (done.returncode, done.stdout) == (0, "1.0,2.0\n")
        piped.wait()
    with open("/dev/zero", "rb") as zero:
        assert run(tmp_path, "self", "-", "--stdin-format", "csv", stdin=zero).returncode == 2
