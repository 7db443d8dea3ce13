"""A class in one call: problem files, tables and workbooks, some of them broken."""

from __future__ import annotations

import copy
import csv
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl
import pytest
import yaml

from tests.calling import ROOT, Result

Cli = Callable[..., Result]


def answers(folder: Path, exercise: Path, count: int) -> dict[str, bool]:
    """Answers of all kinds: every other one with a slip, every twentieth broken. Gives which have a slip."""
    told = yaml.safe_load((exercise / "keys" / "01.yaml").read_text())["expect"]
    draw = random.Random(3)
    slips = {}
    folder.mkdir()
    for i in range(count):
        steps: dict[str, Any] = copy.deepcopy(told)
        if i % 2:
            row = draw.choice(steps["output"])
            column = draw.randrange(len(row))
            row[column] = round(row[column] + draw.choice([0.4, 1, -2]), 2)
        if i % 20 == 7:
            (folder / f"{i:03}.yaml").write_text("expect: {weights: [[1, 2")
            continue
        slips[f"{i:03}"] = bool(i % 2)
        if i % 3 == 0:
            book = openpyxl.load_workbook(exercise / "01.xlsx")
            for step, numbers in steps.items():
                for x, row in enumerate(numbers, start=3):
                    for y, number in enumerate(row, start=2):
                        book[step].cell(x, y).value = number
            book.save(folder / f"{i:03}.xlsx")
        elif i % 3 == 1:
            (folder / f"{i:03}.yaml").write_text(yaml.safe_dump({"expect": steps}))
        else:
            text = "\n".join(",".join(f"{number:.2f}" for number in row) for row in steps["output"])
            (folder / f"{i:03}.csv").write_text(text + "\n")
    return slips


def marked(tmp_path: Path, cli: Cli, count: int) -> None:
    """Mark a class in a process of its own, and look at what each answer got."""
    problem, exercise = tmp_path / "p.yaml", tmp_path / "ex"
    cli("new", "self", "-o", problem)
    assert cli("new", "--like-problem", problem, "--sheet", "xlsx", "--seed", 4, "-o", exercise).status == 0
    slips = answers(tmp_path / "class", exercise, count)
    command = ["check", "--problem", exercise / "keys" / "01.yaml", tmp_path / "class", "-o", tmp_path / "told"]
    done = subprocess.run([sys.executable, "-m", "attncli", *map(str, command)], capture_output=True, text=True)
    assert done.returncode == 2  # some could not be read
    assert len([*(tmp_path / "told").glob("*.md")]) >= count
    rows = [*csv.DictReader(cli(*command[:4], "--format", "csv", "--quiet").out.splitlines())]
    assert len(rows) == count
    for row in rows:
        stem = Path(row["file"]).stem
        assert (tmp_path / "told" / f"{stem}.md").is_file()
        right = {True: "wrong", False: "rounded", None: "unreadable"}[slips.get(stem)]
        assert row["verdict"] == right, row
        assert (row["step"] == "output") == (right == "wrong")


def test_a_mixed_class_has_a_row_and_a_feedback_for_each(tmp_path: Path, cli: Cli) -> None:
    marked(tmp_path, cli, 24)


@pytest.mark.many
def test_a_class_of_two_hundred(tmp_path: Path, cli: Cli) -> None:
    marked(tmp_path, cli, 200)


def test_the_feedback_of_the_sample_is_what_check_writes(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = ROOT / "samples" / "class"
    monkeypatch.chdir(sample)
    told = cli("check", "--problem", "key.yaml", "answers", "-o", tmp_path / "feedback")
    assert told.status == 1
    fresh = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "feedback").iterdir()}
    assert fresh == {path.name: path.read_text(encoding="utf-8") for path in (sample / "feedback").iterdir()}
    rows = [
        *csv.DictReader(cli("check", "--problem", "key.yaml", "answers", "--format", "csv", "--quiet").out.splitlines())
    ]
    assert [(row["verdict"], row["step"]) for row in rows] == [
        ("agrees", ""), ("rounded", ""), ("wrong", "scaled"), ("wrong", "scaled"), ("wrong", "weights"),
        ("wrong", "weights"), ("wrong", "scores"), ("wrong", "output"),
    ]  # fmt: skip
    named = ["", "", "no-scale", "scale-d_k", "no-mask", "softmax-over-queries", "scores-transposed", ""]
    for row, mistake in zip(rows, named, strict=True):
        assert mistake in row["mistake"].split() or not mistake
    assert cli("check", "exercise.yaml").out.endswith("nothing was marked\n")
