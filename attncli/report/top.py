"""The keys that each query looks at most: `it: animal 0.6466, [CLS] 0.1507`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from attncli.errors import UsageError
from attncli.lazy import Array, np
from attncli.pipeline.trace import Trace
from attncli.report.look import Look, told_apart
from attncli.report.numbers import spell
from attncli.report.sheet import expand, part_name


def top(trace: Trace, count: int, look: Look, steps: Sequence[str] = ("weights",)) -> Iterator[str]:
    """Lines, one a query, of its `count` largest weights, ties in key order; hidden keys are never listed.

    steps: weights, or parts of it; each of several matrices has a line such as `sequence 1, head 2` above it.
    Raises UsageError for a count below 1, InputError where there are no weights.
    """
    return top_of_blocks(((address, 0, *_rows(trace, address)) for address in expand(trace, steps)), trace, count, look)


def top_of_blocks(
    blocks: Iterable[tuple[str, int, Array, Array | None]], trace: Trace, count: int, look: Look
) -> Iterator[str]:
    """The same of weights that come some rows at a time: (address of the matrix, first row, weights, hidden cells).

    trace: has the labels, and the steps at least by their shapes.
    """
    if count < 1:
        raise UsageError(f"--top {count} lists nothing", hint="give 1 or more")
    last = ""
    for address, start, weights, hidden in blocks:
        if address != last:
            name = part_name(trace, address)
            yield from ([""] if name and last else [])
            yield from ([name] if name else [])
            queries, keys = map(told_apart, trace.labels(address)[:: -1 if trace.layout == "columns" else 1])
            last = address
        if hidden is None:
            hidden = np.zeros(weights.shape, dtype=bool)
        for query, row, out in zip(queries[start : start + len(weights)], weights, hidden, strict=True):
            yield f"{look.isolated(look.label(query))}: {_listed(row, out, keys, count, look)}"


def _rows(trace: Trace, address: str) -> tuple[Array, Array | None]:
    """The weights with a query as a row, and where they are hidden."""
    weights, hidden = trace[address], trace.hidden(address)
    return (weights, hidden) if trace.layout == "rows" else (weights.mT, None if hidden is None else hidden.mT)


def _listed(row: Array, hidden: Array, keys: Sequence[str], count: int, look: Look) -> str:
    chosen = _largest(row, hidden, count)
    numbers = spell(row[None, chosen], look.precision, look.rounding)[0]
    named = (f"{look.isolated(look.label(keys[j]))} {number}" for j, number in zip(chosen, numbers, strict=True))
    return ", ".join(named) or "sees no key"


def _largest(row: Array, hidden: Array, count: int) -> list[int]:
    """The positions of the largest weights that are not hidden, ties in their order; NaN comes last."""
    seen = np.flatnonzero(~hidden)
    weights = row[seen]
    if count < weights.size and not np.isnan(weights).any():  # few are to be sorted, not all
        seen = seen[weights >= np.partition(weights, -count)[-count]]
    order: list[int] = seen[np.argsort(-row[seen], kind="stable")][:count].tolist()
    return order
