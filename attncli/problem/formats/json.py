"""JSON: read as the YAML that it is, written as the object of a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, BinaryIO

from attncli.problem.formats.base import FORMATS, Part, ReadOptions, Source
from attncli.problem.formats.yaml import read_tree, result_object, text_of
from attncli.problem.matrix import Matrix

_WORDS = {None: "null", True: "true", False: "false"}


def write(stream: BinaryIO, steps: Mapping[str, Part], meta: Mapping[str, Any]) -> None:
    """The result object, a row of numbers a line; infinities and NaN as strings."""
    told = result_object(steps, meta)
    texts: dict[int, _Written] = {}  # without weights Q, K and V are X: it is spelled once
    for name, array in told["steps"].items():
        if id(array) not in texts:
            texts[id(array)] = _Written(dumps(array, "  "))
        told["steps"][name] = texts[id(array)]
    stream.write(f"{dumps(told)}\n".encode())


@FORMATS("json", suffixes=(".json",), write=write, several=True)
def read(source: Source, options: ReadOptions, name: str | None) -> dict[str, Matrix]:
    """A list of rows, or an object that holds several arrays by name, such as a result of attncli."""
    return read_tree(source, options, name, json=True)


class _Written(str):
    """A value that is JSON already."""


def dumps(value: Any, indent: str = "") -> str:
    """JSON with a line for each key and each row of numbers; floats in the shortest digits that read back."""
    if isinstance(value, _Written):
        return value
    inner = indent + " "
    if hasattr(value, "tolist"):
        quick = _matrix(value, inner)
        if quick is not None:
            return quick
        value = value.tolist()
    if isinstance(value, Mapping):
        pairs = [f"{inner}{text_of(str(key))}: {dumps(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(pairs) + f"\n{indent}}}" if pairs else "{}"
    if isinstance(value, (list, tuple)):
        if value and all(type(item) is float for item in value):
            return f"[{', '.join(map(_float, value))}]"
        nested = any(isinstance(item, (list, tuple, Mapping)) for item in value)
        between = f",\n{inner}" if nested else ", "
        return f"[{between.join(dumps(item, inner) for item in value)}]"
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, str):
        return text_of(value)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else _WORDS[value]


def _matrix(array: Any, inner: str) -> str | None:
    """A matrix of floats as `dumps` writes it, from the encoder in C; None where that would write Infinity or NaN."""
    if array.ndim != 2 or not array.size or array.dtype.kind != "f":
        return None
    text = _encoder()(array.tolist())
    return None if "N" in text or "I" in text else text.replace("], [", f"],\n{inner}[")


@cache
def _encoder() -> Callable[[Any], str]:
    from json import JSONEncoder

    return JSONEncoder().encode


def _float(value: float) -> str:
    text = repr(value)
    return f'"{text}"' if text in ("inf", "-inf", "nan") else text
