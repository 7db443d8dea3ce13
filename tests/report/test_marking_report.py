"""Marks as a person reads them: tables, the sentence of the verdict, a line a file, rows and points."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest

from attncli import AttnError
from attncli.problem.document import read_document
from attncli.problem.matrix import Matrix
from attncli.problem.problem import Problem
from attncli.problem.values import Hand
from attncli.report.arrays import sheet_of_array
from attncli.report.look import Look
from attncli.report.marking import data, marks, sentence, summary
from attncli.report.points import Points
from attncli.verify.check import check
from attncli.verify.verdicts import CheckResult
from tests.inside import UsageError

TEXT = "tokens: [it]\nkey_tokens: [dog, cat]\nscores: [[0, 1]]\nV: [[10, 0], [0, 20]]\nexpect:\n"
SLIP = TEXT + "  scores: [[0, 1]]\n  weights: [[0.37, ~]]\n  output: [[3.7, 14.6]]\n"
RIGHT = TEXT + "  weights: [[0.27, 0.73]]\n"


@pytest.fixture
def slip(tmp_path: Path) -> CheckResult:
    return result_of(SLIP, tmp_path, "slip.yaml")


def result_of(text: str, folder: Path, name: str) -> CheckResult:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    result = check(read_document(path).problem())
    result.file = name
    return result


def test_table(slip: CheckResult) -> None:
    text = "".join(marks(slip, Look(width=80)))
    assert "weights (1 query x 2 keys): wrong" in text
    assert "│ it │ 0.37!   ~  │" in text
    assert "│ it, dog │ 0.37  0.2689   0.2689 │" in text
    assert "scores (1 query x 2 keys): agrees" in text
    assert "slip.yaml: wrong: the first slip is in weights at it, dog: 0.37, where 0.2689 follows" in text.replace(
        "\n", " "
    )


@pytest.mark.parametrize("format", ["table", "plain", "markdown", "latex"])
def test_every_text_format_tells_the_wrong_number(slip: CheckResult, format: str) -> None:
    assert "0.37!" in "".join(marks(slip, Look(), format))


def test_no_table_as_yaml(slip: CheckResult) -> None:
    with pytest.raises(UsageError, match="not shown as yaml"):
        list(marks(slip, Look(), "yaml"))


def test_sentences(tmp_path: Path, slip: CheckResult) -> None:
    assert sentence(result_of(RIGHT, tmp_path, "right.yaml"), Look()).startswith("right.yaml: agrees")
    rounded = result_of(RIGHT.replace("0.27", "0.26"), tmp_path, "cut.yaml")
    assert sentence(rounded, Look()).startswith("cut.yaml: rounded: no slip")
    assert sentence(slip, Look()).endswith("what comes after it is marked against that")


def test_labels_are_escaped(tmp_path: Path) -> None:
    result = result_of(SLIP.replace("[it]", '["\\e[31mit"]'), tmp_path, "p.yaml")
    assert "\x1b" not in "".join(marks(result, Look()))


def test_summary(tmp_path: Path, slip: CheckResult) -> None:
    lines = list(summary([slip, result_of(RIGHT, tmp_path, "right.yaml")], Look(), Points.read("weights=3,output=2")))
    assert lines[0].startswith("slip.yaml: wrong: the first slip is in weights")
    assert "(2 of 5 points)" in lines[0]
    assert lines[1] == "right.yaml: agrees (3 of 5 points)"
    assert lines[2] == "2 marked: 1 agrees, 1 wrong"


def test_csv_is_one_row_a_file(tmp_path: Path, slip: CheckResult) -> None:
    results = [slip, result_of(RIGHT, tmp_path, "right.yaml")]
    table = list(csv.DictReader(io.StringIO(data(results, "csv", Points.read("scores=2,weights=3")))))
    assert [row["verdict"] for row in table] == ["wrong", "agrees"]
    assert (table[0]["step"], table[0]["at"], table[0]["row"], table[0]["column"]) == ("weights", "1 1", "it", "dog")
    assert [row["points"] for row in table] == ["2", "3"]
    assert [(row["scores"], row["weights"], row["of"]) for row in table] == [("2", "0", "5"), ("0", "3", "5")]


def test_json_is_one_object_or_a_list(slip: CheckResult) -> None:
    assert json.loads(data([slip], "json"))["verdict"] == "wrong"
    assert [each["verdict"] for each in json.loads(data([slip], "json", several=True))] == ["wrong"]
    assert "points" not in json.loads(data([slip], "json"))
    assert json.loads(data([slip], "json", Points.read("weights=3")))["points"] == {"weights": 0, "total": 0, "of": 3}


@pytest.mark.parametrize(
    "text", ["weights", "weights=x", "weights=-1", "weights=inf", "weights=1,weights=2", "wieghts=1"]
)
def test_points_that_make_no_sense(text: str) -> None:
    with pytest.raises(AttnError) as raised:
        Points.read(text)
    assert all(str(error.place) == "--points" for error in raised.value.errors())


def test_many_rows_are_elided(tmp_path: Path) -> None:
    rows = ", ".join("[0, 1]" for _ in range(70))
    hand = ", ".join("[0.27, 0.73]" for _ in range(69)) + ", [0.37, 0.63]"
    result = result_of(f"scores: [{rows}]\nexpect: {{weights: [{hand}]}}\n", tmp_path, "p.yaml")
    text = "".join(marks(result, Look()))
    assert "rows 6-65 of 70 not shown" in text
    assert "│ q70 │ 0.37!  0.63! │" in text


def test_no_more_digits_than_a_double_has(tmp_path: Path) -> None:
    hand = "[[0.369283746192, 0.71000000000000000000]]"
    result = result_of(f"scores: [[0.1, 1]]\nexpect: {{weights: {hand}}}\n", tmp_path, "p.yaml")
    text = "".join(marks(result, Look()))
    assert "0.71000000000000000 " in text  # what was written, not what binary makes of it
    assert "0.71094950262500390" in text
    assert max(len(digits.lstrip("0").replace(".", "")) for digits in re.findall(r"[0-9.]+", text)) == 17


def array_of(wrong: dict[tuple[int, int], float]) -> CheckResult:
    """The check of an output of 40 x 3 in float32, off by so much in some cells."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((rows, 3)) for rows in (40, 5, 5))
    weights = np.exp(q @ k.T / np.sqrt(3))
    output = weights / weights.sum(axis=1, keepdims=True) @ v
    for at, error in wrong.items():
        output[at] += error
    inputs = {name: Matrix(x) for name, x in {"Q": q, "K": k, "V": v}.items()}
    return check(Problem(inputs, expect={"output": Hand(Matrix(output.astype(np.float32)))}))


@pytest.mark.parametrize("error", [0.03, 1e-5, 3e-7, 1e-12])
def test_an_error_is_seen_in_the_numbers(error: float) -> None:
    sheet = sheet_of_array(array_of({(7, 1): error}).steps[0], Look())
    for array, right, off, _ in sheet.cells:
        assert array != right
        assert float(array) - float(right) == pytest.approx(float(off), rel=0.1)


def test_how_many_are_wrong_is_told_in_the_heading_and_in_the_verdict() -> None:
    result = array_of({(7, 1): 0.03})
    count = "1 of 120 numbers (0.833 %)"
    (note,) = result.notes
    assert "(0.833 %)" not in note
    assert f"output (40 x 3): wrong, {count} outside the tolerance; a single cell; the worst are" in "".join(
        marks(result, Look())
    )
    told = sentence(result, Look())
    assert f"{count} is outside the tolerance, by up to" in told
    assert told.endswith("times; a single cell")
    assert "2 of 120 numbers (1.67 %) are outside" in sentence(array_of({(7, 1): 0.03, (9, 2): np.nan}), Look())


def test_the_tolerance_is_told_in_a_sentence() -> None:
    (note,) = array_of({}).notes
    assert re.fullmatch(
        r"output: an array of float32; a number may be off by about [0-9.]+e-0[67], for rounding to float32 "
        r"\(5.96e-08 of its size\) and sums in float32 \(5.96e-08 a term\); the largest error is 0.[0-9]+ of that",
        note,
    )


def test_one_number_for_each_query_is_no_feature(tmp_path: Path) -> None:
    result = result_of("scores: [[0, 1]]\nexpect: {sum: [[3.72]]}\n", tmp_path, "sum.yaml")
    assert next(iter(marks(result, Look()))).startswith("sum (1 query): agrees\n")
