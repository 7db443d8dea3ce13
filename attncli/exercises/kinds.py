"""What `attncli new KIND` writes: one commented problem file of the folder `kinds` for each kind."""

from __future__ import annotations

from importlib.resources import files

from attncli.errors import unknown

USUAL = "self"


def kinds() -> dict[str, str]:
    """The first line of each kind, by name: what it is."""
    folder = files("attncli.exercises") / "kinds"
    names = sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml"))
    return {name: text_of(name).partition("\n")[0].removeprefix("# ") for name in names}


def text_of(kind: str) -> str:
    """The problem file of a kind. Raises InputError for one that is not there."""
    file = files("attncli.exercises") / "kinds" / f"{kind}.yaml"
    if not kind.isidentifier() or not file.is_file():
        raise unknown("kind", kind, kinds(), place="new")
    return file.read_text(encoding="utf-8")
