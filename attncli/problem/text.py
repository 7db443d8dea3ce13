"""Bytes to text: UTF-8 with or without byte-order mark, and nothing else."""

from __future__ import annotations

from attncli.errors import InputError, Place

_MARKS = ((b"\xff\xfe\0\0", "UTF-32"), (b"\0\0\xfe\xff", "UTF-32"), (b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"))
_HINT = "save the file as UTF-8"


def decode(data: bytes, file: str) -> str:
    """The text of a file, without its byte-order mark. Raises InputError for other encodings and for NUL bytes."""
    for mark, name in _MARKS:
        if data.startswith(mark):
            raise InputError(f"the text is {name}, not UTF-8", place=Place(file), hint=_HINT)
    if (at := data.find(b"\0")) >= 0:
        what = "the text looks like UTF-16" if b"\0" in data[at + 2 : at + 3] else "a NUL byte: this is no text file"
        raise InputError(what, place=_place(data, at, file), hint=_HINT)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"byte 0x{error.object[error.start]:02x} is not UTF-8 (latin-1 or another old encoding?)",
            place=_place(error.object, error.start, file),
            hint=_HINT,
        ) from None


def lines_of(text: str) -> list[str]:
    """The lines of a text without their ends, which are LF, CR LF or CR and nothing else."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _place(data: bytes, at: int, file: str) -> Place:
    lines = data[:at].replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    return Place(file, len(lines), len(lines[-1].decode("utf-8", "replace")) + 1)
