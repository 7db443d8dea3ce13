"""What a shell is offered, and that names registered at run time are found everywhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
import rich  # noqa: F401  # Typer is told that there is no Rich while a shell completes; later tests need it

from tests.calling import Result, names
from tests.inside import COMMANDS, SCORES

Cli = Callable[..., Result]


@pytest.fixture
def complete(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """What bash offers for a command line whose last word is to be completed."""

    def ask(line: str) -> list[str]:
        monkeypatch.setenv("_ATTNCLI_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - (not line.endswith(" "))))
        result = cli()
        assert (result.status, result.err) == (0, "")
        return result.out.split()

    return ask


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        (
            "attncli ",
            [
                "attend",
                "self",
                "cross",
                "run",
                "explain",
                "decode",
                "batch",
                "check",
                "diff",
                "new",
                "show",
                "list",
                "schema",
                "help",
            ],
        ),
        ("attncli se", ["self"]),
        ("attncli attend Q K --scor", ["--scores", "--score"]),
        ("attncli self x --score ", names("scores")),
        ("attncli self x --mask ", names("masks")),
        ("attncli self x --normalizer ", names("normalizers")),
        ("attncli self x --like ", names("profiles")),
        ("attncli self x --format ", ["table", "plain", "csv", "tsv", "json", "yaml", "markdown", "latex", "html"]),
        ("attncli self x --show ", [*names("steps"), "all"]),
        ("attncli self x --show weights,ou", ["weights,output", "weights,output_back"]),
        ("attncli self x --layout ", ["rows", "columns"]),
        ("attncli self x --wq ", []),
        ("attncli list ma", ["masks"]),
    ],
)
def test_offered(line: str, offered: list[str], complete: Callable[[str], list[str]]) -> None:
    assert complete(line) == offered


@pytest.fixture
def registered() -> Iterator[str]:
    """A score that somebody registered at run time."""

    @SCORES("zz-late", formula="0", source="a test", kernel=None)
    def late(q: object, k: object, *, strength: float = 2.0) -> object:
        """Nothing in particular."""
        return q

    yield "zz-late"
    SCORES.remove("zz-late")


def test_a_score_registered_at_run_time_is_found_everywhere(
    registered: str, cli: Cli, complete: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert complete("attncli self x --score zz") == [registered]
    monkeypatch.delenv("_ATTNCLI_COMPLETE")
    assert registered in cli("self", "[[1]]", "--score", "zz-lat").err
    listed = json.loads(cli("list", "scores", "--format", "json").out)["scores"]
    assert {"name": registered, "parameters": {"strength": 2.0}, "formula": "0", "source": "a test",
            "help": "Nothing in particular."} in listed  # fmt: skip
    assert registered in cli("list", "scores").out


def test_a_command_is_one_line_of_the_table(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "again", ("attncli.cli.schema", "The schema under another name."))
    assert "again" in cli("--help").out
    assert cli("again").out == cli("schema").out
