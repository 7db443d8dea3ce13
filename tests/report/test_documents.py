"""Documents: Markdown as its parser reads it, HTML likewise, LaTeX as pdflatex sets it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from tests.calling import ROOT, Result

Cli = Callable[..., Result]
HOMEWORK = ROOT / "samples/hand/homework.yaml"
CAUSAL = ROOT / "samples/07-causal-self-attention.yaml"
STAGES = ROOT / "samples/transformer/problem.yaml"
COMMANDS = {
    "run": ("run", CAUSAL),
    "stages": ("run", STAGES),
    "check": ("check", HOMEWORK),  # whose mistake is scale-d_k, with underscores and a root
    "explain": ("explain", HOMEWORK, "--query", "cat"),
}
HOSTILE = ["<script>alert(1)</script>", "a|b", "$x^{$", "</table>", "\\end{document}", "#1 & 2%_", "`x`", "x" * 300]


def written(cli: Cli, which: str, path: Path, *options: str) -> str:
    result = cli(*COMMANDS[which], "-o", path, *options)
    assert result.status == (which == "check"), result.err
    assert result.out == ""
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("which", COMMANDS)
def test_markdown_renders(cli: Cli, tmp_path: Path, which: str) -> None:
    page = MarkdownIt("commonmark").enable("table").render(written(cli, which, tmp_path / "r.md"))
    assert page.startswith("<h1>")
    assert page.count("<h1>") == 1
    if which == "explain":
        assert "e^0.7071 = 2.0281" in page
    else:
        assert "<table>" in page
        rows = re.findall("<tr>.*?</tr>", page, re.DOTALL)
        assert not [row for row in rows if "note" in row or "sums to" in row], "text that became a row"


@pytest.mark.parametrize("which", COMMANDS)
def test_html_is_whole_and_asks_nothing_of_the_network(cli: Cli, tmp_path: Path, which: str) -> None:
    page = written(cli, which, tmp_path / "r.html")
    assert page.startswith("<!doctype html>")
    assert not re.search("https?:", page)
    assert "src=" not in page
    open_tags: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag not in ("meta", "br"):
                open_tags.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert open_tags.pop() == tag

    Reader().feed(page)
    assert open_tags == []


@pytest.mark.latex
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex here")
@pytest.mark.parametrize("which", COMMANDS)
def test_latex_compiles(cli: Cli, tmp_path: Path, which: str) -> None:
    written(cli, which, tmp_path / "r.tex")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "r.tex"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "r.pdf").stat().st_size


@pytest.mark.latex
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex here")
def test_latex_of_hostile_labels_compiles(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(json.dumps({"X": [[1, i] for i in range(len(HOSTILE))], "tokens": HOSTILE}))
    assert cli("run", tmp_path / "p.json", "-o", tmp_path / "r.tex", "--title", HOSTILE[4]).status == 0
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "r.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]


@pytest.mark.parametrize("label", HOSTILE)
def test_a_label_is_text(cli: Cli, tmp_path: Path, label: str) -> None:
    problem = {"X": [[1, 0], [0, 1]], "tokens": [label, "b"], "title": label}
    (tmp_path / "p.json").write_text(json.dumps(problem))
    assert cli("run", tmp_path / "p.json", "-o", tmp_path / "r.md", "-o", f"weights={tmp_path / 'r.html'}").status == 0
    rendered = MarkdownIt("commonmark").enable("table").render((tmp_path / "r.md").read_text())
    for page, tables in ((rendered, 2), ((tmp_path / "r.html").read_text(), 1)):
        texts: list[str] = []

        class Reader(HTMLParser):
            def handle_starttag(self, tag: str, attrs: object) -> None:
                assert tag not in ("script", "code", "em", "a")

            def handle_data(self, data: str, texts: list[str] = texts) -> None:
                texts.append(data)

        Reader().feed(page)
        assert "".join(texts).count(label) >= 2
        assert page.count("</table>") == tables


def test_the_caption_says_what_a_reader_needs(cli: Cli, tmp_path: Path) -> None:
    page = written(cli, "run", tmp_path / "r.md", "--precision", "2")
    assert '# Causal self-attention over "I am good"' in page
    assert "Self-attention, a token is a row; score scaled-dot; scale 0.7071; mask causal:top-left" in page
    assert "A dot is a key that the query does not see." in page
    assert "| 0.33 |  0.67 |" in page


def test_steps_are_those_of_show(cli: Cli, tmp_path: Path) -> None:
    result = cli("run", CAUSAL, "--show", "scores", "-o", tmp_path / "r.md")
    assert "scores (4 queries" in result.out
    page = (tmp_path / "r.md").read_text()
    assert "scores (4 queries" in page
    assert "weights (" not in page


def test_marks_as_data(cli: Cli, tmp_path: Path) -> None:
    names = ("csv", "tsv", "json")
    result = cli("check", HOMEWORK, "--quiet", *(f"-o{tmp_path / 'm.'}{name}" for name in names))
    assert (result.status, result.out, result.err) == (1, "", "")
    for name in names:
        assert (tmp_path / f"m.{name}").read_text() == cli("check", HOMEWORK, "--quiet", "--format", name).out


def test_what_cannot_be_written_here(cli: Cli, tmp_path: Path) -> None:
    assert ".npy is not written here" in cli("check", HOMEWORK, "-o", tmp_path / "m.npy").err
    assert ".svg is not written here" in cli("explain", HOMEWORK, "--query", "cat", "-o", tmp_path / "m.svg").err
    several = cli("check", HOMEWORK, HOMEWORK, "-o", tmp_path / "m.tex")
    assert several.status == 2
    assert "would hold several documents" in several.err
    assert ".svg" in cli("run", CAUSAL, "-o", tmp_path / "m.docx").err
    assert not list(tmp_path.iterdir())
