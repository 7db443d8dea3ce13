"""The way that attend, self, cross and run share: options -> Problem -> Trace -> files, results, notes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from attncli.cli import console
from attncli.cli.outputs import Outputs
from attncli.cli.progress import Bar
from attncli.errors import UsageError
from attncli.problem.convert_text import layer_from_options
from attncli.problem.reading import READ_OPTIONS, Reading, read_options
from attncli.problem.save import problem_text
from attncli.report.look import Look
from attncli.report.renderers import RENDERERS, heading, render, told

if TYPE_CHECKING:
    from attncli.cli.large import ByBlocks
    from attncli.pipeline.trace import Trace
    from attncli.problem.build import Layer
    from attncli.problem.problem import Problem
    from attncli.problem.stages import Stages
    from attncli.verify.verdicts import CheckResult

# What is printed, the notes of what was computed, and those that name files.
Results: TypeAlias = tuple[Iterable[str | bytes], list[str], list[str]]


def compute(said: dict[str, str], flags: dict[str, Any], file: str | None = None) -> int:
    """Compute what the arguments (by field name), the options and the problem file say; gives the exit status."""
    problems = read_problems(said, flags, file)
    if not isinstance(problems, list):
        from attncli.cli.staged import compute as compute_stages

        return compute_stages(problems, flags)
    if len(problems) == 1:
        return _compute(problems[0], flags)
    status = console.DONE
    for number, problem in enumerate(problems, start=1):
        _refuse_in_lists(problem, len(problems))
        heading = look_of(problem.options).label(problem.title or problem.name or f"problem {number}")
        console.write(f"{'' if number == 1 else chr(10)}{heading}\n\n")
        status = max(status, _compute(problem, flags, several=True))
    return status


def _compute(problem: Problem, flags: dict[str, Any], *, several: bool = False) -> int:
    _refuse_mixtures(problem.options)
    if problem.round_steps is not None:  # more places would be zeros
        problem.options.setdefault("precision", problem.round_steps)
    outputs = Outputs(problem)
    to_stdout = outputs.saved == "-"
    prints = not (outputs.files or to_stdout) or any(flags[name] for name in ("show", "top", "format", "stats"))
    if problem.options.get("dry_run"):
        return _dry(problem, outputs, prints)
    outputs.check()
    saved = problem_text(problem) if to_stdout else ""
    marks = expected(problem)  # numbers that do not fit are told before anything is printed or written
    beside = {"check": marks.to_dict()} if marks is not None else {}
    with Bar(quiet=bool(problem.options.get("quiet"))) as bar:
        found = _by_blocks(problem, outputs, prints, bar, beside) or _whole(problem, outputs, prints, bar, beside)
    pieces, notes, written = found
    head = heading(problem.title, problem.options, look_of(problem.options)) if prints and not several else ""
    for piece in chain([head], pieces, [saved]):
        console.write(piece)
    _notes(problem, [*notes, *written])  # some notes come with the pieces
    return console.DONE if marks is None else tell_marks(problem, marks, notes)


def _dry(problem: Problem, outputs: Outputs, prints: bool) -> int:
    """Tell what would be computed."""
    from attncli.cli.dry import describe
    from attncli.problem.plan import plan_of

    plan = plan_of(problem, _steps(problem, outputs, prints))
    plan.check_steps()
    large = _large(problem, outputs, prints, lambda _: None)
    streams = large is not None and large.is_possible()
    console.write(describe(problem, plan, outputs, by_blocks=streams or plan.by_blocks))
    _notes(problem, problem.notes)
    return console.DONE


def _whole(problem: Problem, outputs: Outputs, prints: bool, bar: Bar, beside: Mapping[str, Any]) -> Results:
    """Everything from one Trace, which holds all steps."""
    trace = problem.solve(_steps(problem, outputs, prints), bar)
    pieces: Iterator[str | bytes] = results(problem, trace, beside) if prints else iter(())
    first = next(pieces, "")  # what cannot be shown is told before any file is written
    return chain([first], pieces), trace.notes, outputs.write(trace)


def _by_blocks(problem: Problem, outputs: Outputs, prints: bool, bar: Bar, beside: Mapping[str, Any]) -> Results | None:
    """Everything of a large problem, of which no n x m is held; None where there is none, or where that cannot be."""
    large = _large(problem, outputs, prints, bar)
    if large is None:
        return None
    large.beside = beside
    if not large.is_possible():
        large.check_text()
        return None
    pieces = large.pieces()
    # What cannot be shown is told before any file is written; but of a step of n x m no more than a block is held.
    ready = [next(pieces)] if large.printed_by_rows() else list(pieces)
    written = large.write()
    return chain(ready, pieces), large.notes, written


def _large(problem: Problem, outputs: Outputs, prints: bool, progress: Callable[[float], None]) -> ByBlocks | None:
    from attncli.engine.attending import is_tiny

    if any(output.is_drawn for output in outputs.files) or is_tiny(problem.arrays(), problem.rules()):
        return None
    from attncli.problem.plan import plan_of  # loaded only where its time is small beside the problem's

    plan = plan_of(problem, _steps(problem, outputs, prints))
    if not plan.may_go_by_blocks or (not prints and plan.by_blocks):
        return None  # solving the problem goes by blocks on its own where all that is written is small
    from attncli.cli.large import ByBlocks

    return ByBlocks(problem, outputs, prints, progress)


def read_problems(said: dict[str, str], flags: dict[str, Any], file: str | None = None) -> list[Problem] | Stages:
    """The Problem of the arguments and options; of a file, all that it holds, with the options winning.

    Raises all that is wrong at once.
    """
    from attncli.problem.build import make_problem

    stdin = once(console.read_stdin)
    layer = options_of(said, flags, stdin)
    if file is None:
        return [make_problem(layer)]
    from attncli.problem.document import read_document

    document = read_document(file, layer, stdin=stdin)
    if document.kind == "stages":
        from attncli.problem.stages import read_stages

        return read_stages(document, layer)
    return document.problems(layer) if document.kind == "problems" else [document.problem(layer)]


def options_of(said: dict[str, str], flags: dict[str, Any], stdin: Callable[[], bytes]) -> Layer:
    """The arguments and options as settings."""
    how = {name: flags.get(name) for name in (*READ_OPTIONS, "stdin_format", "stored", "dry_run")}
    reading = Reading(None, read_options(layer_from_options(how, Reading()).settings), stdin)
    return layer_from_options({**said, **flags}, reading)


def results(problem: Problem, trace: Trace, beside: Mapping[str, Any] | None = None) -> Iterator[str | bytes]:
    """What goes to standard output: tables or another format, or the largest weights; then the statistics.

    beside: what formats that hold an object tell beside the results.
    """
    options = problem.options
    look = look_of(options)
    if options.get("top") is not None:
        from attncli.report.top import top

        if steps := beside_top(options, trace):
            yield from render(trace, steps, look, options.get("format", "table"))
            yield "\n"
        yield from told(top(trace, options["top"], look, listed(options)), options.get("format"))
    else:
        pieces = render(trace, shown(options, trace), look, options.get("format", "table"), beside)
        # Data are UTF-8 wherever they go; text is written in the encoding of the terminal.
        is_data = _is_data(options)
        yield from (piece.encode("utf-8", "backslashreplace") if is_data else piece for piece in pieces)
    if options.get("stats"):
        from attncli.report.stats import stats

        yield "\n"
        yield from told(stats(trace, look), options.get("format"))


def look_of(options: dict[str, Any]) -> Look:
    """How results look on standard output."""
    color = console.colour(said=options.get("color"))
    return Look(
        precision=options.get("precision", 4),
        rounding=options.get("rounding", "half-even"),
        width=console.width(),
        color=color,
        heat=options.get("heat"),
        ramp=color and console.many_colours(),
        encoding=console.encoding(),
        terminal=console.is_terminal(),
        separator=options.get("separator"),
        decimal=options.get("decimal", "."),
    )


def shown(options: dict[str, Any], trace: Trace) -> list[str] | None:
    """The steps of --show; None leaves them to the format."""
    steps: list[str] | None = options.get("show")
    return trace.names(on_request=True) if steps is not None and "all" in steps else steps


def listed(options: dict[str, Any]) -> list[str]:
    """The weights of which --top lists the largest: all, or those parts that --show names."""
    steps = [step for step in options.get("show") or () if step.partition("[")[0] == "weights"]
    return steps or ["weights"]


def beside_top(options: dict[str, Any], trace: Trace) -> list[str]:
    """The steps that --show names beside --top: all but the weights, which are listed, have their tables."""
    return [step for step in shown(options, trace) or () if step.partition("[")[0] != "weights"]


def expected(problem: Problem) -> CheckResult | None:
    """The marks of the numbers of --expect, None without it. The one place where `verify` comes in.

    Raises InputError and ShapeError for numbers that the problem does not have, or of another shape.
    """
    if problem.places.get("expect") != "--expect":
        return None
    from attncli.verify.check import check

    return check(problem)


def tell_marks(problem: Problem, marks: CheckResult, told: Iterable[str] = ()) -> int:
    """Tell the marks below the results, but for the notes that are told already; gives the exit status.

    Where the results are data, or go to files alone, the verdict is a note.
    """
    from attncli.cli.check import show, status_of
    from attncli.report.marking import sentence

    options, known = problem.options, {*told}
    marks = replace(marks, notes=[note for note in marks.notes if note not in known])
    printed = not options.get("output") or any(options.get(name) for name in ("show", "top", "format", "stats"))
    if printed and not _is_data(options):
        console.write("\n")
        show([(problem, marks)])
    else:
        _notes(problem, [sentence(marks, look_of(options)), *marks.notes])
    return status_of([(problem, marks)])


def _refuse_in_lists(problem: Problem, count: int) -> None:
    """What holds one problem cannot be asked of several."""
    options = problem.options
    hint = "`batch` writes a file for each problem"
    if options.get("output") or options.get("save_problem"):
        raise UsageError(f"{count} problems cannot be written to one file", place="-o", hint=hint)
    if _is_data(options):
        raise UsageError(f"{options['format']} holds one problem, not {count}", place="--format", hint=hint)


def _refuse_mixtures(options: dict[str, Any]) -> None:
    """Lines of text in the midst of data would spoil them."""
    for name in ("top", "stats"):
        if options.get(name) and _is_data(options):
            raise UsageError(f"--{name} gives lines of text, not {options['format']}", hint="leave out one of the two")


def _is_data(options: dict[str, Any]) -> bool:
    """Whether a program is to read what is printed."""
    return bool(RENDERERS.find(options.get("format", "table")).data)


def _steps(problem: Problem, outputs: Outputs, prints: bool) -> list[str] | None:
    """The steps that somebody will look at; None means all."""
    options = problem.options
    ends = [name for name, exists in _results(problem).items() if exists]
    wanted = outputs.steps(ends)
    if not prints or wanted is None:
        return wanted
    if options.get("top") is not None:
        wanted += ["weights", *(options.get("show") or ())]
    elif options.get("show") is not None:
        wanted += options["show"]
    elif RENDERERS.find(options.get("format", "table")).shows == "all":
        return None
    else:
        wanted += ends
    return None if "all" in wanted or options.get("stats") else list(dict.fromkeys(wanted))


def _results(problem: Problem) -> dict[str, bool]:
    """Which of the results this problem has, before anything is computed."""
    valued = bool({"V", "X", "Y"} & set(problem.inputs))
    return {
        "weights": True,
        "output": valued,
        "weights_back": problem.both_ways,
        "output_back": problem.both_ways and valued,
        "average": bool(problem.more.get("average_heads")),
    }


def _notes(problem: Problem, texts: list[str]) -> None:
    if not problem.options.get("quiet"):
        console.notes(texts)


def once(read: Callable[[], bytes]) -> Callable[[], bytes]:
    """Standard input, which gives its bytes to the first who asks."""
    taken = False

    def give() -> bytes:
        nonlocal taken
        if taken:
            raise UsageError(
                "standard input was read already", hint="`-` may stand for one file of a command: save the other one"
            )
        taken = True
        return read()

    return give
