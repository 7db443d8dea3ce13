"""`attncli decode PROBLEM`: one query at a time, as a decoder generates."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attncli.cli.options import problem_options
from attncli.errors import UsageError
from attncli.problem.settings import FIELDS

if TYPE_CHECKING:
    from attncli.cli.outputs import Outputs
    from attncli.problem.decode import Decoded
    from attncli.problem.problem import Problem
    from attncli.problem.stages import Stages

# A step has no statistics of its own, and what was asked of a file of numbers is asked of the whole result.
_LEFT_OUT = ("top", "stats", "save_problem", "dry_run", "expect", "rounded_inputs", "both_ways")


@problem_options(only=[name for name in FIELDS if name not in _LEFT_OUT])
def command(
    problem: Annotated[str, typer.Argument(metavar="PROBLEM", help="a problem file, .yaml or .json")],
    steps: Annotated[str | None, typer.Option("--steps", metavar="A:B", help="these steps, from 1 on, B too")] = None,
    **flags: Any,
) -> int:
    """Compute one query after another over the keys that exist by then, with a cache of keys and values.

    attncli decode problem.yaml --mask causal --format json

    The problem has to be causal. Of a file of stages the last one is decoded, and with it those from which its queries
    come. --format json prints one line a step, as it is computed: step, query, keys, weights, output; with stages those
    of the last one, and under "stages" those of each. Tables show weights and output, or what --show names of them.
    Other formats, and -o, put the steps one under the other.
    """
    from attncli.cli import console
    from attncli.cli.shared import read_problems, results
    from attncli.problem.decode import Decoder

    read = read_problems({}, flags, problem)
    if isinstance(read, list) and len(read) > 1:
        raise UsageError(f"the file holds {len(read)} problems, not one", place=problem, hint="decode takes one")
    found = read[0] if isinstance(read, list) else read
    decoder = Decoder(found)
    first, last = _range(steps, decoder.count)
    outputs = _outputs(found)
    options = found.options
    show = _asked(flags["show"], options)
    one_by_one = options.get("format", "table") in ("json", "table", "plain")
    told = list(decoder.notes)
    kept: list[Decoded] = []
    for step in decoder.steps(first, last):
        told += [note for row in step.rows.values() for note in row.notes]
        if one_by_one and not (outputs.files and "format" not in options):
            _print(step, options, show)
        if not one_by_one or outputs.files:
            kept.append(step)
    if kept:
        trace = next(reversed(decoder.together(kept).values()))
        if not one_by_one:
            for piece in results(outputs.problem, trace):
                console.write(piece)
        told += outputs.write(trace)
    if not options.get("quiet"):
        console.notes(told)
    return console.DONE


def _outputs(found: Problem | Stages) -> Outputs:
    """The files of -o, for the problem, or for the last of several stages."""
    from attncli.cli.outputs import Outputs
    from attncli.problem.problem import Problem

    problem = found if isinstance(found, Problem) else next(reversed(found.problems.values()))
    return Outputs(replace(problem, options=found.options))


def _asked(flag: str | None, options: dict[str, Any]) -> list[str]:
    """The steps of --show (or those of `show:` that there are), of which lines of text are made; all if empty.

    Raises UsageError for others.
    """
    from attncli.problem.reading import split_stage

    show = [address for address in options.get("show") or () if address != "all"]
    there = [address for address in show if split_stage(address)[1].partition("[")[0] in ("weights", "output")]
    if flag is not None and len(there) < len(show) and options.get("format", "table") != "json":
        odd = next(address for address in show if address not in there)
        raise UsageError(f"a step of decoding has weights and output, not {odd}", place="--show",
                         hint="`attncli run` shows the others")  # fmt: skip
    return [] if "all" in (options.get("show") or ()) else there


def _print(step: Decoded, options: dict[str, Any], show: list[str]) -> None:
    """One step, at once."""
    from attncli.cli import console
    from attncli.cli.shared import look_of
    from attncli.report.decoding import json_line, lines

    if options.get("format") == "json":
        console.write_data(f"{json_line(step)}\n")
    else:
        console.write("".join(f"{line}\n" for line in lines(step, look_of(options), show)))
    console.flush()


def _range(text: str | None, count: int) -> tuple[int, int]:
    """`A:B`, `A:`, `:B` or `A` as two numbers within 1 and count. Raises UsageError."""
    if text is None:
        return 1, count
    match = re.fullmatch(r"\s*(\d*)\s*(:?)\s*(\d*)\s*", text)
    if match is None or not (match[1] or match[2]) or (match[3] and not match[2]):
        raise UsageError(f"{text!r} is not A:B", place="--steps", hint="as in --steps 2:4")
    first = int(match[1] or 1)
    last = int(match[3] or count) if match[2] else first
    if not 1 <= first <= last <= count:
        what = f"there are steps 1 to {count}, not {first} to {last}"
        raise UsageError(what, place="--steps", hint="the first one comes before the last")
    return first, last
