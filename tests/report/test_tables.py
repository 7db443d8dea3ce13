"""Tables: never a number cut, labels as written, blocks, elision, encodings."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_traces import BASE, body_rows, labels, made
from rich.cells import cell_len

from attncli import Trace
from attncli.report.look import Look
from attncli.report.numbers import spell
from attncli.report.sheet import sheet
from attncli.report.table import FRAME, draw

numbers = st.floats(-100, 100) | st.floats() | st.sampled_from([1e300, -1e-300, 0.0, -0.0, 123456789.125])


def lines_of(trace: Trace, look: Look, address: str = "weights") -> list[str]:
    return list(draw(sheet(trace, address, look), look))


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
    trace = Trace({"scores": array}, query_labels=rows, key_labels=columns)
    look = Look(precision=precision, width=width, terminal=terminal, encoding=encoding)
    drawn = lines_of(trace, look, "scores")
    expected = spell(array, precision)
    assert body_rows(drawn, len(rows)) == expected
    "\n".join(drawn).encode(encoding)
    styled = lines_of(trace, look._replace(color=True), "scores")
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
    assert lines_of(made(), Look()) == [
        "weights (2 queries x 3 keys): each row sums to 1",
        "┌─────┬────────────────────────┐",
        "│     │    the     cat     sat │",
        "├─────┼────────────────────────┤",
        "│ the │ 0.4011  0.1978  0.4011 │",
        "│ cat │ 0.1978  0.4011  0.4011 │",
        "└─────┴────────────────────────┘",
    ]


def test_columns_layout_puts_queries_on_top() -> None:
    assert lines_of(made(layout="columns"), Look(precision=2)) == [
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
    assert lines_of(made(), Look(width=26)) == [
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
    text = "\n".join(lines_of(made(key_labels=words), Look()))
    assert all(shown in text for shown in ("[/b]", ":smile:", r"\x1b[31m\u202e\n"))
    assert "\x1b" not in text


def test_long_labels_are_folded() -> None:
    drawn = lines_of(made(query_labels=["unbelievable", "中文字符很长"]), Look(width=30))
    shown = [line.split("│")[1].strip() for line in drawn if line.startswith("│")]
    assert shown[1] != "unbelievable"
    assert "".join(shown).startswith("unbelievable中文字符很长")


def test_a_hidden_cell_is_a_dot_and_a_small_number_is_not() -> None:
    weights = np.array([[1.0, 1e-9, 0], [0, 0, 0]])
    visible = np.array([[True, True, False], [False, False, False]])
    trace = made(steps={"weights": weights, "masked": np.where(visible, 2.0, -np.inf)}, visible=visible)
    assert body_rows(lines_of(trace, Look()), 2) == [["1.0000", "0.0000", "·"], ["·", "·", "·"]]
    assert body_rows(lines_of(trace, Look(ascii=True)), 2)[0] == ["1.0000", "0.0000", "."]
    assert body_rows(lines_of(trace, Look(encoding="latin-1")), 2)[0] == ["1.0000", "0.0000", "·"]
    assert body_rows(lines_of(trace, Look(), "masked"), 2)[0] == ["2.0000", "2.0000", "·"]
    assert lines_of(trace, Look())[0].endswith("each row sums to 1, except cat")


def test_weights_of_an_empty_row_are_shown_where_it_got_some() -> None:
    trace = made(steps={"weights": np.full((2, 3), 1 / 3)}, visible=np.array([[True] * 3, [False] * 3]))
    assert body_rows(lines_of(trace, Look(precision=2)), 2) == [["0.33"] * 3] * 2


def test_a_table_without_colour_does_not_pay_for_the_console_of_rich() -> None:
    code = (
        "import sys; from attncli.pipeline.trace import Trace; from attncli.report.look import Look; import numpy\n"
        "from attncli.report.renderers import render\n"
        "text = ''.join(render(Trace({'scores': numpy.eye(3)}), None, Look()))\n"
        "assert '\u250c' in text and 'rich.box' in sys.modules\n"
        "assert not {'rich.console', 'rich.table', 'rich.text', 'yaml', 'csv'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("normalizer", "weights", "caption"),
    [
        ("softmax", BASE, "each row sums to 1"),
        ("sparsemax", BASE * [[1], [0]], "each row sums to 1, except cat"),
        ("sum", BASE * 0, "no row sums to 1"),
        ("sum", np.array([[np.nan] * 3, [0, 0, 1]]), "each row sums to 1, except the"),
        ("sigmoid", BASE, "rows need not sum to 1"),
        ("none", BASE, "rows need not sum to 1"),
        ("my_own", BASE, "rows need not sum to 1"),
    ],
)
def test_the_caption_says_which_axis_sums_to_1(normalizer: str, weights: np.ndarray, caption: str) -> None:
    trace = made(steps={"weights": weights}, normalizer=normalizer)
    assert lines_of(trace, Look())[0] == f"weights (2 queries x 3 keys): {caption}"


def test_of_more_than_60_the_ends_are_shown() -> None:
    array = np.arange(61.0 * 62).reshape(61, 62)
    drawn = lines_of(Trace({"scores": array}), Look(precision=0), "scores")
    rows = body_rows(drawn, 11)
    assert rows[0] == ["0", "1", "2", "3", "4", "…", "57", "58", "59", "60", "61"]
    assert rows[5] == ["…"] * 11
    assert rows[10][-1] == str(61 * 62 - 1)
    assert drawn[-1] == "rows 6-56 of 61 and columns 6-57 of 62 not shown; --format csv and -o give them all"
    sixty = lines_of(Trace({"scores": array[:60, :60]}), Look(precision=0), "scores")
    assert len(body_rows(sixty, 60)[59]) == 60
    assert "not shown" not in sixty[-1]
    narrow = lines_of(Trace({"scores": array}), Look(precision=0, width=50), "scores")
    assert [line for line in narrow if line.startswith("columns")] == ["columns 1-5, 58 of 62", "columns 59-62 of 62"]
    assert "..." in "".join(lines_of(Trace({"scores": array}), Look(encoding="ascii"), "scores"))


def test_right_to_left_labels_are_isolated_on_a_terminal_only() -> None:
    trace = made(query_labels=["שלום", "cat"])
    assert "\u2068שלום\u2069" in "".join(lines_of(trace, Look(terminal=True)))
    assert "\u2068" not in "".join(lines_of(trace, Look()))
    assert "\u2068" not in "".join(lines_of(made(), Look(terminal=True)))


def test_styles_only_where_colour_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "5")
    visible = np.array([[True, True, False], [True, True, True]])
    trace = made(steps={"weights": np.array([[0.25, 0.75, 0], [0.5, 0.25, 0.25]])}, visible=visible)
    assert "\x1b" not in "".join(lines_of(trace, Look()))
    monkeypatch.delenv("FORCE_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    styled = "\n".join(lines_of(trace, Look(color=True)))
    assert "\x1b[1m0.7500\x1b[0m" in styled
    assert "\x1b[2m·\x1b[0m" in styled
    assert "\x1b[1m0.2500" not in styled


def test_no_keys_and_no_queries() -> None:
    for shape in ((2, 0), (0, 3)):
        trace = Trace({"weights": np.zeros(shape)})
        assert lines_of(trace, Look(width=80))[-1] == "(nothing to show)"


def test_labels_without_any_text() -> None:
    trace = made(query_labels=["", "\u200b"], key_labels=["", "", ""])
    assert body_rows(lines_of(trace, Look(width=20, precision=1)), 2) == [["0.4", "0.2", "0.4"], ["0.2", "0.4", "0.4"]]


@pytest.mark.parametrize(("layout", "other"), [("rows", "3 queries x 1 feature"), ("columns", "1 feature x 3 queries")])
def test_one_number_for_each_query_is_no_feature(layout: str, other: str) -> None:
    steps = {"sum": np.ones((3, 1)), "lse": np.zeros((3, 1)), "output": np.ones((3, 1))}
    trace = Trace(steps, layout=layout)
    assert [sheet(trace, name, Look()).size for name in steps] == ["3 queries", "3 queries", other]
