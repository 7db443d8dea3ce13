"""Problem files made from dicts that may hold arrays: these go into files beside them, as they are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


def problem_file(folder: Path, problem: Mapping[str, Any], name: str = "p.json") -> Path:
    """The file of a problem, which holds what the dict says; masks may be pairs, as in Python."""
    path = folder / name
    path.write_text(json.dumps({key: _plain(value, folder, key) for key, value in problem.items()}), encoding="utf-8")
    return path


def _plain(value: Any, folder: Path, name: str) -> Any:
    if isinstance(value, np.ndarray):
        np.save(folder / f"{name}.npy", value)
        return {"file": f"{name}.npy"}
    if isinstance(value, Mapping):
        return {key: _plain(each, folder, f"{name}-{key}") for key, each in value.items()}
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
        return {value[0]: _plain(value[1], folder, f"{name}-{value[0]}")}
    if isinstance(value, list):
        return [_plain(each, folder, f"{name}-{at}") for at, each in enumerate(value)]
    return value
