"""`attncli list`: everything that has a name."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Annotated, Any

import typer

from attncli.errors import UsageError, unknown
from attncli.registry import Entry


def _complete(incomplete: str) -> list[str]:
    return [name for name in SECTIONS if name.startswith(incomplete)]


def command(
    what: Annotated[
        str | None, typer.Argument(metavar="WHAT", help="one of them alone", autocompletion=_complete)
    ] = None,
    format: Annotated[str, typer.Option("--format", metavar="text|json", help="json: for programs")] = "text",
    draw: Annotated[str | None, typer.Option("--draw", metavar="NxM", help="draw masks, as 6x6: what is seen")] = None,
) -> None:
    """Tell scores, normalizers, masks, biases, formats, profiles, steps, mistakes: name, formula, source and more."""
    from attncli.cli import console

    if draw is not None:
        from attncli.report.masks import drawn_masks

        if what != "masks" or format != "text":
            raise UsageError("--draw is of masks, as text", hint="attncli list masks --draw 6x6")
        console.write(drawn_masks(draw))
        return
    if what is not None and what not in SECTIONS:
        raise unknown("list", what, SECTIONS)
    if format not in ("text", "json"):
        raise unknown("format", format, ["text", "json"], place="--format")
    listed = {name: entries() for name, entries in SECTIONS.items() if what in (None, name)}
    if format == "json":
        import json

        console.write(json.dumps(_finite(listed), indent=1))
        return
    from attncli.cli.shared import look_of
    from attncli.report.listing import listing

    look = look_of({})
    for number, (section, entries) in enumerate(listed.items()):
        told = [{key: _spell(value) for key, value in entry.items()} for entry in entries]
        console.write("\n" * bool(number) + f"{section}\n")
        console.write("".join(f"{line}\n" for line in listing(told, look)))


def _finite(value: Any) -> Any:
    """The same with infinities as text, since JSON has none."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return str(value) if isinstance(value, float) and math.isinf(value) else value


def _spell(value: Any) -> str:
    """A fact as text; what is not so is not told."""
    if isinstance(value, dict):
        told = (f"{name} ({fact})" if isinstance(fact, str) else f"{name}={fact}" for name, fact in value.items())
        return ", ".join(told)
    if isinstance(value, float):
        return f"{value:g}"
    return ("yes" if value else "") if isinstance(value, bool) else str(value)


def _entry(entry: Entry) -> dict[str, Any]:
    """Name, parameters (their default, or whether they may be left out), formula, source and help."""
    parameters = {
        name: "required" if default is inspect.Parameter.empty else "optional" if default is None else default
        for name, default in entry.parameters.items()
    }
    about = {"formula": entry.formula, "source": entry.source, "help": entry.help}
    return {"name": entry.name, "parameters": parameters, **about}


def _scores() -> list[dict[str, Any]]:
    from attncli.pipeline.scores import SCORES

    return [_entry(entry) for entry in SCORES]


def _normalizers() -> list[dict[str, Any]]:
    from attncli.pipeline.normalizers import NORMALIZERS

    return [_entry(entry) for entry in NORMALIZERS]


def _masks() -> list[dict[str, Any]]:
    from attncli.pipeline.masks import MASKS

    return [_entry(entry) | {"parameters": entry.spec} for entry in MASKS]


def _biases() -> list[dict[str, Any]]:
    from attncli.pipeline.biases import BIASES

    return [_entry(entry) | {"parameters": entry.setting.name} for entry in BIASES]


def _mistakes() -> list[dict[str, Any]]:
    from attncli.verify import diagnosis  # noqa: F401  (it loads all of them)
    from attncli.verify.mistakes import MISTAKES

    return [{"name": entry.name, "steps": ", ".join(entry.at), "help": entry.help} for entry in MISTAKES]


def _formats() -> list[dict[str, Any]]:
    from attncli.problem.formats import FORMATS
    from attncli.report.drawn import DOCUMENTS, PICTURES
    from attncli.report.renderers import RENDERERS

    files = [
        {"name": entry.name, "files": " ".join(entry.suffixes), "printed": False, "help": entry.help}
        for entry in FORMATS
    ]
    files += [
        {"name": name, "files": suffix, "printed": False, "help": f"A {what} to look at, written by -o."}
        for what, suffixes in (("picture", PICTURES), ("document", DOCUMENTS))
        for suffix, name in suffixes.items()
    ]
    by_name = {row["name"]: row for row in files}
    for entry in RENDERERS:
        if entry.name in by_name:
            by_name[entry.name]["printed"] = True
        else:
            files.append({"name": entry.name, "files": "", "printed": True, "help": entry.help})
    return files


def _profiles() -> list[dict[str, Any]]:
    from attncli.problem.profiles import PROFILES

    return [{"name": name, **profile.rules(), "about": profile.about} for name, profile in PROFILES.items()]


def _steps() -> list[dict[str, Any]]:
    from attncli.pipeline.trace import NAMED_STEPS

    return [
        {"name": step.name, "shape": step.shape, "on_request": step.on_request, "about": step.about}
        for step in NAMED_STEPS.values()
    ]


SECTIONS: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "scores": _scores,
    "normalizers": _normalizers,
    "masks": _masks,
    "formats": _formats,
    "profiles": _profiles,
    "steps": _steps,
    "biases": _biases,
    "mistakes": _mistakes,
}
