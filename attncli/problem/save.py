"""--save-problem: the resolved problem as a file that `run` reproduces exactly."""

from __future__ import annotations

import io
import math
import re
from pathlib import Path
from typing import Any

from attncli.errors import UsageError
from attncli.lazy import Array, np
from attncli.problem.axes import as_stored, hand_as_stored
from attncli.problem.formats.json import dumps
from attncli.problem.formats.yaml import dump
from attncli.problem.labels import given_labels
from attncli.problem.matrix import Matrix
from attncli.problem.numbers import is_number, shortest
from attncli.problem.problem import Problem
from attncli.problem.settings import FIELDS
from attncli.problem.values import Hand, MaskChoice, ScoreChoice, StageRef

INLINE = 10_000  # numbers; larger matrices go into an .npz beside the file


def saved_problem(problem: Problem, path: Path) -> dict[Path, bytes]:
    """The files to write: the problem, YAML or (by its suffix) JSON, and where matrices need it an .npz beside it.

    Inline are float64 and whole numbers, each in its shortest spelling; other types keep their own in the .npz.
    Raises UsageError for a score, mask or normalizer that is a Python function.
    """
    archive = path.with_suffix(".npz")
    document, arrays = problem_document(problem, archive.name)
    files = {path: _text(document, path)}
    if arrays:
        stream = io.BytesIO()
        np.savez(stream, **arrays)
        files[archive] = stream.getvalue()
    return files


def problem_text(problem: Problem) -> str:
    """The problem as YAML alone. Raises UsageError as `saved_problem` does, and where arrays need a file beside it."""
    document, arrays = problem_document(problem, "-")
    if arrays:
        raise UsageError(
            f"{', '.join(arrays)}: text does not keep such arrays",
            place="--save-problem -",
            hint="--save-problem PATH.yaml writes them into an .npz beside it",
        )
    return "\n".join(dump(document)) + "\n"


def saved_sizes(problem: Problem, path: Path) -> dict[Path, int]:
    """How many bytes each of these files would take; of the .npz those of its arrays."""
    archive = path.with_suffix(".npz")
    document, arrays = problem_document(problem, archive.name)
    sizes = {path: len(_text(document, path))}
    return sizes | ({archive: sum(array.nbytes for array in arrays.values())} if arrays else {})


def _text(document: dict[str, Any], path: Path) -> bytes:
    text = dumps(document) if path.suffix.lower() == ".json" else "\n".join(dump(document))
    return f"{text}\n".encode()


def problem_document(problem: Problem, archive: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The problem as plain keys and values, and the arrays that `{file: ARCHIVE, name: ...}` refers to."""
    writer = _Writer(archive)
    document: dict[str, Any] = {name: getattr(problem, name) for name in ("title", "name")}
    document |= {"attention": problem.attention, "layout": problem.layout, "weight_layout": problem.weight_layout}
    document |= _labels(problem)
    document["axes"] = problem.axes
    document |= {name: writer.matrix(name, _given(problem, name, matrix)) for name, matrix in problem.inputs.items()}
    document |= writer.score(problem)
    document["scale"] = writer.said("scale", problem.scale)
    plain = ("temperature", "d_k", "softcap", "heads", "kv_heads", "dtype", "round_steps")
    document |= {name: getattr(problem, name) for name in plain}
    document |= {name: writer.said(name, value) for name, value in problem.more.items()}
    document["mask"] = [writer.mask(choice) for choice in problem.masks] or None
    document |= writer.rules(problem)
    document |= {name: getattr(problem, name) or None for name in ("both_ways", "rounded_inputs")}
    document["expect"] = {
        step: writer.hand(hand if problem.axes is None else hand_as_stored(step, hand, problem.axes))
        for step, hand in problem.expect.items()
    } or None
    document |= {name: value for name, value in problem.options.items() if FIELDS[name].in_file}
    return {name: value for name, value in document.items() if value is not None}, writer.arrays


def _given(problem: Problem, name: str, matrix: Matrix | StageRef) -> Matrix | StageRef:
    """An input in the order in which it was given."""
    if problem.axes is None or isinstance(matrix, StageRef):
        return matrix
    return as_stored(name, matrix, problem.axes)


def _labels(problem: Problem) -> dict[str, Any]:
    """The labels that came from options or files, since an inline matrix carries none."""
    queries, keys = given_labels(problem)
    return {"tokens": queries, "key_tokens": keys}


class _Writer:
    """Matrices as nested lists of exact spellings, or as references to arrays that are collected."""

    def __init__(self, archive: str) -> None:
        self.archive = archive
        self.arrays: dict[str, Any] = {}

    def matrix(self, name: str, matrix: Matrix | StageRef) -> Any:
        """Nested lists, {file, name} or {stage, step}."""
        if isinstance(matrix, StageRef) and matrix.parts:
            names = list(dict.fromkeys(part.stage for part in matrix.parts))
            return {matrix.how: names, **({"times": matrix.times} if matrix.times != 1 else {})}
        if isinstance(matrix, StageRef):
            return {"stage": matrix.stage, "step": matrix.step}
        array = matrix.array
        return _spelled(matrix) if _inline(array) else self.archived(name, array)

    def archived(self, name: str, array: Array) -> dict[str, str]:
        """A reference to the array in the archive, under a name that is still free."""
        free = next(each for each in (name, *(f"{name}_{i}" for i in range(2, 10_000))) if each not in self.arrays)
        # The archive has no bfloat16; half precision is computed in float32 anyway.
        self.arrays[free] = array if array.dtype.kind in "biuf" else array.astype(np.float32)
        return {"file": self.archive, "name": free}

    def said(self, name: str, value: Any) -> Any:
        """What was said to a setting that an entry brings along."""
        if isinstance(value, dict):
            return {key: self.said(key, each) for key, each in value.items()}
        return self.matrix(name, value) if isinstance(value, Matrix) else _plain(value)

    def score(self, problem: Problem) -> dict[str, Any]:
        """`score: NAME`, with its parameters where it has some."""
        if problem.score is None:
            return {}
        score: ScoreChoice = problem.score
        name = _named(score.score, "score")
        if not score.parameters:
            return {"score": name}
        parameters = {
            key: self.matrix(key, value) if isinstance(value, Matrix) else _plain(value)
            for key, value in score.parameters.items()
        }
        return {"score": {"name": name, **parameters}}

    def mask(self, choice: MaskChoice) -> Any:
        """`causal:top-left`, or {keep: [[...]]} and the like."""
        name = _named(choice.mask, "mask")
        if choice.parts:
            parts = [self.mask(part) for part in choice.parts]
            return {name: parts[0] if name == "not" else parts}
        if isinstance(choice.argument, Matrix):
            return {name: self.matrix(name, choice.argument)}
        if isinstance(choice.argument, list):
            return {name: _plain(choice.argument)}
        return ":".join(part for part in (name, choice.argument, choice.alignment) if part is not None)

    def rules(self, problem: Problem) -> dict[str, Any]:
        """What is said after the scores. `like` gives the alignment of causal masks, which has no key of its own."""
        begins = problem.begins
        rules: dict[str, Any] = {"like": problem.like}
        if begins not in ("weights", "masked"):
            rules["mask_value"] = _plain(problem.mask_value)
        if begins != "weights":
            rules |= {
                "empty_rows": problem.empty_rows,
                "normalizer": None if problem.normalizer is None else _named(problem.normalizer, "normalizer"),
            }
        return rules

    def hand(self, hand: Hand) -> Any:
        """The hand's numbers as they were spelled, cells that are not to be marked as null."""
        places = {"decimals": hand.decimals, "significant": hand.significant}
        return {"values": _spelled(hand.matrix), **{name: value for name, value in places.items() if value is not None}}


def _named(value: Any, what: str) -> str:
    if callable(value):
        raise UsageError(
            f"a {what} that is a Python function cannot be written into a problem file",
            hint="register it under a name, and use the name",
        )
    return str(value)


def _inline(array: Array) -> bool:
    """Whether text keeps it as it is: float64, and whole numbers and truths, which count as float64."""
    small = 0 < array.size <= INLINE and array.ndim > 0
    return small and (array.dtype.kind in "biu" or array.dtype == np.float64)


def _spelled(matrix: Matrix) -> Any:
    """The numbers as they were written, where a number alone would not say that: "0.50" and "1/3"."""
    values = _plain(matrix.array.tolist())
    if matrix.spelling is None or matrix.array.dtype.kind == "b":
        return values
    return _merged(matrix.spelling(), values)


def _merged(texts: Any, values: Any) -> Any:
    if isinstance(values, list):
        return [_merged(text, value) for text, value in zip(texts, values, strict=True)]
    if texts is None:
        return None
    if texts == str(values) or not is_number(texts):
        return values
    return int(texts) if re.fullmatch(r"-?[1-9][0-9]{0,14}|0", texts) else texts


def _plain(value: Any) -> Any:
    """Python's own numbers; what JSON has no spelling for, as words."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    value = value.item() if hasattr(value, "item") else value
    return shortest(value) if isinstance(value, float) and not math.isfinite(value) else value
