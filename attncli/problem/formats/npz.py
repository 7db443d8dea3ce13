"""NumPy's .npz: named arrays in a zip archive, none of which may unpack to more than its size says."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

from attncli.errors import InputError, Place, unknown
from attncli.lazy import np
from attncli.problem.formats.base import FORMATS, Part, ReadOptions, Source, check_room, os_error
from attncli.problem.formats.npy import Header, write_array
from attncli.problem.matrix import Matrix

if TYPE_CHECKING:
    from zipfile import ZipFile, ZipInfo

_RATIO = 1040  # deflate cannot pack tighter
_CHUNK = 1 << 20
_MUCH = 1 << 24  # bytes


def write(stream: BinaryIO, steps: Mapping[str, Part], meta: Mapping[str, Any]) -> None:
    """Every step by its name, uncompressed; the same steps give the same bytes."""
    write_members(stream, {name: partial(_write_part, part) for name, part in steps.items()})


def write_members(stream: BinaryIO, members: Mapping[str, Callable[[BinaryIO], None]]) -> None:
    """As `write`, each array by a function of its own, such as one that goes block by block."""
    from zipfile import ZipFile, ZipInfo

    with ZipFile(stream, "w") as archive:
        for name, fill in members.items():
            with archive.open(ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                fill(member)  # type: ignore[arg-type]  # it is a binary stream, IO[bytes] by name


def _write_part(part: Part, stream: BinaryIO) -> None:
    write_array(stream, part.array)


def describe(source: Source) -> dict[str, Matrix]:
    """Every array by name with its shape and type, told from headers: nothing is unpacked."""
    return _read(source, None, lambda archive, info, place: _array(archive, info, place, above=-1))


@FORMATS("npz", suffixes=(".npz",), write=write, several=True, describe=describe, magic=(b"PK\x03\x04", b"PK\x05\x06"))
def read(source: Source, options: ReadOptions, name: str | None) -> dict[str, Matrix]:
    """NumPy's archive of several named arrays, compressed or not."""
    above = _MUCH if options.shapes else None
    return _read(source, name, lambda archive, info, place: _array(archive, info, place, above=above))


def _read(source: Source, name: str | None, member: Callable[[ZipFile, ZipInfo, Place], Matrix]) -> dict[str, Matrix]:
    import zlib
    from zipfile import BadZipFile, ZipFile

    try:
        with ZipFile(source.path or io.BytesIO(source.read())) as archive:
            members = _members(archive, source.file)
            if name is not None and name not in members:
                raise unknown("array", name, members, place=Place(source.file))
            wanted = members if name is None else {name: members[name]}
            return {key: member(archive, info, Place(f"{source.file}::{key}")) for key, info in wanted.items()}
    except OSError as error:
        raise os_error(error, source.file, "read") from None
    except (BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise InputError(f"not a sound .npz archive: {error}", place=Place(source.file)) from None


def _members(archive: ZipFile, file: str) -> dict[str, ZipInfo]:
    """The members by array name."""
    members: dict[str, ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        if name in members:
            raise InputError(f"the archive holds {name!r} twice", place=Place(file))
        members[name] = info
    if not members:
        raise InputError("the archive holds no array", place=Place(file))
    return members


def _array(archive: ZipFile, info: ZipInfo, place: Place, *, above: int | None) -> Matrix:
    """One member. Its claim is compared with what its packed bytes can hold before memory is asked for.

    above: bytes from which on the numbers are not wanted, and a placeholder is enough.
    """
    from zipfile import ZIP_DEFLATED, ZIP_STORED

    if info.flag_bits & 1:
        raise InputError("it is encrypted", place=place, hint="save the arrays without a password")
    if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise InputError(f"its compression (method {info.compress_type}) is not known", place=place)
    ratio = 1 if info.compress_type == ZIP_STORED else _RATIO
    if info.file_size > info.compress_size * ratio:
        claims = f"it claims to unpack {info.compress_size:,} bytes to {info.file_size:,}"
        raise InputError(claims, place=place, hint="the archive is damaged")
    with archive.open(info) as member:
        header = Header(member, info.file_size, place)  # type: ignore[arg-type]
        if above is not None and header.bytes > above:
            return header.described()
        check_room(header.bytes, place)
        buffer = np.empty(header.bytes, np.uint8)
        filled, view = 0, buffer.data
        while filled < header.bytes:
            chunk = member.read(min(_CHUNK, header.bytes - filled))
            if not chunk:
                raise InputError(f"the array is cut short after {filled:,} bytes", place=place)
            view[filled : filled + len(chunk)] = chunk
            filled += len(chunk)
        member.read(1)  # at the end, the checksum is compared
    return header.matrix(buffer.view(header.dtype))
