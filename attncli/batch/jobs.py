"""Which problems a batch has, and what their results are called: from files, folders, patterns and lists."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from attncli.batch.lists import JOB_LISTS, read_jobs
from attncli.batch.work import Task
from attncli.errors import AttnError, InputError, Place, UsageError, raise_all
from attncli.problem.build import Layer
from attncli.problem.document import Document, read_document
from attncli.problem.formats import STDIN, open_source
from attncli.problem.formats.base import near_file
from attncli.problem.problem import Problem
from attncli.problem.reading import SharedFiles
from attncli.problem.stages import Stages, read_stages

SUFFIXES = (".yaml", ".yml", ".json")
# A file that holds a list says so with one of these keys; the others need not be read before their turn.
_LISTS = {key: re.compile(key + rb"""["']?\s*:""") for key in (b"problems", b"jobs")}


@dataclass
class Job:
    """A problem to be computed: the name of its result, where it stands, and how it is read (raises what is wrong)."""

    name: str
    source: str
    load: Callable[[], Problem | Stages]

    def task(self) -> Task:
        """The problem, read."""
        return Task(self.name, self.source, self.load())


@dataclass
class Found:
    """All jobs of a batch, in order, and what was searched for them.

    files: every problem file. folders, patterns: where others would be found the next time.
    unread: what reads each problem that waits for its turn. shared: the files that they name.
    """

    jobs: list[Job] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    patterns: list[str] = field(default_factory=list)
    unread: list[Callable[[], Document]] = field(default_factory=list)
    shared: SharedFiles = field(default_factory=SharedFiles)

    def remember(self) -> None:
        """Take note of all files that the problems name, also of those that wait for their turn."""
        with self.shared.only_named():
            while self.unread:
                with suppress(AttnError):
                    self.unread.pop()()


def find(
    arguments: Iterable[str], options: Layer, common: str | None = None, stdin: Callable[[], bytes] | None = None
) -> Found:
    """The jobs that the arguments stand for: files, folders (not searched further down), patterns, lists.

    options: the command line, which wins over every problem. common: the problem file of lists of jobs that name none.
    stdin: gives the problem, or the list of problems, that `-` stands for.
    Raises all that has to be settled before the first problem is computed: nothing found, an unknown column,
    two problems with one result name.
    """
    found, errors = Found(), list[AttnError]()
    for argument in arguments:
        try:
            found.files += _files(argument, found)
        except AttnError as error:
            errors += error.errors()
    raise_all(errors)
    for file in dict.fromkeys(found.files):
        try:
            if file == "-":
                found.jobs += _read("stdin", STDIN, partial(read_document, file, options, stdin=stdin), options)
            else:
                found.jobs += _jobs(file, options, common, found)
        except AttnError as error:
            errors += error.errors()
    if common is not None and not any(map(_is_list_of_jobs, found.files)):
        errors.append(
            UsageError(
                "there is no list of jobs that could use it",
                place="--problem",
                hint="a CSV file whose columns are options, or a YAML file with jobs:",
            )
        )
    errors += list(_same_names(found.jobs))
    raise_all(errors)
    return found


def _files(argument: str, found: Found) -> list[str]:
    """The files of an argument. Raises InputError where there is none."""
    if argument == "-":
        return [argument]
    if not argument:
        raise UsageError("the name of a problem is empty", hint="is a variable of the shell not set?")
    path = Path(argument)
    if path.is_dir():
        found.folders.append(argument)
        entries = [entry for entry in path.iterdir() if entry.suffix.lower() in SUFFIXES and not entry.is_dir()]
        names = sorted(entry.name for entry in entries)
        names = [name for name in names if not name.startswith(".")]
        if not names:
            raise InputError(f"the folder {argument} holds no problems", hint=f"files with {', '.join(SUFFIXES)}")
        return [str(path / name) for name in names]
    if path.exists() or not glob.has_magic(argument):
        if not path.exists():
            raise InputError("there is no such file", place=Place(argument), hint=near_file(path))
        return [argument]
    found.patterns.append(argument)
    return matching(argument)


def matching(pattern: str) -> list[str]:
    """The files that a pattern stands for, by name. Raises InputError where there is none."""
    names = sorted(name for name in glob.glob(pattern) if not Path(name).is_dir())
    if not names:
        raise InputError(f"the pattern {pattern} matches no file", hint="* does not match what begins with a dot")
    return names


def _is_list_of_jobs(file: str) -> bool:
    suffix = os.path.splitext(file)[1].lower()
    return suffix in JOB_LISTS or (suffix in SUFFIXES and b"jobs" in _sniff(file))


def _sniff(file: str) -> bytes:
    """Which keys of lists a file holds, as far as a look at its text tells."""
    try:
        data = open_source(file).read()
    except AttnError:  # told at its turn
        return b""
    return b" ".join(key for key, written in _LISTS.items() if key in data and written.search(data))


def _jobs(file: str, options: Layer, common: str | None, found: Found) -> Iterator[Job]:
    stem, suffix = os.path.splitext(os.path.basename(file))
    if suffix.lower() not in (*SUFFIXES, *JOB_LISTS):
        raise InputError(
            "this is no problem file",
            place=file,
            hint=f"problems: {', '.join(SUFFIXES)}; lists of jobs: {', '.join(JOB_LISTS)}",
        )
    keys = _sniff(file)
    if suffix.lower() in JOB_LISTS or (b"jobs" in keys):
        listed = read_jobs(file, options, common, found.shared)
        if listed is not None:
            yield from _named(stem, listed)
            return
    read = partial(read_document, file, options, shared=found.shared)
    if b"problems" in keys:
        yield from _read(stem, file, read, options)
    else:
        found.unread.append(read)
        yield Job(stem, file, lambda: _single(read(), options))


def _read(stem: str, file: str, read: Callable[[], Document], options: Layer) -> Iterator[Job]:
    """The jobs of a file that is read at once, since it may hold a list of problems."""
    try:
        document = read()
    except AttnError as error:
        yield Job(stem, file, _raising(error))
        return
    if document.kind == "problems":
        yield from _members(stem, file, document, options)
    else:
        yield Job(stem, file, lambda: _single(document, options))


def _single(document: Document, options: Layer) -> Problem | Stages:
    return read_stages(document, options) if document.kind == "stages" else document.problem(options)


def _members(stem: str, file: str, document: Document, options: Layer) -> Iterator[Job]:
    """The problems of a list; what is wrong with the file as a whole is wrong with each of them."""
    strays = document.strays()
    if strays:
        yield Job(stem, file, _raising(*strays))
        return
    yield from _named(stem, [
        (member.name, f"{file}: problem {number}", _member(member, options))
        for number, member in enumerate(document.members, 1)
    ])  # fmt: skip


def _member(member: Document, options: Layer) -> Callable[[], Problem]:
    return lambda: member.problem(options)


def _raising(*errors: AttnError) -> Callable[[], Problem]:
    def load() -> Problem:
        raise_all(list(errors))
        raise AssertionError("there was an error")

    return load


Listed = tuple[str | None, str, Callable[[], Problem | Stages]]


def _named(stem: str, listed: Sequence[Listed]) -> Iterator[Job]:
    """The jobs of a list; one without a name gets that of the file and its number. Raises InputError for odd names."""
    width, errors = len(str(len(listed))), list[AttnError]()
    jobs = []
    for number, (name, source, load) in enumerate(listed, 1):
        if name is not None and (name in ("", ".", "..") or re.search(r"[/\\\x00-\x1f]", name)):
            errors.append(InputError(f"the name {name!r} cannot be that of a file", place=source))
        jobs.append(Job(name or f"{stem}-{number:0{width}}", source, load))
    raise_all(errors)
    yield from jobs


def _same_names(jobs: list[Job]) -> Iterator[AttnError]:
    first: dict[str, Job] = {}
    for job in jobs:
        if job.name in first:
            other = first[job.name].source
            yield InputError(
                f"{other} and {job.source} would both give the result {job.name!r}",
                hint="rename one, or compute them in two batches",
            )
        first.setdefault(job.name, job)
