"""Files that appear whole or not at all: all outputs of a command, or none."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import BinaryIO

from attncli.errors import AttnError, InputError, Place, raise_all
from attncli.problem.formats.base import os_error

Content = bytes | Callable[[BinaryIO], None]

_DESCRIPTOR = re.compile(r"(?:/dev/(?=std)|/dev/fd/|/proc/self/fd/)(stdout|stderr|[0-9]+)")
_STREAMS = {"stdout": "1", "stderr": "2"}


@dataclass
class _Output:
    """One file on its way: its name as given, where it really lies, and what was there before."""

    name: str
    content: Content
    target: str
    mode: int | None  # permission bits of the file that is replaced; None where there is none
    direct: bool  # a pipe or a device, which is written to and never replaced
    temporary: str | None = None
    backup: str | None = None
    placed: bool = False


def write_all(
    files: Mapping[str, Content],
    *,
    force: bool = False,
    inputs: Iterable[str] = (),
) -> None:
    """Write each path's bytes, or what its function writes into a stream; on any failure nothing is left behind.

    force: replace files that exist. inputs: files that must not be written over, by whatever name.
    Raises InputError for outputs that cannot be (all of them together), MachineError where the disk is full.
    """
    outputs = _checked(files, force, [name for name in inputs if os.path.exists(name)])
    try:
        for output in outputs:
            if not output.direct:
                _write_beside(output)
        for output in outputs:
            if output.direct:
                _write_direct(output)
        for output in outputs:
            if not output.direct:
                _put_in_place(output, keep=len(outputs) > 1)
    except BaseException:
        _undo(outputs)
        raise
    for output in outputs:
        _remove(output.backup)


def _checked(files: Mapping[str, Content], force: bool, inputs: list[str]) -> list[_Output]:
    outputs: list[_Output] = []
    errors: list[AttnError] = []
    for name, content in files.items():
        try:
            output = _look(name, content, force, inputs)
            twin = next((other for other in outputs if other.target == output.target and not output.direct), None)
            if twin is not None:
                raise InputError(f"this is the same file as {twin.name}", place=Place(name))
            outputs.append(output)
        except (OSError, ValueError) as error:
            errors.append(os_error(error, name, "write"))
        except InputError as error:
            errors.append(error)
    raise_all(errors)
    return outputs


def _look(name: str, content: Content, force: bool, inputs: list[str]) -> _Output:
    """What stands at a path now. Raises InputError where nothing may be written."""
    if _DESCRIPTOR.fullmatch(name):
        return _Output(name, content, name, None, direct=True)
    target = os.path.realpath(name)
    place, folder = Place(name), os.path.dirname(target)
    try:
        status = os.stat(target)
    except FileNotFoundError:
        if not os.path.isdir(folder):
            raise InputError(f"there is no folder {folder}", place=place, hint=f"mkdir -p {folder}") from None
        return _Output(name, content, target, None, direct=False)
    if stat.S_ISDIR(status.st_mode):
        raise InputError("this is a folder", place=place, hint="name a file in it")
    if not stat.S_ISREG(status.st_mode):
        return _Output(name, content, target, None, direct=True)
    if any(os.path.samefile(target, other) for other in inputs):
        raise InputError("this output is also an input", place=place, hint="write to another file")
    if not force:
        raise InputError("the file exists", place=place, hint="--force replaces it")
    return _Output(name, content, target, stat.S_IMODE(status.st_mode), direct=False)


def _write_beside(output: _Output) -> None:
    """The content in a new file of the same folder, so that a rename can put it in place."""
    temporary = os.path.join(os.path.dirname(output.target), f".attncli-{os.urandom(8).hex()}.tmp")
    output.temporary = temporary  # before it exists, so that no interruption falls between the two
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        with open(descriptor, "wb") as stream:
            _fill(stream, output.content)
        if output.mode is not None:
            os.chmod(temporary, output.mode)
    except OSError as error:
        raise os_error(error, output.name, "write") from None


def _write_direct(output: _Output) -> None:
    """Into a pipe or device; a reader that is gone stays a BrokenPipeError."""
    try:
        # /dev/stdout may be a file by a redirection: opened by name, it would lose what was printed before.
        match = _DESCRIPTOR.fullmatch(output.name)
        with open(os.dup(int(_STREAMS.get(match[1], match[1]))) if match else output.target, "wb") as stream:
            _fill(stream, output.content)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise os_error(error, output.name, "write") from None


def _fill(stream: BinaryIO, content: Content) -> None:
    if isinstance(content, bytes):
        stream.write(content)
    else:
        content(stream)


def _put_in_place(output: _Output, keep: bool) -> None:
    """Rename; where several are, the file that is replaced is kept until all are in place."""
    assert output.temporary is not None
    try:
        if keep and output.mode is not None:
            output.backup = f"{output.temporary}.old"
            with contextlib.suppress(OSError):  # a file system without links keeps nothing
                os.link(output.target, output.backup)
        os.replace(output.temporary, output.target)
        output.temporary, output.placed = None, True
    except OSError as error:
        raise os_error(error, output.name, "write") from None


def _undo(outputs: list[_Output]) -> None:
    for output in outputs:
        _remove(output.temporary)
        if output.placed and output.mode is None:
            _remove(output.target)
        elif output.placed and output.backup is not None:
            with contextlib.suppress(OSError):
                os.replace(output.backup, output.target)
        else:
            _remove(output.backup)


def _remove(path: str | None) -> None:
    if path is not None:
        with contextlib.suppress(OSError):
            os.unlink(path)
