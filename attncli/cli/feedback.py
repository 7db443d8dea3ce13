"""`attncli check -o PATH`: marks into one file, or into a folder with one for each answer."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from attncli.errors import InputError, UsageError
from attncli.report.kept import with_grades, with_words
from attncli.report.marking import data, rows

if TYPE_CHECKING:
    from attncli.problem.problem import Problem
    from attncli.report.points import Points
    from attncli.verify.verdicts import CheckResult

    Marked = tuple[Problem | None, CheckResult]

# Draws the marks of one answer in a format.
Draw = Callable[["Marked", str], str]

_FORMATS = {".csv": "csv", ".tsv": "tsv", ".json": "json", ".md": "markdown", ".tex": "latex", ".html": "html"}
_SUFFIXES = {format: suffix for suffix, format in _FORMATS.items()}
_SEPARATORS = {"csv": ",", "tsv": "\t"}


class Feedback:
    """Where marks go. Raises UsageError for a format that its path does not have."""

    def __init__(self, output: str, format: str | None, force: bool) -> None:
        if not output:
            raise UsageError("the name of the file is empty", place="-o", hint="is a variable of the shell not set?")
        self.path, self.force = output, force
        suffix = os.path.splitext(output)[1].lower()
        self.is_file = suffix in _FORMATS and not os.path.isdir(output)
        self.format = format or (_FORMATS[suffix] if self.is_file else "markdown")
        if self.is_file and self.format != _FORMATS[suffix]:
            raise UsageError(f"{output} holds {_FORMATS[suffix]}, not {self.format}", place="--format")
        if self.format not in _SUFFIXES:
            raise UsageError(f"feedback is not written as {self.format}", place="--format", hint=", ".join(_SUFFIXES))
        if not self.is_file and self.format in _SEPARATORS:
            raise UsageError(f"a folder holds a file for each answer, and {self.format} is one table of all",
                             place="--format", hint=f"-o {os.path.join(output, 'marks')}.{self.format}")  # fmt: skip

    def check(self, files: list[str]) -> None:
        """Whether everything may be written, before anything is marked. Raises InputError."""
        from attncli.problem.formats.files import check_all

        self.names = {file: self._name(file) for file in files}
        taken: dict[str, str] = {}
        for file, name in self.names.items():
            if not self.is_file and name in taken:
                hint = "give them other names, or mark them one folder at a time"
                raise InputError(f"{taken[name]} and {file} would both be {name}", place=f"-o {self.path}", hint=hint)
            taken[name] = file
        if os.path.isdir(self.path) or self.is_file:
            check_all(dict.fromkeys(self.names.values()), force=self.force)

    def _name(self, file: str) -> str:
        if self.is_file:
            return self.path
        stem = "answer" if file == "-" else Path(file).stem
        return os.path.join(self.path, stem + _SUFFIXES[self.format])

    def write(self, marked: list[Marked], draw: Draw, points: Points | None) -> list[str]:
        """Write everything, or nothing; gives notes of what stayed and what was written."""
        from attncli.problem.formats.files import write_all

        contents, notes = self._contents(marked, draw, points)
        if not self.is_file:
            os.makedirs(self.path, exist_ok=True)
        write_all({name: text.encode("utf-8", "backslashreplace") for name, text in contents.items()}, force=self.force)
        return [*notes, f"wrote the marks to {self.path}"]

    def _contents(self, marked: list[Marked], draw: Draw, points: Points | None) -> tuple[dict[str, str], list[str]]:
        results = [result for _, result in marked]
        if self.format in _SEPARATORS and self.is_file:
            text, notes = with_grades(rows(results, points), _SEPARATORS[self.format], _before(self.path))
            return {self.path: text}, notes
        if self.format == "json":
            named: dict[str, list[CheckResult]] = {}
            for result in results:
                named.setdefault(self._of(result), []).append(result)
            return {name: data(each, "json", points) for name, each in named.items()}, []
        texts: dict[str, list[str]] = {}
        for each in marked:
            texts.setdefault(self._of(each[1]), []).append(draw(each, self.format))
        several = next((name for name, parts in texts.items() if len(parts) > 1), None)
        if several is not None and self.format != "markdown":
            raise UsageError(f"{several} would hold several documents", place=f"-o {self.path}",
                             hint="a folder has one for each; .md, .csv, .tsv and .json hold several")  # fmt: skip
        return {name: with_words("\n".join(parts), self.format, _before(name)) for name, parts in texts.items()}, []

    def _of(self, result: CheckResult) -> str:
        """The file that these marks go into; of one of several problems of a file, that of the file."""
        file = result.file or "-"
        return self.names.get(file) or self.names.get(file.rpartition(": ")[0]) or self._name(file)


def _before(name: str) -> str | None:
    """What a file holds that is written anew; None where there is none that can be read."""
    try:
        with open(name, encoding="utf-8", newline="") as stream:
            return stream.read()
    except (OSError, ValueError):
        return None


def is_feedback(output: str) -> bool:
    """Whether a path of -o is a file of marks, or a folder: a picture or a matrix is neither."""
    from attncli.problem.formats.base import known_suffixes
    from attncli.report.drawn import PICTURES

    suffix = os.path.splitext(output)[1].lower()
    return suffix in _FORMATS or os.path.isdir(output) or suffix not in {*known_suffixes(), *PICTURES}


def draw_with(points: Points | None, *, explains: bool) -> Draw:
    """How the marks of one answer are written, as a document of its own."""
    from attncli.report.document import whole
    from attncli.report.drawn import look_of_files, marks_document
    from attncli.report.slip import slip_of

    def draw(each: Marked, format: str) -> str:
        problem, result = each
        look = look_of_files(problem.options if problem else {})
        title = problem.title if problem else None
        if result.reason:
            return whole(format, title or result.file or "Marks", [result.reason, ""], [], look).decode()
        more = [slip_of(problem, result, look)] if explains and problem is not None else []
        return marks_document(result, format, title, look, points, [text for text in more if text]).decode()

    return draw
