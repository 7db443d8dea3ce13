"""One `Working` for each head of each sequence: the matrices of that part, cut out of the Trace and the inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attncli.lazy import Array, np
from attncli.pipeline.heads import join_heads
from attncli.pipeline.maskargs import score_table
from attncli.pipeline.masking import ScoreShape
from attncli.pipeline.normalizers import find_normalizer
from attncli.pipeline.trace import NAMED_STEPS, Trace
from attncli.problem.labels import past_count
from attncli.problem.problem import Problem
from attncli.working.working import LOGIT_STEPS, Working


def workings(problem: Problem, trace: Trace) -> Iterator[tuple[tuple[int, ...], Working]]:
    """Each part's leading indices (sequences, then head; from 0) with its Working."""
    leading = trace.rows("weights").shape[:-2]
    inputs = problem.arrays()
    heads = trace.heads or 1
    found = [(index, _working(problem, trace, inputs, index, leading)) for index in np.ndindex(*leading)]
    for at, (index, working) in enumerate(found):
        working.siblings = [each for _, each in found[at - at % heads : at - at % heads + heads]]
        yield index, working


def _working(
    problem: Problem, trace: Trace, inputs: dict[str, Array], index: tuple[int, ...], leading: tuple[int, ...]
) -> Working:
    heads = trace.heads
    batch = index if heads is None else index[:-1]
    head = None if heads is None else index[-1]
    arrays = _inputs(problem, trace, inputs, index, leading)
    widths: dict[str, int] = {}
    offsets: dict[str, int] = {}
    for name in trace.names():
        array = trace.rows(name)
        if name in ("X", "Y", "output"):
            arrays[name] = pick(array, batch)
        elif name in ("Q", "K", "V"):
            arrays[name], offsets[name] = _of_head(name, array, batch, head, heads, problem)
            widths[name] = arrays[name].shape[-1]
        elif NAMED_STEPS[name].columns in ("key", "query") or name == "heads":
            arrays[name] = pick(array, index)
    score = problem.score_spec()
    if score is None and problem.begins is None:
        from attncli.pipeline.scores import score_spec

        score = score_spec("scaled-dot")
    if score is not None:
        for name, value in score.parameters.items():
            if isinstance(value, np.ndarray):
                arrays[f"score.{name}"] = np.atleast_2d(value)
    logit = next((step for step in reversed(LOGIT_STEPS) if step in arrays), None)
    counted = np.ones(arrays["weights"].shape, dtype=bool) if logit is None else ~np.isneginf(arrays[logit])
    if trace.visible is not None and find_normalizer(problem.normalizer).visible_only:
        counted &= pick(np.broadcast_to(trace.visible, (*leading, *counted.shape)), index)
    return Working(problem, trace, arrays, counted, score, offsets, widths, past_count(problem))


def pick(array: Array, index: tuple[int, ...]) -> Array:
    """The matrix at the leading index, as broadcasting reads it: an axis of 1 serves all, missing axes too."""
    axes = array.ndim - 2
    places = index[len(index) - axes :] if axes else ()
    at = tuple(0 if size == 1 else place for size, place in zip(array.shape[:axes], places, strict=True))
    matrix: Array = array[at]
    return matrix


def _of_head(
    name: str, array: Array, batch: tuple[int, ...], head: int | None, heads: int | None, problem: Problem
) -> tuple[Array, int]:
    """The head's own columns of Q, K or V, and at which column of the whole they begin."""
    if head is None or heads is None:
        return pick(array, batch), 0
    if problem.heads is None:  # four axes: the heads lie apart
        count = array.shape[-3] if array.ndim >= 3 else 1
        return pick(array, (*batch, head * count // heads)), 0
    groups = heads if name == "Q" else problem.kv_heads or heads
    width = array.shape[-1] // groups
    begin = (head * groups // heads) * width
    return pick(array, batch)[:, begin : begin + width], begin


def _inputs(
    problem: Problem, trace: Trace, inputs: dict[str, Array], index: tuple[int, ...], leading: tuple[int, ...]
) -> dict[str, Array]:
    batch = index if trace.heads is None else index[:-1]
    arrays: dict[str, Any] = {}
    for name, array in inputs.items():
        if name.startswith("W_"):
            arrays[name] = array
        elif name.startswith("b_"):
            arrays[name] = array.reshape(1, -1)
        elif name.startswith("past_"):
            now = trace.rows(name[-1].upper()) if name[-1].upper() in trace else array
            joined = join_heads(array) if array.ndim == now.ndim + 1 else array
            arrays[name] = pick(joined, batch if problem.heads is not None or trace.heads is None else index)
        elif name == "bias":
            n, m = trace.rows("weights").shape[-2:]
            table, _ = score_table(name, array, ScoreShape(leading[: len(batch)], trace.heads, n, m))
            table = np.broadcast_to(table, (*table.shape[:-2], n, m))
            arrays[name] = pick(table, index if trace.heads is not None else (*index, 0))
    return arrays
