"""The formats of results: one decorated function each, that turns the steps of a problem into the bytes of a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from attncli.batch.stamp import Stamp
from attncli.errors import UsageError
from attncli.pipeline.trace import Trace
from attncli.problem.formats import encode
from attncli.registry import Entry, Registry
from attncli.report.data import meta, parts
from attncli.report.look import Look
from attncli.report.nested import flat, nested
from attncli.report.renderers import render

Shown = dict[str, tuple[Trace, Sequence[str]]]  # of each stage (the only one is "") its Trace and the steps wanted


@dataclass(kw_only=True, eq=False)
class WriterEntry(Entry):
    """A format of a batch's results: function(shown, how, stamp) -> bytes.

    suffix: of its files. shows: which steps where nobody says, as for what is printed.
    """

    suffix: str
    shows: str


WRITERS: Registry[WriterEntry] = Registry("format", WriterEntry)


@dataclass(frozen=True)
class How:
    """What every problem of a batch is asked for. format None: nothing is written."""

    format: str | None = None
    show: tuple[str, ...] | None = None
    precision: int = 4
    rounding: str = "half-even"


def _object(shown: Shown, format: str, stamp: Stamp) -> bytes:
    if [*shown] != [""]:
        return nested(shown, format, {"batch": stamp.to_dict()})
    trace, steps = shown[""]
    head, told = {}, meta(trace)
    for name in ("attncli", "schema"):
        head[name] = told.pop(name)
    return encode(format, parts(trace, steps), {**head, "batch": stamp.to_dict(), **told})


@WRITERS("json", suffix=".json", shows="all")
def _json(shown: Shown, how: How, stamp: Stamp) -> bytes:
    """The object of `run --format json`, and under "batch" what --resume asks for."""
    return _object(shown, "json", stamp)


@WRITERS("yaml", suffix=".yaml", shows="all")
def _yaml(shown: Shown, how: How, stamp: Stamp) -> bytes:
    """The same object as YAML."""
    return _object(shown, "yaml", stamp)


@WRITERS("jsonl", suffix=".jsonl", shows="all")
def _jsonl(shown: Shown, how: How, stamp: Stamp) -> bytes:
    """The same object on one line of a stream."""
    return json.dumps(json.loads(_object(shown, "json", stamp)), ensure_ascii=False).encode()


@WRITERS("npz", suffix=".npz", shows="all")
def _npz(shown: Shown, how: How, stamp: Stamp) -> bytes:
    """NumPy's archive of the steps; what --resume asks for is the archive's comment."""
    import io
    from zipfile import ZipFile

    arrays = parts(*shown[""]) if "" in shown else flat(shown)
    stream = io.BytesIO(encode("npz", arrays, {}))
    with ZipFile(stream, "a") as archive:
        archive.comment = json.dumps(stamp.to_dict()).encode()
    return stream.getvalue()


@WRITERS("markdown", suffix=".md", shows="results")
def _markdown(shown: Shown, how: How, stamp: Stamp) -> bytes:
    """Pipe tables, rounded; what --resume asks for is a comment at the end."""
    look = Look(precision=how.precision, rounding=how.rounding)
    pieces = []
    for name, (trace, steps) in shown.items():
        pieces += [f"## {name}\n\n"] if name else []
        pieces += [*render(trace, steps, look, "markdown"), "\n"]
    return ("".join(pieces) + f"<!-- attncli {json.dumps(stamp.to_dict())} -->\n").encode()


def _single(format: str) -> Callable[[Shown, How, Stamp], bytes]:
    def write(shown: Shown, how: How, stamp: Stamp) -> bytes:
        named = [f"{name}.{step}" if name else step for name, (_, steps) in shown.items() for step in steps]
        if len(named) != 1:
            raise UsageError(f"{format} holds one step, not {', '.join(named)}", hint="--show names one")
        ((trace, steps),) = shown.values()
        return encode(format, parts(trace, steps), {})

    write.__doc__ = "One step, the output unless --show names another."
    return write


for _format in ("csv", "tsv", "npy"):
    WRITERS(_format, suffix=f".{_format}", shows="last")(_single(_format))
