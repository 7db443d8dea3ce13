"""Trees of arithmetic: their values are those of plain numbers, and they read as one would write them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from formulas import FORMULAS, OVER, Formula, distances, matrices, relu_shares
from hypothesis import given, settings

from attncli.arithmetic import terms
from attncli.arithmetic.terms import Terms
from attncli.arithmetic.trees import Cell, Number, Op, Term, evaluate
from attncli.errors import Opaque
from attncli.pipeline.normalizers import NORMALIZERS
from attncli.pipeline.tight import cosines, directions, logarithm_of_sum, normalized


def text(term: Term) -> str:
    """A term in one line: s12 is the cell (1, 2) of s."""
    if isinstance(term, Cell):
        return term.step + "".join(map(str, term.index))
    if isinstance(term, Number):
        return f"{term.value:g}"
    signs = {"sum": " + ", "product": " ", "difference": " - ", "quotient": " / "}
    parts = [text(arg) for arg in term.args]
    return f"({signs[term.kind].join(parts)})" if term.kind in signs else f"{term.kind}({', '.join(parts)})"


def check(found: Terms, plain: Any, given_numbers: dict[str, Any]) -> None:
    """Numbers beside the trees are those of plain arithmetic, and so are the trees' values."""
    np.testing.assert_allclose(found.value, plain, rtol=1e-12, atol=1e-12)
    for index in np.ndindex(found.shape):
        value = evaluate(found.term(*index), lambda cell: float(given_numbers[cell.step][cell.index]))
        np.testing.assert_allclose(value, plain[index], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("formula", FORMULAS)
@settings(max_examples=25)
@given(q=matrices(2, 3), k=matrices(4, 3))
def test_the_value_of_a_tree_is_the_value(formula: Formula, q: Any, k: Any) -> None:
    found = formula(Terms.cells("q", q), Terms.cells("k", k))
    check(found, formula(q, k), {"q": q, "k": k})


@pytest.mark.parametrize("name", ["softmax", "sum", "hardmax", "sparsemax", "sigmoid", "none"])
@settings(max_examples=25)
@given(s=matrices(2, 4))
def test_normalizers(name: str, s: Any) -> None:
    function = NORMALIZERS.find(name).function
    plain = function(s, OVER)
    check(normalized(Terms.cells("s", s), OVER, NORMALIZERS.find(name)), plain, {"s": s})


S = Terms.cells("s", np.array([[2.0, -1.0, 0.5, 2.0]]))
SEEN = np.array([[True, True, False, True]])


def test_sums_leave_out_what_is_hidden() -> None:
    weights = normalized(S, SEEN, NORMALIZERS.find("softmax"))
    assert text(weights.term(0, 1)) == "(exp(s01) / (exp(s00) + exp(s01) + exp(s03)))"
    assert weights.term(0, 2) == Number(0)
    assert text(logarithm_of_sum(S, SEEN).term(0, 0)) == "log((exp(s00) + exp(s01) + exp(s03)))"


def test_exponentials_are_shifted_only_where_they_would_leave_a_calculator() -> None:
    large = Terms.cells("s", np.array([[300.0, 1.0], [3.0, 1.0]]))
    shifted = np.exp(large - terms.shift(large, np.ones((2, 2), dtype=bool)))
    assert text(shifted.term(0, 1)) == "exp((s01 - 300))"
    assert text(shifted.term(1, 1)) == "exp(s11)"


def test_a_normalizer_of_ones_own_needs_no_rule() -> None:
    q, k = np.array([[1.0, 0.0, 2.0], [1.0, 1.0, 0.0]]), np.eye(4, 3)
    found = relu_shares(Terms.cells("q", q), Terms.cells("k", k))
    assert text(found.term(0, 2)) == "0"
    assert text(found.term(1, 0)).startswith("((max(((q10 k00) + (q11 k01) + (q12 k02)), 0) + 0.25) / (")
    check(found, relu_shares(q, k), {"q": q, "k": k})


def test_the_largest_shares_with_its_equals() -> None:
    best = normalized(S, SEEN, NORMALIZERS.find("hardmax"))
    assert [text(best.term(0, j)) for j in range(4)] == ["(1 / 2)", "0", "0", "(1 / 2)"]


def test_squares_of_roots_are_what_is_under_them() -> None:
    q, k = Terms.cells("q", np.ones((1, 2))), Terms.cells("k", np.zeros((1, 2)))
    squares = "(square((q00 - k00)) + square((q01 - k01)))"
    assert text((-(np.square(distances(q, k) / 3.0) / 2)).term(0, 0)) == f"negative(({squares} / (2 square(3))))"
    assert text((distances(q, k) <= 1).term(0, 0)) == f"within(sqrt({squares}), 1)"


def test_cosines_are_quotients_and_nothing_is_like_a_zero_vector() -> None:
    q, k = Terms.cells("q", np.array([[3.0, 4.0], [0.0, 0.0]])), Terms.cells("k", np.array([[4.0, 3.0]]))
    found = cosines(q, k)
    lengths = "(sqrt((square(q00) + square(q01))) sqrt((square(k00) + square(k01))))"
    assert text(found.term(0, 0)) == f"(((q00 k00) + (q01 k01)) / {lengths})"
    assert found.term(1, 0) == Number(0)
    np.testing.assert_allclose(found.value, [[0.96], [0.0]])
    assert text(directions(q).term(0, 1)) == "(q01 / sqrt((square(q00) + square(q01))))"


def test_rows_of_zeros_keep_their_cells() -> None:
    """A 0 that a matrix holds is shown; only the formula's own is dropped."""
    zeros = Terms.cells("x", np.zeros((1, 2))) @ Terms.cells("w", np.ones((2, 1))) + Terms.cells("b", np.ones(1))
    assert text(zeros.term(0, 0)) == "((x00 w00) + (x01 w10) + b0)"


def test_a_tree_is_built_only_of_what_is_asked_for() -> None:
    x, w = Terms.cells("x", np.ones((2000, 300))), Terms.cells("w", np.ones((300, 2000)))
    term = (x @ w * 0.5).term(1999, 7)
    assert isinstance(term, Op)
    assert term.args[0].args[299] == Op("product", (Cell("x", (1999, 299)), Cell("w", (299, 7))))  # type: ignore[union-attr]


def test_what_terms_do_not_know_is_told() -> None:
    with pytest.raises(Opaque, match=r"np\.sin cannot be read in terms"):
        np.sin(S)
