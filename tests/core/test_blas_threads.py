"""Products of large problems run on one BLAS thread, whichever thread calls; BLAS itself is asked, from within."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from attncli import attend

Count = Callable[[], list[int]]

# A stand-in for MKL and OpenMP, which count for each thread that calls: it takes the place of the BLAS that was found.
OF_EACH_THREAD = """
import threading
import threadpoolctl
from tests.core.test_blas_threads import overlapping

of_thread = threading.local()

class Library(threadpoolctl.LibController):
    user_api, internal_api, filename_prefixes = "blas", "of-each-thread", ("_multiarray_umath",)
    check_symbols = ("PyInit__multiarray_umath",)
    get_version = lambda self: None
    get_num_threads = lambda self: getattr(of_thread, "count", 5)
    set_num_threads = lambda self, count: setattr(of_thread, "count", count)

threadpoolctl.register(Library)
(library,) = threadpoolctl.ThreadpoolController().select(internal_api="of-each-thread").lib_controllers
print(overlapping(lambda: [library.num_threads]))
"""


def overlapping(count: Count) -> tuple[set[int], list[int], list[int]]:
    """Two threads compute; the second begins while the first does, and ends after it.

    What BLAS counts: beside the products, in the first thread after its end, in the second after its end.
    """
    rng = np.random.default_rng(0)
    Q, K, V = (rng.standard_normal((2048, 16)) for _ in range(3))
    seen: set[int] = set()
    after: dict[str, list[int]] = {}
    first_in, second_in, first_done = threading.Event(), threading.Event(), threading.Event()

    def run(name: str, reached: threading.Event, waits_for: threading.Event) -> None:
        def score(q: np.ndarray, k: np.ndarray) -> np.ndarray:
            seen.update(count())
            reached.set()
            assert waits_for.wait(60)
            seen.update(count())
            return q @ k.swapaxes(-1, -2)

        attend(Q, K, V, steps="output", score=score)
        after[name] = count()

    first = threading.Thread(target=run, args=("first", first_in, second_in))
    second = threading.Thread(target=run, args=("second", second_in, first_done))
    first.start()
    assert first_in.wait(60)
    second.start()
    first.join()
    first_done.set()
    second.join()
    return seen, after["first"], after["second"]


@pytest.mark.parametrize("threads", [2, 3])
def test_one_thread_from_any_thread(threads: int) -> None:
    blas = ThreadpoolController().select(user_api="blas")
    assert blas.lib_controllers, "this NumPy has no BLAS that can be asked"

    def count() -> list[int]:
        return [library.num_threads for library in blas.lib_controllers]

    limit = blas.limit(limits=threads)  # from now on threadpoolctl 3.8 heeds this thread only
    try:
        former = count()
        assert former == [threads]
        # While the second still computes, the first finds the count of all, which is one.
        assert overlapping(count) == ({1}, [1], former)
        assert count() == former
    finally:
        limit.restore_original_limits()


def test_one_thread_where_each_thread_has_its_own_count() -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", OF_EACH_THREAD], cwd=root, capture_output=True, text=True)
    assert (done.stderr, done.stdout.strip()) == ("", "({1}, [5], [5])")
