"""`attncli help`: topics and commands; and what stands in the package is what `list` and the README know."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.calling import ROOT, Result, names
from tests.inside import COMMANDS

Cli = Callable[..., Result]
TOPICS = ("conventions", "masks", "marking", "problem-files", "formats", "extending", "exit-codes")


@pytest.mark.parametrize("topic", TOPICS)
def test_a_topic_is_told(cli: Cli, topic: str) -> None:
    result = cli("help", topic)
    assert (result.status, result.err) == (0, "")
    assert result.out.startswith(f"# {topic.replace('-', ' ').capitalize()}\n")


@pytest.mark.parametrize("topic", TOPICS)
def test_a_terminal_gets_it_typeset(cli: Cli, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    monkeypatch.setenv("NO_COLOR", "1")
    out = cli("help", topic, tty=True).out
    text = re.sub(r"\x1b\[[0-9;]*m", "", out)
    assert max(map(len, text.splitlines())) <= 70
    assert "**" not in text
    assert "|---" not in text
    assert not re.search(r"\x1b\[[0-9;]*[34]\d", out)  # no colours


def test_alone_it_tells_commands_and_topics(cli: Cli) -> None:
    out = cli("help").out
    for name in (*TOPICS, *COMMANDS):
        assert re.search(rf"^  {name} ", out, re.MULTILINE)


def test_a_command_is_told_as_its_help_tells_it(cli: Cli) -> None:
    assert cli("help", "diff").out == cli("diff", "--help").out


def test_an_unknown_topic_is_refused_with_a_hint(cli: Cli) -> None:
    result = cli("help", "mask")
    assert (result.status, result.out) == (2, "")
    assert "did you mean 'masks'?" in result.err


def test_every_mask_that_there_is_stands_in_its_topic(cli: Cli) -> None:
    """A mask that somebody adds is missed here until the topic tells of it."""
    told = set(re.findall(r"^\| `([a-z-]+)", cli("help", "masks").out, re.MULTILINE))
    assert told == set(names("masks"))


def test_every_verdict_is_told(cli: Cli) -> None:
    out = cli("help", "marking").out
    for verdict in ("agrees", "truncated", "follows", "last-place", "wrong"):
        assert f"| `{verdict}` |" in out


def test_readme_names_the_topics() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for topic in TOPICS:
        assert f"`{topic}`" in readme
    assert len(re.findall(r"^python3 -m venv", readme, re.MULTILINE)) == 2
