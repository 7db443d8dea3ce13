"""Sentences read as a person would write them: one value, two values; what others call it is understood."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from tests.calling import ROOT, Result

Cli = Callable[..., Result]
TWO = "[[1, 0], [0, 1]]"
HOMEWORK = ROOT / "samples" / "hand" / "homework.yaml"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("attend", "[[1, 2, 3]]", "[[1]]"), "attncli: Q has 3 features, but K has 1 (d_k)"),
        (("attend", "[[1]]", "[[1, 2]]"), "attncli: Q has 1 feature, but K has 2 (d_k)"),
        (("self", TWO, "--mask", "keys:1"), "keys has 1 number, but there are 2 keys"),
        (("self", "[[1]]", "--mask", "keys:1,1"), "keys has 2 numbers, but there is 1 key"),
        (("self", TWO, "--temperature", "0"), "temperature must not be 0, since it divides the scores\n"),
        (
            ("self", TWO, "--temperature", "1e-320"),
            "must not be 0, since it divides the scores, not 1e-320",
        ),
    ],
)
def test_numbers_agree_with_their_nouns(cli: Cli, arguments: tuple[str, ...], said: str) -> None:
    result = cli(*arguments)
    assert (result.status, result.out) == (2, "")
    assert said in result.err


def test_a_short_line_of_csv(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("1,2\n3\n")
    assert "line 2 has 1 value, line 1 has 2" in cli("show", tmp_path / "x.csv").err


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("--causal",), "did you mean --mask causal?"),
        (("--is-causal",), "did you mean --mask causal?"),
        (("--sdpa",), "did you mean --like torch-sdpa?"),
        (("--mask", "is_causal"), "did you mean 'causal'?"),
        (("--score", "sdpa"), "did you mean 'scaled-dot'?"),
        (("--like", "sdpa"), "did you mean 'torch-sdpa'?"),
        (("--show", "softmax"), "did you mean 'weights'?"),
    ],
)
def test_names_of_others_are_understood(cli: Cli, arguments: tuple[str, ...], meant: str) -> None:
    result = cli("self", TWO, *arguments)
    assert (result.status, result.out) == (2, "")
    assert meant in result.err


def test_a_check_in_latex_is_escaped(cli: Cli) -> None:
    """`d_k` outside of mathematics would not compile."""
    out = cli("check", HOMEWORK, "--format", "latex").out
    assert r"(scale-d\_k)" in out
    assert "divided by d_k" not in out


def test_a_table_of_a_check_in_markdown_ends_before_the_next_line(cli: Cli) -> None:
    lines = cli("check", HOMEWORK, "--format", "markdown").out.splitlines()
    for line, after in pairwise(lines):
        if line.startswith("|"):
            assert after == "" or after.startswith("|")
