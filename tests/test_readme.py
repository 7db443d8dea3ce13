"""Every command that the README shows is run, and prints what the README says."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)


def shown() -> list[tuple[str, str]]:
    """Each `$ command` of a console block with the lines printed below it."""
    pairs = []
    for block in BLOCK.findall(README):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            pairs.append((command, output.rstrip("\n")))
    return pairs


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the samples, in which the commands are run one after the other, as a reader would."""
    folder = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "samples", folder / "samples")
    return folder


@pytest.mark.parametrize(("command", "expected"), shown(), ids=[command for command, _ in shown()])
@pytest.mark.xdist_group("readme")
def test_command(command: str, expected: str, folder: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {"PATH": path, "HOME": str(folder), "LANG": "C.UTF-8"}
    result = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (result.stdout + result.stderr).rstrip("\n") == expected, shlex.join(["bash", "-c", command])


def test_there_are_commands_to_run() -> None:
    assert len(shown()) >= 10


def test_python_example() -> None:
    """The Python block prints what its comments say."""
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    said = [line.partition("# ")[2] for line in code.splitlines() if line.startswith("print(")]
    assert said
    assert result.stdout.splitlines() == said
