"""Answers to an exercise: only the numbers calculated by hand come from them, the problem from its key."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from attncli.errors import AttnError, InputError, Place, UsageError, raise_all
from attncli.pipeline.trace import NAMED_STEPS
from attncli.problem.build import Layer, make_problem
from attncli.problem.convert_text import layer_from_options
from attncli.problem.document import read_document
from attncli.problem.formats import described
from attncli.problem.formats.base import known_suffixes
from attncli.problem.problem import Problem
from attncli.problem.reading import Reading
from attncli.problem.save import problem_document
from attncli.problem.values import Hand

PROBLEMS = (".yaml", ".yml", ".json")
_NOT_COMPARED = ("expect", "title", "name")  # and how results are shown


@dataclass
class Key:
    """The exercise: its problem, what was said in its file, and the options that win over it."""

    problem: Problem
    layer: Layer
    options: Layer


def read_key(file: str, options: Layer, stdin: Callable[[], bytes]) -> Key:
    """The exercise in a file. Raises UsageError where that holds several problems, and what is wrong with it."""
    document = read_document(file, options, stdin=stdin)
    if document.kind is not None:
        raise UsageError(f"the key holds several {document.kind}", place="--problem", hint="a key is one problem")
    return Key(document.problem(options), document.layer, options)


def answered(key: Key, file: str, stdin: Callable[[], bytes]) -> tuple[Problem, list[str]]:
    """The exercise with the numbers of an answer, and notes of what else the answer says otherwise.

    Raises what is wrong with the numbers, and UsageError where there are none.
    """
    notes: list[str] = []
    named = {} if file == "-" else _steps_of(described(file) or {})
    if named:
        expect = _of_arrays({address: f"{file}::{name}" for address, name in named.items()})
    elif file == "-" or os.path.splitext(file)[1].lower() in ("", *PROBLEMS):
        expect, notes = _of_document(key, file, stdin)
    else:
        expected = list(key.problem.expect)
        step = expected[0] if len(expected) == 1 else "output"
        expect, notes = _of_arrays({step: file}), [f"the numbers of {file} are taken for {step}"]
    return replace(key.problem, expect=expect, file=file), notes


def _steps_of(names: Iterable[str]) -> dict[str, str]:
    """The arrays that are named as steps: weights, expected_weights, and of several heads expected_weights_2."""
    found: dict[str, str] = {}
    for name in names:
        plain = name.removeprefix("expected_")
        step, *parts = re.split(r"_(?=[0-9]+(?:_|$))", plain)
        if step in NAMED_STEPS:
            found.setdefault(f"{step}[{','.join(parts)}]" if parts else step, name)
    return found


def _of_document(key: Key, file: str, stdin: Callable[[], bytes]) -> tuple[dict[str, Hand], list[str]]:
    layer = read_document(file, key.options, stdin=stdin).layer
    setting = layer.settings.get("expect")
    if setting is None:
        raise_all(layer.errors)
        hint = "the numbers calculated by hand stand under expect:, as in expect: {weights: [[0.5, 0.5]]}"
        raise UsageError("there is nothing to check", place=Place(file), hint=hint)
    return setting.value, _differences(key, layer)


def _differences(key: Key, layer: Layer) -> list[str]:
    """What the answer says of the exercise that is not what its key says: none of it is used."""
    own = {name: setting for name, setting in layer.settings.items() if name not in _NOT_COMPARED}
    if not own and not layer.errors:
        return []
    try:
        raise_all(layer.errors)
        meant = make_problem(key.layer, Layer(own, file=layer.file, line=layer.line), key.options)
        right, other = _as_said(key.problem), _as_said(meant)
    except AttnError:
        return ["what the answer says beside its numbers does not fit the exercise, and is not used"]
    names = [name for name in own if right.get(name) != other.get(name)]
    return [f"{name} is not that of the exercise, whose is used" for name in names]


def _as_said(problem: Problem) -> dict[str, Any]:
    """What is computed, in plain keys and values; large matrices as bytes."""
    document, arrays = problem_document(replace(problem, options={}, expect={}, title=None, name=None), "")
    return document | {name: array.tobytes() for name, array in arrays.items()}


def _of_arrays(steps: dict[str, str]) -> dict[str, Hand]:
    """The arrays of files, by the steps that they stand for."""
    layer = layer_from_options({"expect": [f"{step}={name}" for step, name in steps.items()]}, Reading())
    raise_all(layer.errors)
    hands: dict[str, Hand] = layer.settings["expect"].value
    return hands


def in_folder(folder: str, *, arrays: bool) -> list[str]:
    """The problem files of a folder, by name, not further down; arrays: and what holds matrices. Raises InputError."""
    suffixes = {*PROBLEMS, *(known_suffixes() if arrays else ())}
    names = sorted(each.name for each in os.scandir(folder) if each.is_file() and not each.name.startswith("."))
    found = [os.path.join(folder, name) for name in names if os.path.splitext(name)[1].lower() in suffixes]
    if not found:
        raise InputError("the folder holds no problem files", place=Place(folder), hint=", ".join(sorted(suffixes)))
    return found
