"""Sheets and what a teacher says of them: how people round, cut, leave blank, and where the slip is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from attncli import check


def marked(text: str, tmp_path: Path) -> Any:
    path = tmp_path / "p.yaml"
    path.write_text(text, encoding="utf-8")
    return check(path)


def verdicts(result: Any) -> dict[str, str]:
    return {mark.step: mark.verdict for mark in result.steps}


def wrong_cells(result: Any) -> list[tuple[str, tuple[int, ...]]]:
    return [(mark.step, cell.at) for mark in result.steps for cell in mark.cells if cell.verdict == "wrong"]


RIGHT = [
    # What hides a key: -1e9, -1e4 and more, -oo (M4).
    ("scores: [[1,2],[0,1]]\nmask: causal", "masked: [[1,-1000000000],[0,1]], weights: [[1,0],[0.27,0.73]]",
     {"masked": "agrees", "weights": "agrees"}),
    ("scores: [[1,2],[0,1]]\nmask: causal", "masked: [[1.0,-1e4],[0.0,1.0]], weights: [[1,0],[0.27,0.73]]",
     {"masked": "agrees", "weights": "agrees"}),
    ("scores: [[1,2],[0,1]]\nmask: causal", "masked: [[1,-∞],[0,1]]", {"masked": "agrees"}),
    # Values inside a score (M11): 2 x 0.76 + 3 x 0.96; 4 / (1.41 x 3.16)
    ("Q: [[0]]\nK: [[1]]\nscore: {name: additive, W_q: [[1],[1]], W_k: [[1],[2]], w_v: [2,3]}", "scores: [[4.40]]",
     {"scores": "follows"}),
    ("Q: [[1,1]]\nK: [[3,1]]\nscore: cosine", "scores: [[0.90]]", {"scores": "follows"}),
    # |q - k| = sqrt(2) = 1.41: e^-1.41 = 0.2441, not 0.2431
    ("Q: [[1,1]]\nK: [[0,0]]\nscore: laplacian", "kernel: [[0.2441]]", {"kernel": "follows"}),
    # Exponentials shifted by the row's maximum (M12)
    ("scores: [[1,2]]", "exp: [[0.37,1.00]], sum: [[1.37]], weights: [[0.27,0.73]]",
     {"exp": "follows", "sum": "follows", "weights": "agrees"}),
    ("scores: [[1,2],[4,1]]", "exp: [[0.37,1.00],[1.00,0.05]]", {"exp": "follows"}),
    ("layout: columns\nscores: [[1],[2]]", "exp: [[0.37],[1.00]], sum: [[1.37]]", {"exp": "follows", "sum": "follows"}),
    # e as 2.72 (M13), 2.718
    ("scores: [[1,3]]", "exp: [[2.72, 20.12]], weights: [[0.12, 0.88]]", {"exp": "follows", "weights": "agrees"}),
    ("scores: [[1,6]]", "exp: [[2.718, 403.178]]", {"exp": "follows"}),
    # A blank cell, filled in by the root 1.414 (M14)
    ("scores: [[3,1]]\nd_k: 2", "scaled: [[~, 0.7072]], exp: [[8.3445, 2.0283]]",
     {"scaled": "follows", "exp": "follows"}),
    # A right blank cell is rounded to the places of its step: 3/sqrt(2) = 2.12, e^2.12 = 8.33
    ("scores: [[3,1]]\nd_k: 2", "scaled: [[~, 0.71]], exp: [[8.33, 2.03]]", {"scaled": "agrees", "exp": "follows"}),
    # From the weights as written: 2 x 0.07 + 2 x 0.62 (M19)
    ("scores: [[1,3,4]]\nd_k: 2\nV: [[2,0],[0,1],[2,1]]", "weights: [[0.07,0.31,0.62]], output: [[1.38,0.93]]",
     {"weights": "agrees", "output": "follows"}),
    # Per cent, and quotients (M21, M22)
    ("scores: [[1,2]]", "weights: [[26.9, 73.1]]", {"weights": "agrees"}),
    ("scores: [[1,2]]", "weights: [[27, 73]]", {"weights": "agrees"}),
    ("scores: [[1,2]]", "weights: [[27 %, 73 %]]", {"weights": "agrees"}),
    ("scores: [[1,2]]", "weights: [[27/100, 73/100]]", {"weights": "agrees"}),
    ("scores: [[1,2]]\nd_k: 3", "scaled: [[1/1.73, 2/1.73]]", {"scaled": "follows"}),
    ("scores: [[1,2]]\nd_k: 3", "scaled: [[1/sqrt(3), 2/sqrt(3)]]", {"scaled": "agrees"}),
    # A row made to sum to 1: a third each.
    ("scores: [[5,5,5]]", "weights: [[0.34,0.33,0.33]]", {"weights": "follows"}),
    # Whole numbers that are rounded: the hand went on from all digits.
    ("Q: [[1,0]]\nK: [[1,0],[0,1],[1,1]]", "scaled: [[1,0,1]], weights: [[0.4011,0.1978,0.4011]]",
     {"scaled": "agrees", "weights": "agrees"}),
    # The places that were meant: decimals overrule the spelling.
    ("scores: [[0,21]]", "weights: {values: [[8.0e-10, ~]], decimals: 10}", {"weights": "agrees"}),
    # Infinity and NaN where the right numbers are the same.
    ("Q: [[1,1]]\nK: [[1,0],[.nan,1]]\nscore: dot", "scores: [[1, .nan]], weights: [[.nan, .nan]]",
     {"scores": "agrees", "weights": "agrees"}),
]  # fmt: skip


@pytest.mark.parametrize(("problem", "expect", "stated"), RIGHT)
def test_right_hands(problem: str, expect: str, stated: dict[str, str], tmp_path: Path) -> None:
    assert verdicts(marked(f"{problem}\nexpect: {{{expect}}}\n", tmp_path)) == stated


WRONG: list[tuple[str, str, dict[str, str], list[Any]]] = [
    # No scale is rounded to one digit, no root that is a whole number to another one (M1, M2).
    ("scores: [[2,4]]\nd_k: 3", "scaled: [[1.000,2.000]], weights: [[0.269,0.731]]",
     {"scaled": "wrong", "weights": "follows"}, [("scaled", (1, 1)), ("scaled", (1, 2))]),
    ("scores: [[112, 96]]\nd_k: 64", "scaled: [[11.2, 9.6]]", {"scaled": "wrong"},
     [("scaled", (1, 1)), ("scaled", (1, 2))]),
    # A number in a hidden cell is one like any other: one slip (M3), and so in exp and weights.
    ("scores: [[1,2],[3,4]]\nmask: causal", "masked: [[1,2],[3,4]], weights: [[0.27,0.73],[0.27,0.73]]",
     {"masked": "wrong", "weights": "follows"}, [("masked", (1, 2))]),
    ("scores: [[1,2],[3,4]]\nmask: causal", "masked: [[1,0],[3,4]], weights: [[0.73,0.27],[0.27,0.73]]",
     {"masked": "wrong", "weights": "follows"}, [("masked", (1, 2))]),
    ("scores: [[0,1],[0,1]]\nmask: causal", "exp: [[1.00,2.72],[1.00,2.72]], weights: [[0.27,0.73],[0.27,0.73]]",
     {"exp": "wrong", "weights": "follows"}, [("exp", (1, 2))]),
    ("scores: [[0,1],[0,1]]\nmask: causal\nV: [[3],[6]]", "weights: [[0.33,0.67],[0.27,0.73]], output: [[5.01],[5.19]]",
     {"weights": "wrong", "output": "follows"}, [("weights", (1, 1)), ("weights", (1, 2))]),
    ("scores: [[1,2],[3,4]]\nbias: [[0,-.inf],[0,0]]", "biased: [[1,2],[3,4]], weights: [[0.27,0.73],[0.27,0.73]]",
     {"biased": "wrong", "weights": "follows"}, [("biased", (1, 2))]),
    # Later numbers show that whole ones were meant as such (M5).
    ("Q: [[1,0],[0,1]]\nK: [[1,0],[0,1],[1,1]]",
     "scaled: [[1,0,1],[0,1,1]], weights: [[0.4223,0.1554,0.4223],[0.1554,0.4223,0.4223]]",
     {"scaled": "wrong", "weights": "follows"},
     [("scaled", (1, 1)), ("scaled", (1, 3)), ("scaled", (2, 2)), ("scaled", (2, 3))]),
    # Nothing gives equal scores unequal weights (M6); nothing is unwritten between exp, sum and weights (M7).
    ("scores: [[0,1,1]]\nd_k: 2", "scaled: [[0, 0.71, 0.71]], weights: [[0.20, 0.41, 0.40]]",
     {"scaled": "agrees", "weights": "wrong"}, [("weights", (1, 2))]),
    ("scores: [[1,3,4]]\nd_k: 2",
     "scaled: [[0.71,2.12,2.83]], exp: [[2.03,8.33,16.95]], sum: [[27.31]], weights: [[0.06,0.31,0.62]]",
     {"scaled": "agrees", "exp": "follows", "sum": "follows", "weights": "wrong"}, [("weights", (1, 1))]),
    # Two numbers off are no row made to sum to 1 (M8); nor is a row with another slip (M29).
    ("scores: [[0,-1]]", "weights: [[0.75,0.25]]", {"weights": "wrong"}, [("weights", (1, 1)), ("weights", (1, 2))]),
    ("scores: [[0.7071,-2,0.7071]]", "weights: [[0.47,0.06,0.47]]", {"weights": "wrong"},
     [("weights", (1, 1)), ("weights", (1, 2)), ("weights", (1, 3))]),
    # Nothing is cut to whole numbers (M9).
    ("scores: [[9,0]]\nV: [[1.9,-2.9],[0,0]]", "output: [[1,-2]]", {"output": "wrong"},
     [("output", (1, 1)), ("output", (1, 2))]),
    # NaN and infinity in what is visible (M10).
    ("Q: [[1,1]]\nK: [[1,0],[.nan,1],[1,1]]", "weights: [[0.9,0.9,0.9]]", {"weights": "wrong"},
     [("weights", (1, 1)), ("weights", (1, 2)), ("weights", (1, 3))]),
    ("Q: [[1,1]]\nK: [[1,0],[.inf,1]]\nscore: dot", "weights: [[0.0,1.0]]", {"weights": "wrong"},
     [("weights", (1, 1)), ("weights", (1, 2))]),
    ("Q: [[.nan,1]]\nK: [[1,0],[0,1]]", "weights: [[0.5,0.5]]", {"weights": "wrong"},
     [("weights", (1, 1)), ("weights", (1, 2))]),
    # What depends on a blank cell of a wrong step is not marked (M15).
    ("scores: [[1,2]]\nd_k: 4", "scaled: [[1.0,~]], weights: [[0.27,0.73]]",
     {"scaled": "wrong", "weights": "not marked"}, [("scaled", (1, 1))]),
    # A slip does not void the habit that the other cells share (M16).
    ("scores: [[1,2,5]]\nd_k: 2", "exp: [[2.03,4.10,43.47]]", {"exp": "wrong"}, [("exp", (1, 3))]),
    # A wrong step is known to its places (M17).
    ("scores: [[1,2]]\nd_k: 4", "scaled: [[0.3,0.7]], exp: [[1.40,1.95]]", {"scaled": "wrong", "exp": "follows"},
     [("scaled", (1, 1)), ("scaled", (1, 2))]),
    ("scores: [[0,1,2]]", "exp: [[1.00,2.72,7.39]], sum: [[8.39]], weights: [[0.12,0.32,0.88]]",
     {"exp": "agrees", "sum": "wrong", "weights": "follows"}, [("sum", (1, 1))]),
    # Mistakes that are one slip each (M23 to M30).
    ("scores: [[20,10,10]]", "weights: [[0.99,0.005,0.005]]", {"weights": "wrong"},
     [("weights", (1, 1)), ("weights", (1, 2)), ("weights", (1, 3))]),
    ("attention: self\nX: [[2,0],[1,1]]\nW_Q: [[1,0],[0,1]]", "Q: [[1,0],[1,0]]", {"Q": "wrong"},
     [("Q", (1, 1)), ("Q", (2, 2))]),
    ("Q: [[1,1],[0,2]]\nK: [[1,0],[1,1]]\nscore: dot\nmask: causal",
     "masked: [[1,-.inf],[0,2]], weights: [[1,0],[0.196,0.804]]",
     {"masked": "agrees", "weights": "wrong"}, [("weights", (2, 1)), ("weights", (2, 2))]),
    ("scores: [[0,1,2]]\nd_k: 2", "scaled: [[0.00,0.71,1.41]], exp: [[1.00,5.13,25.70]]",
     {"scaled": "agrees", "exp": "wrong"}, [("exp", (1, 2)), ("exp", (1, 3))]),
    ("scores: [[1,2],[0,1]]\nmask: causal", "masked: [[1,-.inf],[0,1]], weights: [[0.27,0.73],[0.27,0.73]]",
     {"masked": "agrees", "weights": "wrong"}, [("weights", (1, 1)), ("weights", (1, 2))]),
    ("scores: [[1,2]]\nV: [[1,0],[0,1]]", "weights: [[0.27,0.73]], output: [[1,2]]",
     {"weights": "agrees", "output": "wrong"}, [("output", (1, 1)), ("output", (1, 2))]),
]  # fmt: skip


@pytest.mark.parametrize(("problem", "expect", "stated", "cells"), WRONG)
def test_slips_are_marked_once(
    problem: str, expect: str, stated: dict[str, str], cells: list[Any], tmp_path: Path
) -> None:
    result = marked(f"{problem}\nexpect: {{{expect}}}\n", tmp_path)
    assert verdicts(result) == stated
    assert wrong_cells(result) == cells


@pytest.mark.parametrize("weights", ["[[0.28,0.73]]", "[[0.26,0.74]]", "[[0.27,0.74]]"])
def test_one_unit_off_on_a_sheet_that_writes_everything(weights: str, tmp_path: Path) -> None:
    """Scores 0 and 1: exponentials 1 and 2.72, weights 0.27 and 0.73, whichever way somebody carries on."""
    text = f"scores: [[0,1]]\nexpect: {{exp: [[1.00,2.72]], sum: [[3.72]], weights: {weights}}}\n"
    assert verdicts(marked(text, tmp_path)) == {"exp": "agrees", "sum": "agrees", "weights": "wrong"}


def test_cut_is_told_only_of_who_cuts(tmp_path: Path) -> None:
    """0.2689 and 0.7311 cut to three places; a single number one unit low among rounded ones is a slip."""
    cut = marked("scores: [[0,1],[1,0]]\nexpect: {weights: [[0.268,0.731],[0.731,0.268]]}\n", tmp_path)
    assert verdicts(cut) == {"weights": "truncated"}
    assert any("2 numbers are cut" in note for note in cut.notes)
    slip = marked("scores: [[0,1],[1,0]]\nexpect: {weights: [[0.268,0.731],[0.731,0.269]]}\n", tmp_path)
    assert wrong_cells(slip) == [("weights", (1, 1))]
    assert not any("cut" in note for note in slip.notes)


def test_a_habit_is_told_in_words_and_in_json(tmp_path: Path) -> None:
    result = marked("scores: [[1,3]]\nexpect: {exp: [[2.72, 20.12]]}\n", tmp_path)
    assert result.to_dict()["steps"][0]["habit"] == "e rounded to 2 places"
    assert "exp: follows with e rounded to 2 places" in result.notes


def test_one_way_of_working_for_the_whole_sheet(tmp_path: Path) -> None:
    """The root of 3 as 1.7, kept in full behind what is written: 2/1.7 and 4/1.7, and their weights."""
    text = "scores: [[2,4]]\nd_k: 3\nV: [[10],[20]]\nexpect:\n"
    text += "  scaled: [[1.18,2.35]]\n  weights: [[0.2357,0.7643]]\n  output: [[17.643]]\n"
    result = marked(text, tmp_path)
    assert verdicts(result) == {"scaled": "follows", "weights": "follows", "output": "follows"}


@pytest.mark.parametrize(
    ("problem", "expect", "note"),
    [
        ("scores: [[1,2],[0,1]]\nmask: causal", "masked: [[1,-1000000000],[0,1]]", "is taken as -inf"),
        ("scores: [[1,2]]", "exp: [[0.37,1.00]]", "shifted by the row's maximum"),
        ("scores: [[1,2]]", "weights: [[26.9, 73.1]]", "per cent"),
        ("scores: [[1,2]]\nV: [[1,0],[0,1]]", "output: [[~,~]]", "nothing was marked"),
        ("scores: [[1,2]]\nd_k: 4", "scaled: [[1.0,~]], weights: [[0.27,0.73]]", "not marked where it depends on"),
        ("scores: [[0,1,2]]", "exp: [[1.00,2.72,7.39]], sum: [[8.39]], weights: [[0.12,0.32,0.88]]",
         "row 1 sums to 1.32: that follows from sum"),
    ],
)  # fmt: skip
def test_notes(problem: str, expect: str, note: str, tmp_path: Path) -> None:
    result = marked(f"{problem}\nexpect: {{{expect}}}\n", tmp_path)
    assert any(note in found for found in result.notes)
    assert not any("rounding" in found for found in result.notes)


@pytest.mark.parametrize("output", ["[[~,~]]", "[[0, 1]]"])
def test_nothing_is_earned_by_what_checks_nothing(output: str, tmp_path: Path) -> None:
    """All blank, and whole numbers for 0.0001 and 0.9999."""
    from attncli.report.points import Points

    step = "output" if "~" in output else "weights"
    result = marked(f"scores: [[0,9]]\nV: [[1,0],[0,1]]\nexpect: {{{step}: {output}}}\n", tmp_path)
    assert Points.read(f"{step}=3").total(result) == 0


@pytest.mark.parametrize(
    ("problem", "mistake", "words"),
    [
        ("scores: [[20,10,10]]\nexpect: {weights: [[0.99,0.005,0.005]]}", None, ""),  # one difference shows no factor
        ("X: [[2,0],[1,1]]\nW_Q: {identity: 2}\nexpect: {Q: [[1,0],[1,0]]}", None, ""),  # nor do halves beside ones
        ("scaled: [[0.7071,-2,0.7071]]\nexpect: {weights: [[0.47,0.06,0.47]]}", None, ""),
        (
            "Q: [[1,1],[0,2]]\nK: [[1,0],[1,1]]\nscore: dot\nmask: causal\n"
            "expect: {masked: [[1,-inf],[0,2]], weights: [[1,0],[0.196,0.804]]}",
            "scale-unasked",
            "divided by sqrt(d_k) = 1.4142, which this problem does not ask for",
        ),
        (
            "scores: [[0,1,2]]\nd_k: 2\nexpect: {scaled: [[0.00,0.71,1.41]], exp: [[1.00,5.13,25.70]]}",
            "base-10",
            "powers of 10",
        ),
        (
            "scores: [[1,2],[0,1]]\nmask: causal\n"
            "expect: {masked: [[1,-inf],[0,1]], weights: [[0.27,0.73],[0.27,0.73]]}",
            "masked-not-used",
            "made from those without it",
        ),
        (
            "scores: [[1,2]]\nV: [[1,0],[0,1]]\nexpect: {weights: [[0.27,0.73]], output: [[1,2]]}",
            "scores-for-weights",
            "the output is scores V, not weights V",
        ),
        # Several numbers with digits enough do show a factor.
        ("Q: [[1,2],[3,4]]\nK: [[1,0],[0,1]]\nscore: dot\nexpect: {scores: [[3,6],[9,12]]}", "constant-factor", "3"),
    ],
)
def test_what_is_named_is_certain(problem: str, mistake: str | None, words: str, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(f"{problem}\n")
    found = check(tmp_path / "p.yaml")
    assert found.verdict == "wrong"
    assert [each.mistake for each in found.diagnosis][:1] == ([mistake] if mistake else [])
    assert words in "".join(each.text for each in found.diagnosis)
