"""Files under other names until they are whole, known as attncli's own; those of runs that were killed are cleared.

The name tells that attncli made it, on this machine; a lock, which ends with its process, that it is in use.
"""

from __future__ import annotations

import contextlib
import os
import stat
import zlib
from functools import cache
from typing import BinaryIO

from attncli import ledger
from attncli.lazy import pattern

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed
    fcntl = None  # type: ignore[assignment]

_OWN = pattern(r"\.attncli-([0-9a-f]{16})([0-9a-f]{8})([0-9a-f]{8})\.(?:tmp|old)")
_FLAGS = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


class Temporary:
    """A file beside its target, held as long as it is in use: a new one to be filled, or another name of an old one.

    It is named before it is made, so that no interruption falls between the two.
    """

    def __init__(self, target: str) -> None:
        self.folder = os.path.dirname(target)
        self.path = ""
        self._held = -1

    def create(self, mode: int | None = None) -> None:
        """Make a new file, locked. mode: its permissions, from the first byte on; None: as usual."""
        while True:
            self.path = os.path.join(self.folder, _name("tmp"))
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _FLAGS
            self._held = os.open(self.path, flags, 0o666 if mode is None else 0o600)
            _lock(self._held)
            try:
                if mode is None:
                    os.stat(self.path)
                else:
                    os.chmod(self.path, mode)
                return
            except FileNotFoundError:  # another run took it for litter before it was locked
                self.release()

    def keep(self, target: str) -> None:
        """Give an old file another name, locked. Raises OSError where the file system has no links."""
        self.path = os.path.join(self.folder, _name("old"))
        os.link(target, self.path)
        with contextlib.suppress(OSError):  # what cannot be opened here is not cleared by others either
            self._held = os.open(self.path, os.O_RDONLY | _FLAGS)
            _lock(self._held)

    def open(self) -> BinaryIO:
        """A stream into a new file; the file is held also when that is closed."""
        return open(os.dup(self._held), "w+b")

    def finish(self) -> None:
        """Make the file ready to be put in place: Windows renames none that is open."""
        if fcntl is None:
            self.release()

    def release(self) -> None:
        """Leave the file, which may have its own name by now, to others."""
        if self._held >= 0:
            os.close(self._held)
            self._held = -1

    def remove(self) -> None:
        """Take the file away, if it still has this name."""
        if self.path:
            _unlink(self.path)
        self.release()


def clear(folder: str) -> None:
    """Remove what runs of attncli that were killed have left in a folder: nothing else, and nothing that is in use."""
    if not ledger.is_new(folder):
        return
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if name.startswith(".attncli-") and _is_own(name):
                _clear(os.path.join(folder, name))


def _clear(path: str) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _FLAGS)
    except OSError:
        return
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            if fcntl is not None:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _unlink(path)
    except OSError:  # in use
        pass
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    """Hold the file. A file system without locks is one where nothing is cleared."""
    if fcntl is not None:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH)


def _unlink(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _name(suffix: str) -> str:
    """A name that nobody can foresee, and that `_is_own` knows again."""
    unlike = os.urandom(8).hex()
    return f".attncli-{unlike}{''.join(_sum(unlike, machine) for machine in _machine())}.{suffix}"


def _is_own(name: str) -> bool:
    """Whether attncli made up the name, on a machine of this name or since its last start, in a container perhaps."""
    match = _OWN.fullmatch(name)
    return match is not None and any(
        _sum(match[1], machine) == told for machine, told in zip(_machine(), match.groups()[1:], strict=True)
    )


def _sum(unlike: str, machine: str) -> str:
    return f"{zlib.crc32(f'{unlike} {machine}'.encode()):08x}"


@cache
def _machine() -> tuple[str, str]:
    """The name of this machine, and that of its present run, which containers share."""
    node = os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
            return node, stream.read().strip()
    except OSError:
        return node, node
