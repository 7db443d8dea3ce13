"""The samples: each gives the numbers that it expects, and each failing one its message."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from attncli import check
from tests.calling import ROOT, Result

Cli = Callable[..., Result]
SAMPLES = sorted((ROOT / "samples").glob("*.yaml")) + sorted((ROOT / "samples").glob("*/problem.yaml"))
FAILING = sorted((ROOT / "samples" / "errors").glob("*.yaml"))


def test_there_is_a_sample_for_each_system() -> None:
    numbers = {path.name[:2] for path in SAMPLES}
    assert {f"{number:02}" for number in range(1, 16)} <= numbers


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.relative_to(ROOT / "samples").as_posix())
def test_sample_gives_what_it_expects(path: Path, cli: Cli) -> None:
    """Every written number of `expect:` to its places, be it of one problem or of each stage that has some."""
    results = check([path])
    assert results
    for result in results:
        assert result.verdict == "agrees", result.reason
        assert result.steps, "a sample without expected numbers shows nothing"
    done = cli("check", path)
    assert (done.status, "wrong" in done.out) == (0, False)


def test_the_flagship_finds_the_animal(cli: Cli) -> None:
    done = cli("run", ROOT / "samples" / "pronoun" / "problem.yaml", "--top", "4")
    assert done.status == 0
    assert "it: animal 0.6466, [CLS] 0.1507, tired 0.0430, it 0.0253\n" in done.out


def test_the_homework_is_wrong_where_the_slip_is(cli: Cli) -> None:
    done = cli("check", ROOT / "samples" / "hand" / "homework.yaml")
    assert done.status == 1
    out = " ".join(done.out.split())  # it is wrapped to the width of the terminal
    assert "the first slip is in scaled at the, the" in out
    assert "divided by d_k = 2" in out


@pytest.mark.parametrize("path", FAILING, ids=lambda path: path.stem)
def test_failing_sample_says_what_is_wrong(path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message of each kind of error, word by word, beside its problem; nothing on standard output."""
    monkeypatch.chdir(ROOT)
    golden = path.with_suffix(".txt").read_text(encoding="utf-8")
    done = cli("check" if "expect" in path.stem or "step" in path.stem else "run", path.relative_to(ROOT))
    assert done.err == golden
    assert done.out == ""
    assert done.status == 2
