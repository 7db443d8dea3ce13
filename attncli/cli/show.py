"""`attncli show FILE...`: what was read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attncli.cli.options import problem_options
from attncli.errors import AttnError, InputError, raise_all
from attncli.lazy import Array, np

if TYPE_CHECKING:
    from attncli.problem.formats import ReadOptions
    from attncli.problem.matrix import Matrix
    from attncli.report.look import Look

_GAP = "  "
_LARGE = 1 << 28  # bytes
_READING = ("separator", "decimal", "header", "labels", "stdin_format", "quiet")


@problem_options(only=_READING)
def command(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="matrices, archives or problem files")],
    **flags: Any,
) -> None:
    """Show what is read from files: shape, type, labels and numbers, and in notes what was taken as what.

    attncli show Q.csv weights.npz 'data.npz::W_Q' problem.yaml
    """
    from attncli.cli import console
    from attncli.cli.shared import look_of, once
    from attncli.problem.convert_text import layer_from_options
    from attncli.problem.reading import Reading, read_options

    layer = layer_from_options(flags, Reading())
    raise_all(layer.errors)
    options, look, stdin = read_options(layer.settings), look_of({}), once(console.read_stdin)
    errors: list[AttnError] = []
    for file in files:
        try:
            listed, arrays = _arrays(file, options, stdin)
            for name, matrix in arrays.items():
                title = look.label(f"{file}::{name}" if name and not file.endswith(f"::{name}") else file)
                told = [_heading(title, matrix)] if listed else lines(title, matrix, look)
                console.write("".join(f"{line}\n" for line in told))
                if not flags["quiet"]:
                    console.notes(matrix.notes)
        except AttnError as error:
            errors += error.errors()
    raise_all(errors)


def _arrays(file: str, options: ReadOptions, stdin: Callable[[], bytes]) -> tuple[bool, dict[str, Matrix]]:
    """Every matrix of a file by name; of a problem file also those that it names in other files.

    First, whether they are to be listed, without their numbers: those of an archive or of a result of attncli.
    An array of an archive that is large when unpacked is unpacked where it is named.
    """
    from attncli.problem.formats import described, read_all

    archived = described(file)
    if archived is not None and (len(archived) > 1 or any(each.array.nbytes > _LARGE for each in archived.values())):
        return True, archived
    if "::" in file or file.lstrip().startswith("[") or Path(file).suffix.lower() not in (".yaml", ".yml", ".json"):
        return False, read_all(file, options, stdin=stdin)
    from attncli.problem.build import Layer
    from attncli.problem.document import layer_of
    from attncli.problem.formats import open_source
    from attncli.problem.formats.yaml import arrays_of, steps_of
    from attncli.problem.matrix import Matrix
    from attncli.problem.settings import MATRICES
    from attncli.problem.yamltext import compose

    root = compose(open_source(file).read(), file)
    arrays = arrays_of(root, file, options)
    if "" in arrays or steps_of(root) is not None:
        return "" not in arrays, arrays
    layer = layer_of(root, file, Layer())
    if layer.broken & {*MATRICES}:
        raise_all(layer.errors)
    named = {name: setting.value for name, setting in layer.settings.items() if isinstance(setting.value, Matrix)}
    if not named and not arrays:
        raise InputError("the file holds no matrix", place=file)
    return False, {**named, **arrays}


def _heading(title: str, matrix: Matrix) -> str:
    shape = " x ".join(map(str, matrix.array.shape)) or "a single number"
    return f"{title}: {shape}, {matrix.stored or matrix.array.dtype}"


def lines(title: str, matrix: Matrix, look: Look) -> Iterator[str]:
    """A heading with shape and type, then the numbers as exactly as they are known, only the ends of many."""
    array = matrix.array
    yield _heading(title, matrix)
    if array.ndim < 2:
        array = array.reshape(1, -1)
    for index in np.ndindex(*array.shape[:-2]):
        if index:
            yield f"  [{','.join(str(i + 1) for i in index)}]"
        yield from _table(array[index], matrix, look)


def _table(array: Array, matrix: Matrix, look: Look) -> Iterator[str]:
    from attncli.report.look import pad, widths
    from attncli.report.table import span

    rows, columns = (_ends(count) for count in array.shape)
    cells = [[_cell(array, i, j, look) for j in columns] for i in rows]
    if matrix.column_labels is not None:
        cells.insert(0, [_label(matrix.column_labels, j, look) for j in columns])
    if matrix.row_labels is not None:
        shown = [_label(matrix.row_labels, i, look) for i in rows]
        for row, label in zip(cells, [""] * (len(cells) - len(shown)) + shown, strict=True):
            row.insert(0, label)
    labels = int(matrix.row_labels is not None)
    sizes = [max(widths(list(column))) for column in zip(*cells, strict=True)]
    parts = _side_by_side(sizes[labels:], look.width and look.width - sum(size + len(_GAP) for size in sizes[:labels]))
    for part in parts:
        if len(parts) > 1:
            yield f"{_GAP}columns {span([columns[j] for j in part])} of {array.shape[1]}"
        at = [*range(labels), *(labels + j for j in part)]
        for row in cells:
            yield "".join(_GAP + pad(row[j], sizes[j], right=True) for j in at)


def _side_by_side(sizes: list[int], room: int | None) -> list[list[int]]:
    """The columns in parts that fit the room, where there is no end of it in one."""
    if room is None:
        return [[*range(len(sizes))]]
    parts: list[list[int]] = [[]]
    taken = 0
    for j, size in enumerate(sizes):
        taken += len(_GAP) + size
        if parts[-1] and taken > room:
            parts.append([])
            taken = len(_GAP) + size
        parts[-1].append(j)
    return parts


def _ends(count: int) -> list[int | None]:
    """The positions that are shown: all, or of many the first and the last, with None between them."""
    from attncli.report.sheet import ENDS, MANY

    return [*range(count)] if count <= MANY else [*range(ENDS), None, *range(count - ENDS, count)]


def _label(labels: list[str], at: int | None, look: Look) -> str:
    return look.gap if at is None else look.label(labels[at])


def _cell(array: Array, i: int | None, j: int | None, look: Look) -> str:
    return look.gap if i is None or j is None else str(array[i, j])  # the shortest text that its type reads back
