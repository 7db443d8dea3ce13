"""The threads of BLAS while blocks are computed."""

from __future__ import annotations

from attncli.engine.threads import single_blas, thread_count


def test_blas_has_its_threads_back_when_the_last_is_done() -> None:
    threads, first, second = thread_count(), single_blas(), single_blas()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert thread_count() == threads  # as many as there will be again
    second.__exit__(None, None, None)
    assert thread_count() == threads
