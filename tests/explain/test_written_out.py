"""What an explanation writes out is right: each line is calculated again, and ends in the number of the Trace."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest

from attncli import Trace, explain, run
from tests.explain.problems import CASES, EXTRA

LINE = re.compile(r"  (?P<step>\w+)\[(?P<labels>.*?)\] = (?P<members>.*?)(?:   \((?P<words>.*)\))?")
FUNCTIONS = {"sqrt": math.sqrt, "tanh": math.tanh, "ln": lambda x: math.log(x) if x else -math.inf, "max": max,
             "abs": abs, "e": math.e, "inf": math.inf, "nan": math.nan}  # fmt: skip


class Line(NamedTuple):
    """A line of an explanation: its section, its cell, what stands behind it, and the words beside that.

    Of the members the last is the number, and what stands before it the term, "" for none.
    """

    section: str
    step: str
    labels: tuple[str, ...]
    members: str
    words: str

    @property
    def term(self) -> str:
        return self.members.rpartition(" = ")[0]

    @property
    def number(self) -> str:
        return self.members.rpartition(" = ")[2]


def lines(text: str) -> Iterator[Line]:
    section = ""
    for line in text.split("\n")[1:]:
        if line and not line.startswith(" ") and " = " not in line:
            section = line
        match = LINE.fullmatch(line)
        if match:
            labels = tuple(match["labels"].split(", "))
            yield Line(section, match["step"], labels, match["members"], match["words"] or "")


def calculated(term: str) -> float:
    """The value of a term as it is written, by Python."""
    code = term.replace("×", "*").replace("^", "**").replace(", else", " else")
    try:
        return float(eval(code, {"__builtins__": {}}, FUNCTIONS))
    except OverflowError:
        return math.inf


def numbers_of(trace: Trace, line: Line) -> list[float]:
    """The numbers of the Trace that a line may be about: several where labels stand twice."""
    array = trace[line.step]
    counts = {name: int(number) - 1 for name, number in re.findall(r"(sequence|head) (\d+)", line.section)}
    names = trace.leading_names(line.step)
    if "head" in names:  # a key head serves several query heads
        counts["head"] = counts.get("head", 0) * array.shape[names.index("head")] // (trace.heads or 1)
    array = array[tuple(counts.get(name, 0) for name in names)]
    if len(line.labels) == 1:  # sum: one number a query
        (rows,) = (each for each in trace.labels(line.step) if each != ["1"])
        return [float(np.ravel(array)[at]) for at, label in enumerate(rows) if label == line.labels[0]]
    axes = [
        [at for at, label in enumerate(labels) if label == wanted]
        for labels, wanted in zip(trace.labels(line.step), line.labels, strict=True)
    ]
    return [float(array[index]) for index in product(*axes)]


def texts(problem: dict[str, Any], trace: Trace) -> Iterator[str]:
    """All rows; all cells of the last, and of those whose row leaves out lines."""
    last = len(trace.query_labels)
    for query in range(1, last + 1):
        row = explain(problem, query).text(precision=17)
        yield row
        if query == last or "more like these" in row:
            yield from (explain(problem, query, j + 1).text(precision=17) for j in range(len(trace.key_labels)))


def check_lines(problem: dict[str, Any]) -> int:
    """How many terms were calculated."""
    trace, count = run(problem), 0
    for text in texts(problem, trace):
        shifted = False  # by the largest score: the Trace has exp and sum as they are
        for line in lines(text):
            number = float(line.number)
            shifted = " - " in line.term if line.step == "exp" else shifted
            if line.step in trace and not (shifted and line.step in ("exp", "sum")):
                near = pytest.approx(number, rel=1e-11, abs=1e-14, nan_ok=True)
                assert any(each == near for each in numbers_of(trace, line)), line
            divisor = calculated(line.term.rpartition(" / ")[2]) if line.step == "weights" and " / " in line.term else 1
            if line.term and "more terms" not in line.term and divisor:
                near = pytest.approx(number, rel=1e-11, abs=1e-14 + 1e-17 / abs(divisor), nan_ok=True)
                assert calculated(line.term) == near, line
                count += 1
    return count


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_worked_cases(case: dict[str, Any]) -> None:
    assert check_lines(case["problem"]) > 0


@pytest.mark.parametrize("name", EXTRA)
def test_every_score_normalizer_and_rule(name: str) -> None:
    assert check_lines(EXTRA[name]) > 0


def test_every_number_of_a_plain_problem_has_a_term() -> None:
    written = list(lines(str(explain(EXTRA["grouped heads"], 1))))
    assert len(written) > 50
    assert all(line.term for line in written)


def test_rounding_every_step_as_a_person_does() -> None:
    """Field report D12: scores to one decimal tie, and 0.52 becomes 0.53."""
    problem = {"Q": [[1]], "K": [[0.345], [0.344], [1.116]], "score": "dot"}
    written = [(line.step, line.number) for line in lines(explain(problem, 1).text(round_steps=1))]
    assert written == [
        *(("scores", number) for number in ("0.3", "0.3", "1.1")),
        *(("exp", number) for number in ("1.3", "1.3", "3.0")),
        ("sum", "5.6"),
        *(("weights", number) for number in ("0.2", "0.2", "0.5")),
    ]
