"""What a delimited text is with another separator or decimal mark, tried before it is proposed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attncli.errors import AttnError, InputError
from attncli.lazy import lazy_module
from attncli.problem.formats.base import ReadOptions
from attncli.problem.formats.cells import BLANKS
from attncli.problem.matrix import Matrix

shlex = lazy_module("shlex")

Read = Callable[[bytes, str, ReadOptions, str | None], Matrix]

_SEPARATORS = {",": ",", ";": ";", "tab": "\t", "blank": BLANKS, "|": "|", ":": ":"}
_HEAD = 1 << 14  # bytes that are tried first, up to the end of a line
_SHOWN = 4  # numbers of the first row


def with_advice(error: AttnError, data: bytes, options: ReadOptions, usual: str | None, read: Read) -> AttnError:
    """The error, or the first of several, with the marks that would mend it; as it is, where none would."""
    found = list(_readings(data, options, usual, read))
    if not found:
        return error
    first = error.errors()[0]
    told = "; ".join(f"{said} reads {_shape(matrix)}" for said, matrix in found)
    meant = "a decimal comma" if all("--separator" not in said for said, _ in found) else "another separator"
    return InputError(first.what, place=first.place, hint=f"{meant}? {told}")


def _readings(data: bytes, options: ReadOptions, usual: str | None, read: Read) -> Iterator[tuple[str, Matrix]]:
    """Each way to say other marks with which the text is a matrix, and that matrix."""
    head = data if len(data) <= _HEAD else data[: data.rfind(b"\n", 0, _HEAD) + 1]
    known: list[bytes] = []
    for decimal, name in ((decimal, name) for decimal in (".", ",") for name in (None, *_SEPARATORS)):
        mark = _SEPARATORS.get(name or "", "")
        if mark == decimal or (mark and mark.encode() not in head):
            continue
        if name is None and usual is None and b";" not in head and b"\t" not in head:
            continue  # the comma separates the cells
        other = options._replace(decimal=decimal, separator=name or options.separator)
        said = [f"--separator {shlex.quote(name)}"] if name else []
        said += [f"--decimal {decimal}"] if decimal != options.decimal else []
        try:
            for part in (head, data) if len(head) < len(data) else (data,):
                matrix = read(part, "", other, usual)
        except AttnError:
            continue
        if said and matrix.array.tobytes() not in known and not any("," in label for label in _labels(matrix)):
            known.append(matrix.array.tobytes())
            yield " ".join(said), matrix


def _labels(matrix: Matrix) -> list[str]:
    return (matrix.row_labels or []) + (matrix.column_labels or [])


def _shape(matrix: Matrix) -> str:
    """`2 x 3 numbers, in the first row 1, 2, 3`."""
    row = matrix.array[0].tolist()
    numbers = ", ".join(f"{number:.9g}" for number in row[:_SHOWN]) + ", ..." * (len(row) > _SHOWN)
    return f"{matrix.array.shape[0]} x {matrix.array.shape[1]} numbers, in the first row {numbers}"
