"""Matrices that are kept out of a YAML text while it is parsed: the tree is the one that the text as it is gives."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attncli import AttnError
from attncli.problem import yamltext
from attncli.problem.literals import Literal, Literals
from attncli.problem.yamlmatrix import matrix_from_node
from attncli.problem.yamltext import compose


def tree(node: Any) -> Any:
    """All that a tree says: kinds, texts, styles, places."""
    at = (node.id, node.start_mark.line, node.start_mark.column)
    if node.id == "mapping":
        return at, [(tree(key), tree(value)) for key, value in node.value]
    return at, [tree(child) for child in node.value] if node.id == "sequence" else (node.value, node.style)


def both(text: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """The tree, or the error, with and without the quick way."""
    results = []
    for quick in (True, False):
        with monkeypatch.context() as patch:
            if not quick:
                patch.setattr(yamltext, "_without_matrices", lambda text, parser: None)
            try:
                results.append(tree(compose(text, "p.yaml")))
            except AttnError as error:
                results.append(str(error))
    return results[0], results[1]


TEXTS = {
    "block": "X: [[1, 2], [3, 4]]\nname: a\n",
    "over lines": "X: [[1, 2],\n    [3, 4]]\nY: [[5, 6]] # [[7, 8]]\n",
    "flow": "{X: [[1, 2], [3, 4]], Y: [[1.5, -2e3]], n: 1}",
    "json": '{"X":[[1,2],[3,4]],"Y":[[1,2]]}',
    "list": "- [[1, 2], [3, 4]]\n- [[1, 2]]\n",
    "three axes": "X: [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]\n",
    "in quotes": 'X: [[1, 2], [3, 4]]\ntitle: "see [[1, 2]] there"\n',
    "in a plain text": "title: see [[1, 2], [3, 4]] there\nX: [[1, 2]]\n",
    "in a block text": "title: |\n  [[1, 2], [3, 4]]\nX: [[1, 2]]\n",
    "as a key": "[[1, 2], [3, 4]]: x\nY: [[1, 2]]\n",
    "anchor and alias": "X: &x [[1, 2], [3, 4]]\nY: *x\n",
    "a tag": "X: !!seq [[1, 2], [3, 4]]\n",
    "rows of unequal length": "X: [[1, 2], [3]]\n",
    "a comma too many": "X: [[1, 2,], [3, 4]]\nY: [[1,, 2]]\n",
    "a bracket too many": "X: [[1, 2], [3, 4]]]\n",
    "words behind it": "X: [[1, 2], [3, 4]] and more\n",
    "a line behind it": "X: [[1, 2], [3, 4]]\n  more\n",
    "a missing comma": "{X: [[1, 2], [3, 4]]\n Y: [[1, 2]]}",
    "no blank before it": "X:[[1, 2], [3, 4]]\n",
    "no blank behind it": "{X: [[1, 2], [3, 4]]}",
    "a comment that ends within": "X: # [[1,\n 2]]",
    "tabs": "X: [[1,\t2], [3, 4]]\n",
    "the sign itself": "X: [[1, 2], [3, 4]]\ntitle: \ue0000\n",
    "spelling": "X: [[01, +2, .5, 5., -0, 1E5]]\n",
    "two documents": "X: [[1, 2], [3, 4]]\n---\nX: [[1, 2]]\n",
    "carriage returns": "X: [[1, 2],\r\n    [3, 4]]\r\nY: [[5, 6]]\r\n",
    "alone": "[[1, 2], [3, 4]]",
    "deep": "[" * 62 + "[[1, 2], [3, 4]]" + "]" * 62,
    "too deep": "[" * 63 + "[[1, 2], [3, 4]]" + "]" * 63,
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_tree_is_the_same(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quick, plain = both(text, monkeypatch)
    assert quick == plain


_pieces = st.sampled_from(
    ["X: ", "Y:", "- ", "{", "}", "[", "]", ", ", "\n", "  ", "'", '"', "# ", "&a ", "*a", ": ", "|\n", "word",
     "[[1, 2]]", "[[1, 2], [3, 4]]", "[[1,\n 2]]", "[[ 0.5 ]]", "7"]
)  # fmt: skip


@settings(max_examples=300)
@given(st.lists(_pieces, max_size=14).map("".join))
def test_the_tree_is_the_same_whatever_the_text(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        quick, plain = both(text, patch)
    assert quick == plain


def test_the_quick_way_is_taken() -> None:
    root = compose("X: [[1, 2], [3, 4]]\nproblems:\n  - {X: [[5, 6], [7, 8.5]]}\n", "p.yaml")
    assert isinstance(root.value[0][1], Literal)
    assert isinstance(root.value[1][1].value[0].value[0][1], Literal)
    assert not Literals("title: none here\n").taken


def test_numbers_places_and_spelling() -> None:
    root = compose("X: [[1, 2.50],\n    [-3, 4e0]]\n", "p.yaml")
    matrix = matrix_from_node(root.value[0][1], "p.yaml")
    assert matrix.array.tolist() == [[1.0, 2.5], [-3.0, 4.0]]
    assert matrix.spelling is not None
    assert matrix.spelling() == [["1", "2.50"], ["-3", "4e0"]]
    assert str(matrix.at((1, 1))) == "p.yaml:2:10"


@pytest.mark.parametrize(("text", "told"), [
    ("X: [[1, 2], [3]]", "p.yaml:1:13: row 2"), ("X: [[1, 1e400]]", "p.yaml:1:9: "), ("X: [[1, 1 2]]", "p.yaml:1:9: "),
    ("X: [[1, e]]", "p.yaml:1:9: "), ("X: [[1,  ,2]]", "p.yaml:1:"),
])  # fmt: skip
def test_what_is_wrong_is_told_with_its_place(text: str, told: str) -> None:
    with pytest.raises(AttnError) as caught:
        matrix_from_node(compose(text, "p.yaml").value[0][1], "p.yaml")
    assert str(caught.value).startswith(told)


def test_arithmetic_is_no_plain_number() -> None:
    matrix = matrix_from_node(compose("X: [[1, 2^-1], [3, 4]]", "p.yaml").value[0][1], "p.yaml")
    assert matrix.array.tolist() == [[1.0, 0.5], [3.0, 4.0]]


def test_spelling_is_that_of_the_parsed_nodes() -> None:
    text = "X: [[1.50, -2e3 ,+0.0],\n  [ 3,4 ,\n 5.]]\nY: [[ 7 ]]\n"
    root = compose(text, "p.yaml")
    for _, node in root.value:
        assert isinstance(node, Literal)
        assert node.spelling == [[cell.value for cell in row.value] for row in node.value]
    assert root.value[0][1].spelling == [["1.50", "-2e3", "+0.0"], ["3", "4", "5."]]
