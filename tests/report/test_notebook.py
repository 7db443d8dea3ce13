"""What a notebook shows of a Trace."""

from __future__ import annotations

from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from attncli import attend
from tests.calling import ROOT, attncli

Q, K, V = [[1, 0], [0, 1]], [[1, 0], [0, 1], [1, 1]], [[1, 2], [3, 4], [5, 6]]


def test_tables_and_notes_in_html_and_markdown() -> None:
    trace = attend(Q, K, V, mask="causal", tokens=["<b>one</b>", "two"])
    shown = trace._repr_html_()
    assert shown is not None
    assert shown.count("<table>") == 2
    assert "&lt;b&gt;one&lt;/b&gt;" in shown
    assert "<b>" not in shown
    assert "note: causal: the scores are 2 x 3" in shown
    markdown = trace._repr_markdown_()
    assert markdown is not None
    page = MarkdownIt("commonmark").enable("table").render(markdown)
    assert page.count("<table>") == 2
    assert "<b>" not in page
    assert "0.3302" in page  # 1 / (1 + e^(1 / sqrt 2))


def test_what_is_offered_to_complete() -> None:
    assert not [name for name in dir(attend(Q, K, V)) if name.startswith("_")]
    assert {"weights", "output", "notes"} <= set(dir(attend(Q, K, V)))


def test_the_sample_runs_as_a_notebook() -> None:
    nbformat = pytest.importorskip("nbformat", reason="the extra `test`")
    nbclient = pytest.importorskip("nbclient", reason="the extra `test`")
    pytest.importorskip("matplotlib", reason="the extra `plot`")
    book = nbformat.read(ROOT / "samples/notebook.ipynb", as_version=4)
    nbformat.validate(book)
    nbclient.NotebookClient(book, timeout=120, resources={"metadata": {"path": str(ROOT)}}).execute()
    shown = [output for cell in book.cells for output in cell.get("outputs", [])]
    assert not [output for output in shown if output.output_type == "error"]
    kinds = [set(output.get("data", {})) for output in shown]
    assert any("text/html" in kind and "text/markdown" in kind for kind in kinds), "the tables"
    assert any("image/png" in kind for kind in kinds), "the picture"
    told = "".join(output.get("text", "") + output.get("data", {}).get("text/plain", "") for output in shown)
    assert "weights[sat, cat] = " in told
    assert "sqrt(d_k)" in told


def test_show_prints_what_run_would(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = attend(Q, K, V)
    trace.show("scores", "weights")
    printed = capsys.readouterr().out
    trace.show(format="csv")
    assert capsys.readouterr().out == attncli("attend", str(Q), str(K), str(V), "--format", "csv").out
    assert printed == attncli("attend", str(Q), str(K), str(V), "--show", "scores,weights").out
