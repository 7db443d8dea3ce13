"""YAML and JSON as a tree with places, the same with and without libyaml."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from attncli import AttnError
from attncli.problem import yamltext
from attncli.problem.yamlmatrix import matrix_from_node
from attncli.problem.yamltext import compose
from attncli.problem.yamltree import pairs_of, place_of, scalar_value
from tests.inside import InputError, Place, ShapeError

CASES = Path(__file__).parents[1] / "field_cases"


@pytest.fixture(params=["libyaml", "python"])
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run a test with libyaml's parser and with the one written in Python."""
    yamltext._parser.cache_clear()
    if request.param == "python":
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    yield
    yamltext._parser.cache_clear()


def matrix(text: str, **options: bool) -> np.ndarray:
    return matrix_from_node(compose(text, "p.yaml"), "p.yaml", **options).array


def error_of(text: str | bytes, file: str = "p.yaml") -> InputError:
    with pytest.raises(InputError) as caught:
        read_all(text, file)
    return caught.value


def read_all(text: str | bytes, file: str) -> None:
    root = compose(text, file)
    for node in [value for _, _, value in pairs_of(root)] if root.id == "mapping" else [root]:
        matrix_from_node(node, file)


# What lacks blanks, and where they belong: line and column.
TIGHT = [
    ("title: x\nQ:[[1, 0]]\nK: [[1, 0]]\n", [(2, 3)]),
    ("Q:[[1, 0]]\nK: [[1]]\n", [(1, 3)]),
    ("Q: [[1]]\nV:[[1]]\n", [(2, 3)]),
    ("Q:[[1]]\n", [(1, 3)]),
    ("Q:[[1]]\nK:[[1]]\nV: [[1]]\n", [(1, 3), (2, 3)]),
    ("title: x\nQ:[[1, 0],\n   [0, 1]]\nK: [[1]]\n", [(2, 3)]),
    ("Q: [[1]]\nmask:causal\nK: [[1]]\n", [(2, 6)]),
    ("Q: [[1]]\nscale:2\n", [(2, 7)]),
    ("Q: [[1]]\nexpect:\n  weights:[[1]]\n  output: [[1]]\n", [(3, 11)]),
    ("problems:\n- name:a\n  Q: [[1]]\n", [(2, 8)]),
    ("problems:\n- Q:[[1]]\n  K: [[1]]\n", [(2, 5)]),
    ("Q:\n  - [1, 0]\n  -[0, 1]\nK: [[1]]\n", [(3, 4)]),
]


@pytest.mark.usefixtures("loader")
class TestWithAndWithoutLibyaml:
    @pytest.mark.parametrize(("text", "places"), TIGHT)
    def test_a_missing_blank_is_told_where_it_belongs(self, text: str, places: list[tuple[int, int]]) -> None:
        with pytest.raises(AttnError) as caught:
            read_all(text, "p.yaml")
        errors = caught.value.errors()
        assert [error.place for error in errors] == [Place("p.yaml", *place) for place in places]
        lines = text.split("\n")
        for line, column in places:
            before, after = lines[line - 1][: column - 1], lines[line - 1][column - 1 :]
            lines[line - 1] = f"{before} {after}"
            assert any(str(error.hint).removeprefix("write ") in lines[line - 1] for error in errors)
        compose("\n".join(lines), "p.yaml")

    def test_a_key_without_a_colon_is_told_where_it_stands(self) -> None:
        error = error_of("title: see http://x.y\nQ [[1]]\nK: [[1]]\n")
        assert error.place == Place("p.yaml", 2, 1)
        assert "colon" in str(error.hint)

    @pytest.mark.parametrize("row", ["[1, , , ]", "[1, ,2]", "[ , 1]"])
    def test_a_blank_cell_is_told_how_it_is_written(self, row: str) -> None:
        assert "~" in str(error_of(f"weights: [{row}]").hint)
        assert np.isnan(matrix(f"[{row.replace(', ]', ']').replace(' ,', '~,')}]", blanks=True)).any()

    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("1e-3", 0.001),
            ("010", 10.0),
            ("-.5", -0.5),
            ("1/3", 1 / 3),
            (".inf", math.inf),
            ("yes", "yes"),
            ("on", "on"),
            ("n", "n"),
            ("true", True),
            ("False", False),
            ("~", None),
            ("null", None),
            ("1:30", "1:30"),
            ("1_000", "1_000"),
            ("0x1F", "0x1F"),
            ("2001-13-45", "2001-13-45"),
            ("=", "="),
            ("'true'", "true"),
            ('"1"', "1"),
        ],
    )
    def test_scalars(self, text: str, value: object) -> None:
        found = scalar_value(compose(text, "p.yaml"))
        assert found == value
        assert type(found) is type(value)

    @pytest.mark.parametrize(
        ("text", "place", "told"),
        [
            ("Q:\n\t- [1, 2]\n", (2, 1), "line 2: tab used for indentation, use spaces"),
            ("Q:\t[1, 2]\n", (1, 3), "line 1: tab used between values"),
            ("Q: [1,\t2]\n", (1, 7), "tab used"),
            ("a: [1]\nb: [2]\na: [3]\n", (3, 1), 'the key "a" is given twice (lines 1 and 3)'),
            ("{a: [1], 'a': [2]}", (1, 10), "twice"),
            ("a: &x [*x, *x]", (1, 4), "an alias refers to the list or mapping that it is part of"),
            ("a: [!!float 1e-3]", (1, 5), "the tag !!float is not read"),
            ("a: !x [1]", (1, 4), "the tag !x"),
            ("<<: {a: 1}", (1, 1), "merge key"),
            ("? [a, b]\n: [1]", (1, 3), "where a key is expected"),
            ("a: [1]\n--- \nb: [2]\n", None, "2 documents, expected 1"),
            ("", None, "the file is empty"),
            ("# only a comment\n", None, "the file is empty"),
            ("---\n", None, "the file is empty"),
            ("a: [1e400]", (1, 5), "too large"),
            ("a: [[1:30, 0.5]]", (1, 6), '"1:30" is not a number'),
            ("a: [[1, 2], [3]]", (1, 13), "row 2 (line 1) has 1 value, row 1 (line 1) has 2"),
            ("a: [[1, 2],\n 3]", (2, 2), 'the single value "3" stands where a row of 2'),
            ("a: [1, [2]]", (1, 8), "a list stands where a number"),
            ("a: [1, {b: 2}]", (1, 8), "a mapping stands where a number"),
            ("a: [1, true]", (1, 8), "true stands among numbers"),
            ("a: [1, ~]", (1, 8), "where a number is expected"),
            ("a: []", (1, 4), "no rows"),
            ("a: [[], []]", (1, 4), "empty rows"),
            ("a: *b", (1, 4), "undefined alias"),
            ("a: @b", (1, 4), "stands in quotes"),
            ("a: [1, 2", None, "not valid YAML"),
            ("a: b: c", (1, 5), "not valid YAML"),
            ("a: x\x00", (1, 5), "U+0000"),
            ("a: x\x85y", (1, 5), "U+0085"),
            ("a: \ud800", (1, 4), "U+D800"),
        ],
    )
    def test_is_refused_at_its_place(self, text: str, place: tuple[int, int] | None, told: str) -> None:
        error = error_of(text)
        assert told in str(error)
        if place is not None:
            assert error.place == Place("p.yaml", *place)

    @pytest.mark.parametrize(
        "text",
        [
            "[" * 65 + "]" * 65,
            "[" * 600 + "]" * 600,
            "[" * 5_000,
            "- " * 100_000,
            "{a: " * 500 + "1" + "}" * 500,
            "\n".join(" " * i + "a:" for i in range(300)),
            "\n".join(" " * i + "-" for i in range(1500)),
        ],
    )
    def test_deep_nesting_is_refused(self, text: str) -> None:
        assert "nested more than 64 levels" in str(error_of(text))

    def test_depth_that_is_allowed(self) -> None:
        assert matrix("[" * 60 + "1" + "]" * 60).shape == (1,) * 60

    def test_aliases_multiply_only_so_far(self) -> None:
        lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
        lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 40)]  # 10^40 values
        assert "aliases multiply" in str(error_of("\n".join(lines)))
        assert matrix("[&r [1, 2], *r, *r]").tolist() == [[1, 2]] * 3

    def test_all_wrong_keys_are_told_at_once(self) -> None:
        with pytest.raises(Exception, match=r"(?s)p.yaml:2:1.*p.yaml:3:1") as caught:
            compose("a: 1\na: 2\n<<: 3\n", "p.yaml")
        assert len(caught.value.errors()) == 2

    def test_json_with_tabs_and_surrogate_pairs(self) -> None:
        text = json.dumps({"X": [[1.5, -0.0]], "tokens": ["\U0001f600", "a\\ud83d\\ude00"]}, indent="\t")
        root = {key: value for key, _, value in pairs_of(compose(text, "p.json"))}
        assert matrix_from_node(root["X"], "p.json").array.tolist() == [[1.5, 0.0]]
        assert [item.value for item in root["tokens"].value] == ["\U0001f600", "a\\ud83d\\ude00"]

    def test_places_count_from_one_in_characters(self) -> None:
        root = compose("\ufeff# \u732b\r\nX:\r  - ['\u732b\u732b', 2]\n".encode(), "p.yaml")
        ((_, key, value),) = pairs_of(root)
        assert place_of(key, "p.yaml") == Place("p.yaml", 2, 1)
        assert place_of(value.value[0].value[1], "p.yaml") == Place("p.yaml", 3, 12)


def test_true_and_false_alone_make_an_array_of_bool() -> None:
    assert matrix("[[true, false], [False, TRUE]]").dtype == bool


def test_cells_left_out() -> None:
    found = matrix_from_node(compose("[[0.50, ~], [_, ], ['?', null]]".replace(", ]", ", '']"), "p"), "p", blanks=True)
    assert found.array[0, 0] == 0.5
    assert np.isnan(found.array).sum() == 5
    assert found.spelling() == [["0.50", None], [None, None], [None, None]]


def test_a_matrix_knows_its_spelling_and_places() -> None:
    node = compose("[[1/3, 0.50],\n [\u22121, 6.0e-06]]", "p.yaml")
    found = matrix_from_node(node, "p.yaml")
    assert found.array.tolist() == [[1 / 3, 0.5], [-1, 6e-6]]
    assert found.spelling() == [["1/3", "0.50"], ["\u22121", "6.0e-06"]]
    assert found.at((1, 1)) == Place("p.yaml", 2, 7)
    assert found.place == Place("p.yaml", 1, 1)


def test_more_axes() -> None:
    assert matrix("[[[1, 2]], [[3, 4]], [[5, 6]]]").shape == (3, 1, 2)
    with pytest.raises(ShapeError, match=r"row 2 \(line 1\) has 2 rows, row 1 \(line 1\) has 1"):
        matrix("[[[1]], [[1], [2]]]")


def test_words_where_numbers_are_expected_are_all_told() -> None:
    with pytest.raises(Exception, match="a") as caught:
        matrix("[[a, 1], [b, c]]")
    assert [error.place.column for error in caught.value.errors()] == [3, 11, 14]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ("a: [1]".encode("utf-16"), "UTF-16"),
        ("a: [1]".encode("utf-16-le"), "UTF-16"),
        ("a: [1]".encode("utf-32"), "UTF-32"),
        ("a: caf\u00e9".encode("latin-1"), "byte 0xe9"),
    ],
)
def test_other_encodings_are_named(data: bytes, told: str) -> None:
    assert told in str(error_of(data))


@given(st.lists(st.lists(st.floats(), min_size=3, max_size=3), min_size=1, max_size=4))
def test_python_and_yaml_dumps_read_back(rows: list[list[float]]) -> None:
    for text in (json.dumps(rows), yaml.safe_dump(rows), yaml.safe_dump(rows, default_flow_style=True)):
        np.testing.assert_array_equal(matrix(text), np.array(rows))


@given(st.text(max_size=60))
def test_any_text_is_a_tree_or_an_input_error(text: str) -> None:
    with contextlib.suppress(InputError):
        compose(text, "p.yaml")


@given(st.binary(max_size=60))
def test_any_bytes_too(data: bytes) -> None:
    with contextlib.suppress(InputError):
        compose(data, "p.yaml")


PIECES = ["X: ", "Q:\n", "- ", "[1, 2]", "[", "]", ", ", "\n", "\n  ", "\t", " ", "a", "'b'", " # c", "1", "{a: 1}"]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_yaml_like_text_gives_the_same_with_both_parsers(text: str) -> None:
    def outcome() -> object:
        try:
            return _plainly(compose(text, "p.yaml"))
        except Exception as error:
            return type(error)

    with_libyaml = outcome()
    yamltext._parser.cache_clear()
    fast = yaml.CSafeLoader
    del yaml.CSafeLoader
    try:
        without = outcome()
    finally:
        yaml.CSafeLoader = fast
        yamltext._parser.cache_clear()
    assert with_libyaml == without


def _plainly(node: yaml.Node) -> object:
    if node.id == "scalar":
        return scalar_value(node)
    if node.id == "sequence":
        return [_plainly(item) for item in node.value]
    return {key: _plainly(value) for key, _, value in pairs_of(node)}


@pytest.mark.parametrize("name", [path.name for path in sorted(CASES.glob("B14_*.yml"))])
def test_errors_of_other_kinds_are_input_errors(name: str) -> None:
    assert error_of((CASES / name).read_bytes(), name).place.file == name


@pytest.mark.parametrize(("text", "place"), [("{Q:[[1]], K: [[1]]}", (1, 4)), ("a: [{values:[[1]]}]", (1, 13))])
def test_a_missing_blank_within_braces(text: str, place: tuple[int, int]) -> None:
    """libyaml refuses it; the parser written in Python reads what was meant."""
    if hasattr(yaml, "CSafeLoader"):
        assert error_of(text).place == Place("p.yaml", *place)
        compose(text[: place[1] - 1] + " " + text[place[1] - 1 :], "p.yaml")
