"""`attncli check PROBLEM...`: mark hand-calculated numbers."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attncli.cli.options import problem_options
from attncli.errors import AttnError, UsageError
from attncli.problem.settings import FIELDS

if TYPE_CHECKING:
    from attncli.problem.problem import Problem
    from attncli.report.points import Points
    from attncli.verify.verdicts import CheckResult

    Marked = tuple[Problem | None, CheckResult]  # no problem where the file could not be read

# Marks are what is shown, and no step of the problem is written.
_LEFT_OUT = ("show", "top", "stats", "output", "force", "save_problem", "dry_run")


@problem_options(only=[name for name in FIELDS if name not in _LEFT_OUT])
def command(
    problems: Annotated[
        list[str], typer.Argument(metavar="PROBLEM...", help="problem files with expect:, or patterns of their names")
    ],
    points: Annotated[
        str | None, typer.Option("--points", metavar="STEP=N,...", help="points for each step", show_default=False)
    ] = None,
    **flags: Any,
) -> int:
    """Mark the numbers calculated by hand that problem files hold under expect:, and name the first slip.

    attncli check homework/*.yaml --points scores=2,weights=3 --format csv

    A number agrees; is truncated (cut, not rounded); follows (from the hand's own earlier numbers); is off in the
    last-place (by one unit, in six digits or more: single precision); or is wrong. A step is what its worst number is.

    A step counts in full unless it is wrong. The exit status is 1 where a number is wrong, 2 where a file is not read.
    """
    from attncli.cli import console
    from attncli.report.points import Points
    from attncli.verify.verdicts import CheckResult

    worth = Points.read(points) if points is not None else None
    marked: list[Marked] = []
    status = console.DONE
    files = [file for problem in problems for file in _files(problem)]
    for file in files:
        try:
            marked += mark_file(file, flags)
        except AttnError as error:
            if len(files) == 1 and flags["format"] not in ("csv", "tsv"):
                raise
            # The other files are marked all the same; and a gradebook has a row for each.
            status = max(status, console.tell(error))
            marked.append((None, CheckResult.unreadable(shown_name(file), error)))
    if any(result.reason for _, result in marked):
        status = max(status, console.WRONG)
    show(marked, worth, {name: flags[name] for name in ("format", "quiet") if flags[name]}, several=len(files) > 1)
    return status or status_of(marked)


def _files(problem: str) -> list[str]:
    """The files that a pattern stands for; else the one of that name."""
    if not any(sign in problem for sign in "*?[") or os.path.exists(problem):
        return [problem]
    from attncli.batch.jobs import matching

    return matching(problem)


def mark_file(file: str, flags: dict[str, Any]) -> list[Marked]:
    """The marks of all problems of a file. Raises UsageError where it holds no numbers of a hand."""
    from attncli.cli.shared import read_problems

    found = read_problems({}, flags, file)
    file = shown_name(file)
    if isinstance(found, list):
        if len(found) == 1:
            return [mark(found[0])]
        named = [replace(each, file=f"{file}: {each.name or each.title or i}") for i, each in enumerate(found, 1)]
        return [_mark_of_list(problem) for problem in named]
    stages = [(stage.name, stage.problem) for stage in found.solve() if stage.problem.expect]
    if not stages:
        return [mark(found.problems[found.last])]
    return [mark(replace(problem, file=f"{file}: {name}", options=found.options)) for name, problem in stages]


def shown_name(file: str) -> str:
    """The name of a file in messages and marks."""
    from attncli.problem.formats import STDIN

    return STDIN if file == "-" else file


def _mark_of_list(problem: Problem) -> Marked:
    """The marks of one of several problems; what is wrong with one keeps none of the others from theirs."""
    from attncli.cli import console
    from attncli.verify.verdicts import CheckResult

    try:
        return mark(problem)
    except AttnError as error:
        console.tell(error)
        return problem, CheckResult.unreadable(str(problem.file), error)


def mark(problem: Problem) -> Marked:
    """A problem with what the check says of it."""
    from attncli.verify.check import check

    return problem, check(problem)


def status_of(marked: list[Marked]) -> int:
    """The exit status of a check."""
    from attncli.cli import console

    return console.DIFFERENT if any(result.verdict == "wrong" for _, result in marked) else console.DONE


def show(
    marked: list[Marked], points: Points | None = None, said: dict[str, Any] | None = None, *, several: bool = False
) -> None:
    """Write the marks: tables for one file, a line each for several, or data.

    said: the options where no problem could be read that holds them.
    """
    from attncli.cli import console
    from attncli.cli.shared import look_of
    from attncli.report.marking import DATA, data, marks, summary
    from attncli.report.renderers import heading

    options = next((problem.options for problem, _ in marked if problem is not None), said or {})
    results = [result for _, result in marked]
    look, format = look_of(options), options.get("format", "table")
    if format in DATA:
        console.write_data(data(results, format, points))
    elif several or len(results) > 1:
        if format not in ("table", "plain"):
            raise UsageError(f"several checks are not shown as {format}", place="--format",
                             hint=", ".join(("table", "plain", *DATA)))  # fmt: skip
        console.write("".join(f"{line}\n" for line in summary(results, look, points)))
    else:
        problem = marked[0][0]
        pieces = marks(results[0], look, format, points)
        first = next(pieces)  # what cannot be shown is told before anything is
        for piece in chain([heading(problem.title if problem else None, options, look), first], pieces):
            console.write(piece)
    if not options.get("quiet"):
        prefixes = [f"{result.file}: " if len(results) > 1 else "" for result in results]
        console.notes(
            [f"{prefix}{note}" for prefix, result in zip(prefixes, results, strict=True) for note in result.notes]
        )
