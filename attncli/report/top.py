"""The keys that each query looks at most: `it: animal 0.6466, [CLS] 0.1507`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attncli.core.trace import Trace
from attncli.errors import UsageError
from attncli.lazy import Array, np
from attncli.report.look import Look
from attncli.report.numbers import spell
from attncli.report.sheet import expand, part_name


def top(trace: Trace, count: int, look: Look, steps: Sequence[str] = ("weights",)) -> Iterator[str]:
    """Lines, one a query, of its `count` largest weights, ties in key order; hidden keys are never listed.

    steps: weights, or parts of it; each of several matrices has a line such as `sequence 1, head 2` above it.
    Raises UsageError for a count below 1, InputError where there are no weights.
    """
    if count < 1:
        raise UsageError(f"--top {count} lists nothing", hint="give 1 or more")
    parts = expand(trace, steps)
    for number, address in enumerate(parts):
        if part_name(trace, address):
            yield from ([""] if number else [])
            yield part_name(trace, address)
        yield from _lines(trace, address, count, look)


def _lines(trace: Trace, address: str, count: int, look: Look) -> Iterator[str]:
    weights, hidden = trace[address], trace.hidden(address)
    queries, keys = trace.labels(address)
    if hidden is None:
        hidden = np.zeros(weights.shape, dtype=bool)
    if trace.layout == "columns":
        weights, hidden, queries, keys = weights.mT, hidden.mT, keys, queries
    for query, row, out in zip(queries, weights, hidden, strict=True):
        chosen = _largest(row, out, count)
        numbers = spell(row[None, chosen], look.precision, look.rounding)[0]
        listed = ", ".join(
            f"{look.isolated(look.label(keys[j]))} {number}" for j, number in zip(chosen, numbers, strict=True)
        )
        yield f"{look.isolated(look.label(query))}: {listed or 'sees no key'}"


def _largest(row: Array, hidden: Array, count: int) -> list[int]:
    """The positions of the largest weights that are not hidden, ties in their order."""
    seen = np.flatnonzero(~hidden)
    order: list[int] = seen[np.argsort(-row[seen], kind="stable")][:count].tolist()
    return order
