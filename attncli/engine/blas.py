"""BLAS held to one thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import product
from typing import Any

_lock = threading.Lock()


@contextmanager
def single_blas() -> Iterator[None]:
    """Products on the calling thread only. Every thread that computes must ask for it itself.

    When nobody asks for it any more, BLAS has its threads back.
    """
    with _lock:
        held = [(library, library.hold()) for library in _libraries()]
    try:
        yield
    finally:
        with _lock:
            for library, scope in held:
                library.release(scope)


class _Library:
    """One BLAS library, and who holds it to one thread.

    Some count their threads for the whole process (OpenBLAS), others for each thread that calls them (MKL, OpenMP).
    holds: by scope, None for all threads or the one thread's number: how many hold it, and the count before the first.
    """

    def __init__(self, found: Any) -> None:
        self.count: Callable[[], int] = found.get_num_threads
        self.set = _setter(found)
        self.shared: bool | None = None
        self.holds: dict[int | None, tuple[int, int]] = {}

    def hold(self) -> int | None:
        """Set it to one thread; the scope is for `release`."""
        before = self.count()
        self.set(1)
        if self.shared is None and before > 1:
            self.shared = _elsewhere(self.count) == 1
        scope = threading.get_ident() if self.shared is False else None
        holders, first = self.holds.get(scope, (0, before))
        self.holds[scope] = holders + 1, first
        return scope

    def release(self, scope: int | None) -> None:
        holders, before = self.holds.pop(scope)
        if holders > 1:
            self.holds[scope] = holders - 1, before
        else:
            self.set(before)


@cache
def _libraries() -> list[_Library]:
    import numpy  # noqa: F401  threadpoolctl sees the libraries that are loaded by now
    from threadpoolctl import ThreadpoolController

    return [_Library(found) for found in ThreadpoolController().select(user_api="blas").lib_controllers]


def _setter(found: Any) -> Callable[[int], Any]:
    """What sets the count, from any thread.

    threadpoolctl 3.8 and later let only the first thread that set OpenBLAS's count set it again, as long as that thread
    lives, and ignore the others without a word: so OpenBLAS is asked directly. We keep count of the holders ourselves.
    With OpenMP the count is each thread's own, and threadpoolctl heeds every thread.
    """
    if found.internal_api == "openblas" and found.threading_layer != "openmp":
        for prefix, suffix in product(("", "scipy_"), ("", "64_", "_64")):  # as builds name it
            own = getattr(found.dynlib, f"{prefix}openblas_set_num_threads{suffix}", None)
            if own is not None:
                return own  # type: ignore[no-any-return]
    return found.set_num_threads  # type: ignore[no-any-return]


def _elsewhere(ask: Callable[[], int]) -> int:
    """What another thread is answered."""
    answers: list[int] = []
    thread = threading.Thread(target=lambda: answers.append(ask()))
    thread.start()
    thread.join()
    return answers[0]
