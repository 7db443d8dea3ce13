"""What one call has read: whatever it writes, these files stay as they are, by every name that they have."""

from __future__ import annotations

import os

_inputs: set[tuple[int, int]] = set()  # device and inode, which all links of a file share
_cleared: set[str] = set()


def begin() -> None:
    """Begin a call with nothing read."""
    _inputs.clear()
    _cleared.clear()


def remember(status: os.stat_result) -> None:
    """Take note of a file that is read."""
    _inputs.add((status.st_dev, status.st_ino))


def is_input(status: os.stat_result) -> bool:
    """Whether this file was read."""
    return (status.st_dev, status.st_ino) in _inputs


def is_new(folder: str) -> bool:
    """Whether nobody has asked this of the folder before: each is cleared of litter once a call."""
    if folder in _cleared:
        return False
    _cleared.add(folder)
    return True
