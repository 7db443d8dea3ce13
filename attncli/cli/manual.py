"""The manual page, made of the same tables as the help texts.

python -m attncli.cli.manual > attncli/man/attncli.1
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import typer

from attncli import __version__
from attncli.cli.app import COMMANDS, app
from attncli.cli.help_ import TOPICS


def manual() -> str:
    """The page in the macros of man(7)."""
    return "".join(f"{line}\n" for line in _lines())


def _lines() -> Iterator[str]:
    root: Any = typer.main.get_command(app)
    commands = [root.commands[name].make_context(name, [], resilient_parsing=True).command for name in COMMANDS]
    yield f'.TH ATTNCLI 1 "" "attncli {__version__}" "User Commands"'
    yield from (".SH NAME", rf"attncli \- {_text('a command-line attention calculator')}")
    yield from (".SH SYNOPSIS", r".B attncli", r".I COMMAND", r"[\fIOPTION\fR]... [\fIARGUMENT\fR]...")
    yield from (".SH DESCRIPTION", _text(root.help), ".PP", _text(root.epilog))
    yield ".SH COMMANDS"
    for name, command in zip(COMMANDS, commands, strict=True):
        yield from _command(name, command)
    yield from (".SH OPTIONS", _text("Each command has those that make sense for it: `attncli COMMAND --help-all`."))
    yield from (line for parameter in root.params if parameter.name == "load" for line in _option(parameter))
    for panel, parameters in _shared(commands).items():
        yield f".SS {_text(panel)}"
        for parameter in parameters:
            yield from _option(parameter)
    yield ".SH TOPICS"
    yield from (
        line for name, about in TOPICS.items() for line in (".TP", rf"\fBattncli help {_text(name)}\fR", _text(about))
    )
    yield ".SH EXIT STATUS"
    yield from _exit_status()


def _command(name: str, command: Any) -> Iterator[str]:
    own = [parameter for parameter in command.params if _panel(parameter) is None]
    arguments = [parameter for parameter in own if parameter.param_type_name == "argument"]
    yield f".SS attncli {_text(' '.join([name, *(each.metavar or each.name.upper() for each in arguments)]))}"
    for paragraph in command.help.split("\n\n"):
        yield from (".PP", _text(" ".join(paragraph.split())))
    for parameter in own:
        yield from _option(parameter)


def _shared(commands: list[Any]) -> dict[str, list[Any]]:
    """The options of the table of settings, each once, by panel."""
    panels: dict[str, dict[str, Any]] = {}
    for command in commands:
        for parameter in command.params:
            panel = _panel(parameter)
            if panel is not None:
                panels.setdefault(panel, {}).setdefault(parameter.name, parameter)
    return {panel: [*named.values()] for panel, named in panels.items()}


def _panel(parameter: Any) -> str | None:
    panel: str | None = getattr(parameter, "rich_help_panel", None)
    return panel


def _option(parameter: Any) -> Iterator[str]:
    """Its names and what it takes, and below them what it does."""
    is_argument = parameter.param_type_name == "argument"
    metavar = parameter.metavar or ("" if getattr(parameter, "is_flag", False) else parameter.name.upper())
    names = [] if is_argument else [rf"\fB{_text(name)}\fR" for name in parameter.opts]
    yield ".TP"
    yield " ".join([*([", ".join(names)] if names else []), *([rf"\fI{_text(metavar)}\fR"] if metavar else [])])
    yield _text(parameter.help or "")


def _exit_status() -> Iterator[str]:
    """The table of its topic."""
    text = files("attncli").joinpath("topics", "exit-codes.md").read_text(encoding="utf-8")
    for status, meaning in re.findall(r"^\| (\d[^|]*) \| ([^|]*) \|$", text, re.MULTILINE):
        yield from (".TP", rf"\fB{_text(status)}\fR", _text(meaning))


def _text(text: str) -> str:
    """Text that troff takes as it stands."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq").replace("`", r"\`")
    return rf"\&{escaped}" if escaped.startswith(".") else escaped


if __name__ == "__main__":
    print(manual(), end="")
