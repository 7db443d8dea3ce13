"""Tables: never a number cut, labels as written, blocks, elision, encodings."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from shown import A00, BASE, body_rows, labels, lines_of, text_of

from tests.calling import names
from tests.inside import NORMALIZERS

numbers = st.floats(-100, 100) | st.floats() | st.sampled_from([1e300, -1e-300, 0.0, -0.0, 123456789.125])
FRAME = 7  # what stands around labels and numbers: three bars and four blanks


@st.composite
def matrices(data: st.DrawFn) -> tuple[np.ndarray, list[str], list[str]]:
    n, m = data(st.integers(1, 4)), data(st.integers(1, 40))
    some = np.array(data(st.lists(numbers, min_size=1, max_size=12)))
    return np.resize(some, (n, m)), data(st.lists(labels, min_size=n, max_size=n)), [data(labels) for _ in range(m)]


@settings(max_examples=120)
@given(matrices(), st.integers(20, 200) | st.none(), st.integers(0, 17), st.booleans(), st.sampled_from(
    ["utf-8", "ascii", "latin-1", "cp1252"]))  # fmt: skip
def test_every_number_stands_whole_at_every_width(
    matrix: tuple[np.ndarray, list[str], list[str]], width: int | None, precision: int, terminal: bool, encoding: str
) -> None:
    array, rows, columns = matrix
    problem = {"scores": array, "tokens": rows, "key_tokens": columns}
    how = {"width": width, "tty": terminal, "encoding": encoding, "show": "scores"}
    drawn = lines_of(problem, "--precision", precision, **how, NO_COLOR="1")
    csv = text_of(problem, "--precision", precision, "--show", "scores", "--format", "plain", encoding=encoding)
    expected = [line.split()[-len(columns) :] for line in csv.rstrip("\n").split("\n")[-len(rows) :]]
    assert body_rows(drawn, len(rows)) == expected
    styled = lines_of(problem, "--precision", precision, **how, FORCE_COLOR="1", TERM="xterm")
    assert [re.sub(r"\x1b\[\d*m", "", line) for line in styled] == drawn, "Rich and the plain box differ"
    blocks: list[list[str]] = [[]]
    for line in drawn:
        if line.startswith("columns "):
            blocks.append([])
        elif line.startswith(("┌", "│", "├", "└", "+", "|")):
            assert not set(line) & set("\x1b\t\r\x0b\x0c\x85\u2028\u202e")
            blocks[-1].append(line)
    assert all(len(set(map(cell_len, block))) == 1 for block in blocks if block), "the lines of a block differ in width"
    boxed = [line for block in blocks for line in block]
    longest = max(len(cell) for row in expected for cell in row)
    if width is not None and FRAME + 2 + longest <= width:
        assert max(map(cell_len, boxed)) <= width


def test_a_small_table_as_it_looks() -> None:
    assert lines_of(A00) == [
        "weights (2 queries x 3 keys): each row sums to 1",
        "┌─────┬────────────────────────┐",
        "│     │    the     cat     sat │",
        "├─────┼────────────────────────┤",
        "│ the │ 0.4011  0.1978  0.4011 │",
        "│ cat │ 0.1978  0.4011  0.4011 │",
        "└─────┴────────────────────────┘",
    ]


def test_columns_layout_puts_queries_on_top() -> None:
    assert lines_of({**A00, "layout": "columns", "weights": BASE.T, "V": [[1, 3, 5]]}, "--precision", 2) == [
        "weights (3 keys x 2 queries): each column sums to 1",
        "┌─────┬────────────┐",
        "│     │  the   cat │",
        "├─────┼────────────┤",
        "│ the │ 0.40  0.20 │",
        "│ cat │ 0.20  0.40 │",
        "│ sat │ 0.40  0.40 │",
        "└─────┴────────────┘",
    ]


def test_a_narrow_terminal_gets_blocks_that_repeat_the_labels() -> None:
    assert lines_of(A00, width=26) == [
        "weights (2 queries x 3",
        "keys): each row sums to 1",
        "columns 1-2 of 3",
        "┌─────┬────────────────┐",
        "│     │    the     cat │",
        "├─────┼────────────────┤",
        "│ the │ 0.4011  0.1978 │",
        "│ cat │ 0.1978  0.4011 │",
        "└─────┴────────────────┘",
        "columns 3 of 3",
        "┌─────┬────────┐",
        "│     │    sat │",
        "├─────┼────────┤",
        "│ the │ 0.4011 │",
        "│ cat │ 0.4011 │",
        "└─────┴────────┘",
    ]


def test_labels_stand_as_written_and_controls_as_escapes() -> None:
    words = ["[/b]", ":smile:", "\x1b[31m\u202e\n"]
    text = "\n".join(lines_of({**A00, "key_tokens": words}))
    assert all(shown in text for shown in ("[/b]", ":smile:", r"\x1b[31m\u202e\n"))
    assert "\x1b" not in text


def test_long_labels_are_folded() -> None:
    drawn = lines_of({**A00, "tokens": ["unbelievable", "中文字符很长"]}, width=30)
    shown = [line.split("│")[1].strip() for line in drawn if line.startswith("│")]
    assert shown[1] != "unbelievable"
    assert "".join(shown).startswith("unbelievable中文字符很长")


def test_a_hidden_cell_is_a_dot_and_a_small_number_is_not() -> None:
    problem = {"scores": [[22, 2, 2], [0, 0, 0]], "mask": {"keep": [[1, 1, 0], [0, 0, 0]]}, "tokens": ["the", "cat"]}
    assert body_rows(lines_of(problem), 2) == [["1.0000", "0.0000", "·"], ["·", "·", "·"]]  # e^-20 is 2e-9
    assert body_rows(lines_of(problem, encoding="ascii"), 2)[0] == ["1.0000", "0.0000", "."]
    assert body_rows(lines_of(problem, encoding="latin-1"), 2)[0] == ["1.0000", "0.0000", "·"]
    assert body_rows(lines_of(problem, show="masked"), 2)[0] == ["22.0000", "2.0000", "·"]
    assert lines_of(problem)[0].endswith("each row sums to 1, except cat")


def test_weights_of_an_empty_row_are_shown_where_it_got_some() -> None:
    problem = {"scores": np.ones((2, 3)), "mask": {"keep": [[1, 1, 1], [0, 0, 0]]}, "empty_rows": "uniform"}
    assert body_rows(lines_of(problem, "--precision", 2), 2) == [["0.33"] * 3] * 2


def test_a_table_without_colour_does_not_pay_for_the_console_of_rich() -> None:
    code = (
        "import io, sys; from attncli.cli import call; sys.stdout = io.StringIO()\n"
        "status = call(['attend', '--scores', '[[1, 0]]'])\n"
        "assert status == 0 and '\u250c' in sys.stdout.getvalue() and 'rich.box' in sys.modules\n"
        "assert not {'rich.console', 'rich.table', 'rich.text', 'csv'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("normalizer", "problem", "caption"),
    [
        ("softmax", {"scores": np.log(BASE)}, "each row sums to 1"),
        ("sparsemax", {"scores": BASE, "mask": {"keep": [[1, 1, 1], [0, 0, 0]]}}, "each row sums to 1, except cat"),
        ("sum", {"scores": BASE, "mask": "keys:0,0,0"}, "no row sums to 1"),
        ("sum", {"scores": [[np.nan, 1, 1], [0, 0, 1]]}, "each row sums to 1, except the"),
        ("sigmoid", {"scores": BASE}, "rows need not sum to 1"),
        ("none", {"scores": BASE}, "rows need not sum to 1"),
    ],
)
def test_the_caption_says_which_axis_sums_to_1(normalizer: str, problem: dict[str, Any], caption: str) -> None:
    assert normalizer in names("normalizers")
    lines = lines_of({**problem, "normalizer": normalizer, "tokens": ["the", "cat"]})
    assert lines[0] == f"weights (2 queries x 3 keys): {caption}"


def test_the_caption_of_a_normalizer_that_promises_nothing() -> None:
    @NORMALIZERS("my_own", sums_to_one=False, monotone=False, error="absolute")
    def my_own(logits: Any, visible: Any) -> Any:
        """The logits."""
        return logits

    try:
        assert lines_of({"scores": BASE, "normalizer": "my_own"})[0].endswith(": rows need not sum to 1")
    finally:
        NORMALIZERS.remove("my_own")


def test_of_more_than_60_the_ends_are_shown() -> None:
    array = np.arange(61.0 * 62).reshape(61, 62)
    drawn = lines_of({"scores": array}, "--precision", 0, show="scores")
    rows = body_rows(drawn, 11)
    assert rows[0] == ["0", "1", "2", "3", "4", "…", "57", "58", "59", "60", "61"]
    assert rows[5] == ["…"] * 11
    assert rows[10][-1] == str(61 * 62 - 1)
    assert drawn[-1] == "rows 6-56 of 61 and columns 6-57 of 62 not shown; --format csv and -o give them all"
    sixty = lines_of({"scores": array[:60, :60]}, "--precision", 0, show="scores")
    assert len(body_rows(sixty, 60)[59]) == 60
    assert "not shown" not in sixty[-1]
    narrow = lines_of({"scores": array}, "--precision", 0, show="scores", width=50)
    assert [line for line in narrow if line.startswith("columns")] == ["columns 1-5, 58 of 62", "columns 59-62 of 62"]
    assert "..." in "".join(lines_of({"scores": array}, show="scores", encoding="ascii"))


def test_right_to_left_labels_are_isolated_on_a_terminal_only() -> None:
    problem = {**A00, "tokens": ["שלום", "cat"]}
    assert "\u2068שלום\u2069" in "".join(lines_of(problem, tty=True))
    assert "\u2068" not in "".join(lines_of(problem))
    assert "\u2068" not in "".join(lines_of(A00, tty=True))


def test_styles_only_where_colour_is_wanted() -> None:
    problem = {"scores": np.log([[0.25, 0.75, 1], [0.5, 0.25, 0.25]]), "mask": {"keep": [[1, 1, 0], [1, 1, 1]]}}
    assert "\x1b" not in "".join(lines_of(problem, tty=True, NO_COLOR="1", TTY_COMPATIBLE="1"))
    assert "\x1b" not in "".join(lines_of(problem, TTY_COMPATIBLE="1", TERM="xterm"))
    styled = "\n".join(lines_of(problem, tty=True, TERM="xterm"))
    assert "\x1b[1m0.7500\x1b[0m" in styled
    assert "\x1b[2m·\x1b[0m" in styled
    assert "\x1b[1m0.2500" not in styled


def test_no_keys_and_no_queries() -> None:
    for shape in ((2, 0), (0, 3)):
        assert lines_of({"weights": np.zeros(shape)}, width=80)[-1] == "(nothing to show)"


def test_labels_without_any_text() -> None:
    problem = {**A00, "tokens": ["", "\u200b"], "key_tokens": ["", "", ""]}
    assert body_rows(lines_of(problem, "--precision", 1, width=20), 2) == [["0.4", "0.2", "0.4"], ["0.2", "0.4", "0.4"]]


@pytest.mark.parametrize(("layout", "other"), [("rows", "3 queries x 1 feature"), ("columns", "1 feature x 3 queries")])
def test_one_number_for_each_query_is_no_feature(layout: str, other: str) -> None:
    scores, v = np.zeros((3, 2)), np.ones((2, 1))
    if layout == "columns":
        scores, v = scores.T, v.T
    problem = {"scores": scores, "V": v, "layout": layout}
    sizes = [lines_of(problem, show=name)[0].partition(" (")[2].partition(")")[0] for name in ("sum", "lse", "output")]
    assert sizes == ["3 queries", "3 queries", other]
