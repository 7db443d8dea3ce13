"""`attncli self X`: Q, K and V all from X."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from attncli.cli.options import problem_options


@problem_options()
def command(
    x: Annotated[str, typer.Argument(metavar="X", help="the data")],
    **flags: Any,
) -> int:
    """Self-attention: queries, keys and values all from X, each through its weight matrix (left out: the identity).

    attncli self X.csv --wq W_Q.csv --wk W_K.csv --wv W_V.csv --mask causal
    """
    from attncli.cli.shared import compute

    return compute({"attention": "self", "X": x}, flags)
