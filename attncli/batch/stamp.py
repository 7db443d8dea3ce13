"""What a result of a batch tells of itself: the digest of its problem, by which --resume knows it, and its summary."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from attncli import __version__
from attncli.extensions import versions
from attncli.lazy import np
from attncli.problem.matrix import Matrix
from attncli.problem.problem import Problem
from attncli.problem.stages import Stages
from attncli.problem.values import Hand

# Formats that keep nothing but numbers: the digests of their results stand in a file beside them.
BESIDE = ("csv", "tsv", "npy", "txt")
JOURNAL = ".attncli-digests"

_APART = ("file", "places", "options", "title", "name", "checked")  # of a problem, what does not show in its result
_KEYS = re.compile(rb'"?(digest|result|verdict)"?: (?:"([^"]*)"|([^\s",}]+))')
_COMMENT = re.compile(rb"<!-- attncli ([^>]*) -->\s*\Z")


@dataclass(frozen=True)
class Stamp:
    """digest: of the problem, the content of its files, and the options. result: such as `output 8 x 8`.

    verdict: of the hand's numbers, where there are some.
    """

    digest: str
    result: str = ""
    verdict: str | None = None

    def to_dict(self) -> dict[str, str]:
        """What there is, for a result object."""
        told = {"digest": self.digest, "result": self.result, "verdict": self.verdict}
        return {name: value for name, value in told.items() if value is not None}


def digest(problem: Problem | Stages, options: Iterable[Any]) -> str:
    """The same for the same matrices (wherever they stand), rules, labels and options; 32 hexadecimal digits."""
    hashed = hashlib.blake2b(f"{__version__} {[*options, *versions()]}".encode(), digest_size=16)
    problems = problem.problems if isinstance(problem, Stages) else {"": problem}
    for name, each in problems.items():
        hashed.update(f"\0{name}\0".encode())
        _feed(hashed, each)
    return hashed.hexdigest()


@cache
def _names(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass that show in a result."""
    apart = _APART if kind is Problem else ("place",)
    return tuple(field.name for field in fields(kind) if field.name not in apart)


def _feed(hashed: Any, value: Any) -> None:
    if value is None or type(value) in (str, float, int, bool):
        hashed.update(f"{value!r}\0".encode())
    elif isinstance(value, Matrix):
        array = np.ascontiguousarray(value.array)
        hashed.update(f"{array.dtype.str}{array.shape}{value.row_labels}{value.column_labels}".encode())
        hashed.update(array.tobytes())
    elif isinstance(value, dict):
        for key, inner in value.items():
            hashed.update(f"\0{key}\0".encode())
            _feed(hashed, inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            _feed(hashed, inner)
            hashed.update(b"\1")
    elif is_dataclass(value) and not isinstance(value, type):
        for name in _names(type(value)):
            hashed.update(f"\2{name}\2".encode())
            _feed(hashed, getattr(value, name))
        if isinstance(value, Hand):  # 0.50 is not 0.5
            _feed(hashed, value.matrix.spelling() if value.matrix.spelling else None)
    else:
        hashed.update(f"{value!r}\0".encode())


def read_stamp(path: Path) -> Stamp | None:
    """The stamp of a result, a regular file; None where it has none that can be read."""
    try:
        if path.suffix == ".npz":
            from zipfile import ZipFile

            with ZipFile(path) as archive:
                return _from_json(archive.comment)
        with path.open("rb") as stream:
            head = stream.read(2000)
            if path.suffix == ".md":
                stream.seek(0)
                match = _COMMENT.search(stream.read())
                return _from_json(match[1]) if match else None
    except Exception:  # whatever it is that lies there, it is no result of ours
        return None
    start = re.search(rb'^ ?"?batch"?:', head, re.MULTILINE)
    found = {m[1].decode(): (m[2] or m[3]).decode() for m in _KEYS.finditer(head, start.end())} if start else {}
    if "digest" in found:
        return Stamp(found["digest"], found.get("result", ""), found.get("verdict"))
    return Stamp("") if re.search(rb'batch"?:\s*\{?\s*"?digest"?:', head) else None  # one of ours, but damaged


class Entry(NamedTuple):
    """A line of the journal: the stamp of a result, and the digest of its file's content."""

    content: str
    stamp: Stamp


def content_digest(content: bytes) -> str:
    """By which a file is known as it was written; 32 hexadecimal digits."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def read_journal(folder: Path) -> dict[str, list[Entry]]:
    """The stamps of results that cannot hold one themselves, by file name."""
    journal = folder / JOURNAL
    entries: dict[str, list[Entry]] = {}
    if not journal.is_file():
        return entries
    for line in journal.read_bytes().splitlines():
        try:
            told = json.loads(line)
            entry = Entry(str(told.pop("content")), Stamp(**{key: told[key] for key in told if key != "file"}))
            entries.setdefault(str(told["file"]), []).append(entry)
        except (ValueError, TypeError, KeyError, AttributeError):
            continue  # empty, or cut short when the batch was killed
    return entries


def _from_json(data: bytes) -> Stamp | None:
    return Stamp(**json.loads(data)) if data else None
