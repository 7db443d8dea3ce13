"""`attncli explain PROBLEM --query Q [--key K]`: the arithmetic behind one row or cell."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from attncli.cli.options import problem_options
from attncli.errors import UsageError
from attncli.problem.settings import FIELDS

# An explanation is one text: it has formats of its own, and is written to no file of numbers.
_LEFT_OUT = ("show", "top", "stats", "format", "save_problem", "dry_run", "expect", "rounded_inputs", "heat", "cmap",
             "range", "size")  # fmt: skip


def _formats(incomplete: str) -> list[str]:
    from attncli.report.explanation import EXPLANATIONS

    return [name for name in EXPLANATIONS.names() if name.startswith(incomplete)]


@problem_options(only=[name for name in FIELDS if name not in _LEFT_OUT])
def command(
    problem: Annotated[str, typer.Argument(metavar="PROBLEM", help="a problem file, .yaml or .json")],
    query: Annotated[
        str, typer.Option("--query", metavar="Q", help="position from 1, or label; the#2 is the second; all is each")
    ],
    key: Annotated[
        str | None, typer.Option("--key", metavar="K", help="likewise; without it the whole row", show_default=False)
    ] = None,
    head: Annotated[
        int | None, typer.Option("--head", metavar="H", help="only this head, counted from 1", show_default=False)
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="text|markdown|latex",
            help="how it is written [default: text]",
            autocompletion=_formats,
            show_default=False,
        ),
    ] = None,
    exact: Annotated[bool, typer.Option("--exact", help="keep roots, fractions and e (needs sympy)")] = False,
    **flags: Any,
) -> int:
    """Write the numbers into the formulas, step by step, down to one weight, or to the output of one query.

    attncli explain problem.yaml --query it --key animal
    """
    from attncli.cli import console
    from attncli.cli.files import Files
    from attncli.cli.shared import look_of, read_problems
    from attncli.report.drawn import DOCUMENTS, explanation_document, look_of_files
    from attncli.report.explanation import EXPLANATIONS, write
    from attncli.report.renderers import heading
    from attncli.working.explanation import explain

    EXPLANATIONS.find(format or "text", place="--format")
    files = Files({**flags, "format": format}, [*DOCUMENTS])
    found = read_problems({}, flags, problem)
    if not isinstance(found, list) or len(found) > 1:
        raise UsageError("the file holds several problems", place=problem, hint="explain takes a file with one problem")
    rounded = found[0].round_steps
    if exact and rounded is not None:
        raise UsageError("--exact and --round-steps do not go together", hint="exact numbers are not rounded")
    explanation = explain(found[0], query, key, head)
    kept = None
    if exact:
        from attncli.working.exact import Exact

        kept = Exact(found[0])
    look = look_of(found[0].options)
    contents = {}
    for output in files.outputs:
        written = DOCUMENTS[output.suffix]
        own = "text" if written == "html" else written
        lines = list(write(explanation, own, look_of_files(found[0].options), exact=kept, rounded=rounded))
        contents[output] = explanation_document(lines, written, found[0].title)
    told = files.write(contents)
    if files.prints:
        console.write(heading(found[0].title, {"format": format}, look))
        for line in write(explanation, format or "text", look, exact=kept, rounded=rounded):
            console.write(f"{line}\n")
    if not found[0].options.get("quiet"):
        console.notes([*explanation.notes, *told])
    return console.DONE
