"""Every format as it looks, and what each takes for special."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from report_traces import BASE, OUTPUT, labels, made
from rich.cells import cell_len

from attncli import Trace, __version__
from attncli.report.look import Look, missing_characters
from attncli.report.markup import escape_latex, escape_markdown
from attncli.report.renderers import RENDERERS, render
from tests.inside import InputError, ShapeError


def text_of(trace: Trace, steps: list[str] | None, format: str, look: Look | None = None) -> str:
    return "".join(render(trace, steps, look or Look(), format))


def test_plain_as_it_looks() -> None:
    assert text_of(made(), None, "plain") == (
        "weights (2 queries x 3 keys): each row sums to 1\n"
        "        the     cat     sat\n"
        "the  0.4011  0.1978  0.4011\n"
        "cat  0.1978  0.4011  0.4011\n"
        "\n"
        "output (2 queries x 2 features): the weighted sum of the values\n"
        "          1       2\n"
        "the  3.0000  4.0000\n"
        "cat  3.4067  4.4067\n"
    )


def test_plain_shows_every_row_and_column() -> None:
    array = np.arange(70.0 * 80).reshape(70, 80)
    lines = text_of(Trace({"scores": array}), ["scores"], "plain", Look(precision=1, width=20)).splitlines()[2:]
    assert [[float(x) for x in line.split()[1:]] for line in lines] == array.tolist()


@given(st.lists(labels, min_size=3, max_size=3))
def test_plain_columns_are_aligned(words: list[str]) -> None:
    trace = made(steps={"weights": BASE}, query_labels=words[:2], key_labels=words)
    lines = text_of(trace, ["weights"], "plain").removesuffix("\n").split("\n")
    assert len(lines) == 4
    assert len({cell_len(line) for line in lines[1:]}) == 1


def test_markdown_as_it_looks() -> None:
    trace = made(key_labels=["the", "a|b", "[CLS]"])
    assert text_of(trace, ["weights"], "markdown", Look(precision=2)) == (
        "weights (2 queries x 3 keys): each row sums to 1\n"
        "\n"
        "|     |  the | a\\|b | [CLS] |\n"
        "|---|---:|---:|---:|\n"
        "| the | 0.40 | 0.20 |  0.40 |\n"
        "| cat | 0.20 | 0.40 |  0.40 |\n"
    )


def test_latex_as_it_looks() -> None:
    weights = np.array([[0.5, 0.5, 0], [np.inf, -np.inf, np.nan]])
    visible = np.array([[True, True, False], [True, True, True]])
    trace = made(steps={"masked": np.where(visible, weights, -np.inf)}, visible=visible, query_labels=["[CLS]", "a_b"])
    trace.steps["masked"][0, 1] = -1.5e300
    assert text_of(trace, ["masked"], "latex", Look(precision=1)) == (
        "\\noindent masked (2 queries x 3 keys): hidden cells at -inf or the mask value\n"
        "\\[\n"
        "\\begin{array}{r|rrr}\n"
        " & \\text{the} & \\text{cat} & \\text{sat} \\\\ \\hline\n"
        "\\text{[CLS]} & 0.5 & -1.5 \\times 10^{300} & \\cdot \\\\\n"
        "\\text{a\\_b} & \\infty & -\\infty & \\text{nan} \\\\\n"
        "\\end{array}\n"
        "\\]\n"
    )


def test_what_markdown_takes_for_markup_is_escaped() -> None:
    assert escape_markdown(r"*a* `b` \ <i> &amp; W_Q") == r"\*a\* \`b\` \\ \<i\> \&amp; W\_Q"
    assert escape_markdown("[CLS] [/b] :smile:") == "[CLS] [/b] :smile:"
    assert escape_markdown("[a](b)") == r"[a]\(b)"


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])))
def test_markdown_escapes_can_be_undone(text: str) -> None:
    escaped = escape_markdown(text)
    assert re.sub(r"\\([\\|`*_<>&~$#(])", r"\1", escaped) == text
    assert not re.search(r"(?<!\\)(\\\\)*[|`*_<>&~$#]", escaped)


def test_latex_escapes() -> None:
    assert escape_latex(r"50% of $x_1^2 & {#} ~ \x1b") == (
        r"50\% of \$x\_1\textasciicircum{}2 \& \{\#\} \textasciitilde{} \textbackslash{}x1b"
    )
    assert escape_latex("--- ''") == "-{}-{}- '{}'"
    assert escape_latex("a-b, <|end|>") == r"a-b, \textless{}\textbar{}end\textbar{}\textgreater{}"


@pytest.mark.latex
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
def test_latex_compiles_with_amsmath_alone(tmp_path: Path) -> None:
    hard = ["[CLS]", "[/b]", r"\end{array}", "%", "a&b", "<|x|>", "~^_$#{}", "--'`?`", "\x1b\n"]
    trace = Trace({"weights": np.full((9, 9), 1e300)}, query_labels=hard, key_labels=hard)
    body = text_of(trace, None, "latex")
    source = f"\\documentclass{{article}}\\usepackage{{amsmath}}\\begin{{document}}\n{body}\\end{{document}}\n"
    (tmp_path / "t.tex").write_text(source, encoding="utf-8")
    done = subprocess.run(["pdflatex", "-halt-on-error", "t.tex"], cwd=tmp_path, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stdout[-2000:]


def heads() -> Trace:
    return made(steps={"weights": np.stack([BASE, BASE[::-1]]), "output": OUTPUT}, heads=2)


def test_a_table_for_each_head() -> None:
    text = text_of(heads(), None, "table")
    titles = [line for line in text.splitlines() if "(" in line]
    assert [title.partition(" (")[0] for title in titles] == ["weights[1], head 1", "weights[2], head 2", "output"]
    assert text.count("\n\n") == 2
    assert text_of(heads(), ["weights[2]"], "plain").splitlines()[2].split() == ["the", "0.1978", "0.4011", "0.4011"]


def test_sequences_and_heads_are_named() -> None:
    trace = made(steps={"weights": np.broadcast_to(BASE, (2, 2, 2, 3))}, heads=2)
    lines = [line for line in text_of(trace, None, "plain").splitlines() if line.startswith("weights")]
    assert lines[1].startswith("weights[1,2], sequence 1, head 2 (2 queries")
    one = made(steps={"weights": np.broadcast_to(BASE, (1, 2, 2, 3))}, heads=2)
    assert text_of(one, ["weights[2]"], "plain").startswith("weights[2], sequence 1, head 2 (2 queries")


def test_without_weights_the_last_step_is_shown() -> None:
    assert text_of(Trace({"Q": OUTPUT, "scores": BASE}), None, "plain").startswith("scores (2 queries x 3 keys): f(q")


def test_unknown_format_step_and_part() -> None:
    for steps, format in ((None, "tabel"), (["wieghts"], "table"), (["weights[3]"], "table"), (["scaled"], "plain")):
        with pytest.raises(InputError):
            text_of(heads(), steps, format)


def test_a_renderer_is_added_in_one_place() -> None:
    @RENDERERS("count")
    def count(trace: Trace, steps: list[str], look: Look) -> list[str]:
        return [f"{len(steps)}\n"]

    try:
        assert text_of(made(), None, "count") == "2\n"
    finally:
        RENDERERS.remove("count")


@pytest.mark.parametrize("format", ["table", "plain", "markdown", "latex"])
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "cp437", "utf-8", "no-such-code"])
def test_any_encoding_can_hold_it(format: str, encoding: str) -> None:
    trace = made(key_labels=["中", "é", "\udc80"])
    text = text_of(trace, None, format, Look(encoding=encoding))
    text.encode("ascii" if encoding == "no-such-code" else encoding)
    backslash = r"\textbackslash{}" if format == "latex" else "\\\\" if format == "markdown" else "\\"
    assert ("中" in text) == (encoding == "utf-8")
    assert f"{backslash}udc80" in text
    assert encoding == "utf-8" or f"{backslash}u4e2d" in text


def test_a_note_where_the_encoding_lacks_characters() -> None:
    assert missing_characters(["中", "a"], Look()) is None
    assert missing_characters(["é"], Look(encoding="latin-1")) is None
    assert "latin-1" in str(missing_characters(["中"], Look(encoding="latin-1")))
    assert "ascii" in str(missing_characters(["é"], Look(ascii=True)))
    assert missing_characters(["\x1b"], Look(ascii=True)) is None


@pytest.mark.parametrize("code", [*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x2028])
def test_control_characters_are_escaped(code: int) -> None:
    escaped = Look().label(f"a{chr(code)}b")
    assert escaped.isprintable()
    assert escaped[:2] == "a\\"
    assert escaped.encode().decode("unicode_escape") == f"a{chr(code)}b"


def test_csv_holds_one_step_at_full_precision() -> None:
    trace = made()
    assert text_of(trace, None, "csv") == "3.0,4.0\n3.406673,4.406673\n"
    trace.labelled = True
    assert text_of(trace, ["weights"], "csv") == (
        ",the,cat,sat\nthe,0.401112,0.197776,0.401112\ncat,0.197776,0.401112,0.401112\n"
    )
    assert text_of(trace, None, "tsv") == "the\t3.0\t4.0\ncat\t3.406673\t4.406673\n"
    trace.layout = "columns"
    assert text_of(trace, None, "csv") == "the,cat\n3.0,3.406673\n4.0,4.406673\n"


def test_csv_refuses_more_and_tells_the_way_out() -> None:
    with pytest.raises(InputError, match="weights, output"):
        text_of(made(), ["weights", "output"], "csv")
    with pytest.raises(ShapeError, match=r"weights\[1\].*\.npz"):
        text_of(heads(), ["weights"], "csv")
    assert text_of(heads(), ["weights[2]"], "csv").startswith("0.197776,")


def test_json_and_yaml_are_one_object() -> None:
    weights = np.array([[[1.0, 0.1 + 0.2]], [[np.inf, np.nan]]])
    trace = Trace(
        {"weights": weights, "lse": np.zeros((2, 1, 1)), "output": np.array([[-np.inf]])},
        attention="self", scale=0.5, mask=["causal:top-left"], heads=2, query_labels=["the"], key_labels=["中", "[b]"],
        notes=["something was assumed"],
    )  # fmt: skip
    expected = {
        "attncli": __version__,
        "schema": 1,
        "attention": "self",
        "layout": "rows",
        "score": {"name": "scaled-dot"},
        "scale": 0.5,
        "mask": ["causal:top-left"],
        "query_labels": ["the"],
        "key_labels": ["中", "[b]"],
        "steps": {"weights": [[[1.0, 0.30000000000000004]], [["inf", "nan"]]], "output": [["-inf"]]},
        "notes": ["something was assumed"],
    }
    loaded = json.loads(text_of(trace, None, "json"))
    assert loaded == expected
    assert list(loaded) == list(expected)
    assert json.loads(text_of(trace, ["weights[2]", "lse"], "json"))["steps"] == {
        "weights[2]": [["inf", "nan"]],
        "lse": [[[0.0]], [[0.0]]],
    }
    in_yaml = yaml.safe_load(text_of(trace, ["output"], "yaml"))
    assert in_yaml["mask"] == ["causal:top-left"]
    assert list(in_yaml["steps"]) == ["output"]
