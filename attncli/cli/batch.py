"""`attncli batch PROBLEM... -o DIR`: many problems in one call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attncli.cli.options import problem_options
from attncli.errors import UsageError, raise_all
from attncli.problem.settings import FIELDS

if TYPE_CHECKING:
    from attncli.batch.run import Executor

# Said by options of this command in another way, or of no use to many problems at once.
_OWN = ("output", "force", "format", "save_problem", "dry_run", "expect", "top", "stats", "stdin_format")


def _formats(incomplete: str) -> list[str]:
    from attncli.batch.writers import WRITERS

    return [name for name in WRITERS.names() if name.startswith(incomplete)]


@problem_options(only=[name for name in FIELDS if name not in _OWN])
def command(
    problems: Annotated[list[str], typer.Argument(metavar="PROBLEM...", help="files, folders, patterns, lists, or -")],
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="DIR", help="write a result for each problem here")
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            autocompletion=_formats,
            show_default=False,
            help="of results: json, yaml, npz, csv, tsv, npy, markdown; jsonl: one stream [default: json]",
        ),
    ] = None,
    problem: Annotated[
        str | None, typer.Option("--problem", metavar="FILE", help="the common problem of a list of jobs")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="keep results that are there for the same problem")] = False,
    force: Annotated[bool, typer.Option("--force", help="replace results that exist")] = False,
    jobs: Annotated[
        int, typer.Option("--jobs", metavar="N", min=1, help="processes at work [default: 1]", show_default=False)
    ] = 1,
    dask: Annotated[
        str | None, typer.Option("--dask", metavar="ADDRESS|local", help="compute on a Dask cluster (extra: dask)")
    ] = None,
    **flags: Any,
) -> int:
    """Compute many problems in one call: p.yaml gives DIR/p.json.

    attncli batch 'homework/*.yaml' -o results/

    A folder is searched for .yaml, .yml and .json, not further down. Each problem of a list under problems: gets a
    result by its name: (or by number). Numbers under expect: are checked. The summary is printed, and written to
    DIR/summary.csv; without -o nothing else is.

    A list of jobs, see `attncli help problem-files`:

    attncli batch jobs.csv --problem base.yaml -o results/
    """
    from attncli.batch.jobs import find
    from attncli.batch.run import run
    from attncli.batch.writers import How
    from attncli.cli import console
    from attncli.cli.batch_summary import Summary
    from attncli.cli.batch_target import Target
    from attncli.problem.convert_text import layer_from_options
    from attncli.problem.reading import READ_OPTIONS, Reading, read_options

    first = layer_from_options({name: flags[name] for name in (*READ_OPTIONS, "stored")}, Reading())
    options = layer_from_options(flags, Reading(None, read_options(first.settings)))
    raise_all(options.errors)
    target = Target(output, format, resume, force)
    found = find(problems, options, problem, console.read_stdin)
    said = {name: setting.value for name, setting in options.settings.items()}
    show = tuple(said["show"]) if "show" in said else None
    how = How(target.format, show, said.get("precision", 4), said.get("rounding", "half-even"))
    folder = target.prepare(found, how)
    summary = Summary(len(found.jobs), folder, bool(flags["quiet"]))
    with _executor(dask, jobs, len(found.jobs)) as executor, summary.progress() as advance, target.stream() as write:
        if folder is not None:
            folder.make()
        try:
            for outcome in run(found.jobs, how, folder, executor):
                write(outcome)
                summary.add(outcome)
                advance()
        except KeyboardInterrupt:
            summary.interrupted()
            raise
    return summary.finish(printed=target.prints)


@contextmanager
def _executor(dask: str | None, jobs: int, total: int) -> Iterator[Executor]:
    """Who computes: this process, several, or a cluster."""
    from attncli.batch.pool import processes
    from attncli.batch.run import serial

    if dask is None:
        yield serial if jobs == 1 or total == 1 else processes(jobs, total)
        return
    if jobs != 1:
        raise UsageError("--jobs and --dask are both given", hint="a cluster has workers of its own")
    from attncli.batch.cluster import cluster

    with cluster(dask) as executor:
        yield executor
