"""How the program ends from its first moment on, before and after a command: one line, an exit status, no traceback.

While a command runs, Ctrl-C is a KeyboardInterrupt, once, so that files are put right. Before and after that, and the
second time, it ends the program there and then.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

raises = False
interrupted = False  # whether it was raised: what it became on its way, inside an import say, counts as Ctrl-C


def install() -> None:
    """Handle Ctrl-C so, unless it is ignored; and what is caught nowhere."""
    sys.excepthook, sys.unraisablehook = _uncaught, _lost
    if _signal.getsignal(_signal.SIGINT) != _signal.SIG_IGN:
        _signal.signal(_signal.SIGINT, _interrupted)


def end(status: int, text: bytes) -> NoReturn:
    """Say so, and end the program."""
    say(text)
    os._exit(status)


def say(text: bytes) -> None:
    """Write a line to standard error in the plainest way."""
    if sys.stderr is not None:
        try:  # noqa: SIM105  contextlib takes its time, too
            os.write(2, b"attncli: " + text + b"\n")
        except OSError:
            pass  # nobody is there to read it


def _interrupted(number: int, frame: Any) -> None:
    global raises, interrupted
    if not raises:
        end(130, b"interrupted")
    raises, interrupted = False, True
    raise KeyboardInterrupt


def _uncaught(kind: type[BaseException], error: BaseException, traceback: Any) -> None:
    """Before the first of our own lines that could catch it."""
    if issubclass(kind, KeyboardInterrupt):
        end(130, b"interrupted")
    if issubclass(kind, MemoryError) or (isinstance(error, OSError) and error.errno == 12):  # ENOMEM
        end(3, b"not enough memory")
    sys.__excepthook__(kind, error, traceback)


def _lost(unraisable: Any) -> None:
    """A KeyboardInterrupt in the midst of what Python does for itself, which cannot be handed on."""
    if unraisable.exc_type is KeyboardInterrupt:
        end(130, b"interrupted")
    sys.__unraisablehook__(unraisable)
