"""Safetensors: named arrays behind a header in JSON, which is compared with the file before anything is asked for.

Eight bytes hold the header's length; it names type, shape and place of each array; their bytes fill the rest, with no
gap. Source: the description of the format, https://github.com/huggingface/safetensors.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple, TypeGuard

from attncli.errors import InputError, Place, unknown
from attncli.lazy import Array, lazy_module, np
from attncli.problem.formats.base import FORMATS, Part, ReadOptions, Source, check_room, os_error, placeholder
from attncli.problem.formats.npy import MAPPED, from_bfloat16, is_countable
from attncli.problem.matrix import Matrix

json = lazy_module("json")

_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1", "BOOL": "|b1",
}  # fmt: skip
_WRITTEN = {dtype: name for name, dtype in _DTYPES.items() if name != "BF16"}
_LENGTH = 8  # bytes that hold the header's length
_LONGEST_HEADER = 1 << 24  # bytes: some hundred thousand names
_METADATA = "__metadata__"
_MUCH = 1 << 24  # bytes
_MOST = 1 << 62  # that a size or a place in a file may be


class _Entry(NamedTuple):
    """What the header says of an array, found to be possible: its bytes stand from `start` of the file on."""

    type: str
    shape: tuple[int, ...]
    start: int
    bytes: int
    place: Place

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type in the file; of bfloat16, which NumPy does not have, plain two bytes. Raises InputError."""
        if self.type not in _DTYPES:
            hint = "save it as F32 (in PyTorch: tensor.float())"
            raise InputError(f"numbers of type {self.type} are not read", place=self.place, hint=hint)
        return np.dtype(_DTYPES[self.type])

    @property
    def stored(self) -> str | None:
        """The type in the file where NumPy has none such."""
        return "bfloat16" if self.type == "BF16" else None

    def described(self) -> Matrix:
        """The shape and the type that the array will have, without its numbers."""
        dtype = np.dtype(np.float32) if self.stored else self.dtype
        return Matrix(placeholder(self.shape, dtype), place=self.place, stored=self.stored)

    def matrix(self, flat: Array) -> Matrix:
        """The array of these numbers in its shape."""
        if self.stored is None:
            return Matrix(flat.reshape(self.shape), place=self.place)
        check_room(flat.size * 8, self.place)
        notes = [f"{self.place}: bfloat16, read as float32"]
        return Matrix(from_bfloat16(flat).reshape(self.shape), place=self.place, notes=notes, stored=self.stored)


def write(stream: BinaryIO, steps: Mapping[str, Part], meta: Mapping[str, Any]) -> None:
    """Every step by its name, in C order; the same steps give the same bytes."""
    arrays = {name: np.asarray(part.array, part.array.dtype.newbyteorder("<"), "C") for name, part in steps.items()}
    header, end = {}, 0
    for name, array in arrays.items():
        header[name] = {
            "dtype": _WRITTEN[array.dtype.str],
            "shape": array.shape,
            "data_offsets": [end, end := end + array.nbytes],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _LENGTH)  # so that the arrays are aligned
    stream.write(len(text).to_bytes(_LENGTH, "little") + text)
    for array in arrays.values():
        stream.write(array.tobytes())


def describe(source: Source) -> dict[str, Matrix]:
    """Every array by name with its shape and type, told from the header."""
    with _opened(source) as (stream, size):
        return {name: entry.described() for name, entry in _entries(stream, size, source.file).items()}


@FORMATS("safetensors", suffixes=(".safetensors",), write=write, several=True, describe=describe)
def read(source: Source, options: ReadOptions, name: str | None) -> dict[str, Matrix]:
    """Named arrays as models are stored, bfloat16 read as float32."""
    with _opened(source) as (stream, size):
        entries = _entries(stream, size, source.file)
        if name is not None and name not in entries:
            raise unknown("array", name, entries, place=Place(source.file))
        wanted = entries if name is None else {name: entries[name]}
        return {key: _array(stream, entry, source, options) for key, entry in wanted.items()}


@contextmanager
def _opened(source: Source) -> Iterator[tuple[BinaryIO, int]]:
    """The bytes of a source as a stream, and how many they are. Raises InputError, MachineError."""
    if source.path is None:
        data = source.read()
        yield io.BytesIO(data), len(data)
        return
    try:
        with source.path.open("rb") as stream:
            yield stream, source.path.stat().st_size
    except OSError as error:
        raise os_error(error, source.file, "read") from None


def _array(stream: BinaryIO, entry: _Entry, source: Source, options: ReadOptions) -> Matrix:
    """The array, mapped where it is large and of a file."""
    if options.shapes and entry.bytes > _MUCH:
        return entry.described()
    if source.path is not None and entry.bytes > MAPPED:
        count = entry.bytes // entry.dtype.itemsize
        return entry.matrix(np.memmap(stream, entry.dtype, "r", entry.start, (count,)).view(np.ndarray))
    stream.seek(entry.start)
    return entry.matrix(np.frombuffer(stream.read(entry.bytes), entry.dtype))


def _entries(stream: BinaryIO, size: int, file: str) -> dict[str, _Entry]:
    """The arrays by name, as the header has them. Raises InputError for a header that does not fit the file."""
    place = Place(file)
    if size < _LENGTH:
        raise InputError(f"not a .safetensors file: it ends after {size} bytes", place=place)
    length = int.from_bytes(stream.read(_LENGTH), "little")
    start = _LENGTH + length
    if start > size:
        claims = f"it claims a header of {length:,} bytes, the file holds {size - _LENGTH:,}"
        raise InputError(claims, place=place, hint="the file is cut short, or of another format")
    if length > _LONGEST_HEADER:
        raise InputError(f"its header is {length:,} bytes long, more than {_LONGEST_HEADER:,}", place=place)
    told = _header(stream.read(length), place)
    entries = {name: _entry(each, start, Place(f"{file}::{name}")) for name, each in told.items() if name != _METADATA}
    if not entries:
        raise InputError("the file holds no array", place=place)
    end = start
    for entry in sorted(entries.values(), key=lambda entry: (entry.start, entry.bytes)):
        if entry.start != end:
            what = "overlaps the array before it" if entry.start < end else "does not follow the array before it"
            raise InputError(f"it {what} in the file", place=entry.place, hint="the header is damaged")
        end += entry.bytes
    if end != size:
        what = f"the header claims {end - start:,} bytes of arrays, the file holds {size - start:,}"
        raise InputError(what, place=place, hint="the file is cut short or damaged")
    return entries


def _header(data: bytes, place: Place) -> dict[str, Any]:
    """The header's object, in which no name stands twice."""
    try:
        told = json.loads(data.decode("utf-8"), object_pairs_hook=_once)
    except (ValueError, RecursionError, MemoryError):
        told = None
    if not isinstance(told, dict) or not all(isinstance(each, dict) for each in told.values()):
        raise InputError("not a .safetensors file: its header is no description of arrays", place=place)
    return told


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice")
    return found


def _entry(told: Mapping[str, Any], start: int, place: Place) -> _Entry:
    """What is said of one array. start: where the arrays begin in the file."""
    kind, shape, offsets = told.get("dtype"), told.get("shape"), told.get("data_offsets")
    if not (isinstance(kind, str) and _are_counts(shape) and _are_counts(offsets) and len(offsets) == 2):
        raise InputError("its header is no description of an array", place=place)
    if not is_countable(tuple(shape)):
        raise InputError("its header claims a shape that is too large", place=place)
    first, last = offsets
    entry = _Entry(kind, tuple(shape), start + first, last - first, place)
    needed = math.prod(shape) * entry.dtype.itemsize if kind in _DTYPES else entry.bytes
    if entry.bytes != needed or entry.bytes < 0:
        what = f"its shape {' x '.join(map(str, shape))} of {kind} needs {needed:,} bytes, not {entry.bytes:,}"
        raise InputError(what, place=place, hint="the header is damaged")
    return entry


def _are_counts(value: Any) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(each) is int and 0 <= each < _MOST for each in value)
