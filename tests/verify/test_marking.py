"""Verdicts by small examples whose numbers are by hand: one row of scores, two queries, columns, heads, blanks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from attncli import AttnError, check
from tests.inside import ShapeError, UsageError


def checked(text: str, tmp_path: Path) -> Any:
    path = tmp_path / "p.yaml"
    path.write_text(text, encoding="utf-8")
    return check(path)


def verdicts(result: Any) -> dict[str, str]:
    return {mark.step: mark.verdict for mark in result.steps}


# softmax(0, 1) = 0.26894142, 0.73105858; e = 2.71828183
ROW = "scores: [[0, 1]]\nV: [[10, 0], [0, 20]]\nexpect:\n"


@pytest.mark.parametrize(
    ("expect", "stated"),
    [
        ("  weights: [[0.27, 0.73]]", {"weights": "agrees"}),
        ("  weights: [[0.26, 0.73]]", {"weights": "truncated"}),
        ("  weights: [[0.28, 0.73]]", {"weights": "wrong"}),
        ("  weights: [[0.25, 0.73]]", {"weights": "wrong"}),
        ("  weights: [[0.3, 0.7]]\n  output: [[3.0, 14.0]]", {"weights": "agrees", "output": "follows"}),
        # Not from 0.27 and 0.73 as written, but from all digits: 10 x 0.2689 and 20 x 0.7311.
        ("  weights: [[0.27, 0.73]]\n  output: [[2.69, 14.62]]", {"weights": "agrees", "output": "agrees"}),
        ("  weights: [[0.27, 0.73]]\n  output: [[2.70, 14.60]]", {"weights": "agrees", "output": "follows"}),
        # Within half a unit of 0.27 and 0.73, but from no numbers that anybody had.
        ("  weights: [[0.27, 0.73]]\n  output: [[2.72, 14.65]]", {"weights": "agrees", "output": "wrong"}),
        ("  weights: [[0.27, 0.73]]\n  output: [[2.76, 14.62]]", {"weights": "agrees", "output": "wrong"}),
        # A slip is marked once: the output follows from it.
        ("  weights: [[0.37, 0.63]]\n  output: [[3.7, 12.6]]", {"weights": "wrong", "output": "follows"}),
        # e^1 as 2.72: 1 / 3.72 and 2.72 / 3.72
        ("  weights: [[0.2688, 0.7312]]", {"weights": "follows"}),
        # The same, but only one of the two: no habit gives both.
        ("  weights: [[0.2688, 0.7309]]", {"weights": "wrong"}),
        # e^1 as 2.7: nobody rounds to one place on the way to four.
        ("  weights: [[0.2703, 0.7297]]", {"weights": "wrong"}),
        ("  exp: [[1.0, 2.7]]\n  sum: [[3.7]]\n  weights: [[0.2703, 0.7297]]",
         {"exp": "agrees", "sum": "agrees", "weights": "follows"}),
        ("  lse: [[1.313]]", {"lse": "agrees"}),
        ("  weights: [[1/(1+2.718281828459045), ~]]", {"weights": "agrees"}),
        ("  weights: [[0.2689415, 0.7310586]]", {"weights": "last-place"}),
        ("  weights: [[0.2689417, 0.7310586]]", {"weights": "wrong"}),
        ("  weights: {values: [[0.2689414, 0.7310586]], decimals: 7}", {"weights": "agrees"}),
    ],
)  # fmt: skip
def test_one_row(expect: str, stated: dict[str, str], tmp_path: Path) -> None:
    assert verdicts(checked(ROW + expect + "\n", tmp_path)) == stated


@pytest.mark.parametrize(
    ("expect", "verdict"),
    [
        # Three equal scores: 0.33 each, one of them raised so that the row sums to 1.
        ("[[0.34, 0.33, 0.33]]", "follows"),
        ("[[0.35, 0.33, 0.32]]", "wrong"),  # two units off
        ("[[0.34, 0.33, 0.34]]", "wrong"),  # sums to 1.01
        ("[[0.33, 0.33, 0.33]]", "agrees"),
    ],
)
def test_rows_that_sum_to_1(expect: str, verdict: str, tmp_path: Path) -> None:
    result = checked(f"scores: [[5, 5, 5]]\nexpect:\n  weights: {expect}\n", tmp_path)
    assert verdicts(result) == {"weights": verdict}


def test_a_hidden_cell_is_not_raised_so_that_its_row_sums_to_1(tmp_path: Path) -> None:
    """Query 1 sees key 1 only: weights 1 and 0, which need no rounding."""
    text = "scores: [[0, 1], [0, 1]]\nmask: causal\nexpect: {weights: [[0.99, 0.01], [0.27, 0.73]]}\n"
    assert verdicts(checked(text, tmp_path)) == {"weights": "wrong"}


# 1/sqrt(3) = 0.57735; scores 3 6: scaled 1.7321 3.4641
SCALED = "scores: [[3, 6]]\nd_k: 3\nexpect:\n"


@pytest.mark.parametrize(
    ("expect", "verdict", "reason"),
    [
        ("[[1.74, 3.48]]", "follows", "the scale rounded to 2 places"),  # 0.58
        ("[[1.71, 3.42]]", "follows", "the scale cut to 2 places"),  # 0.57
        ("[[1.7647, 3.5294]]", "follows", "the root of d_k rounded to 1 place"),  # 1.7
        ("[[1.74, 3.46]]", "wrong", ""),  # not the same scale in both
        ("[[1.73, 3.46]]", "agrees", ""),
    ],
)
def test_scale(expect: str, verdict: str, reason: str, tmp_path: Path) -> None:
    result = checked(f"{SCALED}  scaled: {expect}\n", tmp_path)
    assert (result.steps[0].verdict, result.steps[0].reason) == (verdict, reason)


TERMS = "Q: [[0.25, 0.35]]\nK: [[0.5, 0.5], [0.1, 0.3]]\nscore: dot\nexpect:\n"


def test_terms_of_a_sum(tmp_path: Path) -> None:
    """0.125 + 0.175 and 0.025 + 0.105, each term cut to 2 places: 0.29 and 0.12; the sums are 0.30 and 0.13."""
    assert verdicts(checked(TERMS + "  scores: [[0.29, 0.12]]\n", tmp_path)) == {"scores": "follows"}
    assert verdicts(checked(TERMS + "  scores: [[0.29, 0.14]]\n", tmp_path)) == {"scores": "wrong"}


def test_points_where_numbers_are_whole(tmp_path: Path) -> None:
    """Whole scores leave no room: with scores 0 and 1 within half a unit, weights of 0.4 would follow."""
    result = checked(ROW + "  scores: [[0, 1]]\n  weights: [[0.40, 0.60]]\n", tmp_path)
    assert verdicts(result) == {"scores": "agrees", "weights": "wrong"}
    assert result.steps[1].cells[0].from_hand == pytest.approx((0.2689414, 0.2689414), abs=1e-7)


def test_from_hand_is_an_interval_behind_a_wrong_step(tmp_path: Path) -> None:
    text = "scores: [[0.25, 1.25]]\nscale: 0.5\nexpect:\n  scaled: [[0.2, 0.7]]\n  weights: [[0.50, 0.62]]\n"
    result = checked(text, tmp_path)
    assert verdicts(result) == {"scaled": "wrong", "weights": "wrong"}
    cell = result.steps[1].cells[0]
    # The differences of the scaled scores lie between 0.4 and 0.6.
    assert cell.from_hand == pytest.approx((1 / (1 + 2.718281828**0.6), 1 / (1 + 2.718281828**0.4)), abs=1e-8)
    assert cell.verdict == "wrong"


def test_a_hand_that_kept_all_digits_behind_a_slip(tmp_path: Path) -> None:
    """Cut as they were written, the weights' own digits are not within half a unit; yet the output follows."""
    # scaled (slipped by 1): 1.25, 2.0; weights 0.32082, 0.67918; output 10 x and 20 x those, all cut.
    text = "scores: [[0.5, 4]]\nscale: 0.5\nV: [[10, 0], [0, 20]]\nexpect:\n  scaled: [[1.25, 2.0]]\n"
    text += "  weights: [[0.32, 0.67]]\n  output: [[3.208, 13.583]]\n"
    assert verdicts(checked(text, tmp_path)) == {"scaled": "wrong", "weights": "follows", "output": "follows"}


MATRICES = "X: [[1, 0], [0, 1], [1, 1]]\nW_Q: [[1, 2], [0, 1]]\nattention: self\nscore: dot\n"


def test_cells_may_be_left_out(tmp_path: Path) -> None:
    result = checked(MATRICES + "expect:\n  Q: [[1, ~], [_, 1], [1, 3]]\n  scores: [[1, 2, 3], [~, ~, 5], [1, ~, 4]]\n",
                     tmp_path)  # fmt: skip
    assert verdicts(result) == {"Q": "agrees", "scores": "wrong"}
    assert [cell.at for cell in result.steps[1].cells] == [(2, 3)]


def test_first_wrong_is_named_by_its_labels(tmp_path: Path) -> None:
    text = "tokens: [the, cat, sat]\n" + MATRICES + "expect:\n  scores: [[1, 2, 3], [0, 1, 7], [1, 3, 9]]\n"
    result = checked(text, tmp_path).to_dict()
    assert result["first_wrong"] == {"step": "scores", "at": [2, 3], "row": "cat", "column": "sat"}


def test_columns(tmp_path: Path) -> None:
    """Tokens as columns: scores are keys x queries, and `at` counts as displayed."""
    text = "layout: columns\ntokens: [a, b]\nattention: self\nX: [[1, 2], [0, 1]]\nscore: dot\nexpect:\n"
    result = checked(
        text + "  Q: [[1, 2], [0, 1]]\n  scores: [[1, 2], [2, 6]]\n  output: [[~, ~], [~, 9.0]]\n", tmp_path
    )
    assert verdicts(result) == {"Q": "agrees", "scores": "wrong", "output": "wrong"}
    cell = result.steps[1].cells[0]
    assert (cell.at, cell.row, cell.column, cell.hand, cell.exact) == ((2, 2), "b", "b", 6, 5)
    assert (result.steps[1].rows, result.steps[0].rows) == ("key", "feature")
    assert result.steps[2].cells[0].row == "2"


HEADS = "heads: 2\nX: [[1, 0, 0, 1], [0, 1, 1, 0]]\nattention: self\nscore: dot\nexpect:\n"


def test_a_part_of_a_step(tmp_path: Path) -> None:
    result = checked(HEADS + "  weights[2]: [[0.73, 0.27], [0.37, 0.73]]\n", tmp_path)
    assert verdicts(result) == {"weights[2]": "wrong"}
    assert result.steps[0].cells[0].at == (2, 2, 1)


def test_all_heads_at_once(tmp_path: Path) -> None:
    both = "[[[0.73, 0.27], [0.27, 0.73]], [[0.73, 0.27], [0.27, 0.63]]]"
    result = checked(HEADS + f"  weights: {both}\n", tmp_path)
    assert [cell.at for cell in result.steps[0].cells] == [(2, 2, 2)]


def test_parts_are_carried_into_the_output(tmp_path: Path) -> None:
    """Head 1 as it should be, head 2 slipped: the output of the second head's columns follows."""
    text = HEADS + "  weights[1]: [[0.73, 0.27], [0.27, 0.73]]\n  weights[2]: [[0.83, 0.17], [0.27, 0.73]]\n"
    result = checked(text + "  output: [[0.73, 0.27, 0.17, 0.83], [0.27, 0.73, 0.73, 0.27]]\n", tmp_path)
    assert verdicts(result) == {"weights[1]": "agrees", "weights[2]": "wrong", "output": "follows"}


def test_sequences(tmp_path: Path) -> None:
    text = "Q: [[[1, 0]], [[0, 1]]]\nK: [[[1, 0], [0, 1]], [[1, 0], [0, 1]]]\nscore: dot\nexpect:\n"
    result = checked(text + "  weights: [[[0.73, 0.27]], [[0.73, 0.27]]]\n", tmp_path)
    assert [cell.at for cell in result.steps[0].cells] == [(2, 1, 1), (2, 1, 2)]
    assert verdicts(checked(text + "  weights[1]: [[0.73, 0.27]]\n", tmp_path)) == {"weights[1]": "agrees"}


def test_both_ways(tmp_path: Path) -> None:
    """The example of two directions: each key over the queries, e^1 e^0 e^1 and e^2 e^1 e^3."""
    text = "attention: cross\nX: [[0, 1], [1, 0], [1, 1]]\nY: [[1, 0], [2, 1]]\nscore: dot\nboth_ways: true\nexpect:\n"
    right = "  weights_back: [[0.16, 0.42, 0.42], [0.09, 0.24, 0.67]]\n"
    assert verdicts(checked(text + right, tmp_path)) == {"weights_back": "agrees"}
    slip = text + "  weights_back: [[0.26, 0.32, 0.42], ~]\n".replace("~", "[0.09, 0.24, 0.67]")
    stated = {"weights_back": "wrong", "output_back": "follows"}
    assert verdicts(checked(slip + "  output_back: [[0.74, 0.68], [0.91, 0.76]]\n", tmp_path)) == stated


def test_masked_cells_are_points(tmp_path: Path) -> None:
    text = "scores: [[0, 1], [2, 3]]\nV: [[1], [1000]]\nmask: causal\nexpect:\n"
    text += "  masked: [[0, -inf], [2, 3]]\n  weights: [[1.0, 0.0], [0.3, 0.7]]\n  output: [[20.0], [~]]\n"
    assert verdicts(checked(text, tmp_path)) == {"masked": "agrees", "weights": "agrees", "output": "wrong"}


@pytest.mark.parametrize(
    ("problem", "verdict"),
    [
        ("scores: [[0, 50]]", "truncated"),  # 1 - 2e-22, which no double is
        ("scores: [[0, 30]]", "truncated"),  # 1 - 9e-14
        ("scores: [[0, 50]]\nmask: {keys: [0, 1]}", "wrong"),  # the only key: 1
        ("scores: [[0, 2]]\nnormalizer: sparsemax", "wrong"),  # 1
    ],
)
def test_a_share_of_almost_1_is_cut_to_0_99(problem: str, verdict: str, tmp_path: Path) -> None:
    text = f"{problem}\nexpect: {{weights: [[0.00, 0.99]]}}\n"
    assert verdicts(checked(text, tmp_path)) == {"weights": verdict}


ROUNDED = "X: [[0.33, 0.67]]\nW_V: [[10], [20]]\nattention: self\nexpect:\n  V: [[16.65]]\n"


def test_rounded_inputs(tmp_path: Path) -> None:
    """V = 16.7; with 0.33 and 0.67 known to half a unit it lies between 16.55 and 16.85."""
    result = checked(ROUNDED, tmp_path)
    assert result.verdict == "wrong"
    assert any("rounded inputs would explain it" in note for note in result.notes)
    assert verdicts(checked(f"rounded_inputs: true\n{ROUNDED}", tmp_path)) == {"V": "follows"}
    far = checked(ROUNDED.replace("16.65", "17.65"), tmp_path)
    assert not any("rounded inputs" in note for note in far.notes)


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("scores: [[0, 9]]\nexpect: {weights: [[0, 1]]}\n", "nothing was checked by them"),
        ("scores: [[5, 5, 5]]\nexpect: {weights: [[0.33, 0.33, 0.33]]}\n", "row 1 sums to 0.99: rounding"),
        ("scores: [[5, 5, 5]]\nexpect: {weights: [[0.43, 0.33, 0.33]]}\n", "row 1 sums to 1.09, not to 1"),
        ("layout: columns\nscores: [[5], [5], [5]]\nexpect: {weights: [[0.33], [0.33], [0.33]]}\n",
         "column 1 sums to 0.99: rounding"),
        # Wrong, and yet no more than three roundings may add.
        ("scores: [[5, 5, 5]]\nexpect: {weights: [[0.35, 0.33, 0.33]]}\n", "row 1 sums to 1.01: rounding"),
        ("scores: [[0, 1]]\nexpect: {weights: [[0.26, 0.73]]}\n", "row 1 sums to 0.99: cutting"),
        ("scores: [[5, 5, 5]]\nexpect: {weights: [[0.34, 0.33, 0.33]]}\n",
         "row 1 is written so as to sum to 1: 0.34 for 0.3333, one unit off"),
        ("layout: columns\nscores: [[0, 5], [0, 5], [0, 5]]\n"
         "expect: {weights: [[0.33, 0.33], [0.33, 0.34], [0.33, 0.33]]}\n",
         "column 2 is written so as to sum to 1: 0.34 for 0.3333, one unit off"),
        ("tokens: [it, sat, on, mat, by]\nscores: [[5, 5, 5], [0, 0, 0], [1, 1, 1], [2, 2, 2], [0, 9, 0]]\n"
         "expect: {weights: [[0.33, 0.33, 0.33], [0.33, 0.33, 0.33], [0.3, 0.3, 0.3], [0.33, 0.33, 0.33],"
         " [0.00, 1.00, 0.00]]}\n",
         "weights: 4 rows do not sum to 1, by rounding: it (0.99), sat (0.99), on (0.9) and 1 more"),
        ("layout: columns\nscores: [[5, 0], [5, 0], [5, 0]]\n"
         "expect: {weights: [[0.43, 0.33], [0.33, 0.43], [0.33, 0.33]]}\n",
         "weights: 2 columns do not sum to 1: q1 (1.09), q2 (1.09)"),
        ("scores: [[[0, 0, 0]], [[5, 5, 5]]]\nheads: 2\n"
         "expect: {weights: [[[0.34, 0.33, 0.33]], [[0.33, 0.34, 0.33]]]}",
         "weights: 2 rows are written so as to sum to 1, one unit off: 1 q1 (0.34 for 0.3333), 2 q1 (0.34 for 0.3333)"),
        ("Q: [[0.5, 0.5]]\nK: [[0.25, 0], [0.75, 0]]\nscore: dot\nexpect: {scores: [[0.13, 0.38]]}\n", "half-up"),
        ("Q: [[0.5, 0.5]]\nK: [[0.25, 0], [0.75, 0]]\nscore: dot\nexpect: {scores: [[0.12, 0.38]]}\n", "half-even"),
        ("Q: [[0.5, 0.5]]\nK: [[0.25, 0], [0.75, 0]]\nscore: dot\nexpect: {scores: [[0.12, 0.37]]}\n", "cutting"),
        ("scores: [[0, 1]]\nexpect: {weights: [[0.26, 0.73]]}\n", "1 number is cut, not rounded (0.26 for 0.26894)"),
        ("scores: [[0, 1]]\nexpect: {weights: [[0.2688, 0.7312]]}\n", "follows with e rounded to 2 places"),
    ],
)  # fmt: skip
def test_notes(text: str, note: str, tmp_path: Path) -> None:
    assert any(note in found for found in checked(text, tmp_path).notes)


def test_noise_of_sums_is_not_told(tmp_path: Path) -> None:
    weights = "[[0.33333333, 0.33333333, 0.33333333], [0.3333334, 0.3333334, 0.3333334]]"
    notes = checked(f"scores: [[5, 5, 5], [0, 0, 0]]\nexpect: {{weights: {weights}}}\n", tmp_path).notes
    assert notes == ["row 2 sums to 1.0000002: rounding"]


def test_json(tmp_path: Path) -> None:
    result = checked("scores: [[0, 1]]\nexpect: {weights: [[0.36, 0.73]]}\n", tmp_path).to_dict()
    assert list(result) == ["schema", "file", "verdict", "steps", "first_wrong", "diagnosis", "notes"]
    step = result["steps"][0]
    assert {name: step[name] for name in ("step", "verdict", "rows", "columns")} == {
        "step": "weights", "verdict": "wrong", "rows": "query", "columns": "key",
    }  # fmt: skip
    cell = step["cells"][0]
    assert list(cell) == ["at", "row", "column", "verdict", "hand", "exact", "from_hand"]
    assert (cell["at"], cell["hand"], cell["exact"]) == ([1, 1], "0.36", pytest.approx(0.26894142))


def test_infinities_in_json(tmp_path: Path) -> None:
    text = "scores: [[0, 1], [2, 3]]\nmask: causal\nexpect: {masked: [[0, 1], [2, 3]]}\n"
    cell = checked(text, tmp_path).to_dict()["steps"][0]["cells"][0]
    assert (cell["exact"], cell["from_hand"]) == ("-inf", ["-inf", "-inf"])


@pytest.mark.parametrize(
    ("expect", "what", "error"),
    [
        ("{weights: [[0.5, 0.5, 0.0]]}", "the numbers of weights are 1 x 3, but the step is 1 x 2", ShapeError),
        ("{weights: [[0.5], [0.5]]}", "transposed would fit: is the layout columns?", ShapeError),
        ("{weigths: [[0.5, 0.5]]}", "unknown step 'weigths'", AttnError),
        ("{scaled: [[0.5, 0.5]]}", "this problem has no step 'scaled'", AttnError),
        ("{weights: [[0.5, half]]}", '"half" is not a number', AttnError),
        ('{"weights[3]": [[0.5, 0.5]]}', "weights has 0 leading axes", AttnError),
    ],
)
def test_bad_hands_are_refused_with_their_place(expect: str, what: str, error: type, tmp_path: Path) -> None:
    with pytest.raises(error) as raised:
        checked(f"scores: [[0, 1]]\nexpect: {expect}\n", tmp_path)
    assert what in str(raised.value)
    assert "p.yaml:2:" in str(raised.value)
    assert all(inner.hint for inner in raised.value.errors() if "half" not in inner.what)


def test_all_bad_hands_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(AttnError) as raised:
        checked("scores: [[0, 1]]\nexpect: {scaled: [[1, 2]], weights: [[1]]}\n", tmp_path)
    assert len(raised.value.errors()) == 2


def test_nothing_to_check(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to check"):
        checked("scores: [[0, 1]]\n", tmp_path)


def test_scaling_the_queries_first_is_the_same_thing(tmp_path: Path) -> None:
    """Q times 1/sqrt(2) and scale 1 against the default: the numbers differ by 3e-17, and nobody is told."""
    q = "[[0.7071067811865475, 0], [0, 0.7071067811865475]]"
    text = f"Q: {q}\nK: [[1, 0], [0, 1], [1, 1]]\nV: [[1, 2], [3, 4], [5, 6]]\nscale: 1\nexpect:\n"
    text += "  weights: [[0.401112093, 0.197775815, 0.401112093], [0.197775815, 0.401112093, 0.401112093]]\n"
    text += "  output: [[3, 4], [3.406672556, 4.406672556]]\n"
    assert checked(text, tmp_path).verdict == "agrees"


BASE = "Q: [[1, 0], [0, 1]]\nK: [[1, 0], [0, 1], [1, 1]]\nV: [[1, 2], [3, 4], [5, 6]]\n"
KIND_D: list[tuple[str, str, str, str, Any]] = [
    ("D02 sum over the wrong index", "attention: self\nX: [[2, 0], [0, 3]]\n",
     "  V: [[2, 0], [3, 3]]\n  output: [[2.055807, 0.167422], [2.998280, 2.994841]]", "V", [2, 1]),
    ("D06 divided by the sum of the scores", "scores: [[1, 2, 3]]\n",
     "  weights: [[0.453047, 1.231509, 3.347589]]", "weights", [1, 1]),
    ("D08 scores multiplied by the mask", BASE + "mask: {keep: [[1, 0, 0], [1, 1, 0]]}\n",
     "  weights: [[0.50349, 0.248255, 0.248255], [0.248255, 0.50349, 0.248255]]", "weights", [1, 1]),
    ("D10 not scaled", BASE, "  weights: [[0.422319, 0.155362, 0.422319], [0.155362, 0.422319, 0.422319]]",
     "weights", [1, 1]),
    ("D10 divided by d", BASE, "  weights: [[0.383652, 0.232697, 0.383652], [0.232697, 0.383652, 0.383652]]",
     "weights", [1, 1]),
    ("D14 K Q^T", "Q: [[1, 2], [3, 4]]\nK: [[0, 1], [3, 1]]\n", "  scores: [[2, 4], [5, 13]]", "scores", [1, 2]),
    ("D16 the transposed table", BASE.replace("K: [[1, 0], [0, 1], [1, 1]]", "K: [[1, 0], [1, 1]]")
     .replace("[[1, 2], [3, 4], [5, 6]]", "[[1, 2], [3, 4]]"), "  weights: [[0.5, 0.33], [0.5, 0.67]]", "weights",
     [1, 2]),
]  # fmt: skip


@pytest.mark.parametrize(("problem", "expect", "step", "at"), [case[1:] for case in KIND_D],
                         ids=[case[0] for case in KIND_D])  # fmt: skip
def test_reported_mistakes_are_wrong_at_their_place(
    problem: str, expect: str, step: str, at: Any, tmp_path: Path
) -> None:
    first = checked(f"{problem}expect:\n{expect}\n", tmp_path).to_dict()["first_wrong"]
    assert (first["step"], first["at"]) == (step, at)


@pytest.mark.parametrize(
    ("weights", "verdict"),
    [
        ("[[0.240331, 0.240091, 0.519578]]", "agrees"),
        ("[[0.239150, 0.239150, 0.521700]]", "rounded"),  # D12: the scores rounded to 2 decimals: 0.34, 0.34, 1.12
        ("[[0.239661, 0.239661, 0.520678]]", "wrong"),
        ("[[0.236656, 0.236656, 0.526688]]", "wrong"),  # to 1 decimal
    ],
)
def test_rounding_in_the_middle(weights: str, verdict: str, tmp_path: Path) -> None:
    text = "Q: [[1]]\nK: [[0.345], [0.344], [1.116]]\nexpect:\n"
    assert checked(f"{text}  weights: {weights}\n", tmp_path).verdict == verdict


def test_only_the_row_that_the_verdict_rests_on_is_noted(tmp_path: Path) -> None:
    """Both rows sum to 1, the first one without help. Of two numbers one does not go up while the other goes down."""
    text = "scores: [[0, 0, 0], [0, 0, 0]]\nexpect: {weights: [[0.333, 0.334, 0.333], [0.33, 0.33, 0.34]]}\n"
    right = "scores: [[0, 0], [0, 0]]\nexpect: {weights: [[0.50, 0.50], [0.51, 0.49]]}\n"
    assert [note.partition(" are ")[0] for note in checked(text, tmp_path).notes] == ["weights: 2 rows"]
    assert verdicts(checked(right, tmp_path)) == {"weights": "wrong"}


def test_the_maximum_is_that_of_a_row_as_displayed(tmp_path: Path) -> None:
    """e^0, e^-1.05 and e^-1.1, each rounded to two places: 1.00, 0.35, 0.33 of 1.68."""
    for layout, scores, weights in (
        ("rows", "[[2.1, 1.05, 1.0]]", "[[0.59524, 0.20833, 0.19643]]"),
        ("columns", "[[2.1], [1.05], [1.0]]", "[[0.59524], [0.20833], [0.19643]]"),
    ):
        result = checked(f"layout: {layout}\nscores: {scores}\nexpect: {{weights: {weights}}}\n", tmp_path)
        told = f"the exponentials, shifted by the {layout.removesuffix('s')}'s maximum, rounded to 2 places"
        assert result.steps[0].reason == told
