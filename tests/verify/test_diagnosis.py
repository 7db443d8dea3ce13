"""The search: where it looks, what it tells as exact, and that it stays silent."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from attncli import check

# d_k = 4, so that the root is 2; the numbers below were calculated by hand from these.
PROBLEM = """
tokens: [a, b, c]
key_tokens: [a, b, c]
Q: [[1, 2, 0, 1], [0, 1, 1, 0], [2, 0, 1, 1]]
K: [[1, 0, 1, 1], [0, 2, 1, 0], [1, 1, 0, 2]]
V: [[1, 0], [0, 2], [3, 1]]
"""
SCORES = [[2, 4, 5], [1, 3, 1], [4, 1, 4]]


def softmax(row: list[float]) -> list[float]:
    e = [math.exp(x) for x in row]
    return [x / sum(e) for x in e]


def grid(rows: list[list[float]], places: int) -> str:
    return "[" + ", ".join("[" + ", ".join(f"{x:.{places}f}" for x in row) + "]" for row in rows) + "]"


def diagnosed(tmp_path: Path, text: str) -> list[Any]:
    path = tmp_path / "p.yaml"
    path.write_text(text)
    return check(path).diagnosis


def names(found: list[Any]) -> list[str]:
    return [one.mistake for one in found if one.exact_match]


def test_right_numbers_have_no_diagnosis(tmp_path: Path) -> None:
    assert diagnosed(tmp_path, PROBLEM + f"expect: {{scores: {SCORES}}}\n") == []


def test_a_plain_slip_has_no_diagnosis(tmp_path: Path) -> None:
    # 3.7 for 3: no term, sign or neighbour explains it.
    assert diagnosed(tmp_path, PROBLEM + "expect: {scores: [[2, 4, 5], [1, 3.7, 1], [4, 1, 4]]}\n") == []


def test_the_term_that_was_left_out_is_named(tmp_path: Path) -> None:
    (found,) = diagnosed(tmp_path, PROBLEM + "expect: {scores: [[2, 0, 5], [1, 3, 1], [4, 1, 4]]}\n")
    assert found.as_json() == {
        "mistake": "term-left-out", "step": "scores",
        "text": "scores, a, b: the term 2 x 2 was left out (feature 2)", "exact_match": True,
    }  # fmt: skip


def test_found_behind_an_earlier_slip_that_follows(tmp_path: Path) -> None:
    # Scores that begin with a slip would be the first wrong step; here the given scores are the hand's own.
    slipped = [[2.0, 4.0, 5.0], [1.0, 3.0, 1.0], [4.0, 1.0, 4.1]]
    unscaled = [softmax(row) for row in slipped]
    text = PROBLEM + f"expect: {{scores: {grid(slipped, 1)}, weights: {grid(unscaled, 4)}}}\n"
    marking_first = diagnosed(tmp_path, text)
    assert names(marking_first) == []  # the first wrong step is the slip itself


def test_found_in_a_step_that_is_not_written(tmp_path: Path) -> None:
    weights = [softmax([x / 2 for x in row]) for row in [[2, 1, 4], [4, 3, 1], [5, 1, 4]]]
    (found,) = diagnosed(tmp_path, PROBLEM + f"expect: {{weights: {grid(weights, 4)}}}\n")
    assert (found.mistake, found.step) == ("scores-transposed", "scores")


def test_found_from_rounded_numbers_of_the_hand(tmp_path: Path) -> None:
    # The scaled scores are cut to whole numbers on paper; the weights come from all digits, without the division.
    exact = [[1.0, 2.0, 2.5], [0.5, 1.5, 0.5], [2.0, 0.5, 2.0]]
    powers = [[math.exp(x) for x in row] for row in exact]
    text = PROBLEM + f"expect: {{scaled: {grid(exact, 1)}, weights: {grid(powers, 2)}}}\n"
    assert names(diagnosed(tmp_path, text)) == ["exp-only"]


def test_what_does_not_give_every_number_is_not_exact(tmp_path: Path) -> None:
    weights = [softmax([float(x) for x in row]) for row in SCORES]
    weights[2] = [0.2, 0.6, 0.2]
    found = diagnosed(tmp_path, PROBLEM + f"expect: {{weights: {grid(weights, 4)}}}\n")
    assert names(found) == []
    assert found[0].mistake == "no-scale"
    assert "explains 6 of 9" in found[0].text


def test_two_mistakes_together(tmp_path: Path) -> None:
    # Without the scale, and with a softmax over the queries.
    columns = [softmax([float(SCORES[i][j]) for i in range(3)]) for j in range(3)]
    weights = [[columns[j][i] for j in range(3)] for i in range(3)]
    (found,) = diagnosed(tmp_path, PROBLEM + f"expect: {{weights: {grid(weights, 4)}}}\n")
    assert found.mistake == "no-scale+softmax-over-queries"
    assert found.exact_match
    assert "not divided by sqrt(d_k) = 2" in found.text
    assert "each column sums to 1" in found.text


def test_two_mistakes_behind_rounded_numbers(tmp_path: Path) -> None:
    # The scores are written with fewer places than they have, and the hand went on from all of them.
    problem = "Q: [[1.1, 2.3], [0.7, -1.2], [0.4, 0.9]]\nK: [[1.3, 0.2], [-0.4, 1.1], [0.8, 0.6]]\n"
    scores = [[1.89, 2.09, 2.26], [0.67, -1.60, -0.16], [0.70, 0.83, 0.86]]
    columns = [softmax([row[j] for row in scores]) for j in range(3)]
    weights = [[columns[j][i] for j in range(3)] for i in range(3)]
    text = f"{problem}expect: {{scores: {grid(scores, 1)}, weights: {grid(weights, 4)}}}\n"
    (found,) = diagnosed(tmp_path, text)
    assert found.mistake == "no-scale+softmax-over-queries"
    assert found.exact_match


def test_one_change_by_two_names_is_told_once(tmp_path: Path) -> None:
    scaled = [[x / 4 for x in row] for row in SCORES]
    (found,) = diagnosed(tmp_path, PROBLEM + f"expect: {{scaled: {grid(scaled, 2)}}}\n")
    assert found.mistake == "scale-d_k"
    assert "the same as: the scores were scaled twice" in found.text


# d_k = 2: scaled, these scores round to the same whole numbers but for the 2.
WHOLE = """
Q: [[1, 0], [0, 1], [1, 1]]
K: [[1, 0], [0, 1], [1, 1], [2, 1]]
mask: causal:top-left
expect:
  scores: [[1, 0, 1, 2], [0, 1, 1, 1], [1, 1, 2, 3]]
"""
UNSCALED = "  masked: [[1, -inf, -inf, -inf], [0, 1, -inf, -inf], [1, 1, 2, -inf]]\n"
SCALED = "  scaled: [[0.71, 0, 0.71, 1.41], [0, 0.71, 0.71, 0.71], [0.71, 0.71, 1.41, 2.12]]\n"


def test_what_gives_the_numbers_as_they_stand_wins(tmp_path: Path) -> None:
    """Multiplied by the root, 2.83 is cut to 2; divided by the root of the root, 1.68 is rounded to 2."""
    assert names(diagnosed(tmp_path, WHOLE + UNSCALED)) == ["no-scale"]


def test_what_is_simpler_stays_though_it_is_rounded(tmp_path: Path) -> None:
    """Scores of 6 and 0 by their sum give 1 and 0, and so does the softmax without the scale, rounded."""
    found = diagnosed(tmp_path, "scores: [[6, 0], [0, 6]]\nd_k: 9\nexpect: {weights: [[1.00, 0.00], [0.00, 1.00]]}\n")
    assert names(found)[0] == "no-scale"
    assert "scores-by-sum" in names(found)


def test_a_step_that_was_passed_over_is_told(tmp_path: Path) -> None:
    (found,) = diagnosed(tmp_path, WHOLE + SCALED + UNSCALED)
    assert (found.mistake, found.step) == ("scaled-not-used", "masked")
    weights = grid([softmax([float(x) for x in row]) for row in SCORES], 4)
    scaled = grid([[x / 2 for x in row] for row in SCORES], 1)
    (found,) = diagnosed(tmp_path, PROBLEM + f"expect: {{scaled: {scaled}, weights: {weights}}}\n")
    assert (found.mistake, found.step) == ("scaled-not-used", "weights")


@pytest.mark.parametrize("hidden", ["-inf", "0"])
def test_cells_that_are_hidden_a_step_early_are_told(hidden: str, tmp_path: Path) -> None:
    scores = f"[[1, {hidden}, {hidden}, {hidden}], [0, 1, {hidden}, {hidden}], [1, 1, 2, {hidden}]]"
    (found, *_) = diagnosed(tmp_path, WHOLE.partition("  scores")[0] + f"  scores: {scores}\n")
    assert (found.mistake, found.step) == ("masked-early", "scores")
    assert "hiding is the step masked" in found.text
    scaled = scores.replace("1", "0.71").replace("2", "1.41")
    (found, *_) = diagnosed(tmp_path, WHOLE + f"  scaled: {scaled}\n")
    assert (found.mistake, found.step) == ("masked-early", "scaled")
    assert found.exact_match


def test_several_that_cannot_be_told_apart_are_all_told(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, "Q: [[1, 2], [3, 4]]\nK: [[0, 1], [3, 1]]\nexpect: {scores: [[2, 4], [5, 13]]}\n")
    assert names(found) == ["scores-transposed", "cells-exchanged"]


def test_columns_are_named_as_they_are_displayed(tmp_path: Path) -> None:
    problem = """
layout: columns
tokens: [a, b]
key_tokens: [a, b]
Q: [[1, 3], [2, 4]]
K: [[5, 1], [1, 2]]
expect: {scores: [[7, 19], [5, 3]]}
"""
    (found,) = diagnosed(tmp_path, problem)
    # Query b, key b: 3 x 1 + 4 x 2 is 11, and 3 without the second term.
    assert found.text == "scores, b, b: the term 4 x 2 was left out (feature 2)"


def test_heads_and_sequences_are_named(tmp_path: Path) -> None:
    problem = """
Q: [[1, 2, 3, 1], [1, 0, 2, 2]]
K: [[1, 1, 1, 0], [2, 0, 1, 1]]
heads: 2
expect: {scores: [[[3, 2], [1, 2]], [[3, 4], [2, 2]]]}
"""
    (found,) = diagnosed(tmp_path, problem)
    assert found.text == "scores, head 2, q2, k2: the term 2 x 1 was left out (feature 1)"


def test_several_sequences(tmp_path: Path) -> None:
    # Two sequences, both without the scale.
    q, k = [[[1, 2], [3, 4]], [[0, 1], [2, 2]]], [[[1, 1], [0, 2]], [[2, 1], [1, 0]]]
    scores = [
        [[sum(a * b for a, b in zip(x, y, strict=True)) for y in keys] for x in queries]
        for queries, keys in zip(q, k, strict=True)
    ]
    weights = "[" + ", ".join(grid([softmax([float(s) for s in row]) for row in part], 3) for part in scores) + "]"
    assert names(diagnosed(tmp_path, f"Q: {q}\nK: {k}\nexpect: {{weights: {weights}}}\n")) == ["no-scale"]


def test_blank_cells_are_not_asked_for(tmp_path: Path) -> None:
    weights = [softmax([float(x) for x in row]) for row in SCORES]
    one_row = "[[~, ~, ~], " + grid([weights[1]], 4)[1:-1] + ", [~, ~, ~]]"
    assert names(diagnosed(tmp_path, PROBLEM + f"expect: {{weights: {one_row}}}\n")) == ["no-scale"]


@pytest.fixture(scope="module")
def benchmark_script() -> ModuleType:
    path = Path(__file__).parents[1] / "benchmarks" / "diagnosis.py"
    spec = importlib.util.spec_from_file_location("benchmark_of_diagnosis", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_every_mistake_is_found_in_random_problems(benchmark_script: ModuleType) -> None:
    figures = benchmark_script.with_mistakes(2 * len(benchmark_script.ALL), seed=11)
    seen, found = sum(figures.seen.values()), sum(figures.found.values())
    assert figures.misplaced == []
    assert figures.untrue == []
    assert found >= 0.98 * seen, figures.missed


def test_right_hands_are_never_called_wrong(benchmark_script: ModuleType) -> None:
    assert benchmark_script.without_mistakes(80, seed=11) == []
