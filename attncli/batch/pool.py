"""A batch in several processes, where the work is worth them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from attncli.batch.work import Outcome, Task, compute, compute_all, portable
from attncli.batch.writers import How
from attncli.errors import MachineError
from attncli.extensions import load_sources, sources

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from attncli.batch.run import Executor

# Below so many seconds of work, other processes cost more than they give.
WORTH = 1.0
_CHUNK = 0.05  # seconds of work in one message


def processes(count: int, total: int) -> Executor:
    """In so many processes, where the work that is left is worth them: the first problems are computed here and timed.

    total: how many problems there are.
    """

    def execute(tasks: Iterator[Task], how: How) -> Iterator[Outcome]:
        spent, number = 0.0, 0
        for task in tasks:
            outcome = compute(task, how)
            spent, number = spent + outcome.seconds, number + 1
            yield outcome
            if spent >= WORTH / 4 and (total - number) * spent / number > WORTH:
                yield from _pooled(tasks, how, count, max(1, int(_CHUNK * number / spent)))

    return execute


def _pooled(tasks: Iterator[Task], how: How, count: int, chunk: int) -> Iterator[Outcome]:
    """The outcomes in the order of the tasks. Each process has one chunk at a time, so that nobody waits for a reader.

    There are no threads and no queues here: whatever ends the batch, the processes are killed, and that is all.
    """
    from multiprocessing import connection, get_context

    context = get_context("spawn")
    pool: list[tuple[Any, Connection]] = []
    busy: dict[Any, tuple[int, list[Task]]] = {}
    done: dict[int, list[Outcome]] = {}
    sent = due = 0
    try:
        with _ctrl_c_later():
            for _ in range(count):
                ours, theirs = context.Pipe()
                process = context.Process(target=_work, args=(theirs, sources(), how), daemon=True)
                process.start()
                theirs.close()
                pool.append((process, ours))
        idle: list[Any] = [ours for _, ours in pool]
        while True:
            while idle and sent - due < 8 * count and (part := [portable(task) for task in islice(tasks, chunk)]):
                link = idle.pop()
                try:
                    link.send(part)
                    busy[link] = sent, part
                except OSError:
                    done[sent] = lost(part, "a process of the batch ended")
                sent += 1
            if not busy and not done:
                return
            ready: list[Any] = connection.wait(list(busy)) if busy else []
            for link in ready:
                number, part = busy.pop(link)
                try:
                    done[number] = link.recv()
                    idle.append(link)
                except (EOFError, OSError):  # killed, by the system perhaps, for its memory
                    done[number] = lost(part, "a process of the batch ended")
            while due in done:
                yield from done.pop(due)
                due += 1
            if not busy and not idle:
                raise MachineError("all processes of the batch ended", hint="--jobs 1 computes here; is memory short?")
    finally:
        for process, ours in pool:
            process.kill()
            ours.close()


@contextmanager
def _ctrl_c_later() -> Iterator[None]:
    """Processes that are started here never see Ctrl-C, which a terminal sends to all of a group; we do at the end."""
    import signal

    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # which at its own start would let Ctrl-C through again
    pressed = []
    # What this thread has blocked, they inherit; but threads of BLAS, which have not, may take it for us.
    handler = signal.signal(signal.SIGINT, lambda *_: pressed.append(True))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        signal.signal(signal.SIGINT, handler)
        if pressed:
            signal.raise_signal(signal.SIGINT)


def lost(tasks: list[Task], why: str) -> list[Outcome]:
    """The outcomes of tasks whose computing was cut off."""
    return [Outcome(task.name, task.source, errors=[MachineError(f"not computed: {why}")]) for task in tasks]


def _work(link: Connection, sources: dict[str, bytes], how: How) -> None:
    """A process of the pool. It leaves Ctrl-C to its parent, and the other cores to its siblings."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    load_sources(sources)
    while True:
        try:
            part = link.recv()
        except EOFError:
            return
        link.send(compute_all(part, how))
