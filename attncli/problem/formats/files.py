"""Files that appear whole or not at all: all outputs of a command, or none."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

from attncli.errors import AttnError, InputError, Place, raise_all
from attncli.escapes import shown
from attncli.lazy import lazy_module, pattern
from attncli.ledger import is_input
from attncli.problem.formats.base import os_error
from attncli.problem.formats.temporary import Temporary, clear


class Together:
    """What is written into several files at once, a block of each at a time: the same object is the content of each.

    write: gets the open streams by the names of their files.
    """

    def __init__(self, write: Callable[[Mapping[str, BinaryIO]], None]) -> None:
        self.write = write


json = lazy_module("json")

Content = bytes | Callable[[BinaryIO], None] | Together

_DESCRIPTOR = pattern(r"(?:/dev/(?=std)|/dev/fd/|/proc/self/fd/)(stdout|stderr|[0-9]+)")
_STREAMS = {"stdout": "1", "stderr": "2"}


@dataclass(eq=False, repr=False)
class _Output:
    """One file on its way: its name as given, where it really lies, and what was there before."""

    name: str
    target: str
    mode: int | None  # permission bits of the file that is replaced; None where there is none
    direct: bool  # a pipe or a device, which is written to and never replaced
    temporary: Temporary | None = None
    backup: Temporary | None = None
    placed: bool = False


class Writing:
    """Files that are filled one after the other, and put in place together when the `with` ends well; else none is.

    force: replace files that exist; what was read in this call is never replaced.
    Raises InputError for outputs that cannot be (all of them together), MachineError where the disk is full.
    """

    def __init__(self, names: Iterable[str], *, force: bool = False) -> None:
        self.force = force
        self._outputs = {output.name: output for output in _checked(names, force)}

    @property
    def direct(self) -> list[str]:
        """Those that are pipes or devices: what was written to one cannot be taken back."""
        return [output.name for output in self._outputs.values() if output.direct]

    def open(self, name: str) -> BinaryIO:
        """A stream for one of the files; of a pipe or device, that itself."""
        output = self._outputs[name]
        if output.direct:
            # /dev/stdout may be a file by a redirection: opened by name, it would lose what was printed before.
            match = _DESCRIPTOR.fullmatch(name)
            return open(os.dup(int(_STREAMS.get(match[1], match[1]))) if match else output.target, "wb")
        clear(os.path.dirname(output.target))
        output.temporary = Temporary(output.target)
        output.temporary.create(output.mode)
        return output.temporary.open()

    def __enter__(self) -> Writing:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        outputs = [output for output in self._outputs.values() if not output.direct]
        try:
            if kind is None:
                for output in outputs:
                    _put_in_place(output, self.force, keep=len(outputs) > 1)
        except BaseException:
            kind = BaseException
            raise
        finally:
            if kind is not None:
                _undo(outputs)
            for output in outputs:
                for each in (output.temporary, output.backup):
                    if each is not None:
                        each.remove()


@contextmanager
def told(names: str) -> Iterator[None]:
    """What the system says of files, as ours; a reader of a pipe that is gone stays a BrokenPipeError."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise os_error(error, names, "write") from None


@contextmanager
def whole_file(name: str, *, force: bool = False) -> Iterator[BinaryIO]:
    """A stream into one file, as `Writing` writes it."""
    with Writing([name], force=force) as writing, told(name), writing.open(name) as stream:
        yield stream


def write_all(files: Mapping[str, Content], *, force: bool = False) -> None:
    """Write each path's bytes, or what its function writes into a stream; on any failure nothing is left behind.

    What goes into several files together is written first, so that the others may hold what came of it; pipes last.
    Raises as `Writing` does.
    """
    with Writing(files, force=force) as writing:
        for together, names in _together(files).items():
            with told(", ".join(names)), ExitStack() as stack:
                together.write({name: stack.enter_context(writing.open(name)) for name in names})
        for name in sorted(files, key=writing.direct.__contains__):
            content = files[name]
            if isinstance(content, Together):
                continue
            with told(name), writing.open(name) as stream:
                if isinstance(content, bytes):
                    stream.write(content)
                else:
                    content(stream)


def append(name: str, entry: Mapping[str, Any]) -> None:
    """Add a line of JSON to a file of attncli's own, in one piece, also beside other runs.

    The line break stands before it: what a killed run has cut short spoils no other line.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with told(name):
        descriptor = os.open(name, flags, 0o666)
        try:
            os.write(descriptor, f"\n{json.dumps(entry)}".encode())
        finally:
            os.close(descriptor)


def check_all(names: Iterable[str], *, force: bool = False) -> None:
    """Whether these files may be written, before anything is computed. Raises InputError as `write_all` does."""
    _checked(names, force)


def _together(files: Mapping[str, Content]) -> dict[Together, list[str]]:
    """The files of each content that goes into several."""
    groups: dict[Together, list[str]] = {}
    for name, content in files.items():
        if isinstance(content, Together):
            groups.setdefault(content, []).append(name)
    return groups


def _checked(names: Iterable[str], force: bool) -> list[_Output]:
    outputs: list[_Output] = []
    errors: list[AttnError] = []
    for name in names:
        try:
            output = _look(name, force)
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


def _look(name: str, force: bool) -> _Output:
    """What stands at a path now. Raises InputError where nothing may be written."""
    if not name:
        raise InputError("the name of the file is empty", hint="is a variable of the shell not set?")
    if _DESCRIPTOR.fullmatch(name):
        return _Output(name, name, None, direct=True)
    target = os.path.realpath(name)
    place, folder = Place(name), os.path.dirname(target)
    try:
        status = os.stat(target)
    except FileNotFoundError:
        if not os.path.isdir(folder):
            import shlex

            hint = f"mkdir -p {shown(shlex.quote(folder))}"
            raise InputError(f"there is no folder {folder}", place=place, hint=hint) from None
        return _Output(name, target, None, direct=False)
    if stat.S_ISDIR(status.st_mode):
        raise InputError("this is a folder", place=place, hint="name a file in it")
    if not stat.S_ISREG(status.st_mode):
        return _Output(name, target, None, direct=True)
    _refuse_input(status, name)
    if not force:
        raise InputError("the file exists", place=place, hint="--force replaces it")
    return _Output(name, target, stat.S_IMODE(status.st_mode), direct=False)


def _refuse_input(status: os.stat_result, name: str) -> None:
    if is_input(status):
        raise InputError("this output is also an input", place=Place(name), hint="write to another file")


def _put_in_place(output: _Output, force: bool, keep: bool) -> None:
    """Rename; where several are, the file that is replaced is kept until all are in place."""
    new = output.temporary
    assert new is not None
    new.finish()
    with told(output.name):
        with contextlib.suppress(FileNotFoundError):  # it may have been read since we looked
            _refuse_input(os.stat(output.target), output.name)
        if keep and output.mode is not None:
            output.backup = Temporary(output.target)
            with contextlib.suppress(OSError):  # a file system without links keeps nothing
                output.backup.keep(output.target)
        if force or not _linked(output, new.path):
            os.replace(new.path, output.target)
        output.placed = True


def _linked(output: _Output, new: str) -> bool:
    """Put a new file in place by a link, which, unlike a rename, replaces nothing that came into being since we looked.

    False where the file system has no links.
    """
    try:
        os.link(new, output.target)
    except FileExistsError:
        what = "the file came into being meanwhile"
        raise InputError(what, place=Place(output.name), hint="--force replaces it") from None
    except OSError:
        return False
    return True


def _undo(outputs: list[_Output]) -> None:
    """Put back what was there before."""
    for output in outputs:
        if output.placed:
            with contextlib.suppress(OSError):
                if output.mode is None:
                    os.unlink(output.target)
                elif output.backup is not None:
                    os.replace(output.backup.path, output.target)
