"""Answers marked against a key: what is taken from them, what is written for them, and what a teacher added stays."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.calling import Result

Cli = Callable[..., Result]

KEY = """title: Three words
tokens: [the, cat, sat]
Q: [[1, 0], [0, 2], [1, 1]]
K: [[1, 1], [2, 0], [0, 1]]
V: [[1, 0], [0, 1], [2, 2]]
"""
SCORES = "scores: [[1, 2, 0], [2, 0, 2], [2, 2, 1]]"
UNSCALED = "scaled: [[1.00, 2.00, 0.00], [2.00, 0.00, 2.00], [2.00, 2.00, 1.00]]"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A key, and the answers of a class."""
    (tmp_path / "key.yaml").write_text(KEY)
    answers = tmp_path / "answers"
    answers.mkdir()
    (answers / "ann.yaml").write_text(f"scale: 1\nK: [[1, 1], [2, 0], [0, 2]]\nexpect:\n  {SCORES}\n  {UNSCALED}\n")
    (answers / "bob.yaml").write_text("expect:\n  scores: [[1, 2, 0], [2, 0, 2], [2, 3, 1]]\n")
    (answers / "cho.json").write_text('{"expect": {"scores": [[1, 2, 0], [2, 0, 2], [2, 2, 1]]}}')
    (answers / "notes.pdf").write_text("no answer")
    monkeypatch.chdir(tmp_path)
    return answers


def test_only_the_numbers_come_from_an_answer(cli: Cli, folder: Path) -> None:
    done = cli("check", "--problem", "key.yaml", "answers/ann.yaml", "--format", "json")
    (told,) = json.loads(done.out)
    # By its own scale of 1 and its own K, ann would be right.
    assert (done.status, told["verdict"], told["first_wrong"]["step"]) == (1, "wrong", "scaled")
    assert told["diagnosis"][0]["mistake"] == "no-scale"
    assert told["notes"][:2] == [
        "scale is not that of the exercise, whose is used",
        "K is not that of the exercise, whose is used",
    ]


def test_an_answer_that_repeats_the_exercise_is_told_nothing(cli: Cli, folder: Path) -> None:
    (folder / "dan.yaml").write_text(f"{KEY}expect:\n  {SCORES}\n")
    (told,) = json.loads(cli("check", "--problem", "key.yaml", "answers/dan.yaml", "--format", "json").out)
    assert (told["verdict"], told["notes"]) == ("agrees", [])


def test_a_folder_stands_for_its_answers(cli: Cli, folder: Path) -> None:
    done = cli("check", "--problem", "key.yaml", "answers")
    lines = done.out.splitlines()
    assert [line.split(":")[0] for line in lines[:3]] == [
        f"answers/{name}" for name in ("ann.yaml", "bob.yaml", "cho.json")
    ]
    assert lines[3:] == [
        "3 marked: 1 agrees, 2 wrong",
        "first slips: scaled 1, scores 1",
        "likely mistakes: no-scale 1, product-wrong 1",
    ]


def test_arrays_are_answers_by_the_names_of_steps(cli: Cli, folder: Path) -> None:
    assert cli("run", "key.yaml", "-o", "answers/eve.npz").status == 0
    assert cli("run", "key.yaml", "-o", "answers/fay.npy").status == 0
    told = json.loads(
        cli("check", "--problem", "key.yaml", "answers/eve.npz", "answers/fay.npy", "--format", "json").out
    )
    assert [each["verdict"] for each in told] == ["agrees", "agrees"]
    assert {step["step"] for step in told[0]["steps"]} >= {"scores", "weights", "output"}
    assert [step["step"] for step in told[1]["steps"]] == ["output"]
    assert told[1]["notes"][0] == "the numbers of answers/fay.npy are taken for output"


def test_feedback_for_each_and_an_answer_that_cannot_be_read(cli: Cli, folder: Path) -> None:
    (folder / "bad.yaml").write_text("expect: [")
    done = cli(
        "check", "--problem", "key.yaml", "answers", "-o", "fb", "--explain", "--points", "scores=9", "--partial"
    )
    assert done.status == 2
    assert "answers/bad.yaml:2:1: not valid YAML" in done.err
    assert sorted(path.name for path in Path("fb").iterdir()) == ["ann.md", "bad.md", "bob.md", "cho.md"]
    bob = Path("fb/bob.md").read_text()
    assert "scores[sat, k2] = 1 × 2 + 1 × 0 = 2 (written: 3)" in bob
    assert "points: scores 8 of 9; together 8 of 9" in bob
    assert "not valid YAML" in Path("fb/bad.md").read_text()


@pytest.mark.parametrize(("format", "suffix"), [("markdown", ".md"), ("html", ".html"), ("latex", ".tex")])
def test_a_teacher_s_words_below_the_mark_stay(cli: Cli, folder: Path, format: str, suffix: str) -> None:
    given = ("check", "--problem", "key.yaml", "answers", "-o", "fb", "--format", format)
    cli(*given)
    path = Path(f"fb/bob{suffix}")
    text = path.read_text()
    mark = next(line for line in text.splitlines() if "a teacher's own words" in line)
    path.write_text(text.replace(mark, f"{mark}\nLook at the product again."))
    refused = cli(*given)
    assert (refused.status, "the file exists" in refused.err) == (2, True)
    (folder / "bob.yaml").write_text(f"expect:\n  {SCORES}\n")
    cli(*given, "--force")
    text = path.read_text()
    assert text.count(f"{mark}\nLook at the product again.\n") == 1
    assert "wrong:" not in text
    assert [text.count(end) for end in ("</html>", "\\end{document}")] == [format == "html", format == "latex"]


def test_a_gradebook_keeps_a_teacher_s_columns_points_and_rows(cli: Cli, folder: Path) -> None:
    given = ("check", "--problem", "key.yaml", "answers", "-o", "grades.csv", "--points", "scores=2,scaled=3")
    cli(*given)
    rows = list(csv.reader(io.StringIO(Path("grades.csv").read_text())))
    header = [*rows[0], "comment"]
    points = header.index("points")
    rows[1:] = [[*row, "well drawn" if "cho" in row[0] else ""] for row in rows[1:]]
    next(row for row in rows if "bob" in row[0])[points] = "1.5"
    with open("grades.csv", "w", newline="") as stream:
        csv.writer(stream).writerows(
            [header, *rows[1:], ["answers/old.yaml", "agrees", *[""] * 6, "2", "3", "5", "5", "5", ""]]
        )
    (folder / "cho.json").write_text('{"expect": {"scores": [[1, 2, 0], [2, 0, 2], [2, 2, 2]]}}')
    done = cli(*given, "--force")
    found = {row["file"]: row for row in csv.DictReader(io.StringIO(Path("grades.csv").read_text()))}
    assert (found["answers/bob.yaml"]["points"], found["answers/bob.yaml"]["marked"]) == ("1.5", "0")
    assert (found["answers/cho.json"]["verdict"], found["answers/cho.json"]["points"]) == ("wrong", "0")
    assert found["answers/cho.json"]["comment"] == "well drawn"
    assert found["answers/old.yaml"]["points"] == "5"
    assert "answers/bob.yaml: the points that a teacher gave stay: 1.5" in done.err
    assert "keep their rows: answers/old.yaml" in done.err


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("--problem", "key.yaml", "answers/ann.yaml", "other/ann.json", "-o", "fb"), "would both be fb/ann.md"),
        (("--problem", "key.yaml", "answers", "-o", "fb", "--format", "csv"), "-o fb/marks.csv"),
        (("--problem", "key.yaml", "answers", "-o", "marks.csv", "--format", "html"), "marks.csv holds csv, not html"),
        (("--problem", "key.yaml", "answers", "--partial"), "--points scores=2,weights=3"),
        (("--problem", "key.yaml", "answers", "--force"), "-o PATH"),
        (("--problem", "list.yaml", "answers"), "the key holds several problems"),
        (("--problem", "none.yaml", "answers"), "none.yaml: the file does not exist"),
        (("--problem", "key.yaml", "answers", "-o", "key.yaml/fb.md"), "key.yaml"),
        (("empty",), "the folder holds no problem files"),
    ],
)
def test_what_makes_no_sense_is_told(cli: Cli, folder: Path, given: tuple[str, ...], told: str) -> None:
    Path("other").mkdir()
    Path("empty").mkdir()
    Path("other/ann.json").write_text('{"expect": {"scores": [[1, 2, 0], [2, 0, 2], [2, 2, 1]]}}')
    Path("list.yaml").write_text("problems: [{Q: [[1]], K: [[1]]}, {Q: [[1]], K: [[2]]}]\n")
    done = cli("check", *given)
    assert (done.status, done.out) == (2, "")
    assert told in done.err
    assert not Path("fb").exists()


def test_hostile_names_and_labels_are_text_in_html(cli: Cli, folder: Path) -> None:
    (folder / "<img src=x>.yaml").write_text("expect:\n  scores: [[1, 2, 0], [2, 0, 2], [2, 3, 1]]\n")
    Path("key.yaml").write_text(KEY.replace("the, cat, sat", "'<script>', cat, sat").replace("Three words", "<b>"))
    cli("check", "--problem", "key.yaml", "answers", "-o", "fb", "--format", "html")
    text = Path("fb/<img src=x>.html").read_text()
    assert "<script>" not in text
    assert "<img" not in text
    assert "<b>" not in text
