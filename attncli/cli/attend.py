"""`attncli attend Q K [V]`: attention of given matrices, or from the scores on."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from attncli.cli.options import problem_options
from attncli.errors import UsageError
from attncli.problem.settings import FIELDS, LATER_STEPS


@problem_options()
def command(
    q: Annotated[str | None, typer.Argument(metavar="Q", help="queries", show_default=False)] = None,
    k: Annotated[str | None, typer.Argument(metavar="K", help="keys", show_default=False)] = None,
    v: Annotated[str | None, typer.Argument(metavar="V", help="values; left out: it ends at the weights")] = None,
    **flags: Any,
) -> int:
    """Attention of given queries, keys and values.

    attncli attend Q.csv K.csv V.csv --mask causal

    With --scores (or --kernel, --scaled, --masked, --weights) it begins there, and of the matrices only V may follow:

    attncli attend --scores S.csv V.csv
    """
    from attncli.cli.shared import compute

    return compute({"attention": "attend", **_matrices([each for each in (q, k, v) if each is not None], flags)}, flags)


def _matrices(given: list[str], flags: dict[str, Any]) -> dict[str, str]:
    """What the positional matrices are. Raises UsageError where one is missing or too many."""
    begins = next((FIELDS[name].flag for name in LATER_STEPS if flags[name] is not None), None)
    if begins is not None and len(given) > 1:
        raise UsageError(f"with {begins} only V may follow, but there are {len(given)} matrices", hint=" ".join(given))
    names = ("V",) if begins is not None else ("Q", "K", "V")
    if begins is None and len(given) < 2:
        missing = "Q and K are" if not given else "K is"
        hint = "attend Q K [V], or attend --scores S [V]; `attncli attend --help`"
        if given and given[0].lower().endswith((".yaml", ".yml", ".json")):
            hint += f"; if {given[0]} is a problem: `attncli run {given[0]}`"
        raise UsageError(f"{missing} missing", hint=hint)
    return dict(zip(names, given, strict=False))
