"""`attncli run PROBLEM`: whatever a problem file describes."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from attncli.cli.options import problem_options


@problem_options()
def command(
    problem: Annotated[str, typer.Argument(metavar="PROBLEM", help="a problem file, .yaml or .json")],
    dask: Annotated[
        str | None,
        typer.Option("--dask", metavar="ADDRESS|local", help="split the queries over a Dask cluster (extra: dask)"),
    ] = None,
    **flags: Any,
) -> int:
    """Compute what a problem file describes; options win over what it says.

    attncli run problem.yaml --show all

    With --dask a large problem is computed by a cluster, and each block of rows written to its place in a .npy file:

    attncli run big.yaml --dask tcp://127.0.0.1:8786 -o output.npy
    """
    if dask is not None:
        from attncli.cli.clustered import compute as compute_there

        return compute_there(problem, dask, flags)
    from attncli.cli.shared import compute

    return compute({}, flags, problem)
