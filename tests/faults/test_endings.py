"""Exit statuses where the machine fails, Ctrl-C, disks that are full or read-only, streams that are closed."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from faulty import ATTNCLI, contents, litter, run

SCRIPT = Path(sysconfig.get_path("scripts")) / "attncli"
X = "[[1, 0], [0, 1]]"

# Send Ctrl-C at the import whose number is given, counted from the first of our own modules on.
AT_IMPORT = """
import os, sys
left = None
def hook(event, arguments):
    global left
    if event != "import":
        return
    if left is None and arguments[0] == "attncli.ending":
        left = int(os.environ["CTRL_C_AT"])
    elif left is not None:
        left -= 1
    if left == 0:
        os.kill(os.getpid(), 2)
sys.addaudithook(hook)
"""


@pytest.mark.parametrize("command", [ATTNCLI, [SCRIPT]], ids=["module", "script"])
@pytest.mark.parametrize("at", [0, 1, 2, 5, 11, 23, 47, 80, 120, 170, 230, 300])
def test_ctrl_c_at_any_moment(command: list[str], at: int, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(AT_IMPORT)
    done = subprocess.run(
        [*command, "self", X], capture_output=True, timeout=60,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "CTRL_C_AT": str(at)},
    )  # fmt: skip
    assert (done.returncode, done.stderr, done.stdout) == (130, b"attncli: interrupted\n", b"")


def test_ctrl_c_that_is_ignored_stays_so(tmp_path: Path) -> None:
    """As a shell has it for what runs in the background."""
    (tmp_path / "sitecustomize.py").write_text(AT_IMPORT)
    done = subprocess.run(
        [*ATTNCLI, "self", X, "--format", "csv"], capture_output=True, timeout=60,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        env={**os.environ, "PYTHONPATH": str(tmp_path), "CTRL_C_AT": "20"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_library_leaves_ctrl_c_as_it_was() -> None:
    code = "import signal; before = signal.getsignal(2); import attncli, attncli.cli; attncli.attend([[1]], [[1]]); "
    assert subprocess.run([sys.executable, "-c", f"{code} assert signal.getsignal(2) is before"]).returncode == 0


@pytest.mark.parametrize("mebibytes", [16, 20, 24, 28, 36, 48, 70, 100, 130, 160, 190, 220, 280, 600])
def test_under_a_limit_of_address_space(mebibytes: int, tmp_path: Path) -> None:
    """It is done, or the machine failed; never a difference, a fault, or a signal from a library in C."""
    np.save(tmp_path / "x.npy", np.ones((700, 700)))
    (tmp_path / "p.yaml").write_text("scores: [[1, 2]]\nexpect: {weights: [[0.27, 0.73]]}\n")
    size = mebibytes << 20
    for arguments in (["self", "x.npy", "-o", "o.npy"], ["check", "p.yaml"], ["batch", "p.yaml"], ["--help"]):
        done = run(tmp_path, *arguments, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size)))
        assert done.returncode in (0, 3), (arguments, done.returncode, done.stderr)
        if done.returncode:
            assert "memory" in done.stdout + done.stderr
            assert arguments[0] != "self" or not (tmp_path / "o.npy").exists()
    assert litter(tmp_path) == []


def test_a_limit_that_is_enough_is_no_failure(tmp_path: Path) -> None:
    size = 1 << 30
    done = run(tmp_path, "self", X, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size)))
    assert done.returncode == 0


def test_no_option_of_the_completion_means_a_difference(tmp_path: Path) -> None:
    for arguments in (["--install-completion", "none"], ["--show-completion", "none"]):
        assert run(tmp_path, *arguments).returncode != 1


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """A small file system of its own, mounted with some options."""
    where = tmp_path / "disk"
    where.mkdir()

    def mount(options: str) -> Path:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(where)], capture_output=True)
        if done.returncode:
            pytest.skip(f"no tmpfs can be mounted here: {done.stderr.decode().strip()}")
        return where

    yield mount
    subprocess.run(["umount", str(where)], capture_output=True)


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, disk: Callable[[str], Path]) -> None:
    there = disk("size=256k")
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(300, 2)))
    for name in ("w.npy", "w.npz", "w.json", "w.csv", "w.yaml"):
        (there / name).write_text("old\n")
    before = contents(there)
    for name in before:
        step = "" if name.endswith(("npz", "json", "yaml")) else "weights="
        done = run(tmp_path, "self", "x.npy", "-o", "beside.npy", "-o", f"{step}disk/{name}", "--force")
        assert (done.returncode, contents(there)) == (3, before)
        assert f"disk/{name}: the disk is full: nothing was written" in done.stderr
        assert not (tmp_path / "beside.npy").exists()
    assert litter(tmp_path) == []


@pytest.mark.parametrize("format", ["json", "npz", "csv", "jsonl"])
def test_a_disk_that_is_full_in_the_midst_of_a_batch(tmp_path: Path, disk: Callable[[str], Path], format: str) -> None:
    """Whole results stay, and the batch goes on where there is room again; a stream is there or not."""
    numbers = np.random.default_rng(0).normal(size=(20, 60, 2))
    for i, x in enumerate(numbers):
        (tmp_path / f"p{i}.yaml").write_text(f"X: {x.round(2).tolist()}\nshow: [weights]\n")
    arguments = ["--format", format, "--show", "weights"]
    whole = "whole.jsonl" if format == "jsonl" else "whole"
    assert run(tmp_path, "batch", "p*.yaml", "-o", whole, *arguments).returncode == 0
    expected = contents(tmp_path / "whole", ["summary.csv"])
    there = disk("size=256k")
    target = "disk/r.jsonl" if format == "jsonl" else "disk"
    done = run(tmp_path, "batch", "p*.yaml", "-o", target, *arguments)
    assert done.returncode == 3
    assert "the disk is full" in done.stderr
    assert litter(there) == []
    found = contents(there, [".attncli-digests"])
    assert found.items() <= expected.items()
    assert bool(found) is (format != "jsonl")
    subprocess.run(["mount", "-o", "remount,size=16m", str(there)], check=True)
    assert run(tmp_path, "batch", "p*.yaml", "-o", target, *arguments, *([] if format == "jsonl" else ["--resume"])
               ).returncode == 0  # fmt: skip
    if format != "jsonl":
        leave_out = ["summary.csv", ".attncli-digests"]
        assert contents(there, leave_out) == contents(tmp_path / "whole", leave_out)


def test_standard_output_on_a_full_disk(tmp_path: Path, disk: Callable[[str], Path]) -> None:
    there = disk("size=64k")
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(100, 2)))
    with (there / "out").open("wb") as stream:
        done = subprocess.run(
            [*ATTNCLI, "self", "x.npy", "--format", "json"], cwd=tmp_path, stdout=stream, stderr=subprocess.PIPE
        )
    assert (done.returncode, done.stderr) == (3, b"attncli: standard output: No space left on device\n")


def test_a_folder_that_may_not_be_written(tmp_path: Path, disk: Callable[[str], Path]) -> None:
    there = disk("size=64k")
    (there / "o.npy").write_text("old\n")
    (tmp_path / "p.yaml").write_text(f"X: {X}\n")
    subprocess.run(["mount", "-o", "remount,ro", str(there)], check=True)
    for arguments in (["self", X, "-o", "disk/o.npy"], ["self", X, "-o", "disk/n.npy"],
                      ["batch", "p.yaml", "-o", "disk"], ["batch", "p.yaml", "-o", "disk/r.jsonl"],
                      ["batch", "p.yaml", "-o", "disk/new"]):  # fmt: skip
        done = run(tmp_path, *arguments, "--force")
        assert (done.returncode, contents(there).keys()) == (2, {"o.npy"}), done.stderr
        assert "disk" in done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams(closed: str, tmp_path: Path) -> None:
    """No file gets the number of a stream, and is written into by those who mean the stream."""

    def shell(arguments: str) -> int:
        command = f"{sys.executable} -m attncli {arguments} {closed}"
        return subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, timeout=60).returncode

    assert shell(f"self '{X}' -o o.csv -o weights=w.npy") == 0
    assert (tmp_path / "o.csv").read_text().count("\n") == 2
    assert np.load(tmp_path / "w.npy").shape == (2, 2)
    assert shell("self missing.csv") == 2
    assert shell(f"self '{X}'") == (3 if ">&- 2" in f"{closed} " or closed.startswith(">") else 0)
    assert shell("self - --stdin-format csv") == 2


def test_ctrl_c_of_a_terminal_reaches_all_processes_and_one_tells_of_it(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    # So much work that other processes are worth their start on any machine.
    np.save(tmp_path / "in" / "x.npy", np.random.default_rng(0).normal(size=(900, 8)))
    for i in range(1500):
        (tmp_path / "in" / f"p{i:04}.yaml").write_text(f"X: x.npy\nscale: {i}\n")
    running = subprocess.Popen(
        [*ATTNCLI, "batch", "in", "-o", "out", "--format", "npy", "--jobs", "3", "--force"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
    while running.poll() is None and not (children.exists() and children.read_text()):
        time.sleep(0.005)
    os.killpg(running.pid, signal.SIGINT)
    _, told = running.communicate(timeout=60)
    assert running.returncode == 130
    assert told.decode().splitlines()[-1] == "attncli: interrupted"
    assert b"Traceback" not in told
    assert litter(tmp_path) == []
