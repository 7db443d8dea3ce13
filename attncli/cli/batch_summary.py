"""What came of a batch: told as it goes, as a table at the end, and in summary.csv."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from attncli.errors import MachineError
from attncli.escapes import shown

if TYPE_CHECKING:
    from attncli.batch.folder import Folder
    from attncli.batch.work import Outcome


@dataclass
class Summary:
    """What came of the problems so far, and how it is told."""

    total: int
    folder: Folder | None
    quiet: bool
    rows: list[dict[str, str]] = field(default_factory=list)
    bad: int = 0
    wrong: int = 0
    failed: bool = False  # the machine, with one of them

    def add(self, outcome: Outcome) -> None:
        """Take note of an outcome; tell at once what is wrong with a problem."""
        from attncli.cli import console

        for error in outcome.errors:
            error.place = error.place or outcome.source
            console.error(error)
        self.bad += bool(outcome.errors)
        self.failed |= any(isinstance(error, MachineError) for error in outcome.errors)
        self.wrong += outcome.told == "wrong"
        notes = [error.what for error in outcome.errors] or outcome.notes
        self.rows.append({"problem": shown(outcome.name), "result": outcome.told, "seconds": f"{outcome.seconds:.4f}",
                          "notes": "; ".join(dict.fromkeys(map(shown, notes)))})  # fmt: skip

    @contextmanager
    def progress(self) -> Iterator[Callable[[], None]]:
        """A bar on a terminal, nothing elsewhere."""
        from attncli.cli import console

        if not console.is_terminal(sys.stderr) or self.quiet:
            yield lambda: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(),
                   TimeRemainingColumn())  # fmt: skip
        terminal = Console(stderr=True, markup=False, emoji=False, highlight=False)
        with Progress(*columns, console=terminal, transient=True, redirect_stdout=False) as bar:
            task = bar.add_task("batch", total=self.total)
            yield lambda: bar.advance(task)

    def interrupted(self) -> None:
        """Say what is kept, and how to go on."""
        from attncli.cli import console

        kept = f"{len(self.rows)} of {self.total} problems are done"
        if self.folder is not None:
            console.notes([f"{kept}, their results kept in {self.folder.path}; the same command with --resume goes on"])
        else:
            console.notes([kept])

    def finish(self, printed: bool) -> int:
        """The summary, written and printed; gives the exit status. printed: standard output holds the results."""
        from attncli.cli import console

        if self.folder is not None:
            from attncli.problem.formats.files import write_all

            write_all({str(self.folder.summary): _csv(self.rows)}, force=self.folder.replaces_summary)
        count = len(self.rows) - self.bad
        told = f"{count} of {self.total} problem{'s' * (self.total != 1)} computed, {self.bad} bad, {self.wrong} wrong"
        if printed:
            console.notes([] if self.quiet else [told])
        else:
            console.write(_table(self.rows) + told)
        if self.failed:
            return console.MACHINE
        return console.WRONG if self.bad else console.DIFFERENT if self.wrong else console.DONE


def _csv(rows: list[dict[str, str]]) -> bytes:
    import csv
    import io

    stream = io.StringIO()
    from attncli.batch.folder import COLUMNS

    writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue().encode()


def _table(rows: list[dict[str, str]]) -> str:
    """The summary; of many rows the first and the last, and those between them that went wrong."""
    from attncli.cli.shared import look_of
    from attncli.report.listing import listing
    from attncli.report.sheet import ENDS, MANY

    shown = rows
    if len(rows) > MANY:
        odd = [row for row in rows[ENDS:-ENDS] if row["result"] in ("bad", "wrong")][:MANY]
        shown = [*rows[:ENDS], *odd, *rows[-ENDS:]]
    lines = [f"{line}\n" for line in listing(shown, look_of({}))]
    left = len(rows) - len(shown)
    return "".join(lines) + (f"({left} more: see summary.csv)\n" if left else "") + "\n"
