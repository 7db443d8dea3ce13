"""The results of several stages as one object: what `--format json` prints of them, and .json and .yaml hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attncli.pipeline.trace import Trace
from attncli.problem.matrix import Matrix
from attncli.report.data import meta, parts

COMMON = ("attncli", "schema")


def nested(
    traces: Mapping[str, tuple[Trace, Sequence[str]]], format: str, beside: Mapping[str, Any] | None = None
) -> bytes:
    """Each stage's own result object, with the steps named, under its name; format: json or yaml.

    beside: what else is told of the whole.
    """
    from attncli.problem.formats.yaml import dump, result_object

    objects = {name: result_object(parts(trace, steps), meta(trace)) for name, (trace, steps) in traces.items()}
    whole: dict[str, Any] = {}
    for told in objects.values():
        whole |= {key: told.pop(key) for key in COMMON}
    whole |= {**(beside or {}), "stages": objects}
    if format == "yaml":
        return "".join(f"{line}\n" for line in dump(whole)).encode()
    from attncli.problem.formats.json import dumps

    return f"{dumps(whole)}\n".encode()


def flat(traces: Mapping[str, tuple[Trace, Sequence[str]]]) -> dict[str, Matrix]:
    """All steps named, as `encoder.weights`: what .npz holds."""
    return {
        f"{name}.{step}": part for name, (trace, steps) in traces.items() for step, part in parts(trace, steps).items()
    }
