"""`attncli diff A B`: two arrays without a problem."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from attncli.cli.options import problem_options
from attncli.errors import AttnError, InputError, raise_all

if TYPE_CHECKING:
    from attncli.problem.matrix import Matrix

_READING = ("separator", "decimal", "header", "labels", "stdin_format", "quiet")
_FORMATS = ("table", "plain", "markdown", "latex", "json")


@problem_options(only=_READING)
def command(
    a: Annotated[str, typer.Argument(metavar="A", help="an array: a file, data.npz::NAME, - or inline")],
    b: Annotated[str, typer.Argument(metavar="B", help="what it is compared with; relative errors are to this one")],
    atol: Annotated[
        str | None, typer.Option(metavar="X", help="allow |a - b| <= X + rtol |b|", show_default=False)
    ] = None,
    rtol: Annotated[
        str | None, typer.Option(metavar="X", help="allow |a - b| <= atol + X |b|", show_default=False)
    ] = None,
    ulp: Annotated[
        str | None, typer.Option(metavar="N", help="allow N ulp of the coarser type", show_default=False)
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(_FORMATS),
            help="how the result is shown [default: table]",
            show_default=False,
            autocompletion=lambda incomplete: [name for name in _FORMATS if name.startswith(incomplete)],
        ),
    ] = None,
    **flags: Any,
) -> int:
    """Tell how two arrays differ: shapes, types, the largest errors, ulp, and the cells that are farthest apart.

    attncli diff kernel.npy reference.npy --rtol 1e-3 --atol 1e-5

    The exit status is 0 where they are equal, or every number is within --atol and --rtol together, or within --ulp;
    else 1, also where the shapes differ. NaN equals NaN.
    """
    from attncli.cli import console
    from attncli.cli.shared import look_of
    from attncli.report.diff import difference
    from attncli.verify.diff import Allowed, compare

    said = {"atol": atol, "rtol": rtol, "ulp": ulp}
    allowed = Allowed(**{name: _number(name, text) for name, text in said.items() if text is not None})
    first, second = _matrices([a, b], flags)
    found = compare(first, second, allowed)
    for piece in difference(found, (a, b), look_of({}), format or "table"):
        (console.write_data if format == "json" else console.write)(piece)
    if not flags["quiet"]:
        console.notes([*first.notes, *second.notes, *found.notes])
    return console.DONE if found.within else console.DIFFERENT


def _number(name: str, text: str) -> float:
    """The value of a tolerance. Raises InputError for what is no number."""
    from attncli.problem.numbers import parse_number

    try:
        return parse_number(text)
    except AttnError as error:
        error.place = error.place or f"--{name}"
        raise
    except ValueError as error:
        raise InputError(str(error), place=f"--{name}") from None


def _matrices(specs: list[str], flags: dict[str, Any]) -> list[Matrix]:
    """Both matrices. Raises all that is wrong with either."""
    from attncli.cli import console
    from attncli.cli.shared import once
    from attncli.problem.convert_text import layer_from_options
    from attncli.problem.reading import Reading, read_options

    layer = layer_from_options(flags, Reading())
    errors = [*layer.errors]
    reading = Reading(None, read_options(layer.settings), once(console.read_stdin))
    found = []
    for spec in specs:
        try:
            found.append(reading.matrix(spec, None))
        except AttnError as error:
            errors += error.errors()
    raise_all(errors)
    return found
