"""Advice of messages, followed: what a hint tells to do does it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.calling import Result

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


def quoted(text: str) -> list[list[str]]:
    """The commands that a hint names between backquotes."""
    return [command.split()[1:] for command in re.findall(r"`(attncli [^`]*)`", text)]


def test_a_result_is_no_problem(cli: Cli, folder: Path) -> None:
    (folder / "hand.yaml").write_text(PROBLEM + "expect: {weights: [[0.67, 0.33], [0.33, 0.67]]}\n")
    (folder / "staged.yaml").write_text("stages: [{name: a, scores: [[1]]}]")
    results = {
        "r.json": cli("run", "s.yaml", "--format", "json").out,
        "r.yaml": cli("run", "s.yaml", "--format", "yaml").out,
        "c.json": cli("check", "hand.yaml", "--format", "json").out,
        "staged.json": cli("run", "staged.yaml", "--format", "json").out,
    }
    for name, text in results.items():
        (folder / name).write_text(text)
        result = cli("run", name)
        assert result.err.splitlines()[0] == f"attncli: {name}: this is a result of attncli, not a problem"
        option = hint(result).split()[0]
        assert cli("run", "s.yaml", option, f"p-{name}.yaml").status == 0
        assert cli("run", f"p-{name}.yaml", "--format", "json").out == results["r.json"]


@pytest.mark.parametrize("command", ["run", "check", "explain"])
@pytest.mark.parametrize("name", ["x.npy", "x.csv", "x.tsv", "x.txt"])
def test_a_matrix_is_no_problem(cli: Cli, folder: Path, command: str, name: str) -> None:
    cli("self", "[[1, 2], [3, 4]]", "-o", name)
    result = cli(command, name, *(["--query", "1"] if command == "explain" else []))
    assert f"{name}: this is a matrix (.{name[2:]}), not a problem" in result.err
    told = hint(result)
    (advice,) = quoted(told)
    assert cli(*advice).status == 0
    key = told.rpartition("names it: ")[2]
    (folder / "p.yaml").write_text(key)
    assert cli("run", "p.yaml").out == cli(*advice).out


def test_arrays_are_no_problem(cli: Cli, folder: Path) -> None:
    cli("self", "[[1, 2], [3, 4]]", "-o", "x.npz")
    assert "these are matrices (.npz)" in cli("run", "x.npz").err
    assert "these are matrices (.npz)" in cli("run", "-", stdin=(folder / "x.npz").read_bytes()).err
    cli("self", "[[1, 2], [3, 4]]", "-o", "x.npy")
    told = hint(cli("run", "-", stdin=(folder / "x.npy").read_bytes()))
    assert cli(*quoted(told)[0], stdin=(folder / "x.npy").read_bytes()).status == 0


def test_a_problem_in_a_text_file_is_one(cli: Cli, folder: Path) -> None:
    (folder / "s.txt").write_text(PROBLEM)
    assert cli("run", "s.txt").out == cli("run", "s.yaml").out
    (folder / "s.txt").write_text(PROBLEM.replace("]]", "]"))
    assert "not valid YAML" in cli("run", "s.txt").err


@pytest.mark.parametrize("command", ["attend", "self"])
def test_a_problem_is_no_matrix(cli: Cli, folder: Path, command: str) -> None:
    (advice,) = quoted(hint(cli(command, "s.yaml")))[-1:]
    assert advice == ["run", "s.yaml"]
    (folder / "r.json").write_text(cli("run", "s.yaml", "--format", "json").out)
    assert "attncli run" not in cli("self", "r.json").err


def test_answers_to_a_common_problem(cli: Cli, folder: Path) -> None:
    expect = "expect: {weights: [[0.67, 0.33], [0.33, 0.67]]}\n"
    (folder / "ann.yaml").write_text("problem: s.yaml\n" + expect)
    told = cli("check", "ann.yaml").err
    assert "Q: task.yaml::Q" in told
    assert "`batch` takes problem: beside a list of jobs:" in told
    (folder / "ann.yaml").write_text("Q: s.yaml::Q\nK: s.yaml::K\n" + expect)
    assert cli("check", "ann.yaml").status == 0
    (folder / "all.yaml").write_text(f"problem: s.yaml\njobs:\n- {{name: ann, {expect.strip()}}}\n")
    (advice,) = quoted(hint(cli("check", "all.yaml")))
    assert "ann" in cli(*advice).out
    assert cli(*advice).status == 0


def test_the_list_of_all_keys_is_told_once(cli: Cli, folder: Path) -> None:
    (folder / "p.yaml").write_text(PROBLEM + "foo: 1\nbar: 2\nbaz: 3\n")
    told = cli("run", "p.yaml").err
    assert told.count("unknown key") == 3
    assert told.count("known: X, Y") == 1


def test_a_list_of_problems_from_standard_input(cli: Cli, folder: Path) -> None:
    text = f"problems:\n- {{name: ann, {', '.join(PROBLEM.splitlines())}}}\n- {{{', '.join(PROBLEM.splitlines())}}}\n"
    told = hint(cli("run", "-", "--format", "json", stdin=text.encode()))
    assert "`batch`" in told
    checked = cli("check", "-", "--expect", "weights=[[0.67, 0.33], [0.33, 0.67]]", stdin=text.encode())
    assert checked.out.startswith("standard input: ann: agrees\nstandard input: 2: agrees\n")
    assert cli("batch", "-", "-o", "out", stdin=text.encode()).status == 0
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["ann.json", "stdin-2.json", "summary.csv"]
    bad = cli("batch", "-", stdin=text.replace("K:", "k:").encode())
    assert bad.status == 2
    assert "standard input:2:" in bad.err
    one = cli("batch", "-", "s.yaml", "--format", "jsonl", stdin=PROBLEM.encode())
    assert [line.split(",")[0] for line in one.out.splitlines()] == ['{"name": "stdin"', '{"name": "s"']
    assert "`attncli batch FILE`" in cli("batch", "-", stdin=b"jobs: [{scale: 2}]").err


@pytest.mark.parametrize(
    ("step", "advice", "mended"),
    [
        ("output", "V is missing: give it", ["s.yaml::V"]),
        ("V", "V is missing: give it", ["s.yaml::V"]),
        ("heads", "it comes of V and --heads, 2 or more", ["s.yaml::V", "--heads", "2"]),
        ("kernel", "such as --score gaussian", ["--score", "gaussian"]),
        ("capped", "it comes of --softcap", ["--softcap", "2"]),
        ("biased", "it comes of --bias", ["--bias", "[[1, 2], [3, 4]]"]),
        ("masked", "it comes of --mask", ["--mask", "causal"]),
    ],
)
def test_a_step_that_a_problem_lacks(cli: Cli, folder: Path, step: str, advice: str, mended: list[str]) -> None:
    command = ["attend", "s.yaml::Q", "s.yaml::K"]
    for asked in (["--show", step], ["-o", f"{step}=x.npy"]):
        told = hint(cli(*command, *asked))
        assert advice in told
        assert "; it has: Q, K, scores, scaled, exp, sum, lse, weights" in told
        assert cli(*command, *mended, *asked).status == 0


def test_steps_of_other_rules_and_before_the_beginning(cli: Cli, folder: Path) -> None:
    assert "it begins at scores" in hint(cli("attend", "--scores", "[[1]]", "--show", "Q"))
    assert "V is missing" in hint(cli("attend", "--scores", "[[1]]", "--show", "output"))
    hard = ["self", "[[1]]", "--show", "lse", "--normalizer"]
    assert "--normalizer softmax" in hint(cli(*hard, "hardmax"))
    assert cli(*hard, "softmax").status == 0
    both = ["cross", "[[1]]", "[[1]]", "--show", "weights_back"]
    assert "--both-ways" in hint(cli(*both))
    assert cli(*both, "--both-ways").status == 0
    assert "it comes of --scale" in hint(cli("self", "[[1]]", "--score", "dot", "--show", "scaled"))


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        ((3, 2), "1 query missing"),
        ((6, 2), "2 queries too many"),
        ((4, 3), "1 feature too many"),
        ((3, 1), "1 query missing and 1 feature missing"),
        ((1, 4, 2), "they would fit without the leading axis of 1"),
        ((1, 1, 4, 2), "they would fit without the leading axes of 1"),
        ((2, 4), "transposed would fit: is the layout columns?"),
    ],
)
def test_in_what_an_array_differs_from_its_step(cli: Cli, folder: Path, shape: tuple[int, ...], told: str) -> None:
    np.save("x.npy", np.arange(8.0).reshape(4, 2))
    np.save("hand.npy", np.zeros(shape))
    assert hint(cli("self", "x.npy", "--expect", "output=hand.npy")) == told


def test_one_matrix_of_a_step_of_several(cli: Cli, folder: Path) -> None:
    command = ["self", "[[1, 0], [0, 1]]", "--heads", "2", "--expect"]
    told = hint(cli(*command, "weights=[[0.67, 0.33], [0.5, 0.5]]"))
    assert told == "that is one matrix of it, such as weights[1]"
    assert cli(*command, "weights[1]=[[0.73, 0.27], [0.5, 0.5]]").status == 0


def test_blank_cells_are_told_of_where_text_lacks_numbers(cli: Cli, folder: Path) -> None:
    command = ["self", "[[1, 0], [0, 1]]", "--expect"]
    told = hint(cli(*command, "weights=[[0.67, 0.33]]"))
    assert told.startswith("1 query missing; a cell that is not to be marked is written ~ (YAML)")
    assert cli(*command, "weights=[[0.67, 0.33], [~, ~]]").status == 0
