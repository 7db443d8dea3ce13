"""The batch itself: who computes, where results go, and what is skipped because it is there already."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from attncli.batch.jobs import Job
from attncli.batch.stamp import BESIDE, JOURNAL, Stamp, digest, read_journal, read_stamp
from attncli.batch.work import Outcome, Task, compute
from attncli.batch.writers import WRITERS, How
from attncli.errors import AttnError, InputError


@dataclass
class Folder:
    """Results as files of a folder, each whole or not there. resume: results of the same digest are kept."""

    path: Path
    how: How
    resume: bool = False
    force: bool = False
    journal: dict[str, Stamp] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.beside = self.how.format in BESIDE
        self.suffix = WRITERS.find(self.how.format or "json").facts["suffix"]
        if self.resume:
            for left in self.path.glob(".attncli-*.tmp"):  # of a batch that was killed
                left.unlink(missing_ok=True)
            self.journal = read_journal(self.path) if self.beside else {}

    def make(self) -> None:
        """Make the folder where it is missing. Raises InputError where that cannot be."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make the folder: {error.strerror}", place=f"-o {self.path}") from None

    def file(self, name: str) -> Path:
        """Where the result of that name lies."""
        return self.path / f"{name}{self.suffix}"

    def finished(self, name: str, wanted: str) -> Stamp | None:
        """The stamp of a result that is there already, for the same problem and options."""
        file = self.file(name)
        if not self.resume or not file.exists():
            return None
        stamp = self.journal.get(file.name) if self.beside else read_stamp(file)
        return stamp if stamp is not None and stamp.digest == wanted else None

    def put(self, outcome: Outcome) -> None:
        """Write a result; of a bad problem, take away an older one. Raises MachineError where the disk is full."""
        from attncli.problem.formats.files import write_all

        file = self.file(outcome.name)
        if outcome.content is None or outcome.stamp is None:
            if self.resume or self.force:
                file.unlink(missing_ok=True)
            return
        write_all({str(file): outcome.content}, force=self.resume or self.force)
        if self.beside:
            import json

            with (self.path / JOURNAL).open("a") as stream:
                stream.write(json.dumps({"file": file.name, **outcome.stamp.to_dict()}) + "\n")


Executor = Callable[[Iterator[Task], How], Iterator[Outcome]]


def run(jobs: Iterable[Job], how: How, folder: Folder | None, executor: Executor) -> Iterator[Outcome]:
    """Read, compute and write every job, in order; what is wrong with one does not stop the others."""
    apart: deque[tuple[int, Outcome]] = deque()  # outcomes that need no computing, and before which task they stand
    options = (how.format, how.show, how.precision, how.rounding)
    count = 0

    def tasks() -> Iterator[Task]:
        nonlocal count
        for job in jobs:
            start = perf_counter()
            try:
                task = job.task()
            except AttnError as error:
                seconds = perf_counter() - start
                apart.append((count, Outcome(job.name, job.source, errors=error.errors(), seconds=seconds)))
                continue
            if how.format is not None:
                task.digest = digest(task.problem, options)
            stamp = folder.finished(job.name, task.digest) if folder is not None else None
            if stamp is not None:
                apart.append((count, Outcome(job.name, job.source, stamp, skipped=True, notes=["finished before"])))
                continue
            count += 1
            yield task

    for done, outcome in enumerate(executor(tasks(), how)):
        while apart and apart[0][0] <= done:
            yield _placed(apart.popleft()[1], folder)
        yield _placed(outcome, folder)
    while apart:
        yield _placed(apart.popleft()[1], folder)


def _placed(outcome: Outcome, folder: Folder | None) -> Outcome:
    if folder is not None and not outcome.skipped:
        folder.put(outcome)
    return outcome


def serial(tasks: Iterator[Task], how: How) -> Iterator[Outcome]:
    """One after the other, here."""
    for task in tasks:
        yield compute(task, how)
