"""NumPy's .npy: one array, read without pickle and never beyond what the file holds."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

from attncli.errors import InputError, Place
from attncli.lazy import Array, np
from attncli.problem.formats.base import FORMATS, ByRows, Part, ReadOptions, Source, check_room, os_error, placeholder
from attncli.problem.matrix import Matrix

if TYPE_CHECKING:
    import numpy.typing as npt

MAGIC = b"\x93NUMPY"
_LONGEST_HEADER = 10_000
_MOST = (1 << 60) - 1  # elements of 8 bytes that can be counted
_MOST_BESIDE_0 = 1 << 20
MAPPED = 1 << 20  # bytes from which a file is mapped, not read
_REFUSED = {
    "O": "Python objects (pickle), which are never read",
    "S": "text",
    "U": "text",
    "V": "records",
    "c": "complex numbers",
    "M": "dates",
    "m": "time spans",
}


class Header:
    """What the first bytes of a .npy say: dtype, order and shape, and how many bytes the array has."""

    def __init__(self, stream: BinaryIO, size: int, place: Place) -> None:
        """Read it from a stream of `size` bytes. Raises InputError for anything that is not an array of numbers."""
        self.place = place
        version = self._version(stream.read(8), size)
        wide = 2 if version == 1 else 4
        length = int.from_bytes(stream.read(wide), "little")
        self.offset = 8 + wide + length
        if length > _LONGEST_HEADER:
            raise InputError(f"its header is {length:,} bytes long, more than {_LONGEST_HEADER:,}", place=place)
        text = stream.read(length)
        if len(text) < length:
            raise InputError("the file is cut short: its header is not complete", place=place)
        fields = self._fields(text.decode("utf-8" if version == 3 else "latin-1", "replace"))
        self.shape: tuple[int, ...] = fields["shape"]
        self.fortran: bool = fields["fortran_order"]
        self.dtype, self.bfloat16 = self._dtype(fields["descr"])
        self.count = 1
        for extent in self.shape:
            self.count *= extent
        self.bytes = self.count * self.dtype.itemsize
        self._compare(size - self.offset)

    def _version(self, start: bytes, size: int) -> int:
        if start[:6] != MAGIC[: len(start)] or not start:
            shown = repr(start[:6])[2:-1]
            begins = f"it starts with {shown}" if start else "it is empty"
            raise InputError(f"not a .npy file: {begins}", place=self.place, hint="is it another format?")
        if len(start) < 8:
            raise InputError(f"the file is cut short after {size} bytes", place=self.place)
        if start[6] not in (1, 2, 3):
            raise InputError(f"version {start[6]}.{start[7]} of the .npy format is not known", place=self.place)
        return start[6]

    def _fields(self, text: str) -> dict[str, Any]:
        try:
            # Python 2 wrote its long integers with an L.
            fields = ast.literal_eval(re.sub(r"(?<=[0-9])L\b", "", text.strip()))
        except (SyntaxError, ValueError, TypeError, AttributeError, RecursionError, MemoryError):
            fields = None
        described = (
            isinstance(fields, dict)
            and fields.keys() == {"descr", "fortran_order", "shape"}
            and isinstance(fields["fortran_order"], bool)
            and isinstance(fields["shape"], tuple)
            and all(type(extent) is int for extent in fields["shape"])
        )
        if not described:
            raise InputError("its header is no description of an array", place=self.place)
        shape = fields["shape"]
        if not is_countable(shape):
            raise InputError(f"its header claims the shape {_cut(shape)}", place=self.place)
        return dict(fields)

    def _dtype(self, descr: Any) -> tuple[np.dtype[Any], bool]:
        """The dtype, and whether two plain bytes stand for a bfloat16, as ml_dtypes writes it."""
        if descr in ("<V2", "|V2", "bfloat16", [("", "<V2")], [("", "|V2")]):
            return np.dtype("<u2"), True
        try:
            dtype = np.dtype(descr) if isinstance(descr, str) else np.dtype("V1")
        except (TypeError, ValueError, SyntaxError):
            raise InputError(f"its header names no dtype: {_cut(descr)}", place=self.place) from None
        if dtype.kind in _REFUSED:
            raise InputError(f"it holds {_REFUSED[dtype.kind]}, not real numbers", place=self.place)
        if dtype.itemsize > 8:
            raise InputError(f"numbers of type {dtype} are not read", place=self.place, hint="save it as float64")
        return dtype, False

    def _compare(self, held: int) -> None:
        """The array must fill the file, to the byte: before anything is allocated."""
        if self.bytes > held:
            claims = f"the header claims {_size(self.bytes)} (shape {_cut(self.shape)}), the file holds {_size(held)}"
            raise InputError(claims, place=self.place, hint="the file is cut short or damaged")
        if self.bytes < held:
            raise InputError(
                f"{held - self.bytes} unread bytes follow the array",
                place=self.place,
                hint="was a second array appended? .npz holds several",
            )

    def described(self) -> Matrix:
        """The shape and the type that the array will have, without its numbers."""
        dtype = np.dtype(np.float32) if self.bfloat16 else self.dtype.newbyteorder("=")
        return Matrix(placeholder(self.shape, dtype), place=self.place, stored="bfloat16" if self.bfloat16 else None)

    def matrix(self, flat: npt.NDArray[Any]) -> Matrix:
        """The array of these numbers in its shape, in native byte order."""
        array = flat.reshape(self.shape, order="F" if self.fortran else "C")
        notes = []
        if self.bfloat16 or not array.dtype.isnative:
            check_room(array.size * max(array.itemsize, 8), self.place)
        if self.bfloat16:
            array = from_bfloat16(array)
            notes = [f"{self.place}: two-byte values are bfloat16, read as float32"]
        elif not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        return Matrix(array, place=self.place, notes=notes, stored="bfloat16" if self.bfloat16 else None)


def is_countable(shape: tuple[int, ...]) -> bool:
    """Whether a shape that a header claims can be that of an array.

    No file bounds the other extents of an array without elements, but what is computed from it has them.
    """
    most = _MOST_BESIDE_0 if 0 in shape else _MOST
    return math.prod(extent or 1 for extent in shape) <= most and min(shape, default=0) >= 0 and len(shape) <= 32


def from_bfloat16(halves: Array) -> Array:
    """The float32 numbers whose upper two bytes these are."""
    return (halves.astype(np.uint32) << 16).view(np.float32)


def write(stream: BinaryIO, steps: Mapping[str, Part], meta: Mapping[str, Any]) -> None:
    """One array, in C order."""
    (part,) = steps.values()
    write_array(stream, part.array)


def write_array(stream: BinaryIO, array: npt.NDArray[Any]) -> None:
    """An array of any shape into a stream, in C order."""
    np.lib.format.write_array(stream, np.asarray(array, order="C"), allow_pickle=False)


def by_rows(part: Part, layout: str, options: Mapping[str, Any] | None = None) -> ByRows | None:
    """In columns a step is m x n, the same bytes with the axes named the other way round; not so with more axes."""
    import io

    turned, head = layout == "columns", io.BytesIO()
    if turned and part.array.ndim > 2:
        return None
    descr = np.lib.format.dtype_to_descr(part.array.dtype)
    header = {"descr": descr, "fortran_order": turned, "shape": part.array.shape}
    np.lib.format.write_array_header_1_0(head, header)
    return ByRows(head.getvalue(), lambda rows, _: [np.ascontiguousarray(rows).data])


@FORMATS("npy", suffixes=(".npy",), write=write, by_rows=by_rows, magic=(MAGIC,))
def read(source: Source, options: ReadOptions, name: str | None) -> dict[str, Matrix]:
    """NumPy's binary format: one array of any number of axes, in its own dtype."""
    import io

    place = Place(source.file)
    if source.path is None:
        data = source.read()
        header = Header(io.BytesIO(data), len(data), place)
        flat = np.frombuffer(data, header.dtype, header.count, header.offset)
        return {"": header.matrix(flat)}
    try:
        with source.path.open("rb") as stream:
            header = Header(stream, source.path.stat().st_size, place)
            if header.bytes > MAPPED:
                flat = np.memmap(stream, header.dtype, "r", header.offset, (header.count,)).view(np.ndarray)
            else:
                flat = np.frombuffer(stream.read(header.bytes), header.dtype, header.count)
    except OSError as error:
        raise os_error(error, source.file, "read") from None
    return {"": header.matrix(flat)}


def _size(count: int) -> str:
    """A number of bytes in words: 8 TB."""
    size, unit = float(count), "bytes"
    for larger in ("kB", "MB", "GB", "TB", "PB", "EB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{min(size, 1e9):.3g} {unit}"


def _cut(value: Any) -> str:
    from reprlib import repr as shortened  # a number of thousands of digits has no str()

    text = shortened(value) if isinstance(value, tuple) else str(value)
    return text if len(text) <= 60 else text[:59] + "…"
