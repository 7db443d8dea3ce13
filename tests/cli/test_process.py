"""What only a process of its own shows: streams that break, signals, terminals, and which modules are loaded."""

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

from tests.calling import Result, on_terminal

Process = Callable[..., Result]
X = "[[1, 0], [0, 1]]"
ATTNCLI = [sys.executable, "-m", "attncli"]
posix = pytest.mark.skipif(os.name != "posix", reason="pipes and signals as POSIX has them")


def test_results_and_errors_keep_apart(process: Process) -> None:
    good = process("self", X, "--mask", "keys:1,0", "--format", "csv")
    assert (good.status, good.out, good.err) == (0, "1.0,0.0\n1.0,0.0\n", "")
    bad = process("self", "missing.csv")
    assert (bad.status, bad.out) == (2, "")
    assert bad.err.startswith("attncli: missing.csv: ")


@posix
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_closes_the_pipe(unbuffered: str, tmp_path: Path, clean_environment: None) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(300, 300)))
    with subprocess.Popen(
        [*ATTNCLI, "self", "x.npy", "--format", "csv"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline()
        running.stdout.close()
        assert running.wait(30) == 141
        assert running.stderr.read() == b""


@posix
@pytest.mark.parametrize("arguments", [("self", X, "--format", "csv"), ("--help",), ("attend", "--help")])
def test_a_pipe_that_is_closed_before_a_short_result(process: Process, arguments: tuple[str, ...]) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as stream:
        result = process(*arguments, stdout=stream)
    assert (result.status, result.err) == (141, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk(process: Process) -> None:
    with open("/dev/full", "wb") as full:
        result = process("self", X, stdout=full)
    assert (result.status, result.err) == (3, "attncli: standard output: No space left on device\n")
    written = process("self", X, "-o", "/dev/full", "-o", "o.npy")
    assert written.status == 2  # /dev/full has no suffix: it names no format


@posix
@pytest.mark.parametrize("output", ["weights=w.npy", "w.npz", "weights=w.csv"])
def test_a_disk_that_takes_a_part_of_an_output(output: str, tmp_path: Path, clean_environment: None) -> None:
    import resource

    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(200, 2)))
    done = subprocess.run(
        [*ATTNCLI, "self", "x.npy", "-o", "small.npy", "-o", output],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)),
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(f"attncli: {output.partition('=')[2] or output}: ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.npy"]


@posix
def test_a_file_is_written_where_standard_output_is_closed(tmp_path: Path, clean_environment: None) -> None:
    command = f"{sys.executable} -m attncli self '{X}' -o o.csv >&-"
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "note: wrote output to o.csv\n")


@posix
def test_interrupted_while_it_waits_for_input(tmp_path: Path, clean_environment: None) -> None:
    with subprocess.Popen(
        [*ATTNCLI, "self", "-", "--stdin-format", "csv"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        assert running.stderr is not None
        _wait_until(lambda: _sleeps(running.pid))
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 130
        assert running.stderr.read() == b"attncli: interrupted\n"
        assert running.stdout.read() == b""


@posix
@pytest.mark.parametrize(
    ("sent", "status", "told"),
    [
        (["SIGINT"], 130, b"attncli: interrupted\n"),
        (["SIGTERM"], 143, b""),
        (["SIGTERM"] * 3, 143, b""),
        (["SIGHUP"], 129, b""),
    ],
)
def test_interrupted_while_it_writes(
    sent: list[str], status: int, told: bytes, tmp_path: Path, clean_environment: None
) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(2000, 2000)))
    (tmp_path / "old.csv").write_text("mine\n")
    with subprocess.Popen(
        [*ATTNCLI, "self", "x.npy", "-o", "weights=old.csv", "-o", "new.csv", "--force"],
        cwd=tmp_path,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # whoever runs the tests may ignore it
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        assert running.stderr is not None
        _wait_until(lambda: any(path.suffix == ".tmp" for path in tmp_path.iterdir()))
        for name in sent:
            running.send_signal(getattr(signal, name))
        assert running.wait(30) == status
        assert running.stderr.read() == told
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old.csv", "x.npy"]
    assert (tmp_path / "old.csv").read_text() == "mine\n"


def _wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come about within 30 seconds")


def _sleeps(process: int) -> bool:
    """Whether the process has read its modules and waits in a read (where the system tells)."""
    try:
        state = Path(f"/proc/{process}/wchan").read_text()
        return "pipe" in state
    except OSError:
        time.sleep(2)
        return True


@posix
@pytest.mark.parametrize(("columns", "environment"), [(40, {}), (80, {}), (40, {"NO_COLOR": "1"})])
def test_a_terminal(tmp_path: Path, clean_environment: None, columns: int, environment: dict[str, str]) -> None:
    import pyte

    problem = str([[float(i == j) for j in range(9)] for i in range(3)])
    status, written = on_terminal(["self", problem], columns, environment)
    assert status == 0
    assert (b"\x1b[" in written) is not bool(environment)
    screen = pyte.Screen(columns, 200)
    pyte.ByteStream(screen).feed(written)
    lines = [line.rstrip() for line in screen.display if line.strip()]
    boxed = [line for line in lines if line.startswith("│")]
    assert boxed
    assert all(line.endswith("│") for line in boxed)  # no line was wrapped by the terminal
    numbers = [word for line in boxed for word in line.split() if word[0].isdigit()]
    assert sum(word == "1.0000" for word in numbers) == 0
    assert len([word for word in numbers if len(word) == len("0.0000")]) == 9 + 27  # weights, and then the output


HEAVY = ("numpy._core", "rich", "yaml")
LOADED = """
import sys
from attncli.cli import call
status = call({arguments!r})
print(status, *[name for name in {heavy!r} if sys.modules.get(name)], file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        (["--help"], []),
        (["attend", "--help"], []),
        (["self", "x", "--scal", "2"], []),
        (["atend"], []),
        (["self", X, "--format", "csv"], ["numpy._core", "yaml"]),
        (["self", "x.npy", "--format", "csv"], ["numpy._core"]),
        (["self", "x.npy", "--top", "1"], ["numpy._core"]),
        (["run", "p.yaml", "--format", "csv"], ["numpy._core", "yaml"]),
        (["self", "x.npy"], ["numpy._core", "rich"]),
    ],
    ids=lambda value: " ".join(value[:1] + value[-1:]) if isinstance(value, list) else None,
)
def test_only_what_is_needed_is_imported(
    arguments: list[str], allowed: list[str], tmp_path: Path, clean_environment: None
) -> None:
    np.save(tmp_path / "x.npy", np.eye(2))
    (tmp_path / "p.yaml").write_text("X: [[1, 0], [0, 1]]\n")
    code = LOADED.format(arguments=arguments, heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    *_, last = done.stderr.splitlines()
    status, *loaded = last.split()
    assert set(loaded) <= set(allowed), done.stderr
    assert status == ("2" if arguments[-1] in ("2", "atend") else "0")


@posix
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_and_completion_without_rich(
    shell: str, tmp_path: Path, clean_environment: None, process: Process
) -> None:
    script = process(env={"_ATTNCLI_COMPLETE": f"source_{shell}"})
    assert script.status == 0
    assert "_ATTNCLI_COMPLETE" in script.out
    words = "attncli self x.npy --mask "
    completed = process(
        env={
            "_ATTNCLI_COMPLETE": f"complete_{shell}",
            "COMP_WORDS": words,
            "COMP_CWORD": "4",
            "_TYPER_COMPLETE_ARGS": words,
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        }
    )
    assert completed.status == 0
    assert all(name in completed.out for name in ("causal", "window", "lengths-per-query"))


@posix
def test_help_texts_in_completion_stand_as_written(process: Process) -> None:
    result = process(
        env={"_ATTNCLI_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "attncli self x.npy --layo"},
    )
    assert "rows" in result.out
    assert "[default" in result.out  # Rich would take it for markup


def test_a_file_name_that_is_no_text(process: Process) -> None:
    result = process("self", b"no\xff.csv".decode(errors="surrogateescape"))
    assert result.status == 2
    assert "no\\udcff.csv" in result.err


@posix
def test_labels_that_are_no_text(process: Process) -> None:
    result = process("self", X, "--tokens", b"a \xff".decode(errors="surrogateescape"), "--format", "csv")
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith('attncli: --tokens: the label "\\udcff" is not UTF-8')


def test_optimized_python_refuses_the_same(process: Process, tmp_path: Path) -> None:
    header = b"{'descr': '<f8', 'fortran_order': False}"
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    result = process("self", "x.npy", env={"PYTHONOPTIMIZE": "1"})
    assert (result.status, result.out) == (2, "")
    assert "its header is no description of an array" in result.err


def test_an_encoding_without_box_characters(process: Process) -> None:
    for encoding in ("ascii", "cp1252"):
        result = process("self", X, "--tokens", "人 b", "--mask", "causal", env={"PYTHONIOENCODING": encoding})
        assert result.status == 0
        assert "| " in result.out
        assert "\\u4eba" in result.out
