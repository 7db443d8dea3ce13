"""`attncli new [KIND]`: a problem file to begin with, or an exercise in variants with their keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from attncli.errors import UsageError


def _kinds(incomplete: str) -> list[str]:
    from attncli.exercises.kinds import kinds

    return [name for name in kinds() if name.startswith(incomplete)]


def _sheets(incomplete: str) -> list[str]:
    from attncli.exercises.sheets import SHEETS

    return [name for name in SHEETS.names() if name.startswith(incomplete)]


def _option(flag: str, metavar: str, help: str, *more: str, offers: Callable[[str], list[str]] | None = None) -> Any:
    return typer.Option(flag, *more, metavar=metavar, help=help, show_default=False, autocompletion=offers)


_KIND = typer.Argument(
    metavar="[KIND]", help="what to begin with [default: self]", show_default=False, autocompletion=_kinds
)
_OUTPUT = _option("-o", "PATH", "write here: a file, or the folder of the variants", "--output")
_LIKE = _option("--like-problem", "PROBLEM", "make variants of this problem")
_COUNT = _option("--variants", "N", "so many [default: 1, or one a name]")
_NAMES = _option("--names", "FILE", "who gets a variant, a name a line")
_SHEET = _option("--sheet", "md|tex|xlsx", "also a sheet to fill in", offers=_sheets)


def command(
    kind: Annotated[str | None, _KIND] = None,
    output: Annotated[str | None, _OUTPUT] = None,
    like: Annotated[str | None, _LIKE] = None,
    count: Annotated[int | None, _COUNT] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="S", help="the same seed gives the same numbers")] = 1,
    places: Annotated[int, typer.Option("--places", metavar="P", help="to which the key rounds each step")] = 2,
    names: Annotated[str | None, _NAMES] = None,
    form: Annotated[str | None, _SHEET] = None,
    ties: Annotated[bool, typer.Option("--ties", help="weights of a row may be equal")] = False,
    force: Annotated[bool, typer.Option("--force", help="replace files that exist")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="no notes")] = False,
) -> int:
    """Write a commented problem file to begin with: self, cross, heads, masked, additive and others.

    attncli new masked -o p.yaml

    attncli new --like-problem p.yaml --variants 30 --seed 7 -o exercises
    """
    from attncli.cli import console
    from attncli.exercises.folder import Order, exercise_files, names_of
    from attncli.exercises.kinds import USUAL, text_of
    from attncli.problem.formats.files import check_all, write_all

    if like is None:
        _refuse_alone({"--variants": count, "--names": names, "--sheet": form, "--ties": ties or None})
        text = text_of(kind or USUAL)
        if output is None:
            console.write(text)
            return console.DONE
        check_all([output], force=force)
        write_all({output: text.encode()}, force=force)
        notes = [f"wrote {output}"]
    else:
        if kind is not None:
            raise UsageError("a kind and --like-problem do not go together", place="new", hint="one or the other")
        if output is None:
            raise UsageError("variants are several files", place="--like-problem", hint="-o DIR says where")
        order = Order(like, count, seed, places, None if names is None else names_of(names), form, ties)
        notes = exercise_files(order, output, force=force)
    if not quiet:
        console.notes(notes)
    return console.DONE


def _refuse_alone(said: dict[str, object]) -> None:
    given = next((option for option, value in said.items() if value is not None), None)
    if given is not None:
        raise UsageError("this is about variants of a problem", place=given, hint="--like-problem PROBLEM names it")
