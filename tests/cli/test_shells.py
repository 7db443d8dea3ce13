"""Completion in the shells themselves, those that are there: options, names of steps and masks, files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

# The beginning of a line, and what its last word becomes.
CASES = [
    ("attncli expl", "explain"),
    ("attncli self x --softc", "--softcap"),
    ("attncli self x --mask dil", "dilated"),
    ("attncli self x --show weights,output_b", "weights,output_back"),
    ("attncli run xfi", "xfile.csv"),
    ("attncli self x --wq xfi", "xfile.csv"),
]
# How each begins, without the files of its user; completion is set up as `--show-completion` says.
INTERACTIVE = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source ./script"),
    "zsh": (["zsh", "-f", "-i"], "autoload -U compinit; compinit -D; source ./script"),
}
POWERSHELL = ". ./script.ps1; (TabExpansion2 '{line}' {end}).CompletionMatches | ForEach-Object {{ $_.CompletionText }}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one file, where `attncli` is the one that is tested."""
    (tmp_path / "xfile.csv").write_text("1\n")
    monkeypatch.chdir(tmp_path)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for name, value in {
        "PATH": path,
        "HOME": str(tmp_path),
        "TERM": "dumb",
        "COLUMNS": "200",
        "LC_ALL": "C.UTF-8",
    }.items():
        monkeypatch.setenv(name, value)
    return tmp_path


def script(shell: str, folder: Path, name: str = "script") -> None:
    """The shell's completion, in a file."""
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    command = [sys.executable, "-m", "attncli", "--show-completion", shell]
    (folder / name).write_bytes(subprocess.run(command, check=True, capture_output=True).stdout)


def typed(command: list[str], setup: str, line: str, expected: str) -> str:
    """What stands on the terminal after the line and a tab, read until the expected words or for a while."""
    import pty

    process, terminal = pty.fork()
    if process == 0:
        os.execvp(command[0], command)
    try:
        os.write(terminal, f"{setup}; PS1='REA''DY> '\n".encode())
        _read(terminal, "READY> ")
        os.write(terminal, f"{line}\t".encode())
        return _read(terminal, expected)
    finally:
        os.close(terminal)
        os.kill(process, 9)
        os.waitpid(process, 0)


def _read(terminal: int, until: str) -> str:
    from select import select

    text, end = "", time.monotonic() + 30
    while until not in text and time.monotonic() < end:
        if select([terminal], [], [], 0.1)[0]:
            text += os.read(terminal, 65536).decode().replace("\a", "")
    return text


@pytest.mark.parametrize("shell", INTERACTIVE)
@pytest.mark.parametrize(("line", "word"), CASES)
def test_bash_and_zsh(shell: str, line: str, word: str, folder: Path) -> None:
    script(shell, folder)
    command, setup = INTERACTIVE[shell]
    expected = line.rpartition(" ")[0] + f" {word}"
    assert expected in typed(command, setup, line, expected)


@pytest.mark.parametrize(("line", "word"), CASES)
def test_fish(line: str, word: str, folder: Path) -> None:
    script("fish", folder)
    ask = ["fish", "--no-config", "-c", f"source ./script; complete -C '{line}'"]
    offered = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [each.partition("\t")[0] for each in offered] == [word]


@pytest.mark.parametrize(("line", "word"), CASES)
def test_powershell(line: str, word: str, folder: Path) -> None:
    script("pwsh", folder, "script.ps1")
    ask = ["pwsh", "-NoProfile", "-Command", POWERSHELL.format(line=line, end=len(line))]
    offered = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.split()
    assert [each.removeprefix("./") for each in offered] == [word]
