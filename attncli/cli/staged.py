"""A file of stages: each computed, shown under its name, and written; `encoder.weights` names a stage's step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from attncli.cli import console
from attncli.cli.outputs import Output, drawn, parse_outputs
from attncli.errors import InputError, UsageError
from attncli.escapes import shown
from attncli.problem.formats import format_of, writer
from attncli.problem.stages import Solved, Stages
from attncli.problem.values import placed
from attncli.report.renderers import RENDERERS, RESULTS, subheading

if TYPE_CHECKING:
    from attncli.pipeline.trace import Trace
    from attncli.problem.formats.files import Content

Steps = dict[str, list[str]]


def compute(stages: Stages, flags: dict[str, Any]) -> int:
    """Compute all stages, print and write what is wanted; gives the exit status."""
    from attncli.cli.shared import expected, tell_marks

    options = stages.options
    if options.get("save_problem"):
        raise UsageError("a file of stages is not saved anew", place="--save-problem", hint="it is a problem file")
    outputs = parse_outputs(options.get("output") or (), stages=stages.address)
    if options.get("dry_run"):
        return _dry(stages, outputs)
    if outputs:
        from attncli.problem.formats.files import check_all
        from attncli.report.drawn import check_pictures

        check_pictures((output.suffix for output in outputs), options)
        check_all([str(output.path) for output in outputs], force=bool(options.get("force")))
    prints = not outputs or any(flags[name] for name in ("show", "top", "format", "stats"))
    printed = _printed(stages) if prints else {}
    written = {output.path: _written(stages, output) for output in outputs}
    wanted: Steps = {}
    for steps in (printed, *written.values()):
        for name, addresses in steps.items():
            wanted.setdefault(name, []).extend([*addresses, *(["weights"] if options.get("top") else [])])
    solved = {each.name: each for each in stages.solve(None if options.get("stats") else wanted)}
    marks = {name: result for name, each in solved.items() if (result := expected(each.problem)) is not None}
    pieces = list(_shown(stages, solved, printed, {name: result.to_dict() for name, result in marks.items()}))
    told = _write(stages, solved, outputs, written)
    for piece in pieces:
        console.write(piece)
    if not options.get("quiet"):
        notes = [f"{name}: {note}" for name, each in solved.items() for note in each.trace.notes]
        console.notes([*notes, *told])
    told_already = [note for each in solved.values() for note in each.trace.notes]
    asked = {name: replace(solved[name].problem, options=options) for name in marks}
    return max((tell_marks(asked[name], result, told_already) for name, result in marks.items()), default=console.DONE)


def steps_of(stages: Stages, every: bool) -> Steps:
    """The steps of `show:` or --show by stage; else the results of each stage, or every step but exp, sum and lse."""
    show = stages.options.get("show")
    if show is not None and "all" in show:
        return {name: list(shapes) for name, shapes in stages.shapes.items()}
    if show is not None:
        steps: Steps = {}
        for stage, step in map(stages.address, show):
            steps.setdefault(stage, []).append(step)
        return {name: steps[name] for name in stages.problems if name in steps}
    return {name: _default(stages, name, every) for name in stages.problems}


def _default(stages: Stages, name: str, every: bool) -> list[str]:
    own, shapes = stages.problems[name].options.get("show"), stages.shapes[name]
    if own is not None:
        return list(shapes) if "all" in own else own
    return [step for step in shapes if (step not in ("exp", "sum", "lse") if every else step in RESULTS)]


def _printed(stages: Stages) -> Steps:
    """What goes to standard output; a format that holds one step gets that of --show, or the last stage's output."""
    entry = RENDERERS.find(stages.options.get("format", "table"))
    if entry.shows == "last" and stages.options.get("show") is None:
        return _result(stages)
    steps = steps_of(stages, every=entry.shows == "all")
    if entry.shows == "last" and sum(map(len, steps.values())) != 1:
        named = ", ".join(f"{name}.{step}" for name, each in steps.items() for step in each)
        raise UsageError(f"{stages.options['format']} holds one step, not {named}", place="--show", hint="name one")
    return steps


def _result(stages: Stages) -> Steps:
    return {stages.last: ["output" if "output" in stages.shapes[stages.last] else "weights"]}


def _written(stages: Stages, output: Output) -> Steps:
    if output.step is not None:
        stage, step = stages.address(output.step)
        return {stage: [step]}
    if output.is_picture:
        return {stages.last: ["weights"]}
    if output.is_drawn:
        return steps_of(stages, every=False)
    return steps_of(stages, every=True) if output.several else _result(stages)


def _shown(
    stages: Stages, solved: dict[str, Solved], steps: Steps, marks: dict[str, dict[str, Any]]
) -> Iterator[str | bytes]:
    from attncli.cli.shared import look_of, results
    from attncli.report.nested import nested

    options = stages.options
    format = options.get("format", "table")
    entry = RENDERERS.find(format)
    if entry.shows == "all" and steps:
        beside = {"check": marks} if marks else None
        yield nested({name: (solved[name].trace, each) for name, each in steps.items()}, format, beside)
        return
    for number, (name, each) in enumerate(steps.items()):
        if entry.shows != "last":
            yield f"{chr(10) * bool(number)}{subheading(look_of(options).label(name), format)}\n\n"
        # --top takes the place of the tables that nobody asked for.
        asked = each if options.get("top") is None or options.get("show") else ["weights"]
        problem = replace(solved[name].problem, options={**options, "show": asked})
        yield from results(problem, solved[name].trace)


def _write(stages: Stages, solved: dict[str, Solved], outputs: list[Output], steps: dict[Any, Steps]) -> list[str]:
    """Write all files, or none; gives notes that name them."""
    from attncli.problem.formats.files import write_all
    from attncli.report.nested import flat, nested

    contents: dict[str, Content] = {}
    told: list[str] = []
    for output in outputs:
        traces = {name: (solved[name].trace, each) for name, each in steps[output.path].items()}
        if output.is_drawn:
            names = [f"{name}.{step}" for name, (_, each) in traces.items() for step in each]
            with placed(f"-o {output.path}"):
                contents[str(output.path)], notes = _drawn(stages, solved, output, traces)
            told += [f"wrote {', '.join(names)} to {output.path}", *notes]
            continue
        format = format_of(output.path.name).name
        parts = flat(traces)
        with placed(f"-o {output.path}"):
            if format in ("json", "yaml"):
                contents[str(output.path)] = nested(traces, format)
            elif not output.several and len(parts) != 1:
                raise InputError(f"{format} holds one array, not {', '.join(parts)}", hint="name one, or write .npz")
            else:
                contents[str(output.path)] = writer(output.path.name, parts, {})
        told.append(f"wrote {', '.join(parts)} to {output.path}")
    if contents:
        write_all(contents, force=bool(stages.options.get("force")))
    return told


def _drawn(
    stages: Stages, solved: dict[str, Solved], output: Output, traces: dict[str, tuple[Trace, list[str]]]
) -> tuple[bytes, list[str]]:
    """A picture of a stage's step, or a document of the stages, one under the other."""
    if output.is_picture:
        (name, (trace, each)), *_ = traces.items()
        return drawn(output, trace, each, replace(solved[name].problem, options=stages.options))
    from attncli.report.document import of_stages
    from attncli.report.drawn import DOCUMENTS, look_of_files

    format, title = DOCUMENTS[output.suffix], stages.options.get("title")
    return of_stages(traces, format, title, look_of_files(stages.options)), []


def _dry(stages: Stages, outputs: list[Output]) -> int:
    from attncli.cli.dry import describe, drawn_line, file_line
    from attncli.problem.plan import blueprint, plan_of
    from attncli.report.nested import flat

    stand_ins = {name: stages.stand_in(name) for name in stages.problems}
    for name, problem in stand_ins.items():
        console.write(f"stage {shown(name)}: {describe(problem, plan_of(problem))}")
    plans = {name: blueprint(problem) for name, problem in stand_ins.items()}
    files = {
        output.path: flat({name: (plans[name], steps) for name, steps in _written(stages, output).items()})
        for output in outputs
        if not output.is_drawn
    }
    force = bool(stages.options.get("force"))
    lines = [file_line(path, matrices, force=force) for path, matrices in files.items()]
    for output in outputs:
        if output.is_drawn:
            steps = [f"{name}.{step}" for name, each in _written(stages, output).items() for step in each]
            what = "a picture" if output.is_picture else "a document"
            lines.append(drawn_line(output.path, what, steps, force=force))
    console.write("\n".join(["files:", *map(shown, lines)] if lines else []))
    return console.DONE
