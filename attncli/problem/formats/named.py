"""Files whose name says one format and whose bytes say another: what they are, and what to call them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import NamedTuple

from attncli.errors import AttnError, InputError, Place
from attncli.problem.formats.base import FORMATS, FROM_TORCH, FormatEntry, ReadOptions, Source


class Kind(NamedTuple):
    """A kind of file by its first bytes; format: the name of ours that reads it; else `mend` says what to do."""

    what: str
    format: str | None = None
    mend: str = ""


_EXCEL = Kind("an Excel workbook (.xlsx)", "xlsx", "save the sheet as CSV")
_TORCH = Kind("a PyTorch file, whose pickles are never read", None, FROM_TORCH)
_PACKED = "unpack it first"
_DAMAGED = Kind("a zip archive that is damaged", None, "copy it once more")
_SIGNATURES = (
    (b"\x93NUMPY", Kind("a .npy array", "npy")),
    (b"\x1f\x8b", Kind("packed by gzip", None, _PACKED)),
    (b"BZh", Kind("packed by bzip2", None, _PACKED)),
    (b"\xfd7zXZ", Kind("packed by xz", None, _PACKED)),
    (b"\x28\xb5\x2f\xfd", Kind("packed by zstd", None, _PACKED)),
    (b"\x89HDF", Kind("an HDF5 file", None, "numpy.save makes a .npy of an array")),
    (b"PAR1", Kind("a Parquet file", None, "save the table as CSV")),
    (b"\xd0\xcf\x11\xe0", Kind("an old Excel workbook (.xls)", None, "save the sheet as CSV")),
    (b"%PDF", Kind("a PDF", None, "save the numbers as CSV")),
    (b"\x89PNG", Kind("a PNG picture", None, "save the numbers as CSV")),
    (b"\xff\xd8\xff", Kind("a JPEG picture", None, "save the numbers as CSV")),
    (b"\x80", Kind("a Python pickle, which is never read", None, "numpy.save makes a .npy of an array")),
)
_TEXTS = ("json", "csv", "txt", "yaml")
_MOST_TEXT = 1 << 20  # bytes that are tried as text of another format


def misnamed(error: AttnError, source: Source, entry: FormatEntry, options: ReadOptions) -> AttnError:
    """What is wrong with a file that its format's reader refused: that it is of another, or else the reader's error."""
    data = _start(source)
    kind = _kind(data, source)
    place = Place(source.file)
    damaged = kind is _DAMAGED and entry.name == "npz"
    if kind is None or kind.format == entry.name or data[:4] in entry.magic or damaged:
        other = None if kind is not None else _other_text(data, source, entry, options)
        if other is None:
            return error
        hint = f"it can be read as {_suffix(other)}: call it {_called(source.file, other)}"
        return InputError(error.errors()[0].what, place=error.errors()[0].place, hint=hint)
    if kind.format is not None and kind.format in FORMATS:
        called = _called(source.file, FORMATS.find(kind.format))
        return InputError(f"this is {kind.what}, not {_suffix(entry)}", place=place, hint=f"call it {called}")
    return InputError(f"this is {kind.what}, not {_suffix(entry)}", place=place, hint=kind.mend)


def _start(source: Source) -> bytes:
    """The first bytes: of text all, where it is short."""
    try:
        if source.stream is not None:
            return source.stream()[: _MOST_TEXT + 1]
        assert source.path is not None
        with source.path.open("rb") as file:
            return file.read(_MOST_TEXT + 1)
    except (OSError, AttnError):
        return b""


def _kind(data: bytes, source: Source) -> Kind | None:
    if data.startswith(b"PK"):
        return _zipped(data, source)
    if data[8:10] == b'{"' and int.from_bytes(data[:8], "little") < 1 << 40:
        return Kind("a .safetensors file", "safetensors")
    return next((kind for magic, kind in _SIGNATURES if data.startswith(magic)), None)


def _zipped(data: bytes, source: Source) -> Kind | None:
    from zipfile import BadZipFile, ZipFile

    try:
        with ZipFile(source.path or io.BytesIO(data)) as archive:
            names = archive.namelist()
    except (BadZipFile, OSError, ValueError, NotImplementedError):
        return _DAMAGED
    if any(name.startswith("xl/") for name in names):
        return _EXCEL
    if any(name.endswith("data.pkl") for name in names):
        return _TORCH
    return (
        Kind("a .npz archive", "npz")
        if any(name.endswith(".npy") for name in names)
        else Kind("a zip archive", None, _PACKED)
    )


def _other_text(data: bytes, source: Source, entry: FormatEntry, options: ReadOptions) -> FormatEntry | None:
    """The text format that reads the bytes of what is named as another, plain numbers without labels."""
    if len(data) > _MOST_TEXT or entry.name in ("yaml", "json") or not data.strip():
        return None
    for name in _TEXTS if entry.name in ("npy", "npz") else _TEXTS[:1]:
        other = FORMATS.find(name)
        if (name == "json") != (data.lstrip()[:1] in b"[{"):
            continue
        try:
            arrays = other.function(Source(source.file, stream=lambda: data), options, None)
        except AttnError:
            continue
        if arrays and all(matrix.row_labels is None and matrix.column_labels is None for matrix in arrays.values()):
            return other
    return None


def _called(file: str, entry: FormatEntry) -> str:
    return str(Path(file).with_suffix(entry.suffixes[0]))


def _suffix(entry: FormatEntry) -> str:
    return str(entry.suffixes[0])
