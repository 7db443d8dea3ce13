"""What only a process of its own shows: a batch that is killed, interrupted, spread over processes, or looked at."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from batches import ATTNCLI, results, run, write_problems

from attncli.batch.work import Task

posix = pytest.mark.skipif(os.name != "posix", reason="signals and terminals as POSIX has them")
COUNT = 40


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """Problems of some 10 ms each, all with the same data and another scale."""
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(300, 32)))
    (tmp_path / "in").mkdir()
    for number in range(COUNT):
        (tmp_path / "in" / f"p{number:02}.yaml").write_text(f"X: ../x.npy\nscale: {number + 1}/100\nsoftcap: 3\n")
    return tmp_path


# Other processes are worth while from the first problem on.
EAGER = "import attncli.batch.pool as pool; pool.WORTH = 0; from attncli.cli import main; raise SystemExit(main())"


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", EAGER] if arguments else ATTNCLI
    asked = ["batch", "in", "-o", "out", "--format", "npz", "--show", "output,weights", *arguments]
    return subprocess.Popen([*command, *asked], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.005)
    raise AssertionError("it did not come about within 30 seconds")


def count(folder: Path) -> int:
    return len([*folder.glob("*.npz")]) if folder.exists() else 0


def undisturbed(folder: Path) -> dict[str, bytes]:
    """The results of a run that nobody disturbs."""
    done = run(folder, "in", "-o", "whole", "--format", "npz", "--show", "output,weights")
    assert done.returncode == 0, done.stderr
    return results(folder / "whole")


@posix
def test_killed_and_resumed(slow: Path) -> None:
    """kill -9 in the middle: whole files under their names alone; resumed, the results are those of one run."""
    with start(slow) as running:
        wait_until(lambda: count(slow / "out") >= 5)
        running.kill()
    assert running.returncode == -signal.SIGKILL
    there = count(slow / "out")
    assert 5 <= there < COUNT
    for path in (slow / "out").glob("*.npz"):
        assert np.load(path)["output"].shape == (300, 32)
    before = {path.name: path.stat().st_mtime_ns for path in (slow / "out").glob("*.npz")}
    resumed = run(slow, "in", "-o", "out", "--format", "npz", "--show", "output,weights", "--resume")
    assert resumed.returncode == 0
    assert resumed.stdout.count("finished before") == there
    assert results(slow / "out") == undisturbed(slow)
    assert {name: (slow / "out" / name).stat().st_mtime_ns for name in before} == before


@posix
@pytest.mark.parametrize("arguments", [(), ("--jobs", "2")], ids=["serial", "processes"])
def test_interrupted(slow: Path, arguments: tuple[str, ...]) -> None:
    """Ctrl-C ends it before all is done, keeps what is done and says how to go on."""
    with start(slow, *arguments) as running:
        wait_until(lambda: count(slow / "out") >= 3)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=30)
    assert running.returncode == 130
    there = count(slow / "out")
    assert 3 <= there < COUNT  # at once, not when the work is done
    told, last = err.splitlines()[-2:]
    assert last == "attncli: interrupted"
    # The last result may have been written, but not counted, when the signal came.
    assert told in [
        f"note: {done} of {COUNT} problems are done, their results kept in out; the same command with --resume goes on"
        for done in (there - 1, there)
    ]
    assert not [*(slow / "out").glob(".*")]


def test_processes_give_the_same_files(
    batch: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import attncli.batch.pool as module

    write_problems(tmp_path / "in", 30, bad=20)
    (tmp_path / "in" / "p021.yaml").write_text("Q: [[1, 0]]\nK: [[1, 0], [0, 1]]\nexpect: {weights: [[0.76, 0.24]]}\n")
    sent = 0
    original = module.portable

    def portable(task: Task) -> Task:
        nonlocal sent
        sent += 1
        return original(task)

    monkeypatch.setattr(module, "portable", portable)
    monkeypatch.setattr(module, "WORTH", 0)
    one, two = batch("in", "-o", "one"), batch("in", "-o", "two", "--jobs", "2")
    assert sent == 28  # all but the first, by which it was timed, and the bad one
    assert (one[0], one[2]) == (two[0], two[2])
    assert one[1].splitlines()[-1] == two[1].splitlines()[-1] == "29 of 30 problems computed, 1 bad, 1 wrong"
    assert results(tmp_path / "one") == results(tmp_path / "two")
    assert len(results(tmp_path / "one")) == 29


@posix
def test_a_bar_on_a_terminal_and_nothing_in_a_pipe(tmp_path: Path) -> None:
    write_problems(tmp_path / "in", 30, bad=7)
    piped = run(tmp_path, "in", "-o", "out")
    assert piped.stderr == "attncli: in/p007.yaml:1:13: row 2 (line 1) has 1 value, row 1 (line 1) has 2\n"
    shown = _stderr_on_terminal([*ATTNCLI, "batch", "in", "-o", "again"], tmp_path)
    assert b"30/30" in shown or b"/30" in shown
    assert b"in/p007.yaml:1:13: row 2 (line 1) has 1 value" in shown
    assert b"\x1b[?25h" in shown  # the cursor is shown again at the end


def _stderr_on_terminal(command: list[str], folder: Path) -> bytes:
    """What a command writes to a terminal that is its standard error."""
    import pty

    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    environment["TERM"] = "xterm"
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=theirs, env=environment) as running:
        os.close(theirs)
        written = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            written += part
        running.communicate(timeout=30)
    os.close(ours)
    return written
