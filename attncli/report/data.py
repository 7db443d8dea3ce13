"""Steps of a Trace as data, at full precision: what csv, tsv, json and yaml print and what files hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attncli.pipeline.trace import Trace
from attncli.problem.matrix import Matrix

SCHEMA = 1


def parts(trace: Trace, steps: Sequence[str]) -> dict[str, Matrix]:
    """The arrays of steps (or of parts such as weights[2]), with labels if the inputs had any; features have none."""
    return {address: _part(trace, address) for address in steps}


def meta(trace: Trace) -> dict[str, Any]:
    """What a result object tells besides its steps: the rules, the labels, the notes."""
    from attncli import __version__

    return {
        "attncli": __version__,
        "schema": SCHEMA,
        "attention": trace.attention,
        "layout": trace.layout,
        "score": trace.score,
        "scale": trace.scale if isinstance(trace.scale, float) else trace.scale.tolist(),
        "mask": trace.mask,
        "query_labels": list(trace.query_labels),
        "key_labels": list(trace.key_labels),
        "notes": trace.notes,
    }


def text(trace: Trace, steps: Sequence[str], format: str, beside: Mapping[str, Any]) -> str:
    """The steps in a text format of files; beside: what an object tells besides.

    Raises InputError or ShapeError where the format holds less than asked for.
    """
    from attncli.problem.formats import encode

    return encode(format, parts(trace, steps), {**meta(trace), **beside}).decode("utf-8")


def _part(trace: Trace, address: str) -> Matrix:
    array = trace[address]
    if not trace.labelled:
        return Matrix(array)
    rows, columns = (
        None if axis == "feature" else names
        for axis, names in zip(trace.axes(address), trace.labels(address), strict=True)
    )
    return Matrix(array, rows, columns)
