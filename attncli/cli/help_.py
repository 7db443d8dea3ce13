"""`attncli help [TOPIC]`: the options of a command, or what there is to know of a topic."""

from __future__ import annotations

from typing import Annotated

import typer

from attncli.cli import console
from attncli.errors import unknown

# Each is a Markdown file of the package, of this name.
TOPICS = {
    "conventions": "rows and columns, heads, scale, positions, order, precision, --like",
    "masks": "which keys a query sees, and how masks are joined",
    "marking": "the verdicts of `check`, points, what `explain` shows",
    "exercises": "files to begin with, variants with keys, rounding on the way",
    "problem-files": "what a problem file holds",
    "formats": "the files that are read, written and printed",
    "extending": "scores, masks, steps, formats and more of one's own",
    "exit-codes": "what the exit status says",
}


def _complete(incomplete: str) -> list[str]:
    from attncli.cli.app import COMMANDS

    return [name for name in (*TOPICS, *COMMANDS) if name.startswith(incomplete)]


def command(
    topic: Annotated[
        str | None, typer.Argument(metavar="TOPIC", help="a topic or a command", autocompletion=_complete)
    ] = None,
) -> int:
    """Tell of a topic, or the options of a command; alone, which topics there are."""
    from attncli.cli.app import COMMANDS, run

    if topic in COMMANDS:
        return run([topic, "--help"])
    if topic is None:
        run(["--help"])
        console.write("\nTopics, `attncli help TOPIC`:\n")
        console.write("".join(f"  {name:<14} {about}\n" for name, about in TOPICS.items()))
    elif topic in TOPICS:
        _show(topic)
    else:
        raise unknown("topic", topic, [*TOPICS, *COMMANDS])
    return console.DONE


def _show(topic: str) -> None:
    """Typeset on a terminal; as it is written in a pipe."""
    from importlib.resources import files

    text = files("attncli").joinpath("topics", f"{topic}.md").read_text(encoding="utf-8")
    if console.is_terminal():
        from attncli.report.styled import markdown

        text = markdown(text, console.width() or 80, colour=console.colour())
    console.write(text)
