"""The batch itself: who computes, and what is skipped because it is there already."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from time import perf_counter

from attncli.batch.folder import Folder
from attncli.batch.jobs import Job
from attncli.batch.stamp import digest
from attncli.batch.work import Outcome, Task, compute
from attncli.batch.writers import How
from attncli.errors import AttnError

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
