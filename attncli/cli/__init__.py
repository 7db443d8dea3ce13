"""The command line: one file a command, and the entry point, which imports next to nothing."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from typing import Any


def main() -> int:
    """Run the program on sys.argv; gives the exit status."""
    signal.signal(signal.SIGTERM, _stop)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:  # nohup has it ignored
        signal.signal(signal.SIGHUP, _stop)
    # Start-up time: the collector finds nothing while modules are imported, and nothing that matters at the very end.
    gc.set_threshold(100_000, 20, 100)
    status = call(sys.argv[1:])
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


def _stop(number: int, frame: Any) -> None:
    """End as an error ends, so that no half-written file stays behind; a second one does not disturb this."""
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)


def call(arguments: list[str]) -> int:
    """Run one command line; results, notes and errors go to sys.stdout and sys.stderr. Gives the exit status."""
    try:
        from attncli.cli import console
    except KeyboardInterrupt:  # before anything can be told by others
        os.write(2, b"attncli: interrupted\n")
        return 130
    try:
        console.prepare()
        from attncli.cli.app import run

        status = run(arguments)
    except BaseException as error:
        status = console.tell(error)
    return console.finish(status)
