"""Explanations as a person reads them: golden lines, exact numbers against sympy's own value, tokens, LaTeX."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy
import yaml

from attncli import AttnError, explain, run
from tests.calling import ROOT, Result
from tests.explain.problems import CASES, EXTRA
from tests.explain.test_written_out import lines

Cli = Callable[..., Result]
FORMATS = ["text", "markdown", "latex"]
SAMPLE = str(ROOT / "samples" / "06-encoder-decoder.yaml")


def told(problem: Any, query: str, key: str | None = None, **how: Any) -> list[str]:
    return explain(problem, query, key).text(**how).split("\n")


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


@pytest.mark.parametrize("case", [case for case in CASES if case["id"] in {
    "attention_by_hand_01_self", "tom_yeh_ai_by_hand_self_attention", "cross_columns_unscaled", "general_bilinear",
    "additive_bahdanau", "cosine-beta_5", "nadaraya_watson_kernels-gaussian_sigma_0.5", "score_mods-window",
    "silanm_hand_rounded_two_heads", "nadaraya_watson_kernels-triangular", "score_mods-softcap",
}], ids=lambda case: case["id"])  # fmt: skip
def test_exact_values_are_the_numbers(case: dict[str, Any]) -> None:
    """sympy's 30 digits of the exact terms, read from the text, against the numbers of the file."""
    with_sympy = {"e": sympy.E, "sqrt": sympy.sqrt, "tanh": sympy.tanh, "max": sympy.Max, "ln": sympy.log}
    explanation = explain(case["problem"], 1)
    compared = 0
    for line, shown in zip(lines(explanation.text(exact=True)), lines(explanation.text(precision=15)), strict=True):
        term = line.members.partition(" ≈ ")[0].partition(" = ")[0]
        if not re.search(r"more terms| if |^-?[\d.]+$", term) and "inf" not in shown.number:
            value = sympy.sympify(term.replace("×", "*").replace("^", "**"), locals=with_sympy, rational=True)
            assert float(sympy.N(value, 30)) == pytest.approx(float(shown.number), rel=1e-12, abs=1e-15), line
            compared += 1
    assert compared > 3


def test_what_is_not_exact_is_refused() -> None:
    explanation = explain(ROOT / "samples" / "pronoun" / "problem.yaml", "it")
    with pytest.raises(AttnError, match="floating-point numbers, which are not exact"):
        explanation.text(exact=True)


def test_rounding_each_step_is_shown_beside_the_right_number() -> None:
    lines = told(SAMPLE, "I", round_steps=2)
    assert "  sum[I] = 4.10 + 2.03 + 8.33 = 14.46   (right: 14.4835)" in lines
    assert "  output[I, 1] = 0.28 × 1.00 + 0.14 × 1.00 + 0.58 × 2.00 = 1.58   (written: 1.5760)" in lines


def test_masks_say_what_hides() -> None:
    written = told({"X": [[1, 0], [0, 1]], "mask": ["causal", {"keys": [1, 0]}]}, "1")
    assert "  masked[q1, k2] = -inf   (hidden by causal and keys:1,0)" in [
        line.replace("causal:top-left", "causal") for line in written
    ]


def test_tokens_by_position_label_and_count() -> None:
    problem = {"X": [[1, 0], [0, 1], [1, 1], [2, 1]], "tokens": ["the", "cat", "the", "3"]}
    for query, at in (("cat", 2), ("the#2", 3), ("1", 1), ("2", 2), ("3", 4)):  # "3": a label before a position
        output = [float(line.number) for line in lines(explain(problem, query).text(precision=15))
                  if line.step == "output"]  # fmt: skip
        np.testing.assert_allclose(output, run(problem).output[at - 1], atol=1e-14)
    with pytest.raises(AttnError, match=r"stands 2 times among the query labels: at 1, 3"):
        explain(problem, "the")
    with pytest.raises(AttnError, match="there is no key 'dog'"):
        explain(problem, "cat", "dog")
    for wrong in ("0", "5", "the#3"):
        with pytest.raises(AttnError, match="there is no query"):
            explain(problem, wrong)


@pytest.mark.parametrize("name", EXTRA)
@pytest.mark.parametrize("format", FORMATS)
def test_every_kind_of_problem_in_every_format(name: str, format: str) -> None:
    """The same steps and the same numbers in each: of the text it is tested that they are right."""
    explanation = explain(EXTRA[name], 1)
    as_text = list(lines(str(explanation)))
    trace = run(EXTRA[name])
    shown = [line for line in as_text if line.step == "weights"]
    assert len(shown) == (0 if "weights" in EXTRA[name] else len(trace.key_labels) * len(trace.parts("weights")))
    written = explanation.text(format)
    for step in {line.step for line in as_text}:
        begins = {"text": f"{step}[", "markdown": f"`{step}[", "latex": rf"\mathit{{{step}}}_"}[format]
        assert written.count(begins) == len([line for line in as_text if line.step == step]), step
    for line in as_text:
        number = line.number.replace("-inf", r"-\infty") if format == "latex" else line.number
        assert number in written, line


def test_the_command(cli: Cli) -> None:
    done = cli("explain", SAMPLE, "--query", "I", "--key", "suis", "--format", "markdown")
    assert done.status == 0
    assert "## I -\\> suis" in done.out or "## I -> suis" in done.out
    assert "- `scaled[I, suis] = 1 / sqrt(2) = 0.7071`" in done.out
    told = cli("explain", SAMPLE, "--query", "I", "--key", "suis").out
    assert told == f"Encoder to decoder\n\n{explain(SAMPLE, 'I', 'suis')}\n"
    wrong = cli("explain", SAMPLE, "--query", "nobody")
    assert wrong.status == 2
    assert "there is no query 'nobody'" in wrong.err
    assert cli("explain", SAMPLE, "--query", "I", "--format", "html").status == 2


@pytest.mark.latex
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no LaTeX on this machine")
def test_latex_compiles_with_amsmath_alone(tmp_path: Path) -> None:
    parts = []
    for name, problem in EXTRA.items():
        parts += [f"% {name}", explain(problem, 1).text("latex")]
    exact = yaml.safe_load(Path(SAMPLE).read_text()) | {"Y": [[1, 0], [0, 1], [1, 1]]}
    parts.append(explain(exact, "I").text("latex", exact=True))
    parts.append(explain({"X": [[1, 0], [0, 1]], "tokens": ["a_b%$#&{}~^\\", "[/b]"]}, 1).text("latex"))
    document = "\\documentclass{article}\n\\usepackage{amsmath}\n\\begin{document}\n%s\n\\end{document}\n"
    (tmp_path / "e.tex").write_text(document % "\n".join(parts))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "e.tex"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-2000:]
    assert (tmp_path / "e.pdf").stat().st_size > 0


def test_cells_of_several_heads_are_joined() -> None:
    written = list(lines(explain(EXTRA["grouped heads"], 2).text(precision=15)))
    assert list(dict.fromkeys(line.section for line in written)) == [
        "head 1", "head 2", "head 3", "head 4", "all heads",
    ]  # fmt: skip
    last = [line for line in written if line.section == "all heads"]
    assert [line.step for line in last] == ["output"] * 3
    assert last[0].labels == ("q2", "1")
    np.testing.assert_allclose([float(line.number) for line in last], run(EXTRA["grouped heads"]).output[1], rtol=1e-12)
