"""The command line: one file a command, and the entry point, which imports next to nothing."""

from __future__ import annotations

import atexit
import gc
import os
import sys

from attncli import ending, ledger, machine

TYPE_CHECKING = False  # as typing has it, which takes its time
if TYPE_CHECKING:
    from typing import Any


def main() -> int:
    """Run the program on sys.argv; gives the exit status."""
    # Start-up time: the collector finds nothing while modules are imported, and nothing that matters at the very end.
    gc.set_threshold(100_000, 20, 100)
    if not sys.warnoptions:  # what a warning of NumPy or Python meant is a note; -W and PYTHONWARNINGS ask for them
        import warnings

        warnings.simplefilter("ignore")
    status = call(sys.argv[1:], ends=True)
    _leave(status)
    return status


def _leave(status: int) -> None:
    """End here and now: taking NumPy's modules apart would last as long as a small problem.

    What registered itself for the end runs, and the streams were flushed by `finish`. Where threads are left, nothing
    is done, and the interpreter ends as ever.
    """
    threading = sys.modules.get("threading")
    if threading is None or threading.active_count() == 1:
        atexit._run_exitfuncs()
        os._exit(status)


def _end_well() -> None:
    """End at a signal as at an error, so that no half-written file stays behind; a second one does not disturb this."""
    import signal

    def stop(number: int, frame: Any) -> None:
        signal.signal(number, signal.SIG_IGN)
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, stop)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:  # nohup has it ignored
        signal.signal(signal.SIGHUP, stop)


def call(arguments: list[str], *, ends: bool = False) -> int:
    """Run one command line; results, notes and errors go to sys.stdout and sys.stderr. Gives the exit status.

    ends: the program ends with it, and signals are its own.
    """
    ledger.begin()
    try:
        try:
            if not machine.has_room(machine.START):
                raise MemoryError
            from attncli.cli import console

            console.prepare()
            if ends:
                _end_well()
            from attncli.cli.app import run

            ending.raises = True
            status = run(arguments)
            ending.raises = False
        except BaseException as error:
            ending.raises = False
            from attncli.cli import console

            status = console.tell(KeyboardInterrupt() if ending.interrupted else error)
        return console.finish(status)
    except BaseException as error:
        return _told_at_least(error)


def _told_at_least(error: BaseException) -> int:
    """Say in the plainest way what not even `console` could tell; gives the exit status."""
    if isinstance(error, SystemExit):
        raise error
    status, text = 70, f"this is a fault of attncli itself: {type(error).__name__}"
    if isinstance(error, KeyboardInterrupt):
        status, text = 130, "interrupted"
    elif machine.is_to_blame(error):
        status, text = 3, "not enough memory"
    ending.say(text.encode())
    return status
