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
    from collections.abc import Callable

    from attncli.cli.feedback import Feedback
    from attncli.cli.files import Files
    from attncli.problem.problem import Problem
    from attncli.report.look import Look
    from attncli.report.points import Points
    from attncli.verify.verdicts import CheckResult

    Marked = tuple[Problem | None, CheckResult]  # no problem where the file could not be read

# Marks are what is shown, and no step of the problem is written.
_LEFT_OUT = ("round_steps", "show", "top", "stats", "output", "force", "save_problem", "dry_run", "heat")


@problem_options(only=[name for name in FIELDS if name not in _LEFT_OUT])
def command(
    problems: Annotated[
        list[str],
        typer.Argument(metavar="PROBLEM...", help="problem files with expect:, folders, patterns"),
    ],
    key: Annotated[
        str | None,
        typer.Option(
            "--problem",
            metavar="KEY",
            help="the exercise; of answers only numbers are used",
            show_default=False,
        ),
    ] = None,
    points: Annotated[
        str | None, typer.Option("--points", metavar="STEP=N,...", help="points for each step", show_default=False)
    ] = None,
    partial: Annotated[bool, typer.Option("--partial", help="points by cells, not by whole steps")] = False,
    explains: Annotated[bool, typer.Option("--explain", help="add the arithmetic of the first slip")] = False,
    output: Annotated[
        list[str] | None,
        typer.Option(
            "-o",
            "--output",
            metavar="[STEP=]PATH",
            show_default=False,
            help="write marks: a file, a folder, a picture",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="replace what exists")] = False,
    **flags: Any,
) -> int:
    """Mark the numbers calculated by hand that problem files hold under expect:, and name the first slip.

    attncli check homework/*.yaml --points scores=2,weights=3 --format csv

    attncli check --problem key.yaml answers/ -o feedback/ --explain

    A number agrees; is truncated (cut, not rounded); follows (from the hand's own earlier numbers); is off in the
    last-place (by one unit, in six digits or more: single precision); or is wrong. A step is what its worst number is.
    The exit status is 1 where a number is wrong, 2 where a file is not read.
    """
    from attncli.cli import console
    from attncli.report.points import Points

    if partial and points is None:
        raise UsageError("--partial needs points", place="--partial", hint="--points scores=2,weights=3")
    if force and not output:
        raise UsageError("there is nothing to replace", place="--force", hint="-o PATH")
    worth = Points.read(points, partial=partial) if points is not None else None
    files = [file for problem in problems for file in _files(problem, answers=key is not None)]
    feedback = _feedback(output or [], flags["format"], force, files)
    drawn = _drawn({**flags, "output": output, "force": force}) if output and feedback is None else None
    marked, status = _marked(files, flags, key, told_alone=feedback is None)
    said = {name: flags[name] for name in ("format", "quiet", "color") if flags[name]}
    told: list[str] = []
    if feedback is not None:
        told = _write(feedback, marked, said, worth, explains=explains)
    elif drawn is not None:
        from attncli.cli.files import write_marks

        told = write_marks(drawn, marked, worth)
    if feedback is None and (drawn is None or drawn.prints):
        show(marked, worth, said, several=len(files) > 1, explains=explains)
    elif len(marked) == 1:
        told += _verdicts(marked)
    if not flags["quiet"]:
        console.notes(told)
    return status or status_of(marked)


def _write(
    feedback: Feedback, marked: list[Marked], said: dict[str, Any], points: Points | None, *, explains: bool
) -> list[str]:
    """Write feedback, and tell of several what they have in common; gives notes."""
    from attncli.cli.feedback import draw_with
    from attncli.cli.shared import look_of

    notes = feedback.write(marked, draw_with(points, explains=explains), points)
    if len(marked) > 1:
        tell_class(marked, look_of(said), points)
    return notes


def _drawn(flags: dict[str, Any]) -> Files:
    """Pictures, or several files."""
    from attncli.cli.files import Files
    from attncli.report.drawn import DOCUMENTS, PICTURES
    from attncli.report.marking import DATA

    return Files(flags, [*PICTURES, *DOCUMENTS, *(f".{name}" for name in DATA)])


def _feedback(outputs: list[str], format: str | None, force: bool, files: list[str]) -> Feedback | None:
    """The one file or folder of marks; None where there is none, or pictures are to be made."""
    if len(outputs) != 1:
        return None
    from attncli.cli.feedback import Feedback, is_feedback

    if not is_feedback(outputs[0]):
        return None
    feedback = Feedback(outputs[0], format, force)
    feedback.check(files)
    return feedback


def _marked(files: list[str], flags: dict[str, Any], key: str | None, *, told_alone: bool) -> tuple[list[Marked], int]:
    """The marks of all files, and the exit status where one of them could not be read.

    told_alone: an error of a single file is told instead of a row for it.
    """
    from attncli.cli import console
    from attncli.verify.verdicts import CheckResult

    mark_one = _by_key(key, flags) if key is not None else mark_file
    marked: list[Marked] = []
    status = console.DONE
    for file in files:
        try:
            marked += mark_one(file, flags)
        except AttnError as error:
            if told_alone and len(files) == 1 and flags["format"] not in ("csv", "tsv"):
                raise
            # The other files are marked all the same; and a gradebook has a row for each.
            status = max(status, console.tell(error))
            marked.append((None, CheckResult.unreadable(shown_name(file), error)))
    if any(result.reason for _, result in marked):
        status = max(status, console.WRONG)
    return marked, status


def _by_key(key: str, flags: dict[str, Any]) -> Callable[[str, dict[str, Any]], list[Marked]]:
    """How answers are marked against an exercise."""
    from attncli.cli import console
    from attncli.cli.shared import once, options_of
    from attncli.problem.answers import answered, read_key

    stdin = once(console.read_stdin)
    options = options_of({}, flags, stdin)
    exercise = read_key(key, options, stdin)

    def mark_answer(file: str, flags: dict[str, Any]) -> list[Marked]:
        problem, notes = answered(exercise, file, stdin)
        marked, result = mark(replace(problem, file=shown_name(file)))
        result.notes[:0] = notes
        return [(marked, result)]

    return mark_answer


def _files(problem: str, *, answers: bool) -> list[str]:
    """The files that a folder or a pattern stands for; else the one of that name. answers: arrays are some, too."""
    if os.path.isdir(problem):
        from attncli.problem.answers import in_folder

        return in_folder(problem, arrays=answers)
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


def _verdicts(marked: list[Marked]) -> list[str]:
    """The verdict on each, where all goes to files."""
    from attncli.cli.shared import look_of
    from attncli.report.marking import sentence

    told = [(sentence(result, look_of({})), *result.notes) for _, result in marked if not result.reason]
    return [text for texts in told for text in texts]


def status_of(marked: list[Marked]) -> int:
    """The exit status of a check."""
    from attncli.cli import console

    return console.DIFFERENT if any(result.verdict == "wrong" for _, result in marked) else console.DONE


def tell_class(marked: list[Marked], look: Look, points: Points | None) -> None:
    """Tell a line a file and what the class has in common, where the marks themselves go to files."""
    from attncli.cli import console
    from attncli.report.marking import summary

    console.write("".join(f"{line}\n" for line in summary([result for _, result in marked], look, points)))


def show(
    marked: list[Marked],
    points: Points | None = None,
    said: dict[str, Any] | None = None,
    *,
    several: bool = False,
    explains: bool = False,
) -> None:
    """Write the marks: tables for one file, a line each for several, or data.

    said: the options where no problem could be read that holds them. explains: with the arithmetic of the first slip.
    """
    from attncli.cli import console
    from attncli.cli.shared import look_of
    from attncli.report.marking import DATA, data, marks
    from attncli.report.renderers import heading
    from attncli.report.slip import slip_of

    options = next((problem.options for problem, _ in marked if problem is not None), said or {})
    results = [result for _, result in marked]
    look, format = look_of(options), options.get("format", "table")
    if format in DATA:
        console.write_data(data(results, format, points))
    elif several or len(results) > 1:
        if format not in ("table", "plain"):
            raise UsageError(f"several checks are not shown as {format}", place="--format",
                             hint=", ".join(("table", "plain", *DATA)))  # fmt: skip
        tell_class(marked, look, points)
    else:
        problem, result = marked[0]
        more = [slip_of(problem, result, look)] if explains and problem is not None else []
        pieces = marks(result, look, format, points, [text for text in more if text])
        first = next(pieces)  # what cannot be shown is told before anything is
        for piece in chain([heading(problem.title if problem else None, options, look), first], pieces):
            console.write(piece)
    if not options.get("quiet"):
        prefixes = [f"{result.file}: " if len(results) > 1 else "" for result in results]
        console.notes(
            [f"{prefix}{note}" for prefix, result in zip(prefixes, results, strict=True) for note in result.notes]
        )
