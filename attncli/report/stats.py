"""What scaling does to the scores, and how spread out each query's attention is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from attncli.lazy import Array, np
from attncli.pipeline.steps import STEPS
from attncli.pipeline.trace import Trace
from attncli.report.look import Look, pad, told_apart, widths
from attncli.report.moments import Moments, entropy
from attncli.report.numbers import spell_one
from attncli.report.sheet import part_name

# Some rows of one matrix: the address of its weights, scores and scaled scores by name with the weights, hidden cells.
Rows = tuple[str, dict[str, Array], Array | None]


# The scores before and after scaling, whose moments are told.
SCORED = tuple(each.name for each in STEPS.of_line("logits") if each.moments)


def stats(trace: Trace, look: Look) -> Iterator[str]:
    """Lines: mean and variance of the visible scores before and after scaling, entropy (nats) of each row of weights.

    Each head of each sequence for itself, under a line such as `sequence 1, head 2`.
    """
    return stats_of_blocks(_matrices(trace), trace, look)


def _matrices(trace: Trace) -> Iterator[Rows]:
    """Each matrix as one block."""
    for address in trace.parts("weights"):
        part = address.removeprefix("weights")
        steps = {name: _by_query(trace, name + part) for name in (*SCORED, "weights") if name in trace}
        hidden = trace.hidden(address)
        yield address, steps, hidden if hidden is None or trace.layout == "rows" else hidden.mT


def _by_query(trace: Trace, address: str) -> Array:
    return trace[address].mT if trace.layout == "columns" else trace[address]


def stats_of_blocks(blocks: Iterable[Rows], trace: Trace, look: Look) -> Iterator[str]:
    """The same of steps that come some rows at a time, a query as a row, one matrix after the other.

    trace: has the labels, and the steps at least by their shapes.
    """
    known = trace.sums_to_one
    sections: dict[str, tuple[dict[str, Moments], list[float | None]]] = {}
    for address, steps, hidden in blocks:
        moments, entropies = sections.setdefault(address, ({}, []))
        for name in steps.keys() & {*SCORED}:
            moments.setdefault(name, Moments()).add(steps[name], hidden)
        if known:
            entropies += _entropies(steps["weights"], hidden)
    for number, (address, (moments, entropies)) in enumerate(sections.items()):
        if head := part_name(trace, address):
            yield from ([""] if number else [])
            yield head
        yield from (_told(name, moments[name], look) for name in SCORED if name in moments)
        if known:
            yield from _listed(told_apart(trace.labels(address)[trace.layout == "columns"]), entropies, look)
        else:
            yield f"entropy: not defined, weights after {trace.normalizer} need not sum to 1"


def _told(name: str, moments: Moments, look: Look) -> str:
    mean, variance = (spell_one(x, look.precision, look.rounding) for x in (moments.mean, moments.variance))
    out, size = moments.left_out, moments.size
    return f"{name}: mean {mean}, variance {variance}{f', {out} of {size} hidden, left out' if out else ''}"


def _entropies(weights: Array, hidden: Array | None) -> list[float | None]:
    """Of each query; None where it sees no key."""
    empty = np.asarray(hidden.all(axis=1) if hidden is not None else np.full(len(weights), not weights.shape[1]))
    return [None if none else value for value, none in zip(entropy(weights).tolist(), empty.tolist(), strict=True)]


def _listed(queries: Sequence[str], entropies: list[float | None], look: Look) -> Iterator[str]:
    shown = [look.label(query) for query in queries]
    width = max(widths(shown), default=0)
    yield "entropy of each query's weights, in nats:"
    for label, value in zip(shown, entropies, strict=True):
        number = "sees no key" if value is None else spell_one(value, look.precision, look.rounding)
        if value is not None and value != value:
            number = "not defined, a weight is negative or no number"
        yield f"  {pad(look.isolated(label), width)}  {number}"
