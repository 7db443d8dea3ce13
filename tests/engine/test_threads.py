"""What happens around the blocks: progress, an end in between, refused buffers, and which engine there is."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

from attncli.engine.kernel import _levels, attend_softmax, available
from attncli.engine.threads import in_order, on_threads, thread_count

BUILT = pytest.mark.skipif(available() is None, reason="no compiler has built the engine")


@pytest.mark.parametrize("threads", [1, 3])
def test_every_unit_once_and_progress_to_the_end(threads: int) -> None:
    done: list[int] = []
    told: list[float] = []
    on_threads(range(50), done.append, threads, told.append)
    assert sorted(done) == list(range(50))
    assert told == sorted(told)
    assert told[-1] == 1


@pytest.mark.parametrize("guilty", ["caller", "other"])
def test_an_exception_ends_all_threads_within_a_block(guilty: str) -> None:
    caller, done, both = threading.current_thread(), [], threading.Barrier(2, timeout=30)

    def work(unit: int) -> None:
        if unit < 2:
            both.wait()
        done.append(unit)
        if (threading.current_thread() is caller) == (guilty == "caller"):
            raise ZeroDivisionError(unit)
        while threading.active_count() > 1 and guilty == "other":
            pass

    with pytest.raises(ZeroDivisionError):
        on_threads(range(10_000), work, 2, None)
    assert len(done) < 10_000


def test_what_is_read_in_order_is_worked_out_a_little_ahead() -> None:
    begun: list[int] = []
    results = in_order(range(100), lambda unit: begun.append(unit) or unit * unit, 3)
    assert [next(results), next(results)] == [0, 1]
    assert len(begun) <= 2 + 3 + 1
    assert list(results) == [unit * unit for unit in range(2, 100)]


@pytest.mark.parametrize(("told", "threads"), [("1", 1), ("1,4", 1), ("0", None), ("many", None), ("", None)])
def test_omp_num_threads_is_heeded(told: str, threads: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cores = thread_count()
    monkeypatch.setenv("OMP_NUM_THREADS", told)
    assert thread_count() == (threads or cores)


@BUILT
def test_ctrl_c_ends_a_long_computation() -> None:
    program = (
        "import numpy as np, os, signal, threading, time\n"
        "from attncli.engine.kernel import attend_softmax\n"
        "x = np.ones((200_000, 64), np.float32)\n"
        "told = []\n"
        "def tell(share):\n"
        "    told.append(share)\n"
        "    if len(told) == 2: os.kill(os.getpid(), signal.SIGINT)\n"
        "try:\n"
        "    attend_softmax(x, x, x, scale=1.0, progress=tell)\n"
        "except KeyboardInterrupt:\n"
        "    print('ended at', max(told) < 0.5, threading.active_count())\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert run.stdout == "ended at True 1\n", run.stderr


@BUILT
def test_the_environment_chooses_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    best, *others = _levels()
    assert available() == best
    for name in others:
        monkeypatch.setenv("ATTNCLI_ENGINE", name)
        assert available() == name
    monkeypatch.setenv("ATTNCLI_ENGINE", "none")
    assert available() is None
    x = np.ones((2, 2), np.float32)
    with pytest.raises(RuntimeError, match="no compiled engine"):
        attend_softmax(x, x, x, scale=1.0)


@BUILT
@pytest.mark.parametrize(
    ("position", "wrong"),
    [
        (2, np.ones((5, 4), np.float32)),
        (2, np.ones((5, 3), np.float64)),
        (2, np.ones((5, 6), np.float32)[:, ::2]),
        (3, np.ones((4, 2), np.float32)),
        (3, np.ones(5, np.float32)),
        (3, None),
        (4, np.ones((6, 2), np.float32)),
        (5, np.ones((7, 4), np.float32)),
        (6, np.ones(6, np.float32)),
        (7, np.ones(8, np.uint8)),
        (8, np.ones((7, 2), np.int64)),
        (8, np.ones((7, 1, 3), np.int64)),
        (8, np.ones((7, 1, 2), np.int32)),
        (9, np.ones((7, 4), np.float32)),
        (10, np.ones((7, 5), np.float32)),
        (1, np.ones((7, 3), np.float16)),
        (0, 99),
    ],
)
def test_buffers_that_do_not_fit_are_refused(position: int, wrong: Any) -> None:
    from attncli.engine import _tile

    f, n, m = np.float32, 7, 5
    best = _tile.levels()[0][0]
    given: list[Any] = [best, np.ones((n, 3), f), np.ones((m, 3), f), np.ones((m, 2), f), np.ones((n, 2), f)]
    given += [np.ones((n, m), f), np.ones(n, f), np.ones(n, np.uint8), np.ones((n, 1, 2), np.int64)]
    given += [np.ones((n, m), f), np.ones((n, m), bool), 1.0, 0.0, -np.inf]
    _tile.attend(*given)
    given[position] = wrong
    with pytest.raises(ValueError, match=r"expected|level|needed"):
        _tile.attend(*given)


@BUILT
def test_an_output_that_is_read_only_is_refused() -> None:
    x = np.ones((2, 2), np.float32)
    out = np.empty((2, 2), np.float32)
    out.flags.writeable = False
    with pytest.raises((BufferError, ValueError)):
        attend_softmax(x, x, x, scale=1.0, out=out)
