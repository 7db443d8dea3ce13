"""The samples: each gives the numbers that it expects, and each failing one its message."""

from __future__ import annotations

from pathlib import Path

import pytest

from attncli.cli import call
from attncli.problem.document import read_document
from attncli.verify.check import check

ROOT = Path(__file__).parent.parent
SAMPLES = sorted((ROOT / "samples").glob("*.yaml")) + sorted((ROOT / "samples").glob("*/problem.yaml"))
FAILING = sorted((ROOT / "samples" / "errors").glob("*.yaml"))


def test_there_is_a_sample_for_each_system() -> None:
    numbers = {path.name[:2] for path in SAMPLES}
    assert {f"{number:02}" for number in range(1, 16)} <= numbers


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.relative_to(ROOT / "samples").as_posix())
def test_sample_gives_what_it_expects(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every written number of `expect:` to its places; the exit status says so too."""
    assert call(["check", str(path)]) == 0
    document = read_document(str(path))
    if document.kind == "problem":
        problem = document.problem()
        assert problem.expect, "a sample without expected numbers shows nothing"
        assert check(problem).verdict == "agrees"
    assert "wrong" not in capsys.readouterr().out


def test_the_flagship_finds_the_animal(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["run", str(ROOT / "samples" / "pronoun" / "problem.yaml"), "--top", "4"]) == 0
    assert "it: animal 0.6466, [CLS] 0.1507, tired 0.0430, it 0.0253\n" in capsys.readouterr().out


def test_the_homework_is_wrong_where_the_slip_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["check", str(ROOT / "samples" / "hand" / "homework.yaml")]) == 1
    out = " ".join(capsys.readouterr().out.split())  # it is wrapped to the width of the terminal
    assert "the first slip is in scaled at the, the" in out
    assert "divided by d_k = 2" in out


@pytest.mark.parametrize("path", FAILING, ids=lambda path: path.stem)
def test_failing_sample_says_what_is_wrong(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message of each kind of error, word by word, beside its problem; nothing on standard output."""
    monkeypatch.chdir(ROOT)
    golden = path.with_suffix(".txt").read_text(encoding="utf-8")
    status = call(["check" if "expect" in path.stem or "step" in path.stem else "run", str(path.relative_to(ROOT))])
    captured = capsys.readouterr()
    assert captured.err == golden
    assert captured.out == ""
    assert status == 2
