"""Every command that the README shows is run, and prints what the README says."""

from __future__ import annotations

import html
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
TOPICS = {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / "attncli" / "topics").glob("*.md"))}
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)


def shown() -> list[tuple[str, str]]:
    """Each `$ command` of a console block with the lines printed below it."""
    pairs = []
    for block in BLOCK.findall("\n".join([README, *TOPICS.values()])):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            pairs.append((command, output.rstrip("\n")))
    return pairs


def test_every_command_prints_what_the_readme_says(tmp_path: Path) -> None:
    """One after the other, as a reader would: later ones read what earlier ones wrote."""
    shutil.copytree(ROOT / "samples", tmp_path / "samples")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {"PATH": path, "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    for command, expected in shown():
        bash = ["bash", "-c", command]
        result = subprocess.run(bash, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert (result.stdout + result.stderr).rstrip("\n") == expected, command


def test_the_picture_is_what_the_terminal_shows() -> None:
    """Else: python -m tests.picture > samples/terminal.svg"""
    from tests.picture import picture

    kept = (ROOT / "samples" / "terminal.svg").read_text(encoding="utf-8")
    assert "](samples/terminal.svg)" in README
    assert words(kept) == words(picture())
    assert len(words(kept)) > 20


def words(svg: str) -> list[str]:
    """The text of an SVG of Rich's, without its styles."""
    return html.unescape(" ".join(re.findall(r"<text[^>]*>([^<]*)</text>", svg))).split()


def test_the_korean_readme_shows_the_same() -> None:
    """Its blocks are those that are run above; it names every command, every sample, and files that are there."""
    path = ROOT / ".github" / "README.ko.md"
    korean = path.read_text(encoding="utf-8")
    blocks = BLOCK.findall(korean)
    assert blocks == BLOCK.findall(README)
    in_table = re.compile(r"^\| (?:\d+ \| [^|]*\| )?`(attncli [^`]*)`", re.MULTILINE)
    commands = [command for command in in_table.findall(README) if not re.search(r"samples/(?:1[6-9]|2)", command)]
    assert in_table.findall(korean) == commands
    for target in re.findall(r"\]\(([^)]*)\)", korean):
        assert (path.parent / target).exists(), target
    assert "](.github/README.ko.md)" in README


def test_there_are_commands_to_run() -> None:
    assert len(shown()) >= 10


def test_python_example() -> None:
    """The Python block prints what its comments say."""
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    said = [line.partition("# ")[2] for line in code.splitlines() if line.startswith("print(")]
    assert said
    assert result.stdout.splitlines() == said
