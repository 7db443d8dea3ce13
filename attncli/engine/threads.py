"""Blocks of work on threads, one block a thread at a time, with an end within a block."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

Unit = TypeVar("Unit")
Done = TypeVar("Done")
Progress = Callable[[float], None]


def thread_count() -> int:
    """As many threads as cores that we may use, or as OMP_NUM_THREADS says."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    told = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return min(cores, int(told)) if told.isdecimal() and int(told) > 0 else cores


def on_threads(units: Sequence[Unit], work: Callable[[Unit], None], threads: int, progress: Progress | None) -> None:
    """Do every unit of work, the first first; the calling thread works too, and tells of progress.

    An exception in a thread, and Ctrl-C, end all threads after the block that each is at.
    """
    waiting = deque(units)
    failed: list[BaseException] = []

    def run(tell: Progress | None) -> None:
        while not failed:
            try:
                unit = waiting.popleft()
            except IndexError:
                return
            work(unit)
            if tell is not None:
                tell(1 - len(waiting) / len(units))

    def guarded() -> None:
        try:
            run(None)
        except BaseException as error:
            failed.append(error)

    others: list[threading.Thread] = []
    try:
        for _ in range(min(threads, len(units)) - 1):
            thread = threading.Thread(target=guarded)
            thread.start()
            others.append(thread)
        run(progress)
        for thread in others:
            thread.join()
    except BaseException as error:
        failed.insert(0, error)
        for thread in others:
            thread.join()
    if failed:
        raise failed[0]
    if progress is not None:
        progress(1.0)


def in_order(units: Iterable[Unit], work: Callable[[Unit], Done], threads: int) -> Iterator[Done]:
    """What the work on each unit gives, in order; threads are at most one block each ahead of the reader."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(threads) as pool:
        ahead: deque[Any] = deque()
        try:
            for unit in units:
                ahead.append(pool.submit(work, unit))
                if len(ahead) > threads:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()
