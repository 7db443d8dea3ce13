"""Files that appear whole or not at all: all outputs of a command, or none."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import BinaryIO, cast

from attncli.errors import AttnError, InputError, Place, raise_all
from attncli.lazy import pattern
from attncli.problem.formats.base import os_error
from attncli.record import record


class Together:
    """What is written into several files at once, a block of each at a time: the same object is the content of each.

    write: gets the open streams by the names of their files.
    """

    def __init__(self, write: Callable[[Mapping[str, BinaryIO]], None]) -> None:
        self.write = write


Content = bytes | Callable[[BinaryIO], None] | Together

_DESCRIPTOR = pattern(r"(?:/dev/(?=std)|/dev/fd/|/proc/self/fd/)(stdout|stderr|[0-9]+)")
_STREAMS = {"stdout": "1", "stderr": "2"}


@record
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

    What goes into several files together is written first, so that the others may hold what came of it.

    force: replace files that exist. inputs: files that must not be written over, by whatever name.
    Raises InputError for outputs that cannot be (all of them together), MachineError where the disk is full.
    """
    outputs = _checked(files, force, [name for name in inputs if os.path.exists(name)])
    try:
        for group in _together(outputs):
            _write_together(group)
        for output in outputs:
            if not output.direct and not isinstance(output.content, Together):
                _write(output)
        for output in outputs:
            if output.direct and not isinstance(output.content, Together):
                _write(output)
        for output in outputs:
            if not output.direct:
                _put_in_place(output, force, keep=len(outputs) > 1)
    except BaseException:
        _undo(outputs)
        raise
    for output in outputs:
        _remove(output.backup)


def check_all(names: Iterable[str], *, force: bool = False, inputs: Iterable[str] = ()) -> None:
    """Whether these files may be written, before anything is computed. Raises InputError as `write_all` does."""
    _checked(dict.fromkeys(names, b""), force, [name for name in inputs if os.path.exists(name)])


def _together(outputs: list[_Output]) -> list[list[_Output]]:
    """The files of each content that goes into several."""
    groups: dict[Together, list[_Output]] = {}
    for output in outputs:
        if isinstance(output.content, Together):
            groups.setdefault(output.content, []).append(output)
    return list(groups.values())


def _write_together(outputs: list[_Output]) -> None:
    names = ", ".join(output.name for output in outputs)
    content = cast(Together, outputs[0].content)
    try:
        with ExitStack() as stack:
            content.write({output.name: stack.enter_context(_opened(output)) for output in outputs})
        for output in outputs:
            _set_mode(output)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise os_error(error, names, "write") from None


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
            import shlex

            hint = f"mkdir -p {shlex.quote(folder)}"
            raise InputError(f"there is no folder {folder}", place=place, hint=hint) from None
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


def _write(output: _Output) -> None:
    """The content of one file; a reader of a pipe that is gone stays a BrokenPipeError."""
    try:
        with _opened(output) as stream:
            if isinstance(output.content, bytes):
                stream.write(output.content)
            elif not isinstance(output.content, Together):
                output.content(stream)
        _set_mode(output)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise os_error(error, output.name, "write") from None


def _opened(output: _Output) -> BinaryIO:
    """A new file of the same folder, so that a rename can put it in place; or the pipe or device itself."""
    if output.direct:
        # /dev/stdout may be a file by a redirection: opened by name, it would lose what was printed before.
        match = _DESCRIPTOR.fullmatch(output.name)
        return open(os.dup(int(_STREAMS.get(match[1], match[1]))) if match else output.target, "wb")
    temporary = os.path.join(os.path.dirname(output.target), f".attncli-{os.urandom(8).hex()}.tmp")
    output.temporary = temporary  # before it exists, so that no interruption falls between the two
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    return open(descriptor, "wb")


def _set_mode(output: _Output) -> None:
    if output.mode is not None and output.temporary is not None:
        os.chmod(output.temporary, output.mode)


def _put_in_place(output: _Output, force: bool, keep: bool) -> None:
    """Rename; where several are, the file that is replaced is kept until all are in place."""
    assert output.temporary is not None
    try:
        if keep and output.mode is not None:
            output.backup = f"{output.temporary}.old"
            with contextlib.suppress(OSError):  # a file system without links keeps nothing
                os.link(output.target, output.backup)
        if force or not _linked(output):
            os.replace(output.temporary, output.target)
        output.placed = True
        _remove(output.temporary)
        output.temporary = None
    except OSError as error:
        raise os_error(error, output.name, "write") from None


def _linked(output: _Output) -> bool:
    """Put a new file in place by a link, which, unlike a rename, replaces nothing that came into being since we looked.

    False where the file system has no links.
    """
    assert output.temporary is not None
    try:
        os.link(output.temporary, output.target)
    except FileExistsError:
        what = "the file came into being meanwhile"
        raise InputError(what, place=Place(output.name), hint="--force replaces it") from None
    except OSError:
        return False
    return True


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
