"""A Dask cluster that computes the problems: one that runs already, or a local one for this call."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from attncli.batch.pool import lost
from attncli.batch.work import Outcome, Task, compute_there, portable
from attncli.batch.writers import How
from attncli.errors import MachineError, UsageError
from attncli.extensions import sources

if TYPE_CHECKING:
    from attncli.batch.run import Executor

_PATIENCE = 2  # seconds until a scheduler that does not answer is not there
_CHUNK = 10


@contextmanager
def client(address: str) -> Iterator[Any]:
    """A client of the cluster at `address`, or of a local one. Raises UsageError where there is none."""
    try:
        import distributed
    except ImportError:
        raise UsageError("--dask needs Dask", hint="pip install 'attncli[dask]'") from None
    for name in ("distributed", "distributed.client", "distributed.scheduler", "distributed.worker", "tornado"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    connect: Any = distributed.Client
    try:
        if address == "local":
            connected = connect(processes=True, dashboard_address=None, silence_logs=logging.CRITICAL)
        else:
            connected = connect(address, timeout=_PATIENCE)
    except (OSError, ValueError, TypeError, TimeoutError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise UsageError(
            f"there is no Dask scheduler at {address}: {reason}",
            place="--dask",
            hint="an address such as tcp://127.0.0.1:8786, or local",
        ) from None
    try:
        yield connected
    except BaseException:
        connected.close(timeout=0.3)
        raise
    else:
        connected.close()


@contextmanager
def cluster(address: str) -> Iterator[Executor]:
    """What computes tasks on the cluster, in order; a worker that is lost has its work done by another."""
    with client(address) as connected:

        def execute(tasks: Iterator[Task], how: How) -> Iterator[Outcome]:
            workers = sum(connected.nthreads().values())
            if not workers:
                raise MachineError("the cluster has no workers", place="--dask", hint="start one: dask worker ADDRESS")
            waiting: deque[tuple[list[Task], Any]] = deque()
            while True:
                while len(waiting) < 4 * workers and (part := [portable(task) for task in islice(tasks, _CHUNK)]):
                    waiting.append((part, connected.submit(compute_there, sources(), part, how, pure=False, retries=3)))
                if not waiting:
                    return
                part, future = waiting.popleft()
                try:
                    outcomes = future.result()
                except Exception as error:  # the worker is gone, and those that tried again after it
                    outcomes = lost(part, f"its workers were lost ({type(error).__name__})")
                yield from outcomes

        yield execute
