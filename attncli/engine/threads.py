"""Blocks of work on threads: one block a thread at a time, BLAS held to one thread, an end within a block.

NumPy releases the interpreter's lock inside its loops and products, so threads keep all cores busy; BLAS threads of
their own would only wait for each other.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from attncli.engine.blas import single_blas, thread_count
from attncli.lazy import Array, np

Unit = TypeVar("Unit")
Result = TypeVar("Result")
Progress = Callable[[float], None]


def scratch(shape: tuple[int, ...], dtype: np.dtype) -> Array:
    """Uninitialised memory that starts at a cache line, for a thread to use again and again."""
    size = math.prod(shape) * dtype.itemsize
    raw = np.empty(size + 64, dtype=np.uint8)
    start = -raw.__array_interface__["data"][0] % 64
    return raw[start : start + size].view(dtype).reshape(shape)


def on_threads(
    units: Sequence[Unit], make: Callable[[], Callable[[Unit], None]], progress: Progress | None = None
) -> None:
    """Do every unit of work, in any order; `make` gives each thread its worker, with scratch memory of its own.

    progress is called from the calling thread, with the share that is done. An exception in a worker, and Ctrl-C,
    end all threads after the block that each is at.
    """
    waiting, done, failed = deque(units), 0, []
    stop = threading.Event()

    def work(take: Callable[[], Unit]) -> None:
        nonlocal done
        worker = make()
        while not stop.is_set():
            try:
                unit = take()
            except IndexError:
                return
            worker(unit)
            done += 1
            if progress is not None and threading.current_thread() is caller:
                progress(done / len(units))

    def guarded(take: Callable[[], Unit]) -> None:
        try:
            with single_blas():
                work(take)
        except BaseException as error:
            failed.append(error)
            stop.set()

    caller = threading.current_thread()
    # From both ends, so that two threads seldom look through the keys of the same head at the same time.
    ends = waiting.pop, waiting.popleft
    others = [threading.Thread(target=guarded, args=(ends[i % 2],)) for i in range(min(thread_count(), len(units)) - 1)]
    with single_blas():
        try:
            for thread in others:
                thread.start()
            work(waiting.popleft)
        except BaseException:
            stop.set()
            raise
        finally:
            for thread in others:
                thread.join()
    if failed:
        raise failed[0]
    if progress is not None:
        progress(1.0)


def in_order(units: Iterable[Unit], work: Callable[[Unit], Result]) -> Iterator[Result]:
    """The results one after the other, computed on threads at most one block a thread ahead of the reader."""
    from concurrent.futures import ThreadPoolExecutor

    def held(unit: Unit) -> Result:
        with single_blas():
            return work(unit)

    count = thread_count()
    with single_blas(), ThreadPoolExecutor(count) as pool:
        ahead: deque[Any] = deque()
        try:
            for unit in units:
                ahead.append(pool.submit(held, unit))
                if len(ahead) > count:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()
