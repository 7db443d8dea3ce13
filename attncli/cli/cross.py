"""`attncli cross X Y`: Q from X, K and V from Y."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from attncli.cli.options import problem_options


@problem_options()
def command(
    x: Annotated[str, typer.Argument(metavar="X", help="the data of the queries")],
    y: Annotated[str, typer.Argument(metavar="Y", help="the data of the keys and values")],
    **flags: Any,
) -> int:
    """Cross-attention: queries from X, keys and values from Y, each through its weight matrix (left out: the identity).

    attncli cross decoder.csv encoder.csv --wq W_Q.csv --wk W_K.csv --wv W_V.csv
    """
    from attncli.cli.shared import compute

    return compute({"attention": "cross", "X": x, "Y": y}, flags)
