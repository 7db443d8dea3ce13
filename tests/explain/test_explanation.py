"""Explanations as a person reads them: golden lines, exact numbers against sympy's own value, tokens, LaTeX."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import sympy
import yaml

from attncli.cli import call
from attncli.problem.document import read_document
from attncli.report.exact import as_text
from attncli.report.explanation import EXPLANATIONS, write
from attncli.report.look import Look
from attncli.working.exact import Exact
from attncli.working.explanation import explain, find_token
from attncli.working.terms import Cell
from tests.explain.test_terms import CASES, EXTRA, problem_of
from tests.inside import InputError

ROOT = Path(__file__).parents[2]
SAMPLE = str(ROOT / "samples" / "06-encoder-decoder.yaml")


def told(file: str, query: str, key: str | None = None, format: str = "text", **how: Any) -> list[str]:
    problem = read_document(file).problem()
    exact = Exact(problem) if how.pop("exact", False) else None
    return "\n".join(write(explain(problem, query, key), format, Look(), exact=exact, **how)).split("\n")


def test_down_to_one_weight() -> None:
    """By hand: q = (1, 1), k = (0, 1), 1/sqrt(2) = 0.7071, e^0.7071 = 2.0281, 4.1133 + 2.0281 + 8.3421 = 14.4835."""
    lines = told(SAMPLE, "I", "suis")
    assert lines[0] == "I -> suis"
    for line in (
        "  K[suis, 2] = 0 × 1 + 1 × 1 = 1",
        "  scores[I, suis] = 1 × 0 + 1 × 1 = 1",
        "scaled = scores / sqrt(d_k)",
        "  scaled[I, suis] = 1 / sqrt(2) = 0.7071",
        "  sum[I] = 4.1133 + 2.0281 + 8.3421 = 14.4835",
        "  weights[I, suis] = 2.0281 / 14.4835 = 0.1400",
    ):
        assert line in lines


def test_the_whole_row_up_to_the_output() -> None:
    lines = told(SAMPLE, "2")
    assert "  output[I, 1] = 0.2840 × 1 + 0.1400 × 1 + 0.5760 × 2 = 1.5760" in lines
    assert "  output[I, 2] = 0.2840 × 0 + 0.1400 × 1 + 0.5760 × 1 = 0.7160" in lines


def test_exact_keeps_roots_and_e() -> None:
    lines = told(SAMPLE, "I", "suis", exact=True)
    assert "  weights[I, suis] = e^(1/sqrt(2)) / (e^(1/sqrt(2)) + e^sqrt(2) + e^(3/sqrt(2))) ≈ 0.1400" in lines


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (2 / sympy.sqrt(3), "2/sqrt(3)"),
        (sympy.exp(2 / sympy.sqrt(3)), "e^(2/sqrt(3))"),
        (-sympy.Rational(1, 3), "-1/3"),
        (sympy.sqrt(2) / 3, "sqrt(2)/3"),
        (5 / (2 * sympy.sqrt(7)), "5/(2*sqrt(7))"),
        (sympy.exp(-1), "e^(-1)"),
        (3 * sympy.sqrt(5), "3*sqrt(5)"),
    ],
)
def test_exact_numbers_as_people_write_them(expression: Any, text: str) -> None:
    assert as_text(expression)[0] == text


@pytest.mark.parametrize("case", [case for case in CASES if case["id"] in {
    "attention_by_hand_01_self", "tom_yeh_ai_by_hand_self_attention", "cross_columns_unscaled", "general_bilinear",
    "additive_bahdanau", "cosine-beta_5", "nadaraya_watson_kernels-gaussian_sigma_0.5", "score_mods-window",
    "silanm_hand_rounded_two_heads", "nadaraya_watson_kernels-triangular", "score_mods-softcap",
}], ids=lambda case: case["id"])  # fmt: skip
def test_exact_values_are_the_numbers(case: dict[str, Any], tmp_path: Path) -> None:
    """sympy's 30 digits of the exact weights and outputs against the numbers of the file."""
    problem = problem_of(case["problem"], tmp_path)
    exact = Exact(problem)
    compared = 0
    for section in explain(problem, "1").sections:
        for group in section.groups:
            for line in group.lines:
                value = exact.value(section.working, line.cell)
                if value is not None:
                    assert float(sympy.N(value, 30)) == pytest.approx(section.working.value(line.cell), rel=1e-12)
                    compared += 1
    assert compared > 3


def test_what_is_not_exact_is_refused() -> None:
    problem = read_document(str(ROOT / "samples" / "pronoun" / "problem.yaml")).problem()
    with pytest.raises(InputError, match="floating-point numbers, which are not exact"):
        Exact(problem)


def test_rounding_each_step_is_shown_beside_the_right_number() -> None:
    lines = told(SAMPLE, "I", rounded=2)
    assert "  sum[I] = 4.10 + 2.03 + 8.33 = 14.46   (right: 14.4835)" in lines
    assert "  output[I, 1] = 0.28 × 1.00 + 0.14 × 1.00 + 0.58 × 2.00 = 1.58" in lines


def test_masks_say_what_hides(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("X: [[1, 0], [0, 1]]\nmask: [causal, {keys: [1, 0]}]\n")
    lines = told(str(file), "1")
    assert "  masked[q1, k2] = -inf   (hidden by causal and keys:1,0)" in [
        line.replace("causal:top-left", "causal") for line in lines
    ]


def test_tokens_by_position_label_and_count() -> None:
    labels = ["the", "cat", "the", "3"]
    assert find_token("cat", labels, "query") == 1
    assert find_token("the#2", labels, "query") == 2
    assert find_token("1", labels, "query") == 0
    assert find_token("3", labels, "query") == 3  # a label before a position
    with pytest.raises(InputError, match=r"stands 2 times among the query labels: at 1, 3"):
        find_token("the", labels, "query")
    with pytest.raises(InputError, match="there is no key 'dog'"):
        find_token("dog", labels, "key")
    for wrong in ("0", "5", "the#3"):
        with pytest.raises(InputError):
            find_token(wrong, labels, "query")


@pytest.mark.parametrize("name", EXTRA)
@pytest.mark.parametrize("format", EXPLANATIONS.names())
def test_every_kind_of_problem_in_every_format(name: str, format: str, tmp_path: Path) -> None:
    """Each line ends in the number of its cell, as the Trace has it."""
    problem = problem_of(EXTRA[name], tmp_path)
    explanation = explain(problem, "1")
    text = "\n".join(write(explanation, format, Look()))
    for section in explanation.sections:
        for group in section.groups:
            assert group.step in text
            if group.step == "weights" and format == "text":
                shown = re.findall(r"weights\[.*\] = .*?(-?[\d.]+)(?:   \(.*\))?$", text, re.MULTILINE)
                assert len(shown) == len(section.working.arrays["weights"][0]) * len(
                    [each for each in explanation.sections if each.groups[-1].step != "output" or len(each.groups) > 1]
                )


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["explain", SAMPLE, "--query", "I", "--key", "suis", "--format", "markdown"]) == 0
    out = capsys.readouterr().out
    assert "## I -\\> suis" in out or "## I -> suis" in out
    assert "- `scaled[I, suis] = 1 / sqrt(2) = 0.7071`" in out
    assert call(["explain", SAMPLE, "--query", "nobody"]) == 2
    assert "there is no query 'nobody'" in capsys.readouterr().err
    assert call(["explain", SAMPLE, "--query", "I", "--format", "html"]) == 2


@pytest.mark.latex
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no LaTeX on this machine")
def test_latex_compiles_with_amsmath_alone(tmp_path: Path) -> None:
    parts = []
    for name, description in EXTRA.items():
        problem = problem_of(description, tmp_path)
        parts += [f"% {name}", *write(explain(problem, "1"), "latex", Look())]
    exact = problem_of(yaml.safe_load(Path(SAMPLE).read_text()) | {"Y": [[1, 0], [0, 1], [1, 1]]}, tmp_path)
    parts += write(explain(exact, "I"), "latex", Look(), exact=Exact(exact))
    hostile = problem_of({"X": [[1, 0], [0, 1]], "tokens": ["a_b%$#&{}~^\\", "[/b]"]}, tmp_path)
    parts += write(explain(hostile, "1"), "latex", Look())
    document = "\\documentclass{article}\n\\usepackage{amsmath}\n\\begin{document}\n%s\n\\end{document}\n"
    (tmp_path / "e.tex").write_text(document % "\n".join(parts))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "e.tex"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-2000:]
    assert (tmp_path / "e.pdf").stat().st_size > 0


def test_cells_of_several_heads_are_joined(tmp_path: Path) -> None:
    problem = problem_of(EXTRA["grouped heads"], tmp_path)
    sections = explain(problem, "2").sections
    assert [section.title for section in sections] == ["head 1", "head 2", "head 3", "head 4", "all heads"]
    last = sections[-1]
    output = problem.solve()["output"][1]
    assert [last.working.value(line.cell) for line in last.groups[0].lines] == output.tolist()
    assert last.groups[0].lines[0].cell == Cell("output", (1, 0))
