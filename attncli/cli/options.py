"""The options of the commands that compute, made from the one table of everything that a user can say."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer

from attncli.problem.settings import FIELDS, OFFERED, Field
from attncli.report.renderers import RENDERERS

OFFERED["format"] = RENDERERS.names


def problem_options(*, only: Iterable[str] | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a command that ends in `**flags`: they become one option for each field of the table, or for some only.

    Values arrive as text (lists of text where an option may be repeated, bools for flags), None where nothing was said;
    of an option that may not be repeated, the last value counts.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        command.options = only  # type: ignore[attr-defined]
        return command

    return decorate


def with_options(command: Callable[..., Any], said: list[str] | None = None) -> Callable[..., Any]:
    """The command with the options of the table as it is now, so that what was registered since is among them.

    said: the command line. Options that it does not hold are not made, which would take Typer a tenth of what a small
    problem takes; the command gets them as not given.
    """
    names = FIELDS if command.options is None else command.options  # type: ignore[attr-defined]
    fields = [FIELDS[name] for name in names if FIELDS[name].flag]
    made = [field for field in fields if said is None or _is_said(field, said)]
    silent = {field.name: _default(field) for field in fields}

    def called(**given: Any) -> Any:
        return command(**{**silent, **given})

    signature = inspect.signature(command, eval_str=True)
    own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    called.__doc__ = command.__doc__
    called.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*own, *(_parameter(field) for field in made)]
    )
    return called


def _is_said(field: Field, said: list[str]) -> bool:
    """Whether the command line may hold the option; Typer decides whether it does."""
    names = _names(field)
    return any(word.startswith(names) for word in said)


def _names(field: Field) -> tuple[str, ...]:
    """What the option may be called by."""
    flag = field.flag or ""
    if field.kind == "switch":
        return flag, f"--no-{field.name}"
    return (flag, "--output") if flag == "-o" else (flag,)


def _default(field: Field) -> bool | None:
    return False if field.kind == "flag" else None


def _parameter(field: Field) -> inspect.Parameter:
    option = typer.Option(
        *(["/".join(_names(field))] if field.kind == "switch" else _names(field)),
        help=_help(field),
        metavar=None if field.kind in ("flag", "switch") else _metavar(field),
        show_default=False,
        rich_help_panel=field.panel,
        autocompletion=_completion(field),
    )
    annotation: Any = {"flag": bool, "switch": bool | None}.get(
        field.kind, list[str] | None if field.repeatable else str | None
    )
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=_default(field),
        annotation=Annotated[annotation, option],
    )


def _help(field: Field) -> str:
    facts = ["repeatable"] if field.repeatable else []
    if field.default not in ("", "none"):
        facts.append(f"default: {field.default}")
    return f"{field.help} [{'; '.join(facts)}]" if facts else field.help


def _metavar(field: Field) -> str:
    if field.metavar:
        return field.metavar
    return "|".join(field.choices()) if field.choices else "TEXT"


def _completion(field: Field) -> Callable[[str], list[str]] | None:
    """What a shell offers as values: the names that the option may take; None leaves it to file names."""
    if field.kind == "steps":
        return complete_steps
    if field.choices is None:
        return None
    choices = field.choices

    def complete(incomplete: str) -> list[str]:
        return [name for name in choices() if name.startswith(incomplete)]

    complete.__annotations__ = _TYPES
    return complete


# Typer asks each of these functions for its types; evaluating them from text would take milliseconds.
_TYPES = {"incomplete": str, "return": list[str]}


def complete_steps(incomplete: str) -> list[str]:
    """Names of steps for the last item of a comma list."""
    from attncli.pipeline.trace import NAMED_STEPS

    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in (*NAMED_STEPS, "all") if name.startswith(last)]


complete_steps.__annotations__ = _TYPES
