"""`attncli self X`: Q, K and V all from X."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from attncli.cli.options import problem_options


@problem_options(without=("both_ways",))
def command(
    x: Annotated[str, typer.Argument(metavar="X", help="the data: a token is a row (--layout columns: a column)")],
    **flags: Any,
) -> None:
    """Self-attention: queries, keys and values all from X, each through its weight matrix (one left out is the identity).

    attncli self X.csv --wq W_Q.csv --wk W_K.csv --wv W_V.csv --mask causal
    """
    from attncli.cli.shared import Asked, compute

    compute(Asked({"attention": "self", "X": x}, flags))
