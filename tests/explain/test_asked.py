"""What is asked of `explain`: every query, one head, and the numbers that a file expects beside the right ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from attncli import AttnError, explain, run
from tests.calling import ROOT, Result
from tests.explain.problems import EXTRA
from tests.explain.test_written_out import lines, numbers_of

Cli = Callable[..., Result]
HOMEWORK = str(ROOT / "samples" / "hand" / "homework.yaml")
HEADS = EXTRA["grouped heads"]


def test_every_query_is_told_and_every_key_once() -> None:
    text = explain(HEADS, "all").text(precision=15)
    assert [line for line in text.split("\n") if line in ("q1", "q2", "q3")] == ["q1", "q2", "q3"]
    found, trace = list(lines(text)), run(HEADS)
    outputs = [float(line.number) for line in found if line.step == "output"]
    np.testing.assert_allclose(np.reshape(outputs, (3, 3)), trace.output, rtol=1e-12)
    for name in ("K", "V"):
        told = [(line.section, line.labels) for line in found if line.step == name]
        assert len(told) == len(set(told)) == 4 * 3  # in each head the three keys, of one feature each
    for line in found:
        assert any(float(line.number) == pytest.approx(each, rel=1e-12, abs=1e-14) for each in numbers_of(trace, line))


def test_a_token_that_is_called_all_comes_first() -> None:
    problem = {"X": [[1, 0], [0, 1]], "tokens": ["all", "is"]}
    assert explain(problem, "all").text() == explain(problem, 1).text()


def test_one_head(cli: Cli) -> None:
    found = list(lines(explain(HEADS, 2, head=3).text()))
    assert {line.section for line in found} == {"head 3"}
    assert [line.step for line in found if line.step in ("heads", "output")] == ["heads"]
    assert found == [line for line in lines(explain(HEADS, 2).text()) if line.section == "head 3"]
    for wrong in (0, 5):
        with pytest.raises(AttnError, match=f"there is no head {wrong}"):
            explain(HEADS, 2, head=wrong)
    none = cli("explain", HOMEWORK, "--query", "cat", "--head", "1")
    assert none.status == 2
    assert "this problem has no heads" in none.err


def test_what_is_written_stands_beside_what_is_right(cli: Cli) -> None:
    done = cli("explain", HOMEWORK, "--query", "cat", "--key", "sat")
    assert "  scaled[cat, sat] = 2 / sqrt(2) = 1.4142   (written: 1.00)\n" in done.out
    assert "  weights[cat, sat] = 4.1133 / 8.1695 = 0.5035   (written: 0.45)\n" in done.out
    assert "  scores[cat, sat] = 0 × 1 + 1 × 2 = 2\n" in done.out  # as it was written
    assert "  sum[cat] = 2.0281 + 2.0281 + 4.1133 = 8.1695\n" in done.out
    row = explain(HOMEWORK, "the")
    assert "output[the, 2] = 0.4011 × 0 + 0.1978 × 1 + 0.4011 × 1 = 0.5989   (written: 0.61)" in row.text()
    assert r"= 0.5989 \quad\text{(written: 0.61)}" in row.text("latex")


@pytest.mark.parametrize(
    ("said", "address", "numbers", "line"),
    [
        ({}, "weights", [["1/2", None, 0.2], [1, 1, 1], [1, 1, 1]], ("weights", ("q1", "k1"), "written: 1/2")),
        ({}, "weights", [["1/2", None, 0.2], [1, 1, 1], [1, 1, 1]], ("weights", ("q1", "k2"), "")),
        ({"layout": "columns"}, "scores", [[1, 2], ["3.0", 4], [5, 6]], ("scores", ("k2", "q1"), "written: 3.0")),
        ({"heads": 2}, "weights[2]", [[0.25, 0.5, 0.25]] * 3, ("weights", ("q1", "k2"), "written: 0.5")),
        ({}, "sum", [[7], [8], [9]], ("sum", ("q1",), "written: 7")),
    ],
)
def test_numbers_are_found_by_their_place(said: dict[str, Any], address: str, numbers: Any, line: Any) -> None:
    x = [[1, 0, 2], [0, 1, 1]] if said.get("layout") else [[1, 0], [0, 1], [1, 1]]
    problem = {"Q": [[1, 2], [0, 1]] if said.get("layout") else x, "K": x, **said, "expect": {address: numbers}}
    step, labels, words = line
    found = [each for each in lines(explain(problem, 1).text()) if (each.step, each.labels) == (step, labels)]
    assert found[-1].words == words  # of several heads, the second
    assert all(each.words == "" for each in found[:-1])


def test_numbers_that_do_not_fit_are_told_and_nothing_else() -> None:
    problem = {"X": [[1, 0], [0, 1]]}
    explanation = explain(problem | {"expect": {"weights": [[1, 2, 3]], "masked": [[1]]}}, 1)
    assert str(explanation) == str(explain(problem, 1))
    told = "\n".join(explanation.notes)
    assert "expect: weights is not shown: it is 1 x 3, but the step is 2 x 2" in told
    assert "expect: masked is not shown: this problem has no step 'masked'" in told
