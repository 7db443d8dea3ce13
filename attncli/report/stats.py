"""What scaling does to the scores, and how spread out each query's attention is."""

from __future__ import annotations

from collections.abc import Iterator

from attncli.core.normalizers import NORMALIZERS
from attncli.core.statistics import entropy, moments
from attncli.core.trace import Trace
from attncli.lazy import Array, np
from attncli.report.look import Look, pad, widths
from attncli.report.numbers import spell_one
from attncli.report.sheet import part_name


def stats(trace: Trace, look: Look) -> Iterator[str]:
    """Lines: mean and variance of the scores before and after scaling, entropy (nats) of each row of weights.

    Each head of each sequence for itself, under a line such as `sequence 1, head 2`.
    """
    sections: dict[str, list[str]] = {}
    for name in ("scores", "scaled"):
        for address in trace.parts(name) if name in trace else []:
            sections.setdefault(part_name(trace, address), []).append(_moments(name, trace[address], look))
    for address in trace.parts("weights") if "weights" in trace else []:
        sections.setdefault(part_name(trace, address), []).extend(_entropies(trace, address, look))
    for number, (head, lines) in enumerate(sections.items()):
        if head:
            yield from ([""] if number else [])
            yield head
        yield from lines


def _moments(name: str, scores: Array, look: Look) -> str:
    mean, variance = (spell_one(x, look.precision, look.rounding) for x in moments(scores))
    left_out = int(np.isneginf(scores).sum())
    remark = f", {left_out} of {scores.size} at -inf left out" if left_out else ""
    return f"{name}: mean {mean}, variance {variance}{remark}"


def _entropies(trace: Trace, address: str, look: Look) -> Iterator[str]:
    known = trace.normalizer in NORMALIZERS and NORMALIZERS.find(trace.normalizer).facts.get("sums_to_one")
    if not known:
        yield f"entropy: not defined, weights after {trace.normalizer} need not sum to 1"
        return
    weights, hidden = trace[address], trace.hidden(address)
    queries = trace.labels(address)[trace.layout == "columns"]
    if trace.layout == "columns":
        weights, hidden = weights.mT, None if hidden is None else hidden.mT
    shown = [look.label(query) for query in queries]
    width = max(widths(shown), default=0)
    yield "entropy of each query's weights, in nats:"
    for i, (label, value) in enumerate(zip(shown, entropy(weights), strict=True)):
        empty = not weights.shape[1] or (hidden is not None and bool(hidden[i].all()))
        number = "sees no key" if empty else spell_one(value, look.precision, look.rounding)
        yield f"  {pad(look.isolated(label), width)}  {number}"
