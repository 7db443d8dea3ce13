"""Results as files of a folder: what may lie there, what is kept, and what is replaced or taken away."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from attncli.batch.stamp import BESIDE, JOURNAL, Entry, Stamp, content_digest, read_journal, read_stamp
from attncli.batch.work import Outcome
from attncli.batch.writers import WRITERS, How
from attncli.errors import AttnError, InputError
from attncli.ledger import is_input

COLUMNS = ("problem", "result", "seconds", "notes")  # of the summary


@dataclass
class Folder:
    """Results as files of a folder, each whole or not there.

    resume: results of the same digest are kept. force: whatever lies in the place of a result is replaced.
    remember: takes note of the files that any problem of the batch names, so that none of them is replaced.
    """

    path: Path
    how: How
    resume: bool = False
    force: bool = False
    remember: Callable[[], None] = lambda: None
    journal: dict[str, list[Entry]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.beside = self.how.format in BESIDE
        self.suffix = WRITERS.find(self.how.format or "json").suffix
        if self.beside and (self.resume or self.force):
            self.journal = read_journal(self.path)

    def make(self) -> None:
        """Make the folder where it is missing. Raises InputError where that cannot be."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make the folder: {error.strerror}", place=f"-o {self.path}") from None

    @property
    def summary(self) -> Path:
        """Where the summary lies."""
        return self.path / "summary.csv"

    @property
    def replaces_summary(self) -> bool:
        """Whether an older summary may be replaced: by --force any file of that name, by --resume one of attncli's."""
        if self.force or not self.resume or not self.summary.is_file():
            return self.force
        with self.summary.open("rb") as stream:
            return stream.readline(100).rstrip() == ",".join(COLUMNS).encode()

    def file(self, name: str) -> Path:
        """Where the result of that name lies."""
        return self.path / f"{name}{self.suffix}"

    def existing(self, names: Iterator[str]) -> list[Path]:
        """The results that are there already."""
        return [file for name in names if (file := self.file(name)).exists()] if self.path.exists() else []

    def finished(self, name: str, wanted: str) -> Stamp | None:
        """The stamp of a result that is there already, for the same problem and options."""
        stamp = self._stamp(self.file(name), wanted) if self.resume else None
        return stamp if stamp is not None and stamp.digest == wanted else None

    def put(self, outcome: Outcome) -> None:
        """Write a result; of a bad problem, take away an older one.

        What is no result of attncli, or an input, stays, which is an error of the outcome. Raises MachineError where
        the disk is full.
        """
        file = self.file(outcome.name)
        refused = self._refusal(file) if (self.resume or self.force) and file.exists() else None
        if outcome.content is None or outcome.stamp is None:
            if (self.resume or self.force) and refused is None and self._stamp(file) is not None:
                os.unlink(os.path.realpath(file))
        elif refused is not None:
            outcome.errors, outcome.content, outcome.stamp = [refused], None, None
        else:
            self._write(file, outcome.content, outcome.stamp)

    def _write(self, file: Path, content: bytes, stamp: Stamp) -> None:
        from attncli.problem.formats.files import append, write_all

        if self.beside:  # before the result, which is then known as attncli's at any moment
            entry = {"file": file.name, "content": content_digest(content), **stamp.to_dict()}
            append(str(self.path / JOURNAL), entry)
        write_all({str(file): content}, force=self.resume or self.force)

    def _refusal(self, file: Path) -> AttnError | None:
        """Why the file that lies in the place of a result stays there, if so."""
        self.remember()
        if not file.is_file():
            return InputError("this is no regular file", place=str(file), hint="name another folder with -o")
        if is_input(file.stat()):
            return InputError("this result is also an input", place=str(file), hint="name another folder with -o")
        if not self.force and self._stamp(file) is None:
            return InputError("this file is no result of attncli", place=str(file), hint="--force replaces it")
        return None

    def _stamp(self, file: Path, wanted: str = "") -> Stamp | None:
        """What a file tells of itself, or the journal of it; None where attncli did not write it, as it is now."""
        if not file.is_file():
            return None
        if not self.beside:
            return read_stamp(file)
        entries = self.journal.get(file.name)
        if not entries:
            return None
        content = content_digest(file.read_bytes())
        stamps = [entry.stamp for entry in entries if entry.content == content]
        return next((stamp for stamp in stamps if stamp.digest == wanted), stamps[-1] if stamps else None)
