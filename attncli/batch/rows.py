"""One large problem on a cluster: its queries are split into tasks, and each block of rows goes to its place in a file.

Letters: n queries, m keys, H heads. A task is some rows, of all sequences and heads.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

from attncli.batch.cluster import client
from attncli.batch.work import Task, portable
from attncli.errors import AttnError, MachineError, UsageError
from attncli.lazy import Array, np
from attncli.pipeline.trace import NAMED_STEPS
from attncli.problem.formats.files import Writing, told
from attncli.problem.large import sample
from attncli.problem.plan import computed_dtype, step_shapes
from attncli.problem.problem import Problem

_BLOCK = 64 * 2**20  # bytes that a task sends back, at most (if it has more than one row)
_TASKS = 4  # for each worker, so that none waits long for the others


def compute_rows(
    problem: Problem, address: str, files: Mapping[Path, str], progress: Callable[[float], None] | None = None
) -> list[str]:
    """Compute steps on a cluster, each into its .npy file, which appears whole or not at all; gives the notes.

    files: the step of each file. Raises UsageError for a step whose rows are no queries, or a cluster that is not
    there; MachineError where its workers are lost or the disk is full.
    """
    shapes, dtype = step_shapes(problem), computed_dtype(problem)
    steps = list(dict.fromkeys(files.values()))
    for step in steps:
        if step not in shapes or NAMED_STEPS[step].rows != "query" or step in ("X", "Q", "exp"):
            raise UsageError(f"{step} is not split into rows of queries", place="--dask", hint="output or weights, say")
    if problem.axes not in (None, "bhtd", "btd", "td") and "output" in steps:
        raise UsageError(
            f"output in the order {problem.axes} is not split into rows of queries",
            place="--dask",
            hint="leave --dask out, or have the arrays in the order bhtd",
        )
    with client(address) as connected, _arrays(problem, files, shapes, dtype) as arrays:
        workers = sum(connected.nthreads().values())
        if not workers:
            raise MachineError("the cluster has no workers", place="--dask", hint="start one: dask worker ADDRESS")
        sent = connected.scatter(portable(Task("", "", problem)).problem, broadcast=True)
        n = shapes["weights"][-2]
        parts = list(_parts(n, workers, sum(prod(shapes[step]) for step in steps) * dtype.itemsize))
        waiting: deque[tuple[slice, Any]] = deque()
        notes: dict[str, None] = {}
        done, coming = 0, iter(parts)
        while done < len(parts):
            while len(waiting) < 2 * workers and (rows := next(coming, None)) is not None:
                waiting.append((rows, connected.submit(block_of, sent, steps, rows.start, rows.stop, retries=3)))
            rows, future = waiting.popleft()
            blocks, told = _result(future)
            for path, array in arrays.items():
                block = blocks[files[path]]
                _rows_of(array, rows, problem.layout)[...] = block.mT if problem.layout == "columns" else block
            notes |= dict.fromkeys(told)
            done += 1
            if progress is not None:
                progress(done / len(parts))
    return [*notes]


def block_of(problem: Problem, steps: Sequence[str], start: int, stop: int) -> tuple[dict[str, Array], list[str]]:
    """What a worker does: the steps of some queries, tokens as rows (..., r, m) or (..., r, d_v), and the notes."""
    trace = sample(problem, steps, [slice(start, stop)])
    return {step: trace.rows(step) for step in steps}, trace.notes


def _parts(n: int, workers: int, size: int) -> Iterator[slice]:
    """The rows of the tasks; size: the bytes of all results."""
    count = min(n, max(_TASKS * workers, -(-size // _BLOCK)))
    edges = [n * i // max(1, count) for i in range(count + 1)]
    yield from (slice(start, stop) for start, stop in pairwise(edges))


def _rows_of(array: Array, rows: slice, layout: str) -> Array:
    """The place of some queries in a step as it lies in its file."""
    return array[..., rows] if layout == "columns" else array[..., rows, :]


def _result(future: Any) -> tuple[dict[str, Array], list[str]]:
    try:
        blocks: tuple[dict[str, Array], list[str]] = future.result()
    except AttnError:
        raise
    except Exception as error:  # the workers are gone, and those that tried again after them
        raise MachineError(
            f"the cluster lost the workers of a block ({type(error).__name__})",
            place="--dask",
            hint="what was written is taken away; the command can be given again",
        ) from None
    return blocks


@contextmanager
def _arrays(
    problem: Problem, files: Mapping[Path, str], shapes: Mapping[str, tuple[int, ...]], dtype: Any
) -> Iterator[dict[Path, Array]]:
    """The files' arrays, mapped, under other names until all is written."""
    with Writing(map(str, files), force=bool(problem.options.get("force"))) as writing:
        arrays: dict[Path, Any] = {}  # of memmaps
        for path, step in files.items():
            *lead, n, width = shapes[step]
            shape = (*lead, width, n) if problem.layout == "columns" else (*lead, n, width)
            with told(str(path)), writing.open(str(path)) as stream:
                arrays[path] = _mapped(stream, shape, dtype)
        yield arrays
        for path, array in arrays.items():
            with told(str(path)):
                array.flush()


def _mapped(stream: BinaryIO, shape: tuple[int, ...], dtype: Any) -> Any:
    """The array of a new .npy file. Raises OSError now, not at a write, where the disk has no room for it."""
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    start, size = stream.tell(), prod(shape) * np.dtype(dtype).itemsize
    stream.truncate(start + size)
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(stream.fileno(), 0, start + size)
    return np.memmap(stream, dtype, "r+", start, shape)
