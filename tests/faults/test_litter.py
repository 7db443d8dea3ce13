"""What a killed run leaves is cleared by the next one; what is in use, or is not attncli's own, is not."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from faulty import contents, litter, run, start

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")


def stopped(folder: Path, *names: str) -> subprocess.Popen[bytes]:
    """A run that has written its files, and waits for a reader of its last output, a pipe, to put them in place."""
    there, pipe = len(litter(folder)), folder / "pipe.npy"
    if not pipe.exists():
        os.mkfifo(pipe)
    outputs = [f"{step}={name}" for step, name in zip(("weights", "scores"), names, strict=False)]
    options = [part for output in (*outputs, "output=pipe.npy") for part in ("-o", output)]
    running = start(folder, "self", "[[1, 2], [3, 4]]", *options, "--force")
    while len(litter(folder)) < there + len(names):
        assert running.poll() is None
        time.sleep(0.01)
    return running


def test_the_litter_of_a_killed_run_goes_with_the_next_and_that_of_a_running_one_stays(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("X: [[1, 2]]\n")
    for command in (
        ["self", "[[1, 2]]", "-o", "o.csv"],
        ["run", "p.yaml", "-o", "weights=w.npy"],
        ["run", "p.yaml", "--save-problem", "s.yaml"],
        ["batch", "p.yaml", "-o", "."],
        ["batch", "p.yaml", "-o", "r.jsonl"],
    ):
        killed, running = stopped(tmp_path, "a.npy", "b.npy"), stopped(tmp_path, "c.npy")
        killed.kill()
        killed.wait()
        assert len(litter(tmp_path)) == 3
        more = ["--format", "csv"] if command[0] == "batch" and "." in command else []
        assert run(tmp_path, *command, *more).returncode == 0
        assert len(litter(tmp_path)) == 1
        running.kill()
        running.wait()
        assert run(tmp_path, *command, *more, "--force").returncode == 0
        assert litter(tmp_path) == []


def test_it_is_cleared_where_the_file_is_and_not_where_its_link_is(tmp_path: Path) -> None:
    (tmp_path / "away").mkdir()
    os.symlink("away/o.csv", tmp_path / "o.csv")
    killed = stopped(tmp_path, "o.csv")
    killed.kill()
    killed.wait()
    assert len(litter(tmp_path / "away")) == 1
    assert run(tmp_path, "self", "[[1, 2]]", "-o", "o.csv").returncode == 0
    assert litter(tmp_path) == []


def test_files_of_like_names_are_not_its_own(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("X: [[1, 2]]\n")
    names = [".attncli-notes.tmp", ".attncli-0123456789abcdef.tmp", f".attncli-{'0' * 32}.tmp", ".r.jsonl.tmp"]
    for name in names:
        (tmp_path / name).write_text("mine\n")
    os.mkfifo(tmp_path / f".attncli-{'1' * 32}.tmp")
    for command in (["self", "[[1]]", "-o", "o.csv"], ["batch", "p.yaml", "-o", ".", "--format", "csv", "--resume"],
                    ["batch", "p.yaml", "-o", "r.jsonl"]):  # fmt: skip
        assert run(tmp_path, *command).returncode == 0
    assert [(tmp_path / name).read_text() for name in names] == ["mine\n"] * 4


def test_nobody_can_lay_a_link_where_it_will_write(tmp_path: Path) -> None:
    """Names are made up anew for each file: those of two runs have nothing in common that could be foreseen."""
    made = []
    for _ in range(2):
        killed = stopped(tmp_path, "a.npy")
        killed.kill()
        killed.wait()
        (name,) = litter(tmp_path)
        made.append(name)
        os.unlink(tmp_path / name)
    assert made[0][9:25] != made[1][9:25]


def test_a_private_file_stays_private_while_it_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_text("secret")
    (tmp_path / "a.npy").chmod(0o600)
    running = stopped(tmp_path, "a.npy")
    (name,) = litter(tmp_path)
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    running.kill()
    running.wait()


def test_a_run_beside_another_in_one_folder(tmp_path: Path) -> None:
    """While one writes, and is stopped by a signal, others come and go, and take nothing away from it."""
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(1500, 8)))
    reference = run(tmp_path, "self", "x.npy", "-o", "weights=w.npy")
    expected = contents(tmp_path)["w.npy"]
    assert reference.returncode == 0
    running = start(tmp_path, "self", "x.npy", "-o", "weights=w.npy", "--force")
    while running.poll() is None and not litter(tmp_path):
        time.sleep(0.001)
    running.send_signal(signal.SIGSTOP)
    assert run(tmp_path, "self", "[[1, 2]]", "-o", "o.csv").returncode == 0
    running.send_signal(signal.SIGCONT)
    assert running.wait(60) == 0
    assert contents(tmp_path)["w.npy"] == expected
    assert litter(tmp_path) == []
