"""`check`, and --expect of the commands that compute: what is printed, and the exit status."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.calling import Result

Cli = Callable[..., Result]
RIGHT = "scores: [[0, 1]]\nexpect: {weights: [[0.27, 0.73]]}\n"
WRONG = "scores: [[0, 1]]\nexpect: {weights: [[0.37, 0.73]]}\n"


def write(folder: Path, **files: str) -> list[Path]:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return [folder / f"{name}.yaml" for name in files]


def test_exit_status(cli: Cli, tmp_path: Path) -> None:
    right, wrong = write(tmp_path, right=RIGHT, wrong=WRONG)
    assert cli("check", right).status == 0
    assert cli("check", wrong).status == 1
    assert cli("check", right, wrong).status == 1


def test_json_of_one_and_of_several(cli: Cli, tmp_path: Path) -> None:
    right, wrong = write(tmp_path, right=RIGHT, wrong=WRONG)
    [alone] = json.loads(cli("check", wrong, "--format", "json").out)
    assert (alone["schema"], alone["first_wrong"]["at"]) == (2, [1, 1])
    several = json.loads(cli("check", right, wrong, "--format", "json").out)
    assert [each["verdict"] for each in several] == ["agrees", "wrong"]
    assert several[0]["file"] == str(right)


def test_a_bad_file_does_not_stop_the_others(cli: Cli, tmp_path: Path) -> None:
    right, bad = write(tmp_path, right=RIGHT, bad="scores: [[0, 1]]\nexpect: {weights: [[1]]}\n")
    result = cli("check", bad, right)
    assert result.status == 2
    assert "right.yaml: agrees" in result.out
    assert "bad.yaml:2:" in result.err
    assert "1 x 1" in result.err


def test_a_gradebook_has_a_row_for_each_file(cli: Cli, tmp_path: Path) -> None:
    odd = "scores: [[0, 1]]\nexpect: {weights: [[x1, y1]]}\n"
    files = write(tmp_path, right=RIGHT, odd=odd, broken="scores: [[0", empty="scores: [[0, 1]]\n", wrong=WRONG)
    files.append(tmp_path / "absent.yaml")
    arguments = ("check", *files, "--points", "weights=3")
    result = cli(*arguments, "--format", "csv")
    assert result.status == 2
    table = list(csv.DictReader(io.StringIO(result.out)))
    assert [row["file"] for row in table] == [str(file) for file in files]
    verdicts = ["agrees", "unreadable", "unreadable", "unreadable", "wrong", "unreadable"]
    assert [row["verdict"] for row in table] == verdicts
    assert [(row["points"], row["of"]) for row in table] == [
        ("3", "3"), ("", "3"), ("", "3"), ("", "3"), ("0", "3"), ("", "3"),
    ]  # fmt: skip
    assert [bool(row["reason"]) for row in table] == [verdict == "unreadable" for verdict in verdicts]
    for row in table:
        assert all(reason in result.err for reason in row["reason"].split("; "))  # there with what mends it
    first, second = table[1]["reason"].split("; ")
    assert first.startswith(f"{files[1]}:2:")
    assert '"y1" is not a number' in second

    objects = json.loads(cli(*arguments, "--format", "json").out)
    assert [each["verdict"] for each in objects] == verdicts
    assert [each.get("reason", "") for each in objects] == [row["reason"] for row in table]
    assert [each["points"]["total"] for each in objects] == [3, None, None, None, 0, None]
    assert objects[3]["steps"] == []
    assert objects[3]["first_wrong"] is None

    lines = cli(*arguments).out.splitlines()
    assert lines[-1] == "2 marked: 1 agrees, 1 wrong; 4 could not be read"
    assert lines[3] == f"{files[3]}: unreadable: there is nothing to check"


@pytest.mark.parametrize("format", ["csv", "json", "table"])
def test_where_no_file_can_be_read(cli: Cli, format: str, tmp_path: Path) -> None:
    result = cli("check", *write(tmp_path, broken="scores: [[0", empty="scores: [[0, 1]]\n"), "--format", format)
    assert result.status == 2
    assert result.out.count("unreadable") == 2
    assert ("0 marked; 2 could not be read" in result.out) == (format == "table")


@pytest.mark.parametrize(
    ("expect", "told"),
    [
        ("weights: [[1, 2, 3]]", "1 x 3"),
        ("wieghts: [[1, 2]]", "did you mean 'weights'?"),
        ("output: [[1, 2]]", "it has: scores"),
        ("weights: [[1, x1]]", '"x1" is not a number'),
    ],
)
def test_bad_hands(cli: Cli, tmp_path: Path, expect: str, told: str) -> None:
    (bad,) = write(tmp_path, bad=f"scores: [[0, 1]]\nexpect: {{{expect}}}\n")
    result = cli("check", bad)
    assert (result.status, result.out) == (2, "")
    assert told in result.err
    assert "bad.yaml:2:" in result.err


def test_nothing_to_check(cli: Cli, tmp_path: Path) -> None:
    (empty,) = write(tmp_path, empty="scores: [[0, 1]]\n")
    result = cli("check", empty)
    assert result.status == 2
    assert "nothing to check" in result.err


def test_points(cli: Cli, tmp_path: Path) -> None:
    (wrong,) = write(tmp_path, wrong=WRONG)
    result = cli("check", wrong, "--points", "scores=2,weights=3")
    assert "together 0 of 5" in result.out.replace("\n", " ")
    assert cli("check", wrong, "--points", "weights").status == 2


def test_a_list_of_problems(cli: Cli, tmp_path: Path) -> None:
    text = "problems:\n- {title: first, scores: [[0, 1]], expect: {weights: [[0.27, 0.73]]}}\n"
    text += "- {name: b, title: of Bob, scores: [[0, 1]], expect: {weights: [[0.37, 0.73]]}}\n"
    text += "- {scores: [[0, 1]], expect: {weights: [[0.27, 0.73]]}}\n"
    (both,) = write(tmp_path, both=text)
    result = cli("check", both)
    assert result.status == 1
    assert [line.split(": ")[1] for line in result.out.splitlines()[:3]] == ["first", "b", "3"]


def test_stages(cli: Cli, tmp_path: Path) -> None:
    text = "stages:\n- {name: encoder, attention: self, X: [[1, 0], [0, 1]], score: dot}\n"
    text += "- {name: decoder, attention: cross, X: [[1, 1]], Y: {stage: encoder, step: output}, score: dot,\n"
    text += "   expect: {scores: [[1, 1]], weights: [[0.5, 0.6]]}}\n"
    (staged,) = write(tmp_path, staged=text)
    result = cli("check", staged, "--format", "json")
    assert result.status == 1
    [marked] = json.loads(result.out)
    assert marked["steps"][0]["verdict"] == "agrees"


def test_notes_are_quieted(cli: Cli, tmp_path: Path) -> None:
    (cut,) = write(tmp_path, cut=WRONG.replace("0.37", "0.26"))
    assert "cut, not rounded" in cli("check", cut).err
    assert cli("check", cut, "--quiet").err == ""


def test_expect_after_a_computation(cli: Cli) -> None:
    result = cli("attend", "--scores", "[[0, 1]]", "--expect", "weights=[[0.37, 0.73]]")
    assert result.status == 1
    assert result.out.index("0.2689") < result.out.index("0.37!")
    assert cli("attend", "--scores", "[[0, 1]]", "--expect", "weights=[[0.27, 0.73]]").status == 0


def test_expect_does_not_spoil_data(cli: Cli) -> None:
    result = cli("attend", "--scores", "[[0, 1]]", "--expect", "weights=[[0.37, 0.73]]", "--format", "json")
    assert result.status == 1
    assert json.loads(result.out)["steps"]["weights"]
    assert "the first slip is in weights" in result.err


@pytest.mark.parametrize(("suffix", "rows"), [("csv", 3), ("csv", 80), ("json", 3), ("json", 80)])
def test_own_results_agree_with_themselves(cli: Cli, suffix: str, rows: int, tmp_path: Path) -> None:
    files = []
    for name, seed in (("q", 1), ("k", 2), ("v", 3)):
        files.append(tmp_path / f"{name}.npy")
        np.save(files[-1], np.random.default_rng(seed).standard_normal((rows, 16)).astype(np.float16))
    file = tmp_path / f"own.{suffix}"
    assert cli("attend", *files, "-o", file).status == 0
    steps = ("output",) if suffix == "csv" else ("scores", "weights", "output")
    for step in steps:
        own = f"{file}::{step}" if suffix == "json" else file
        result = cli("attend", *files, "--expect", f"{step}={own}", "--top", 1)
        assert (result.status, result.out.splitlines()[-1]) == (0, "agrees: every number is within the tolerance")
        assert f"{step}: taken for an array of float32 (" in result.err
        assert "sums to" not in result.err


@pytest.mark.parametrize("format", ["json", "yaml"])
def test_expect_is_told_in_objects(cli: Cli, format: str, tmp_path: Path) -> None:
    (problem,) = write(tmp_path, p=RIGHT)
    result = cli("run", problem, "--expect", "weights=[[0.37, 0.73]]", "--format", format)
    assert result.status == 1
    found = yaml.safe_load(result.out)["check"]
    assert {"schema", "file", "verdict", "steps", "first_wrong", "diagnosis", "notes"} == set(found)
    assert (found["verdict"], found["first_wrong"]["at"]) == ("wrong", [1, 1])
    assert "check" not in yaml.safe_load(cli("run", problem, "--format", format).out)


def test_expect_of_stages_is_told_in_the_object(cli: Cli, tmp_path: Path) -> None:
    text = "stages:\n- {name: a, X: [[1, 0], [0, 1]], score: dot}\n"
    text += "- {name: b, X: [[1, 1]], Y: {stage: a, step: output}, score: dot}\n"
    (staged,) = write(tmp_path, staged=text)
    arguments = ("--expect", "a.weights=[[0.73, 0.27], [0.27, 0.73]]", "--expect", "b.weights=[[0.7, 0.5]]")
    result = cli("run", staged, *arguments, "--format", "json", "--show", "b.output")
    assert result.status == 1
    found = json.loads(result.out)["check"]
    assert {name: each["verdict"] for name, each in found.items()} == {"a": "agrees", "b": "wrong"}


@pytest.mark.parametrize("expect", ["weights=[[1, 2, 3]]", "output=[[1]]", "weights[3]=[[1]]"])
@pytest.mark.parametrize("more", [(), ("-o", "w.npz"), ("--format", "json")])
def test_a_bad_expect_is_told_before_anything_is_printed_or_written(
    cli: Cli, expect: str, more: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = cli("attend", "--scores", "[[0, 1]]", "--expect", expect, *more)
    assert (result.status, result.out) == (2, "")
    assert "--expect" in result.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("more", ["", "--format plain", "--format json", "--format csv", "-o w.npy"])
def test_expect_notes_once_and_not_in_quiet(
    cli: Cli, more: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ("attend", "--scores", "[[0, 1, 0], [1, 1, 2]]", "--mask", "causal",
                 "--expect", "weights=[[1, 0, 0], [0.50, 0.50, 0]]", *more.split())  # fmt: skip
    assert cli(*arguments).err.count("not square") == 1
    quiet = cli(*arguments, "--force", "--quiet")
    assert (quiet.status, quiet.err) == (0, "")


@pytest.mark.parametrize("format", ["json", "csv"])
def test_notes_of_data_are_quieted(cli: Cli, format: str, tmp_path: Path) -> None:
    (cut,) = write(tmp_path, cut=WRONG.replace("0.37", "0.26"))
    assert "cut, not rounded" in cli("check", cut, "--format", format).err
    assert cli("check", cut, "--format", format, "--quiet").err == ""


def test_expect_wins_over_the_file(cli: Cli, tmp_path: Path) -> None:
    (wrong,) = write(tmp_path, wrong=WRONG)
    assert cli("check", wrong, "--expect", "weights=[[0.27, 0.73]]").status == 0


def test_options_that_marks_do_not_follow_are_refused(cli: Cli, tmp_path: Path) -> None:
    (right,) = write(tmp_path, right=RIGHT)
    for options in (("--save-problem", "x.yaml"), ("--show", "scores"), ("--top", 1), ("--dry-run",)):
        result = cli("check", right, *options)
        assert (result.status, result.out) == (2, "")
        assert f"option {options[0]}" in result.err.replace("option: ", "option ")


def test_help_tells_every_verdict(cli: Cli) -> None:
    words = re.split(r"[^a-z-]+", cli("check", "--help").out)
    assert {"agrees", "truncated", "follows", "last-place", "wrong"} <= {*words}


def test_one_problem_of_a_list_keeps_none_from_its_marks(cli: Cli, tmp_path: Path) -> None:
    right = "Q: [[1, 0]], K: [[1, 0], [0, 1]]"
    path = tmp_path / "list.yaml"
    path.write_text(f"problems:\n  - {{name: a, {right}, expect: {{scores: [[1, 0]]}}}}\n  - {{name: b, {right}}}\n")
    result = cli("check", path, "--format", "csv")
    assert result.status == 2
    assert "b: there is nothing to check" in result.err
    assert [row["verdict"] for row in csv.DictReader(result.out.splitlines())] == ["agrees", "unreadable"]
    result = cli("check", path, "--format", "yaml")
    assert (result.status, result.out) == (2, "")
    assert "not shown as yaml" in result.err


def test_a_gradebook_of_one_unreadable_file_has_its_row(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("Q: [[1\n")
    result = cli("check", tmp_path / "bad.yaml", "--format", "csv")
    assert result.status == 2
    (row,) = csv.DictReader(result.out.splitlines())
    assert row["verdict"] == "unreadable"
    assert "not valid YAML" in row["reason"]
    assert "not valid YAML" in result.err
