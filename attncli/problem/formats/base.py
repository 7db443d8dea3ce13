"""What all matrix formats share: the registry that they enter, what a reader is given, and what a writer writes."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from attncli import ledger
from attncli.errors import AttnError, InputError, MachineError, Place, nearest
from attncli.escapes import shown
from attncli.extensions import installed
from attncli.lazy import Array, np, pattern
from attncli.problem.matrix import Matrix
from attncli.registry import Entry, Registry

# What is written of a matrix is its array and its labels.
Part = Matrix


@dataclass(kw_only=True, eq=False, repr=False)
class FormatEntry(Entry):
    """A format of files, one module of this folder: function(source, options, name) -> dict[str, Matrix] reads it.

    name: the array that is wanted, or None for all; "" names the only array of a format without names.
    write: writes (stream, steps, meta), steps being dict[str, Part], one alone unless `several`.
    by_rows: (part, layout, options) -> ByRows | None: how a step, (n, m) in the layout rows, goes into a file some rows
    at a time, if it can; of the part the numbers are not looked at. describe: what is in a file, without its numbers.
    axes: how many at most. magic: what its files begin with.
    """

    suffixes: tuple[str, ...]
    write: Callable[..., None]
    several: bool = False
    by_rows: Callable[..., Any] | None = None
    describe: Callable[..., Any] | None = None
    axes: int | None = None
    magic: tuple[bytes, ...] = ()


FORMATS: Registry[FormatEntry] = Registry("format", FormatEntry)


class ByRows(NamedTuple):
    """How a matrix is written some rows at a time: what stands in front, and the bytes of rows from that number on."""

    head: bytes
    rows: Callable[[Array, int], Iterable[bytes | memoryview]]


class ReadOptions(NamedTuple):
    """How text files are to be read where their look does not tell, and what standard input holds.

    blanks: see `read_matrix`, which sets it. stored: a hand's numbers of a workbook as it stores them, not as it shows
    them. shapes: what takes much memory may stand as `placeholder`, since only
    shapes and types are wanted.
    """

    separator: str | None = None
    decimal: str = "."
    header: bool | None = None
    labels: bool | None = None
    stdin_format: str | None = None
    blanks: bool = False
    shapes: bool = False
    stored: bool = False


@dataclass(eq=False, repr=False)
class Source:
    """Where the bytes of a matrix come from; `path` is a regular file, which may be mapped instead of read.

    stream: what is given by other means, such as standard input.
    """

    file: str
    path: Path | None = None
    stream: Callable[[], bytes] | None = None

    def read(self, times: int = 1) -> bytes:
        """All bytes; raises InputError, and MachineError where what becomes of them would not fit into memory.

        times: how many times as much that takes, for as long as it is being read.
        """
        try:
            if self.stream is not None:
                return self.stream()
            assert self.path is not None
            check_room(self.path.stat().st_size * times, Place(self.file))
            return self.path.read_bytes()
        except OSError as error:
            raise os_error(error, self.file, "read") from None


_SURELY_FREE = 1 << 24  # bytes that need no look at what is free


def check_room(size: int, place: Place | None) -> None:
    """Refuse what would not fit into memory, before it is asked for. Raises MachineError."""
    if size <= _SURELY_FREE:
        return
    from attncli.engine.memory import in_words, memory_available

    there = memory_available()
    if there is not None and size > there:
        raise MachineError(f"this needs {in_words(size)} of memory, but {in_words(there)} are free", place=place)


def placeholder(shape: tuple[int, ...], dtype: np.dtype) -> Array:
    """An array of zeros that takes no memory, where only its shape and type are looked at."""
    return np.broadcast_to(np.zeros((), dtype), shape)


def open_source(name: str, base: Path | None = None) -> Source:
    """A regular file, which from now on is an input: no output is put upon it. Raises InputError for anything else.

    A pipe is read where the shell made it: /dev/stdin, or the /dev/fd/63 of `<(...)`; a named one may have no writer.
    base: the folder from which a relative name is looked up.
    """
    if not name:
        raise InputError("the name of the file is empty", hint="is a variable of the shell not set?")
    path = Path(name) if base is None else base / name
    file = str(path)
    try:
        status = path.stat()
    except FileNotFoundError:
        raise InputError("the file does not exist", place=Place(file), hint=near_file(path)) from None
    except (OSError, ValueError) as error:
        raise os_error(error, file, "read") from None
    mode = status.st_mode
    if stat.S_ISREG(mode):
        ledger.remember(status)
        return Source(file, path)
    if stat.S_ISFIFO(mode) and _DESCRIPTOR.fullmatch(file):
        return Source(file, stream=path.read_bytes)
    what = next((what for what, holds in _KINDS.items() if holds(mode)), "a device")
    hint = "name a file in it" if stat.S_ISDIR(mode) else "- reads standard input"
    raise InputError(f"this is {what}, not a file", place=Place(file), hint=hint)


_DESCRIPTOR = pattern("/dev/stdin|/dev/fd/[0-9]+|/proc/self/fd/[0-9]+")
_KINDS = {"a folder": stat.S_ISDIR, "a named pipe": stat.S_ISFIFO, "a socket": stat.S_ISSOCK}


def os_error(error: OSError | ValueError, file: str, doing: str) -> AttnError:
    """What the system says, as ours: the machine's own failures apart from wrong names and rights."""
    import errno

    code = getattr(error, "errno", None)
    if code == errno.EFBIG:
        what = "the file would be larger than the system allows: nothing was written"
        return MachineError(what, place=Place(file), hint="ulimit -f tells the limit")
    if code in (errno.ENOSPC, errno.EDQUOT):
        return MachineError("the disk is full: nothing was written", place=Place(file))
    if code is None and isinstance(error, OSError):  # NumPy, of an array that was written in part
        return MachineError(f"could not {doing} it: {error}", place=Place(file), hint="is the disk full?")
    if code in (errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE):
        return MachineError(f"could not {doing} it: {os.strerror(code)}", place=Place(file))
    if code in (errno.EACCES, errno.EPERM, errno.EROFS):
        hint = "look at the rights of the file and its folder (ls -l)"
        return InputError(f"not allowed to {doing} it", place=Place(file), hint=hint)
    reason = os.strerror(code) if code else str(error)
    return InputError(f"could not {doing} it: {reason}", place=Place(file))


FROM_TORCH = (
    'numpy.save("FILE.npy", tensor.float().numpy()) makes a .npy of a tensor, '
    'safetensors.torch.save_file(state_dict, "FILE.safetensors") a .safetensors of many'
)


def format_of(name: str, *, place: Place | str | None = None) -> FormatEntry:
    """The format of a file name, suffix or format name: "out.npz", ".npz" and "npz" alike. Raises InputError."""
    suffix = (os.path.splitext(name)[1] or (name if name.startswith(".") else "")).lower()
    entry = _fitting(suffix, name)
    if entry is None and installed():
        entry = _fitting(suffix, name)
    if entry is not None:
        return entry
    if suffix in (".pt", ".pth"):
        raise InputError("this is a PyTorch file, whose pickles are never read", place=place, hint=FROM_TORCH)
    known = ", ".join(known_suffixes())
    what = f"the suffix {suffix!r} names no format" if suffix else "the format is not told by a suffix"
    raise InputError(what, place=place, hint=f"known: {known}")


def _fitting(suffix: str, name: str) -> FormatEntry | None:
    fits = (entry for entry in FORMATS if suffix in entry.suffixes or (not suffix and name.lower() == entry.name))
    return next(fits, None)


def known_suffixes() -> list[str]:
    """The suffixes of all formats."""
    return [suffix for entry in FORMATS for suffix in entry.suffixes]


def near_file(path: Path) -> str | None:
    """A hint at the file of the same folder that was probably meant; the suffix, which many share, says nothing."""
    folder = path.parent
    if path.is_symlink():
        return f"it is a link to {shown(os.readlink(path))}, which does not exist"
    if not folder.is_dir():
        return f"the folder {shown(str(folder))} does not exist"
    try:
        names = sorted(entry.name for entry in os.scandir(folder))
    except OSError:
        return None
    names.sort(key=lambda name: os.path.splitext(name)[1] == path.suffix)  # of those of one stem the last counts
    by_stem = {os.path.splitext(name)[0]: name for name in names}
    close = nearest(path.stem, by_stem)
    if close is None and any(sign in path.name for sign in "*?"):
        return "only `check` and `batch` take patterns; without quotes the shell puts the files in its place"
    return f"did you mean {shown(str(folder / by_stem[close]))}?" if close else None
