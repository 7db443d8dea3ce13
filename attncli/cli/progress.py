"""A progress bar for what takes longer than half a second: on a terminal, on standard error, gone at the end."""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

from attncli.cli import console

if TYPE_CHECKING:
    from rich.progress import Progress

PATIENCE = 0.5  # seconds


class Bar:
    """Call it with the share that is done, from 0 to 1, as often as you like; a smaller one than before begins anew."""

    def __init__(self, quiet: bool = False) -> None:
        self.wanted = not quiet and console.is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb"
        self._start = time.monotonic()
        self._bar: Progress | None = None

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, share: float) -> None:
        if not self.wanted:
            return
        if self._bar is None and time.monotonic() - self._start >= PATIENCE:
            self._bar = _bar()
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=share)


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeRemainingColumn

    columns = (BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(file=sys.stderr), transient=True)
    bar.add_task("", total=1.0)
    bar.start()
    return bar
