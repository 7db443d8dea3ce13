"""Every format as it looks, and what each takes for special."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from shown import A00, BASE, call, labels, lines_of, text_of

from attncli import __version__, run
from tests.calling import names
from tests.inside import RENDERERS


def test_plain_as_it_looks() -> None:
    assert text_of(A00, "--format", "plain") == (
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
    lines = lines_of({"scores": array}, "--format", "plain", "--precision", 1, show="scores", width=20)[2:]
    assert [[float(x) for x in line.split()[1:]] for line in lines] == array.tolist()


@given(st.lists(labels, min_size=3, max_size=3))
def test_plain_columns_are_aligned(words: list[str]) -> None:
    lines = lines_of({"weights": BASE, "tokens": words[:2], "key_tokens": words}, "--format", "plain")
    assert len(lines) == 4
    assert len({cell_len(line) for line in lines[1:]}) == 1


def test_markdown_as_it_looks() -> None:
    problem = {**A00, "key_tokens": ["the", "a|b", "[CLS]"]}
    assert text_of(problem, "--show", "weights", "--format", "markdown", "--precision", 2) == (
        "weights (2 queries x 3 keys): each row sums to 1\n"
        "\n"
        "|     |  the | a\\|b | [CLS] |\n"
        "|---|---:|---:|---:|\n"
        "| the | 0.40 | 0.20 |  0.40 |\n"
        "| cat | 0.20 | 0.40 |  0.40 |\n"
    )


def test_latex_as_it_looks() -> None:
    problem = {
        "scores": np.array([[0.5, -1.5e300, 0], [np.inf, -np.inf, np.nan]]), "mask": {"keep": [[1, 1, 0], [1, 1, 1]]},
        "tokens": ["[CLS]", "a_b"], "key_tokens": ["the", "cat", "sat"],
    }  # fmt: skip
    assert text_of(problem, "--show", "masked", "--format", "latex", "--precision", 1) == (
        "\\noindent masked (2 queries x 3 keys): hidden cells at -inf or the mask value\n"
        "\\[\n"
        "\\begin{array}{r|rrr}\n"
        " & \\text{the} & \\text{cat} & \\text{sat} \\\\ \\hline\n"
        "\\text{[CLS]} & 0.5 & -1.5 \\times 10^{300} & \\cdot \\\\\n"
        "\\text{a\\_b} & \\infty & \\cdot & \\text{nan} \\\\\n"
        "\\end{array}\n"
        "\\]\n"
    )


@pytest.mark.latex
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
def test_latex_compiles_with_amsmath_alone(tmp_path: Path) -> None:
    hard = ["[CLS]", "[/b]", r"\end{array}", "%", "a&b", "<|x|>", "~^_$#{}", "--'`?`", "\x1b\n"]
    body = text_of({"scores": np.full((9, 9), 1e300), "tokens": hard, "key_tokens": hard}, "--show", "scores",
                   "--format", "latex")  # fmt: skip
    source = f"\\documentclass{{article}}\\usepackage{{amsmath}}\\begin{{document}}\n{body}\\end{{document}}\n"
    (tmp_path / "t.tex").write_text(source, encoding="utf-8")
    done = subprocess.run(["pdflatex", "-halt-on-error", "t.tex"], cwd=tmp_path, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stdout[-2000:]


HEADS = {**A00, "weights": np.stack([BASE, BASE[::-1]]), "V": [[1, 2], [3, 4], [5, 6]], "heads": 2}


def test_infinities_in_latex() -> None:
    """Each query sees its own key alone, so that the output is V."""
    v = np.array([[0.5, 0.0, 1.0], [np.inf, -np.inf, np.nan]])
    problem = {"Q": [[1], [2]], "K": [[1], [2]], "V": v, "mask": "window:0,0"}
    assert r"\text{q2} & \infty & -\infty & \text{nan} \\" in text_of(problem, "--show", "output", "--format", "latex")


def test_a_table_for_each_head() -> None:
    text = text_of(HEADS)
    titles = [line for line in text.splitlines() if "(" in line]
    assert [title.partition(" (")[0] for title in titles] == ["weights[1], head 1", "weights[2], head 2", "output"]
    assert text.count("\n\n") == 2
    assert lines_of(HEADS, "--format", "plain", show="weights[2]")[2].split() == ["the", "0.1978", "0.4011", "0.4011"]


def test_sequences_and_heads_are_named() -> None:
    lines = [line for line in lines_of({"weights": np.broadcast_to(BASE, (2, 2, 2, 3))}, "--format", "plain")
             if line.startswith("weights")]  # fmt: skip
    assert lines[1].startswith("weights[1,2], sequence 1, head 2 (2 queries")
    one = {"weights": np.broadcast_to(BASE, (1, 2, 2, 3))}
    assert lines_of(one, "--format", "plain", show="weights[2]")[0].startswith(
        "weights[2], sequence 1, head 2 (2 queries"
    )


def test_unknown_format_step_and_part() -> None:
    for steps, format in (("weights", "tabel"), ("wieghts", "table"), ("weights[3]", "table"), ("scaled", "plain")):
        done = call(HEADS, "--show", steps, "--format", format)
        assert (done.status, done.out) == (2, "")


def test_a_renderer_is_added_in_one_place() -> None:
    @RENDERERS("count")
    def count(trace: Any, steps: list[str], look: Any) -> list[str]:
        return [f"{len(steps)}\n"]

    try:
        assert text_of(A00, "--format", "count") == "2\n"
        assert "count" in names("formats")
    finally:
        RENDERERS.remove("count")


@pytest.mark.parametrize("format", ["table", "plain", "markdown", "latex"])
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "cp437", "utf-8", "no-such-code"])
def test_any_encoding_can_hold_it(format: str, encoding: str) -> None:
    problem = {**A00, "key_tokens": ["中", "é", "\x1b"]}
    text = text_of(problem, "--format", format, encoding="utf-8" if encoding == "no-such-code" else encoding)
    backslash = r"\textbackslash{}" if format == "latex" else "\\\\" if format == "markdown" else "\\"
    assert ("中" in text) == (encoding in ("utf-8", "no-such-code"))
    assert f"{backslash}x1b" in text
    assert encoding in ("utf-8", "no-such-code") or f"{backslash}u4e2d" in text


def test_csv_holds_one_step_at_full_precision() -> None:
    trace = run({"weights": BASE, "V": A00["V"]})
    bare = {"weights": BASE, "V": A00["V"]}
    rows = [line.split(",") for line in text_of(bare, "--format", "csv").splitlines()]
    np.testing.assert_array_equal(np.array(rows, float), trace["output"])
    assert text_of(A00, "--show", "weights", "--format", "csv") == (
        ",the,cat,sat\nthe,0.401112,0.197776,0.401112\ncat,0.197776,0.401112,0.401112\n"
    )
    whole = {"weights": [[0.5, 0.5, 0], [0.25, 0.5, 0.25]], "V": A00["V"], "tokens": ["the", "cat"]}
    assert text_of(whole, "--format", "tsv") == "the\t2.0\t3.0\ncat\t3.0\t4.0\n"
    columns = {**whole, "weights": [[0.5, 0.25], [0.5, 0.5], [0, 0.25]], "V": [[1, 3, 5], [2, 4, 6]]}
    columns["layout"] = "columns"
    assert text_of(columns, "--format", "csv") == "the,cat\n2.0,3.0\n3.0,4.0\n"


def test_csv_refuses_more_and_tells_the_way_out() -> None:
    for problem, steps, told in ((A00, "weights,output", "weights, output"), (HEADS, "weights", "weights[1]")):
        done = call(problem, "--show", steps, "--format", "csv")
        assert (done.status, done.out) == (2, "")
        assert told in done.err
    assert ".npz" in done.err
    one = {"weights": np.stack([BASE, BASE[::-1]]), "heads": 2}
    assert text_of(one, "--show", "weights[2]", "--format", "csv").startswith("0.197776,")


def test_json_and_yaml_are_one_object() -> None:
    scores = np.array([[[1.0, 0.1 + 0.2]], [[np.inf, np.nan]]])
    problem = {
        "scores": scores, "score": "scaled-dot", "scale": 0.5, "mask": "causal:top-left", "heads": 2,
        "tokens": ["the"], "key_tokens": ["中", "[b]"],
    }  # fmt: skip
    loaded = json.loads(text_of(problem, "--format", "json"))
    notes = loaded.pop("notes")
    steps = loaded.pop("steps")
    assert loaded == {
        "attncli": __version__,
        "schema": 1,
        "attention": "attend",
        "layout": "rows",
        "score": {"name": "scaled-dot"},
        "scale": 0.5,
        "mask": ["causal:top-left"],
        "query_labels": ["the"],
        "key_labels": ["中", "[b]"],
    }
    assert list(json.loads(text_of(problem, "--format", "json")))[-2:] == ["steps", "notes"]
    assert any("head 2, query 1" in note for note in notes)
    assert list(steps) == ["scores", "scaled", "masked", "weights"]
    assert steps["scores"] == [[[1.0, 0.30000000000000004]], [["inf", "nan"]]]
    assert steps["masked"] == [[[0.5, "-inf"]], [["inf", "-inf"]]]
    assert json.loads(text_of(problem, "--show", "scores[2],lse", "--format", "json"))["steps"] == {
        "scores[2]": [["inf", "nan"]],
        "lse": [[[0.5]], [["nan"]]],
    }
    in_yaml = yaml.safe_load(text_of(problem, "--show", "scores", "--format", "yaml"))
    assert in_yaml["mask"] == ["causal:top-left"]
    assert list(in_yaml["steps"]) == ["scores"]
