"""Marks as a person reads them: tables, the sentence of the verdict, a line a file, rows and points."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli import check
from tests.calling import Result

TEXT = "tokens: [it]\nkey_tokens: [dog, cat]\nscores: [[0, 1]]\nV: [[10, 0], [0, 20]]\nexpect:\n"
SLIP = TEXT + "  scores: [[0, 1]]\n  weights: [[0.37, ~]]\n  output: [[3.7, 14.6]]\n"
RIGHT = TEXT + "  weights: [[0.27, 0.73]]\n"
Marks = Callable[..., Result]


@pytest.fixture
def marks(cli: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Marks:
    """`attncli check` of problem files, given by their names and texts."""
    monkeypatch.chdir(tmp_path)

    def invoke(texts: dict[str, str], *options: str) -> Result:
        for name, text in texts.items():
            Path(name).write_text(text, encoding="utf-8")
        return cli("check", *texts, *options)

    return invoke


def flat(result: Result) -> str:
    """What was printed, its lines joined."""
    return " ".join(result.out.split())


def test_table(marks: Marks) -> None:
    done = marks({"slip.yaml": SLIP})
    assert "weights (1 query x 2 keys): wrong" in done.out
    assert "│ it │ 0.37!   ~  │" in done.out
    assert "│ it, dog │ 0.37  0.2689   0.2689 │" in done.out
    assert "scores (1 query x 2 keys): agrees" in done.out
    assert "slip.yaml: wrong: the first slip is in weights at it, dog: 0.37, where 0.2689 follows" in flat(done)


def test_labels_that_stand_twice_are_told_apart(marks: Marks) -> None:
    text = "tokens: [b, a]\nkey_tokens: [the, the]\nscores: [[0, 0], [0, 0]]\nexpect: {weights: [[~, ~], [0.5, 0.4]]}\n"
    done = marks({"slip.yaml": text})
    assert "│ a, the#2 │" in done.out
    assert "the first slip is in weights at a, the#2: 0.4, where" in flat(done)


@pytest.mark.parametrize("format", ["table", "plain", "markdown", "latex"])
def test_every_text_format_tells_the_wrong_number(marks: Marks, format: str) -> None:
    assert "0.37!" in marks({"slip.yaml": SLIP}, "--format", format).out


def test_no_table_as_yaml(marks: Marks) -> None:
    done = marks({"slip.yaml": SLIP}, "--format", "yaml")
    assert (done.status, done.out) == (2, "")
    assert "not shown as yaml" in done.err


def test_sentences(marks: Marks) -> None:
    assert flat(marks({"right.yaml": RIGHT})).rpartition("right.yaml: ")[2].startswith("agrees: every number")
    rounded = marks({"cut.yaml": RIGHT.replace("0.27", "0.26")})
    assert "cut.yaml: rounded: no slip" in flat(rounded)
    assert flat(marks({"slip.yaml": SLIP})).endswith("what comes after it is marked against that")


def test_labels_are_escaped(marks: Marks) -> None:
    done = marks({"p.yaml": SLIP.replace("[it]", '["\\e[31mit"]')})
    assert "\x1b" not in done.out
    assert "31mit" in done.out


def test_summary(marks: Marks) -> None:
    done = marks({"slip.yaml": SLIP, "right.yaml": RIGHT}, "--points", "weights=3,output=2")
    assert "(2 of 5 points)" in flat(done).partition("right.yaml")[0]
    lines = done.out.splitlines()
    assert lines[0].startswith("slip.yaml: wrong: the first slip is in weights")
    assert lines[-2] == "right.yaml: agrees (3 of 5 points)"
    assert lines[-1] == "2 marked: 1 agrees, 1 wrong"


def test_csv_is_one_row_a_file(marks: Marks) -> None:
    done = marks({"slip.yaml": SLIP, "right.yaml": RIGHT}, "--format", "csv", "--points", "scores=2,weights=3")
    table = list(csv.DictReader(io.StringIO(done.out)))
    assert [row["verdict"] for row in table] == ["wrong", "agrees"]
    assert (table[0]["step"], table[0]["at"], table[0]["row"], table[0]["column"]) == ("weights", "1 1", "it", "dog")
    assert [row["points"] for row in table] == ["2", "3"]
    assert [(row["scores"], row["weights"], row["of"]) for row in table] == [("2", "0", "5"), ("0", "3", "5")]


def test_json_is_a_list(marks: Marks) -> None:
    [one] = json.loads(marks({"slip.yaml": SLIP}, "--format", "json").out)
    assert one["verdict"] == "wrong"
    assert "points" not in one
    both = json.loads(marks({"slip.yaml": SLIP, "right.yaml": RIGHT}, "--format", "json").out)
    assert [each["verdict"] for each in both] == ["wrong", "agrees"]
    [told] = json.loads(marks({"slip.yaml": SLIP}, "--format", "json", "--points", "weights=3").out)
    assert told["points"] == {"weights": 0, "total": 0, "of": 3}


@pytest.mark.parametrize(
    "text", ["weights", "weights=x", "weights=-1", "weights=inf", "weights=1,weights=2", "wieghts=1"]
)
def test_points_that_make_no_sense(marks: Marks, text: str) -> None:
    done = marks({"slip.yaml": SLIP}, "--points", text)
    assert done.status == 2
    assert done.err.startswith("attncli: --points: ")


def test_many_rows_are_elided(marks: Marks) -> None:
    rows = ", ".join("[0, 1]" for _ in range(70))
    hand = ", ".join("[0.27, 0.73]" for _ in range(69)) + ", [0.37, 0.63]"
    text = marks({"p.yaml": f"scores: [{rows}]\nexpect: {{weights: [{hand}]}}\n"}).out
    assert "rows 6-65 of 70 not shown" in text
    assert "│ q70 │ 0.37!  0.63! │" in text


def test_no_more_digits_than_a_double_has(marks: Marks) -> None:
    hand = "[[0.369283746192, 0.71000000000000000000]]"
    text = marks({"p.yaml": f"scores: [[0.1, 1]]\nexpect: {{weights: {hand}}}\n"}).out
    assert "0.71000000000000000 " in text  # what was written, not what binary makes of it
    assert "0.71094950262500390" in text
    assert max(len(digits.lstrip("0").replace(".", "")) for digits in re.findall(r"[0-9.]+", text)) == 17


def array_of(wrong: dict[tuple[int, int], float]) -> dict[str, Any]:
    """A problem with an output of 40 x 3 in float32, off by so much in some cells."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((rows, 3)) for rows in (40, 5, 5))
    weights = np.exp(q @ k.T / np.sqrt(3))
    output = weights / weights.sum(axis=1, keepdims=True) @ v
    for at, error in wrong.items():
        output[at] += error
    return {"Q": q, "K": k, "V": v, "output": output.astype(np.float32)}


@pytest.fixture
def of_array(cli: Callable[..., Result], tmp_path: Path) -> Callable[..., Result]:
    """`attncli check` of that output."""

    def invoke(wrong: dict[tuple[int, int], float], *options: str) -> Result:
        for name, array in array_of(wrong).items():
            np.save(tmp_path / f"{name}.npy", array)
        (tmp_path / "p.yaml").write_text("Q: Q.npy\nK: K.npy\nV: V.npy\nexpect: {output: output.npy}\n")
        return cli("check", tmp_path / "p.yaml", *options)

    return invoke


@pytest.mark.parametrize("error", [0.03, 1e-5, 3e-7, 1e-12])
def test_an_error_is_seen_in_the_numbers(of_array: Callable[..., Result], error: float) -> None:
    """Of the cells that are farthest off: the array's number, the right one, and how far they are apart."""
    lines = [line.split() for line in of_array({(7, 1): error}, "--format", "plain").out.splitlines()]
    rows = [line for line in lines if re.fullmatch(r"q\d+,", line[0] if line else "")]
    assert len(rows) == 5
    for *_, array, right, off, _ in rows:
        assert array != right
        assert float(array) - float(right) == pytest.approx(float(off), rel=0.1)


def test_how_many_are_wrong_is_told_in_the_heading_and_in_the_verdict(of_array: Callable[..., Result]) -> None:
    done = of_array({(7, 1): 0.03})
    count = "1 of 120 numbers (0.833 %)"
    (note,) = done.err.splitlines()
    assert "(0.833 %)" not in note
    assert f"output (40 x 3): wrong, {count} outside the tolerance; a single cell; the worst are" in flat(done)
    told = flat(done)
    assert f"{count} is outside the tolerance, by up to" in told
    assert told.endswith("times; a single cell")
    assert "2 of 120 numbers (1.67 %) are outside" in flat(of_array({(7, 1): 0.03, (9, 2): np.nan}))


def test_the_tolerance_is_told_in_a_sentence() -> None:
    problem = array_of({})
    output = problem.pop("output")
    (note,) = check({**problem, "expect": {"output": output}}).notes
    assert re.fullmatch(
        r"output: an array of float32; a number may be off by about [0-9.]+e-0[67], for rounding to float32 "
        r"\(5.96e-08 of its size\) and sums in float32 \(5.96e-08 a term\); the largest error is 0.[0-9]+ of that",
        note,
    )


def test_one_number_for_each_query_is_no_feature(marks: Marks) -> None:
    assert marks({"sum.yaml": "scores: [[0, 1]]\nexpect: {sum: [[3.72]]}\n"}).out.startswith("sum (1 query): agrees\n")
