"""Problems given as a dict, with the keys of a problem file: what is plain reads as in JSON, arrays as from Python."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from attncli.errors import AttnError, InputError, Place, together
from attncli.pipeline.trace import parse_address
from attncli.problem.convert_object import convert, matrix_from_object
from attncli.problem.document import Document, document_of
from attncli.problem.reading import Reading, read_options
from attncli.problem.settings import find_key
from attncli.problem.values import Hand, Setting, placed

_FILE = "mapping.json"  # stands for the file in places, until they are told by key


def read_mapping(problem: Mapping[str, Any]) -> Document:
    """The document of a dict. Files that it names are looked up in the working directory.

    Lists, texts and numbers mean what they mean in a problem file; an array keeps its type; a score, a normalizer or a
    mask may be a function.
    """
    plain, others = _parts(problem)
    lines = [f"{json.dumps(str(key))}: {text}" for key, text in plain.items()]
    document = document_of(("{" + ",\n".join(lines) + "}").encode(), _FILE, None)
    layer = document.layer
    layer.file = None
    for member in document.members:
        member.layer.file = None
    reading = Reading(options=read_options(layer.settings))
    for key, value in others.items():
        try:
            if key == "expect":
                known = layer.settings.get("expect", Setting({}, key)).value
                layer.settings["expect"] = Setting({**known, **_hands(value, reading)}, key)
            else:
                convert(find_key(key), key, value, reading, layer)
        except AttnError as error:
            layer.errors += error.errors()
            layer.broken.add(key)
    return document


@contextmanager
def placed_by_key(problem: Any) -> Iterator[None]:
    """Where the problem is a dict, what is wrong in it is told with the key where it stands."""
    try:
        yield
    except AttnError as error:
        if not isinstance(problem, Mapping):
            raise
        keys, errors = list(_parts(problem)[0]), error.errors()
        for inner in errors:
            place = inner.place
            if isinstance(place, Place) and place.file == _FILE:
                inner.place = None if place.line is None else Place(str(keys[place.line - 1]))
        raise together(errors) from None


def _parts(problem: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """What can be written as JSON, by key, and what cannot; of `expect` the steps are told apart."""
    plain: dict[str, str] = {}
    others: dict[str, Any] = {}
    listed = "problems" in problem or "stages" in problem
    for key, value in problem.items():
        text = _json(value, listed=listed)
        if text is not None:
            plain[key] = text
        elif key == "expect" and isinstance(value, Mapping):
            others[key] = {step: hand for step, hand in value.items() if _json(hand) is None}
            rest = {step: hand for step, hand in value.items() if step not in others[key]}
            if rest:
                plain[key] = json.dumps(rest)
        else:
            others[key] = value
    return plain, others


def _json(value: Any, *, listed: bool = False) -> str | None:
    """The value as JSON, None for what has arrays, pairs or functions in it. listed: arrays become lists."""
    return json.dumps(value, default=_as_list if listed else None) if listed or _is_plain(value) else None


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) for key in value) and all(map(_is_plain, value.values()))
    return value is None or isinstance(value, str | int | float)


def _as_list(value: Any) -> Any:
    if callable(value):
        raise InputError("a list of problems holds no functions", hint="give each problem on its own")
    return matrix_from_object("the array", value, Reading()).array.tolist()


def _hands(hands: Mapping[str, Any], reading: Reading) -> dict[str, Hand]:
    """Expected numbers as arrays, alone or as the values beside their places."""
    found = {}
    for address, value in hands.items():
        with placed(f"expect: {address}"):
            parse_address(address)
            parts = dict(value) if isinstance(value, Mapping) else {"values": value}
            if "values" not in parts or not parts.keys() <= {"values", "decimals", "significant"}:
                raise InputError(f"{address} is no array", hint="an array, or {'values': array, 'decimals': 2}")
            found[address] = Hand(matrix_from_object(address, parts.pop("values"), reading), **parts, place="expect")
    return found
