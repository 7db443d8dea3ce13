"""Where the results of a batch go, and whether they may go there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from attncli.errors import AttnError, InputError, UsageError, raise_all
from attncli.escapes import shown

if TYPE_CHECKING:
    from attncli.batch.folder import Folder
    from attncli.batch.jobs import Found
    from attncli.batch.work import Outcome
    from attncli.batch.writers import How


class Target:
    """Where results go: a folder, a stream of lines, or nowhere."""

    def __init__(self, output: str | None, format: str | None, resume: bool, force: bool) -> None:
        from attncli.batch.writers import WRITERS

        if output == "":
            raise UsageError("the name of the folder is empty", place="-o", hint="is a variable of the shell not set?")
        self.path = Path(output) if output is not None else None
        self.resume, self.force = resume, force
        is_stream = self.path is not None and self.path.suffix == ".jsonl" and not self.path.is_dir()
        if format is None and self.path is not None:
            format = "jsonl" if is_stream else "json"
        self.format = None if format is None else WRITERS.find(format, place="--format").name
        if is_stream and self.format != "jsonl":
            raise UsageError(f"{output} is a stream of lines, not a folder", place="-o", hint="--format jsonl")
        if self.format not in (None, "jsonl") and self.path is None:
            raise UsageError(f"results as {self.format} need a folder", place="--format", hint="-o DIR")
        if (resume or force) and self.path is None:
            raise UsageError(
                "there are no results to keep or replace", place="--resume" if resume else "--force", hint="-o DIR"
            )
        if resume and self.format == "jsonl":
            raise UsageError("a stream cannot be resumed", place="--resume", hint="a format with a file each can")
        if self.path is not None and self.path.exists() and not self.path.is_dir() and not is_stream:
            raise InputError("this is a file, not a folder", place=f"-o {output}", hint="results need a folder")
        if self.format == "jsonl" and self.path is not None and self.path.is_dir():
            self.path = self.path / "results.jsonl"

    @property
    def prints(self) -> bool:
        """Whether the results go to standard output, which leaves no room there for a summary."""
        return self.format == "jsonl" and self.path is None

    def prepare(self, found: Found, how: How) -> Folder | None:
        """The folder, which need not exist yet. Raises InputError for results that may not be written."""
        from attncli.batch.folder import Folder

        if self.path is None:
            return None
        if self.format == "jsonl":
            from attncli.problem.formats.files import check_all

            check_all([str(self.path)], force=self.force)
            return None
        folder = Folder(self.path, how, self.resume, self.force, found.remember)
        raise_all(list(_misplaced(found, folder)) or list(_existing(found, folder)))
        return folder

    @contextmanager
    def stream(self) -> Iterator[Callable[[Outcome], None]]:
        """What writes each outcome on a line of its own, into a file that appears whole or on standard output."""
        from attncli.cli import console

        if self.format != "jsonl":
            yield lambda outcome: None
            return
        if self.path is None:
            yield lambda outcome: console.write(_line(outcome))
            return
        from attncli.problem.formats.files import whole_file

        with whole_file(str(self.path), force=self.force) as stream:

            def write(outcome: Outcome) -> None:
                stream.write(_line(outcome))

            yield write


def _line(outcome: Outcome) -> bytes:
    """`{"name": ..., ...}` of a result; nothing for a bad problem."""
    import json

    if outcome.content is None:
        return b""
    return b'{"name": ' + json.dumps(shown(outcome.name)).encode() + b", " + outcome.content[1:] + b"\n"


def _misplaced(found: Found, folder: Folder) -> Iterator[AttnError]:
    """Results that would be taken for problems the next time, and those that would lie upon a problem."""
    from fnmatch import fnmatch

    from attncli.batch.jobs import SUFFIXES

    where = folder.path.resolve()
    searched = folder.file("p").suffix in SUFFIXES
    hint = "name another folder with -o"
    if searched and any(Path(each).resolve() == where for each in found.folders):
        what = "the results would lie among the problems that are searched"
        yield InputError(what, place=f"-o {folder.path}", hint=hint)
        return
    beside = where in {Path(parent).resolve() for parent in {os.path.dirname(file) for file in found.files}}
    files = {Path(file).resolve() for file in found.files} if beside else set()
    patterns = [str(Path(pattern).parent.resolve() / Path(pattern).name) for pattern in found.patterns]
    for job in found.jobs if files or patterns or folder.suffix == ".csv" else ():
        result = where / folder.file(job.name).name
        if result in files:
            yield InputError(f"the result {folder.file(job.name)} would replace a problem", place=job.source, hint=hint)
        elif any(fnmatch(str(result), pattern) for pattern in patterns):
            yield InputError(
                f"the result {folder.file(job.name)} would be found among the problems", place=job.source, hint=hint
            )
            return
        if folder.file(job.name).name == "summary.csv":
            yield InputError("the result would lie where the summary does", place=job.source, hint="rename the problem")


def _existing(found: Found, folder: Folder) -> Iterator[AttnError]:
    from attncli.problem.formats.files import check_all

    there = [] if folder.resume or folder.force else folder.existing(job.name for job in found.jobs)
    if not there and folder.summary.exists():
        check_all([str(folder.summary)], force=folder.replaces_summary)
    if there:
        more = f" and {len(there) - 1} more" if len(there) > 1 else ""
        yield InputError(
            f"the result {there[0]} exists{more}",
            place=f"-o {folder.path}",
            hint="--resume keeps those of the same problem, --force replaces all",
        )
