"""YAML: a list of rows, or several arrays by name; and the result object, which JSON shares."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from attncli.errors import InputError, unknown
from attncli.lazy import pattern
from attncli.pipeline.trace import NAMED_STEPS
from attncli.problem.formats.base import FORMATS, Part, ReadOptions, Source
from attncli.problem.matrix import Matrix
from attncli.problem.numbers import is_number, quote

_SIMPLE = pattern("[A-Za-z0-9_ .:<>/-]*")
_ESCAPED = pattern("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")


def write(stream: BinaryIO, steps: Mapping[str, Part], meta: Mapping[str, Any]) -> None:
    """The result object, a row of numbers a line."""
    for line in dump(result_object(steps, meta)):
        stream.write(f"{line}\n".encode())


@FORMATS("yaml", suffixes=(".yaml", ".yml"), write=write, several=True)
def read(source: Source, options: ReadOptions, name: str | None) -> dict[str, Matrix]:
    """A list of rows, or a mapping that holds several arrays by name."""
    return read_tree(source, options, name, json=False)


def read_tree(source: Source, options: ReadOptions, name: str | None, *, json: bool) -> dict[str, Matrix]:
    """The arrays of a YAML or JSON text: all, or the one of that name. Those of a result stand under `steps`."""
    from attncli.problem.yamltext import compose

    return arrays_of(compose(source.read(), source.file, json=json), source.file, options, name)


def arrays_of(root: Any, file: str, options: ReadOptions, name: str | None = None) -> dict[str, Matrix]:
    """The same of a tree."""
    from attncli.problem.yamlmatrix import matrix_from_node
    from attncli.problem.yamltree import pairs_of, place_of

    if root.id != "mapping":
        return {"": matrix_from_node(root, file, blanks=options.blanks)}
    top = {key: value for key, _, value in pairs_of(root)}
    steps = steps_of(root)
    nodes = {key: value for key, _, value in pairs_of(steps)} if steps is not None else top
    arrays = [key for key, value in nodes.items() if _is_array(value)]
    if name is not None:
        if name not in nodes:
            raise unknown("array", name, arrays, place=place_of(root, file))
        if nodes[name].id != "sequence":
            named = f": it names {quote(nodes[name].value)}" if nodes[name].id == "scalar" else ""
            raise InputError(f"{name} is no array here{named}", place=place_of(nodes[name], file))
        arrays = [name]
    matrices = {key: matrix_from_node(nodes[key], file, blanks=options.blanks) for key in arrays}
    if steps is not None:
        labels = {key: words for key in _LABELS if key in top if (words := _given(top[key], key[0]))}
        columns = "layout" in top and top["layout"].value == "columns"
        for key, matrix in matrices.items():
            matrix.row_labels, matrix.column_labels = _labels(key, labels, columns)
    return matrices


def steps_of(root: Any) -> Any | None:
    """The mapping of the steps of a result; None of a tree that is none."""
    from attncli.problem.yamltree import pairs_of

    inner = next((value for key, _, value in pairs_of(root) if key == "steps"), None) if root.id == "mapping" else None
    return inner if inner is not None and inner.id == "mapping" else None


def result_object(steps: Mapping[str, Part], meta: Mapping[str, Any]) -> dict[str, Any]:
    """The object of a result: what is told of it, its steps, and its notes at the end."""
    arrays = {"steps": {name: part.array for name, part in steps.items()}}
    notes = {"notes": meta["notes"]} if "notes" in meta else {}
    return {key: value for key, value in meta.items() if key != "notes"} | arrays | notes


def dump(value: Mapping[str, Any]) -> Iterator[str]:
    """The lines of a mapping as YAML that any reader takes for the same values: scalars, lists, mappings, arrays."""
    for key, inner in value.items():
        yield from _dumped(_word(str(key)) + ":", inner, "")


def text_of(value: str) -> str:
    """A string in the double quotes that JSON and YAML share."""
    if _SIMPLE.fullmatch(value):
        return f'"{value}"'
    import json

    return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False))


_LABELS = {"query_labels": "query", "key_labels": "key"}


def _given(node: Any, letter: str) -> list[str] | None:
    """The labels of a result; None for those that every result has where nobody gave any: q1 q2 ..., past 1 ... k1."""
    labels = [item.value for item in node.value]
    past = next((at for at, label in enumerate(labels, 1) if label != f"past {at}"), len(labels) + 1) - 1
    return None if labels[past:] == [f"{letter}{at + 1}" for at in range(len(labels) - past)] else labels


def _labels(name: str, labels: dict[str, list[str]], columns: bool) -> tuple[list[str] | None, list[str] | None]:
    """The labels of a step's rows and columns, as they lie in the file."""
    if name not in NAMED_STEPS:
        return None, None
    known = {kind: labels.get(key) for key, kind in _LABELS.items()}
    rows, across = known.get(NAMED_STEPS[name].rows), known.get(NAMED_STEPS[name].columns)
    return (across, rows) if columns else (rows, across)


def _is_array(node: Any) -> bool:
    """Whether a list begins with a number, at whatever depth; a list of words or mappings does not."""
    if node.id != "sequence":
        return False
    while node.id == "sequence" and node.value:
        node = node.value[0]
    return node.id == "scalar" and (is_number(node.value) or node.value in ("~", "_", "?", "null", "true", "false"))


def _dumped(head: str, value: Any, indent: str) -> Iterator[str]:
    """The lines of one value under its key or dash."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping) and value:
        yield indent + head
        for key, inner in value.items():
            yield from _dumped(_word(str(key)) + ":", inner, indent + "  ")
    elif isinstance(value, (list, tuple)) and any(isinstance(item, (list, tuple, Mapping)) for item in value):
        yield indent + head
        for item in value:
            if isinstance(item, Mapping):
                yield from _dumped("-", item, indent + "  ")
            else:
                yield from _nested(item, indent + "  - ")
    else:
        yield f"{indent}{head} {_flow(value)}"


def _nested(value: Any, prefix: str) -> Iterator[str]:
    """A list whose innermost lists are written in brackets, the others as dashes."""
    if isinstance(value, (list, tuple)) and any(isinstance(item, (list, tuple)) for item in value):
        for item in value:
            yield from _nested(item, prefix + "- ")
            prefix = " " * len(prefix)
    else:
        yield prefix + _flow(value)


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_word(str(key))}: {_flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        if all(type(item) is float for item in value):
            return f"[{', '.join(map(_float, value))}]"
        return f"[{', '.join(map(_flow, value))}]"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return _float(value) if isinstance(value, float) else str(value)
    return _word(str(value))


def _float(value: float) -> str:
    """Shortest digits; with a point before an exponent, since YAML 1.1 takes 1e-05 for a word."""
    if not math.isfinite(value):
        return ".nan" if value != value else ".inf" if value > 0 else "-.inf"
    text = repr(value)
    return text.replace("e", ".0e") if "e" in text and "." not in text else text


def _word(text: str) -> str:
    """A string without quotes where every reader of YAML takes it for one."""
    plain = re.fullmatch(r"[A-Za-z][A-Za-z0-9_/.-]*", text) and not re.fullmatch(
        r"y|n|yes|no|on|off|true|false|null|inf|infinity|nan", text, re.IGNORECASE
    )
    return text if plain else text_of(text)
