"""`attncli list`: everything that has a name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from attncli.errors import unknown
from attncli.registry import Registry


def _complete(incomplete: str) -> list[str]:
    return [name for name in SECTIONS if name.startswith(incomplete)]


def command(
    what: Annotated[
        str | None, typer.Argument(metavar="WHAT", help="one of them alone", autocompletion=_complete)
    ] = None,
    format: Annotated[str, typer.Option("--format", metavar="text|json", help="json: for programs")] = "text",
) -> None:
    """Tell the scores, normalizers, masks, formats, profiles and steps: name, parameters, formula, source."""
    from attncli.cli import console

    if what is not None and what not in SECTIONS:
        raise unknown("list", what, SECTIONS)
    if format not in ("text", "json"):
        raise unknown("format", format, ["text", "json"], place="--format")
    listed = {name: entries() for name, entries in SECTIONS.items() if what in (None, name)}
    if format == "json":
        import json

        console.write(json.dumps(listed, indent=1, ensure_ascii=False))
    else:
        console.write("\n".join(_text(name, entries) for name, entries in listed.items()))


def _text(section: str, entries: list[dict[str, Any]]) -> str:
    """A section: a table of short facts, or, where there are sentences, the name with its facts below it."""
    if section == "profiles":
        return f"{section}\n{_table(entries)}"
    lines = [section]
    for entry in entries:
        lines.append(f"  {entry['name']}")
        for key, value in entry.items():
            if key != "name" and value not in ("", {}, []):
                lines.append(f"    {'' if key == 'about' else key + ': '}{_spell(value)}")
    return "\n".join(lines) + "\n"


def _table(entries: list[dict[str, Any]]) -> str:
    rows = [list(entries[0]), *([_spell(value) for value in entry.values()] for entry in entries)]
    sizes = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "".join(
        "  " + "  ".join(cell.ljust(size) for cell, size in zip(row, sizes, strict=True)).rstrip() + "\n" for row in rows
    )


def _spell(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}{'' if given is None else f' = {_spell(given)}'}" for key, given in value.items())
    if isinstance(value, list):
        return ", ".join(map(_spell, value))
    if isinstance(value, float):
        return f"{value:g}"
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def _of(registry: Registry) -> list[dict[str, Any]]:
    return [
        {
            "name": entry.name,
            "about": entry.help,
            "formula": entry.formula,
            "parameters": {
                name: None if default is inspect.Parameter.empty else "may be left out" if default is None else default
                for name, default in entry.parameters.items()
            },
            "source": entry.source,
        }
        for entry in registry
    ]


def _scores() -> list[dict[str, Any]]:
    from attncli.core.scores import SCORES

    return _of(SCORES)


def _normalizers() -> list[dict[str, Any]]:
    from attncli.core.normalizers import NORMALIZERS

    return _of(NORMALIZERS)


def _masks() -> list[dict[str, Any]]:
    from attncli.core.masks import MASKS

    return [
        {key: value for key, value in entry.items() if key != "parameters"} | {"spec": MASKS.find(entry["name"]).facts["spec"]}
        for entry in _of(MASKS)
    ]


def _profiles() -> list[dict[str, Any]]:
    from attncli.problem.profiles import PROFILES

    return [{"name": name, **profile.rules(), "about": profile.about} for name, profile in PROFILES.items()]


def _steps() -> list[dict[str, Any]]:
    from attncli.core.trace import STEPS

    return [
        {"name": step.name, "about": step.about, "shape": step.shape, "only when asked for": step.on_request}
        for step in STEPS.values()
    ]


SECTIONS: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "scores": _scores,
    "normalizers": _normalizers,
    "masks": _masks,
    "profiles": _profiles,
    "steps": _steps,
}
