"""CSV, TSV and text with blanks: what is a number, a label and a header, and where a mistake stands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from attncli import AttnError
from attncli.problem.formats import ReadOptions, encode, read_matrix
from attncli.problem.matrix import Matrix
from tests.inside import InputError, Place, ShapeError, UsageError


def read(text: str | bytes, kind: str = "csv", *, blanks: bool = False, **options: Any) -> Matrix:
    data = text if isinstance(text, bytes) else text.encode()
    return read_matrix("-", ReadOptions(stdin_format=kind, **options), stdin=lambda: data, blanks=blanks)


def refused(text: str | bytes, kind: str = "csv", **options: Any) -> AttnError:
    with pytest.raises(AttnError) as caught:
        read(text, kind, **options)
    return caught.value.errors()[0]


PLAIN = [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    "text",
    [
        "1,2\n3,4\n",
        "1,2\r\n3,4\r\n",
        "1,2\r3,4",
        "1,2\n\n   \n3,4\n\n",
        '# a note, "with a quote\n1,2\n# another\n3,4\n',
        "1;2\n3;4\n",
        "1\t2\n3\t4\n",
        "sep=;\n1;2\n3;4\n",
        "SEP=|\r\n1|2\r\n3|4\r\n",
        "sep=\t\n1\t2\n3\t4",
        '"1","2"\n"3","4"',
        ' 1 , "2" \n3,4',
        "\ufeff1,2\n3,4",
        "+1,2.\n3e0,.4e1",
        "\u00a01,2\n3,4",
    ],
)
def test_is_the_same_matrix(text: str) -> None:
    found = read(text)
    assert found.array.tolist() == PLAIN
    assert found.row_labels is None
    assert found.column_labels is None
    assert found.notes == []


def test_next_line_and_form_feed_end_no_line() -> None:
    assert read("a\x85b,c\x0cd\n1,2\n").column_labels == ["a\x85b", "c\x0cd"]


def test_the_tab_wins_over_semicolon_and_comma_outside_quotes() -> None:
    assert read('"a\t;b","c"\n1,2').column_labels == ["a\t;b", "c"]
    assert read("a,b;c\n1;2").column_labels == ["a,b", "c"]


@pytest.mark.parametrize(("text", "shape"), [("1,2,3", (1, 3)), ("1\n2\n3", (3, 1)), ("7", (1, 1))])
def test_nothing_collapses(text: str, shape: tuple[int, int]) -> None:
    assert read(text).array.shape == shape


@pytest.mark.parametrize(
    ("text", "rows", "columns"),
    [
        (",c1,c2\na,1,2\nb,3,4", ["a", "b"], ["c1", "c2"]),
        (",1,2\n1,1,2\n2,3,4", ["1", "2"], ["1", "2"]),
        ('"","c1","c2"\n"a",1,2\n"b",3,4', ["a", "b"], ["c1", "c2"]),
        ("c1,c2\na,1,2\nb,3,4", ["a", "b"], ["c1", "c2"]),
        ("c1,c2\n7,1,2\n8,3,4", ["7", "8"], ["c1", "c2"]),
        ("1,2\na,1,2\nb,3,4", ["a", "b"], ["1", "2"]),
        ("x,c1,c2\na,1,2\nb,3,4", ["a", "b"], ["c1", "c2"]),
        ("c1,c2\n1,2\n3,4", None, ["c1", "c2"]),
        ("a,1,2\nb,3,4", ["a", "b"], None),
        ("w,c1,c2\ntrue,1,2\nNA,3,4", ["true", "NA"], ["c1", "c2"]),
        ("True,1,2\nfalse,3,4", ["True", "false"], None),
        ('"a,b\nc",1,2\n"say ""x""",3,4', ["a,b\nc", 'say "x"'], None),
        ("c1,c2,\n1,2,\n3,4,", None, ["c1", "c2"]),
        ("2001-01-01,1,2\n2001-01-02,3,4", ["2001-01-01", "2001-01-02"], None),
    ],
)
def test_labels_and_header(text: str, rows: list[str] | None, columns: list[str] | None) -> None:
    found = read(text)
    assert found.array.tolist() == PLAIN
    assert (found.row_labels, found.column_labels) == (rows, columns)
    told = " ".join(found.notes)
    assert ("the first column as labels" in told) == (rows is not None)
    assert ("the first line as a header" in told) == (columns is not None)


def test_a_file_of_one_line() -> None:
    assert read("a,1,2").row_labels == ["a"]
    assert "no rows of numbers" in str(refused("a,b,c"))
    assert refused("1,b").place == Place("standard input", 1, 2)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a,1\n2,3", (1, 1)),
        ("1,a\n2,3", (1, 2)),
        ("a,1\n2,3\nb,4", (1, 1)),
        ("1,2\nNA,3", (2, 1)),
        ("1,2\nx,3", (2, 1)),
        ("the,1,x\ncat,2,3", (1, 3)),
    ],
)
def test_where_only_some_are_numbers_nothing_is_guessed(text: str, place: tuple[int, int]) -> None:
    error = refused(text)
    assert error.place == Place("standard input", *place)
    assert "--header yes|no" in (error.hint or "")
    assert "--labels yes|no" in (error.hint or "")


def test_options_overrule() -> None:
    assert read("1,2\n3,4", header=True).column_labels == ["1", "2"]
    assert read("1,2\n3,4", labels=True).row_labels == ["1", "3"]
    both = read("1,2\n7,3,4", header=True, labels=True)
    assert (both.array.tolist(), both.row_labels, both.column_labels) == ([[3, 4]], ["7"], ["1", "2"])
    assert refused("c1,c2\n1,2", header=False).place == Place("standard input", 1, 1)
    assert refused("a,1\nb,2", labels=False).place == Place("standard input", 1, 1)
    assert read("a,1\n2,3", header=True, labels=False).array.tolist() == [[2, 3]]
    assert read("0x10,1", labels=True).row_labels == ["0x10"]


@pytest.mark.parametrize(
    ("text", "place", "told"),
    [
        ("# note\n\n1,2\n# more\n3,x\n", (5, 2), 'line 5, column 2: "x" is not a number'),
        ("0x10,1", (1, 1), "hexadecimal"),
        ("1_000,2", (1, 1), "underscores"),
        ("1e400,1", (1, 1), "too large"),
        ('"1,234",2\n3,4', (1, 1), '"1,234" is not a number'),
        ("1\u00a0000,2", (1, 1), "U+00A0"),
        ("0,5;1\n2,0;3", (1, 1), "--decimal ,"),
        ("1,2\n,3", (2, 1), "the cell is empty"),
        ("a,1\n,3", (2, 1), "the cell is empty"),
        ("1.0D-03,1", (1, 1), "not a number"),
        ("1,,3", (1, 2), "the cell is empty"),
        ("1,2\n3,\n5,6", (2, 2), "the cell is empty"),
        ("1,2\n,\n3,4", (2, 1), "line 2 holds separators only"),
        ("1\t2\n\t\n3\t4", (2, 1), "line 2 holds separators only"),
        ("1,2,3\n4,5", (2, 3), "line 2 has 2 values, line 1 has 3"),
        ("1,2\n3,4,5", (2, 3), "line 2 has 3 values, line 1 has 2"),
        ("\n# x\n1,2\n\n3", (5, 2), "line 5 has 1 value, line 3 has 2"),
        ('a,1\n"b,2', (2, 1), "a quote is not closed"),
        ('a,1\n"b"c,2', (2, 1), "text follows the closing quote"),
        ('"x\ny",1\nb,z', (3, 2), "not a number"),
        ("true,false\nfalse,1", (1, 2), '"false" is not a number'),
        ("true,1\n1,true", (2, 1), "among true and false"),
        ("sep=\n1", (1, 1), "sep= names no separator"),
        ("?,1\n2,3", (1, 1), "not a number"),
    ],
)
def test_mistakes_are_told_with_line_and_column_of_the_file(text: str, place: tuple[int, int], told: str) -> None:
    error = refused(text)
    assert told in str(error)
    assert error.place == Place("standard input", *place)


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "\ufeff", "a,b\n"])
def test_a_file_without_numbers_is_refused(text: str) -> None:
    assert "has no rows" in str(refused(text))


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ("1,2".encode("utf-16"), "UTF-16"),
        ("1,2".encode("utf-16-be"), "UTF-16"),
        (b"caf\xe9,1", "0xe9"),
        (b"1\0,2", "NUL"),
    ],
)
def test_other_encodings_are_named(data: bytes, told: str) -> None:
    assert told in str(refused(data))


def test_trailing_separators_are_dropped_with_a_note() -> None:
    found = read("1,2,\n3,4,\n")
    assert found.array.tolist() == PLAIN
    assert "dropped" in found.notes[0]


def test_decimal_comma() -> None:
    for text in ("0,5;1,25\n2,0;-3,5\n", "0,5\t1,25\n2,0\t-3,5\n"):
        found = read(text, decimal=",")
        assert found.array.tolist() == [[0.5, 1.25], [2, -3.5]]
        assert found.spelling() == [["0.5", "1.25"], ["2.0", "-3.5"]]
    assert read("0,5\n1,5", decimal=",").array.tolist() == [[0.5], [1.5]]
    assert "point" in str(refused("0.5;1", decimal=","))
    with pytest.raises(UsageError):
        read("0,5", decimal=",", separator=",")


@pytest.mark.parametrize("name", ["|", "tab", "\\t", "semicolon", ":"])
def test_separator_option(name: str) -> None:
    mark = {"tab": "\t", "\\t": "\t", "semicolon": ";"}.get(name, name)
    assert read(f"1{mark}2\n3{mark}4", separator=name).array.tolist() == PLAIN


@pytest.mark.parametrize("name", ["", "ab", "1", ".", "-", '"', "#", "e", "\n"])
def test_what_cannot_separate(name: str) -> None:
    assert isinstance(refused("1,2", separator=name), UsageError)


def test_txt_is_split_at_blanks() -> None:
    for text in ("1 2\n3 4\n", "  1\t 2 \n\n3   4\n", "# c\n1 2\n3 4"):
        assert read(text, "txt").array.tolist() == PLAIN
    found = read('"" "a b" c\nthe 1 2\n"a cat" 3 4', "txt")
    assert (found.row_labels, found.column_labels) == (["the", "a cat"], ["a b", "c"])
    assert read("1,2\n3,4", "txt", separator=",").array.tolist() == PLAIN
    assert "--separator , reads 2 x 2" in str(refused("1, 2\n3, 4", "txt"))


def test_true_and_false_alone_are_an_array_of_bool() -> None:
    assert read("true,False\nTRUE,false").array.tolist() == [[True, False], [True, False]]
    found = read(",k1\nq1,True")
    assert found.array.dtype == bool
    assert found.row_labels == ["q1"]


def test_cells_left_out() -> None:
    found = read("0.50,?\n,1\n~,_", blanks=True)
    assert found.spelling() == [["0.50", None], [None, "1"], [None, None]]
    np.testing.assert_array_equal(found.array, [[0.5, np.nan], [np.nan, 1], [np.nan, np.nan]])


def test_a_matrix_knows_its_spelling_and_places() -> None:
    for text in ("# c\n0.50,1e-3\n\n2,3\n", "# c\n0.50,1/2\n\n2,3\n"):
        found = read(text)
        assert found.spelling()[0][0] == "0.50"
        assert found.at((1, 1)) == Place("standard input", 4, 2)
    assert read("a,1\nb,2").at((1, 0)) == Place("standard input", 2, 2)


def test_a_typographic_minus() -> None:
    assert read("\u22121.5,2\n3,\u22124").array.tolist() == [[-1.5, 2], [3, -4]]
    assert read("\u22121.5,1/2").array.tolist() == [[-1.5, 0.5]]


LABELS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    [
        "1",
        "-2.5",
        "inf",
        "#",
        "# x",
        "sep=;",
        "a,b",
        "a;b",
        "a\tb",
        'say "x"',
        " a ",
        "a\r\nb",
        "\ufeffx",
        "true",
        "?",
        "0x1",
    ]
)


@st.composite
def labelled(draw: st.DrawFn) -> Matrix:
    array = draw(arrays(np.float64, array_shapes(min_dims=2, max_dims=2, max_side=4), elements=st.floats()))
    rows, columns = array.shape
    return Matrix(
        array,
        draw(st.none() | st.lists(LABELS, min_size=rows, max_size=rows)),
        draw(st.none() | st.lists(LABELS, min_size=columns, max_size=columns)),
    )


@given(labelled(), st.sampled_from(["csv", "tsv", "txt"]))
def test_what_is_written_reads_back_bit_by_bit(part: Matrix, kind: str) -> None:
    back = read(encode(kind, {"output": part}, {}), kind)
    np.testing.assert_array_equal(back.array, part.array)
    assert (np.signbit(back.array) == np.signbit(part.array))[~np.isnan(part.array)].all()
    if part.row_labels is not None:
        assert back.row_labels == part.row_labels
    if part.column_labels is not None:
        assert back.column_labels == part.column_labels
    if part.row_labels is None and part.column_labels is None:
        assert back.row_labels is None
        assert back.column_labels is None


@given(
    arrays(np.float64, (3, 2), elements=st.floats(allow_nan=False)), st.sampled_from(["%.17g", "%.3e", "%r", "%.1f"])
)
def test_the_quick_way_and_the_careful_one_agree(array: np.ndarray, form: str) -> None:
    text = "\n".join(",".join(form % x for x in row) for row in array.tolist())
    careful = '"' + text.replace(",", '","').replace("\n", '"\n"') + '"'

    def outcome(text: str) -> object:
        try:
            found = read(text)
        except AttnError as error:
            return str(error)
        return found.array.tobytes(), found.spelling(), found.notes, found.at((1, 1))

    assert outcome(text) == outcome(careful)


@given(st.text(alphabet='12.,;\t\n\r"#ae -?', max_size=24), st.sampled_from(["csv", "tsv", "txt"]), st.booleans())
def test_any_text_is_a_matrix_or_an_error_with_a_place(text: str, kind: str, blanks: bool) -> None:
    try:
        found = read(text, kind, blanks=blanks)
    except AttnError as error:
        if any(inner.place is None for inner in error.errors()):
            raise
    else:
        assert found.array.ndim == 2
        assert np.array(found.spelling()).shape == found.array.shape
        assert found.row_labels is None or len(found.row_labels) == found.array.shape[0]
        assert found.column_labels is None or len(found.column_labels) == found.array.shape[1]


def test_more_than_two_axes_do_not_fit() -> None:
    with pytest.raises(ShapeError, match=r"weights\[1\]"):
        encode("csv", {"weights": Matrix(np.zeros((2, 3, 3)))}, {})
    with pytest.raises(InputError, match="holds one array, not 2"):
        encode("csv", {"weights": Matrix(np.zeros((2, 3))), "output": Matrix(np.zeros((2, 3)))}, {})


def test_a_vector_is_one_row() -> None:
    assert encode("csv", {"b_Q": Matrix(np.array([1.0, 2.0]))}, {}) == b"1.0,2.0\n"
