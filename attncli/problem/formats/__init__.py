"""Matrices from files, standard input and the command line, and back: one file of this folder a format."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from attncli.errors import AttnError, InputError, MachineError, Place, ShapeError, unknown
from attncli.problem.formats.base import (
    FORMATS,
    FormatEntry,
    Part,
    ReadOptions,
    Source,
    format_of,
    known_suffixes,
    open_source,
)
from attncli.problem.matrix import Matrix

__all__ = [
    "FORMATS",
    "STDIN",
    "Part",
    "ReadOptions",
    "encode",
    "format_of",
    "known_suffixes",
    "note_source",
    "open_source",
    "read_all",
    "read_matrix",
    "writer",
]

for _name in sorted(os.listdir(__path__[0])):
    if _name.endswith(".py") and _name != "__init__.py":
        import_module(f"{__name__}.{_name[:-3]}")

Stdin = Callable[[], bytes]
STDIN = "standard input"


def read_matrix(
    spec: str,
    options: ReadOptions | None = None,
    *,
    base: Path | None = None,
    stdin: Stdin | None = None,
    blanks: bool = False,
) -> Matrix:
    """The matrix that a path, `path::NAME`, `-` or inline text such as "[[1, 0], [0, 1]]" stands for.

    base: the folder from which a path is looked up. stdin: gives the bytes of standard input.
    blanks: a cell that is empty, ? ~ or _ is one left out (hand calculations): NaN, and None in the spelling.
    Raises InputError with the place of what cannot be read, MachineError where the machine fails.
    """
    options = (options or ReadOptions())._replace(blanks=blanks)
    if spec.lstrip().startswith("["):
        return _inline(spec, options)
    source, name = _source(spec, base, stdin)
    entry = _format(source, spec, options)
    if name is None and (describe := entry.describe) is not None:
        names = _understood(entry, source, options, lambda: describe(source))
        _pick(names, None, source.file)  # raises where there are several, before any is unpacked
    matrix = _pick(_arrays(entry, source, options, name), name, source.file)
    if matrix.array.ndim == 0:
        raise ShapeError(
            "it holds a single number of shape (), not a matrix",
            place=matrix.place or Place(source.file),
            hint="save it with two axes: array.reshape(1, 1)",
        )
    return matrix


def note_source(spec: str) -> None:
    """Take note that the file of a path, or of `path::NAME`, is an input. Raises InputError as reading it does."""
    open_source(_split(spec, None)[0])


def read_all(
    spec: str,
    options: ReadOptions | None = None,
    *,
    base: Path | None = None,
    stdin: Stdin | None = None,
) -> dict[str, Matrix]:
    """Every array of a file by name, "" where a format has no names; with `::NAME` only that one."""
    options = options or ReadOptions()
    if spec.lstrip().startswith("["):
        return {"": _inline(spec, options)}
    source, name = _source(spec, base, stdin)
    arrays = _arrays(_format(source, spec, options), source, options, name)
    return arrays if name is None else {name: _pick(arrays, name, source.file)}


def described(spec: str, *, stdin: Stdin | None = None) -> dict[str, Matrix] | None:
    """The arrays of an archive by name, of which only shapes and types can be looked at; None of other files."""
    if spec.lstrip().startswith("["):
        return None
    source, name = _source(spec, None, stdin)
    entry = None if source.stream is not None else _format(source, spec, ReadOptions())
    describe = None if entry is None or name is not None else entry.describe
    return _understood(entry, source, ReadOptions(), lambda: describe(source)) if entry and describe else None


def _arrays(entry: FormatEntry, source: Source, options: ReadOptions, name: str | None) -> dict[str, Matrix]:
    """What the format's reader gives, all or the one of that name."""
    return _understood(entry, source, options, lambda: entry.function(source, options, name))


def _understood(
    entry: FormatEntry, source: Source, options: ReadOptions, read: Callable[[], dict[str, Matrix]]
) -> dict[str, Matrix]:
    """What was read. Raises what is wrong, and where the file is of another format than its name says, that."""
    try:
        return read()
    except AttnError as error:
        if any(isinstance(inner, MachineError) for inner in error.errors()):
            raise
        from attncli.problem.formats.named import misnamed

        raise misnamed(error, source, entry, options) from None


def writer(format_name: str, steps: Mapping[str, Part], meta: Mapping[str, Any]) -> Callable[[BinaryIO], None]:
    """A function that writes the steps into a stream, for `files.write_all`.

    format_name: a format, a suffix or a file name. meta: what a result object tells besides its steps.
    Raises InputError where the format cannot hold these steps, before anything is written.
    """
    entry = format_of(format_name)
    if not entry.several:
        if len(steps) != 1:
            raise InputError(
                f"{entry.name} holds one array, not {len(steps)}: {', '.join(steps)}",
                hint="name one of them, or write .npz, .json or .yaml, which hold several",
            )
        (name, part), axes = next(iter(steps.items())), entry.axes
        if axes is not None and part.array.ndim > axes:
            shape, first = part.array.shape, ",".join("1" for _ in part.array.shape[axes:])
            raise ShapeError(
                f"{name} has {part.array.ndim} axes {shape}, {entry.name} holds {axes}",
                hint=f"ask for one matrix of it, such as {name}[{first}], or write .npz, .npy or .json",
            )
    return lambda stream: entry.write(stream, steps, meta)


def encode(format_name: str, steps: Mapping[str, Part], meta: Mapping[str, Any]) -> bytes:
    """The bytes of what `writer` writes."""
    stream = io.BytesIO()
    writer(format_name, steps, meta)(stream)
    return stream.getvalue()


def _inline(text: str, options: ReadOptions) -> Matrix:
    from attncli.problem.yamlmatrix import matrix_from_node
    from attncli.problem.yamltext import compose

    return matrix_from_node(compose(text, "inline", json=True), "inline", blanks=options.blanks)


def _source(spec: str, base: Path | None, stdin: Stdin | None) -> tuple[Source, str | None]:
    """Where to read, and the name of the array that is wanted."""
    path, name = _split(spec, base)
    if path == "-":
        return Source(STDIN, stream=stdin or _read_stdin), name
    return open_source(path, base), name


def _split(spec: str, base: Path | None) -> tuple[str, str | None]:
    """Path and name; where either holds `::` itself, the path is the longest one that exists."""
    if "::" not in spec or _exists(spec, base):
        return spec, None
    parts = spec.split("::")
    paths = ["::".join(parts[:count]) for count in range(len(parts) - 1, 0, -1)]
    path = next((path for path in paths if path == "-" or _exists(path, base)), paths[0])
    return path, spec[len(path) + 2 :]


def _exists(spec: str, base: Path | None) -> bool:
    try:
        return bool(spec) and (Path(spec) if base is None else base / spec).exists()
    except (OSError, ValueError):
        return False


def _read_stdin() -> bytes:
    import sys

    return sys.stdin.buffer.read()


def _format(source: Source, spec: str, options: ReadOptions) -> FormatEntry:
    """By suffix; what comes through a pipe by the option, or by its first bytes."""
    if source.stream is None or Path(source.file).suffix.lower() in known_suffixes():
        return format_of(Path(source.file).name, place=Place(source.file))
    if options.stdin_format is not None:
        return format_of(options.stdin_format, place="--stdin-format")
    data = source.read()
    source.stream = lambda: data
    for entry in FORMATS:
        if any(data.startswith(magic) for magic in entry.magic):
            return entry
    names = "|".join(FORMATS.names())
    raise InputError("the format is not known", place=Place(source.file), hint=f"tell it with --stdin-format {names}")


def _pick(arrays: dict[str, Matrix], name: str | None, file: str) -> Matrix:
    if name is None:
        if len(arrays) == 1:
            return next(iter(arrays.values()))
        if not arrays:
            raise InputError("the file holds no array", place=Place(file))
        first = next(iter(arrays))
        what = f"the file holds {len(arrays)} arrays: {', '.join(arrays)}"
        path = "-" if file == STDIN else file
        hint = f"name one of them: {path}::{first}"
        if path != "-" and _may_be_problem(arrays, file):
            hint += f"; if {path} is a problem: `attncli run {path}`"
        raise InputError(what, place=Place(file), hint=hint)
    if name in arrays:
        return arrays[name]
    if list(arrays) == [""]:
        raise InputError("the file holds one array, which has no name", place=Place(file), hint=f"leave ::{name} out")
    raise unknown("array", name, arrays, place=Place(file))


def _may_be_problem(arrays: Mapping[str, Matrix], file: str) -> bool:
    """Whether these are inputs and nothing that is computed, in a file such as problems are."""
    from attncli.problem.settings import LATER_STEPS, MATRICES

    return format_of(Path(file).name).name in ("yaml", "json") and arrays.keys() <= {*MATRICES} - {*LATER_STEPS}
