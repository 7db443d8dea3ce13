"""`attncli run PROBLEM`: whatever a problem file describes."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from attncli.cli.options import problem_options


@problem_options()
def command(
    problem: Annotated[str, typer.Argument(metavar="PROBLEM", help="a problem file, .yaml or .json")],
    **flags: Any,
) -> int:
    """Compute what a problem file describes; options win over what it says.

    attncli run problem.yaml --show all
    """
    from attncli.cli.shared import compute

    return compute({}, flags, problem)
