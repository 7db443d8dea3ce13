"""Advice of messages, followed: what a hint tells to do does it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from calling import Result

Cli = Callable[..., Result]

PROBLEM = "Q: [[1, 0], [0, 1]]\nK: [[1, 0], [0, 1]]\nV: [[1, 0], [0, 1]]\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a problem file `s.yaml`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(PROBLEM)
    return tmp_path


def hint(result: Result) -> str:
    """The hint of the only error."""
    assert result.status == 2, result
    lines = result.err.splitlines()
    assert len(lines) == 2, result.err
    return lines[1].strip()


def test_a_decimal_comma_in_a_problem_file(cli: Cli, folder: Path) -> None:
    text = PROBLEM + 'expect: {weights: [["0,67", 0.33], [0.33, 0.67]]}\n'
    (folder / "a.yaml").write_text(text)
    told = hint(cli("check", "a.yaml"))
    assert told == hint(cli("check", "a.yaml", "--decimal", ",")) == "a decimal comma? write 0.67"
    (folder / "a.yaml").write_text(text.replace('"0,67"', told.split()[-1]))
    assert cli("check", "a.yaml").status == 0


@pytest.mark.parametrize("command", [("attend", "-", "s.yaml::K"), ("self", "-"), ("diff", "-", "s.yaml::Q")])
def test_one_array_of_standard_input(cli: Cli, folder: Path, command: tuple[str, ...]) -> None:
    read = ("--stdin-format", "yaml")
    assert "name one of them: -::Q" in hint(cli(*command, *read, stdin=PROBLEM.encode()))
    named = [argument if argument != "-" else "-::Q" for argument in command]
    assert cli(*named, *read, stdin=PROBLEM.encode()).status == 0
    assert cli("cross", "[[1, 0]]", "[[1, 0]]", "--wq", "-::Q", *read, stdin=PROBLEM.encode()).status == 0


def test_a_missing_file_is_not_one_whose_suffix_alone_is_alike(cli: Cli, folder: Path) -> None:
    assert cli("check", "nope.yaml").err == "attncli: nope.yaml: the file does not exist\n"
    assert cli("batch", "nope.yaml").err == "attncli: nope.yaml: there is no such file\n"
    (folder / "task.yaml").write_text(PROBLEM)
    (folder / "task.csv").write_text("1,0\n")
    for command in ("check", "batch"):
        assert hint(cli(command, "tsk.yaml")) == "did you mean task.yaml?"
        assert hint(cli(command, "s.yml")) == "did you mean s.yaml?"
    assert hint(cli("self", "tsk.csv")) == "did you mean task.csv?"


def test_a_pattern_in_quotes(cli: Cli, folder: Path) -> None:
    for name in ("ann", "bob"):
        (folder / f"{name}.yaml").write_text(PROBLEM + "expect: {weights: [[0.67, 0.33], [0.33, 0.67]]}\n")
    told = hint(cli("run", "*.yml"))
    assert "`check`" in told
    assert "`batch`" in told
    assert cli("check", "[ab]*.yaml").out.splitlines()[:2] == ["ann.yaml: agrees", "bob.yaml: agrees"]
    assert "matches no file" in cli("check", "x*.yaml").err
    (folder / "[ab]*.yaml").write_text(PROBLEM + "expect: {weights: [[0.77, 0.33], [0.33, 0.67]]}\n")
    assert cli("check", "[ab]*.yaml").status == 1  # a file of that very name


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "half"])
def test_half_precision(cli: Cli, dtype: str) -> None:
    told = hint(cli("self", "[[1, 2]]", "--dtype", dtype))
    assert told == "half precision is computed in float32: leave it out, or say float32"
    assert cli("self", "[[1, 2]]", "--dtype", told.split()[-1]).status == 0
