"""Lists of jobs: each row says what is different from a common problem.

A CSV or TSV file has options as columns (`scale`, `mask`, `W_Q` ...), an empty cell says nothing; a YAML or JSON file
has `problem:` and `jobs:`, a list of mappings. `name` names the result, `problem` another common problem.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from attncli.errors import AttnError, InputError, Place, UsageError, many, nearest, raise_all, there_are
from attncli.problem.build import Layer, make_problem
from attncli.problem.convert_text import value_from_text
from attncli.problem.document import Document, layer_of, read_document
from attncli.problem.formats import open_source
from attncli.problem.formats.cells import Row, split
from attncli.problem.problem import Problem
from attncli.problem.reading import Reading, SharedFiles, read_options
from attncli.problem.settings import FIELDS, Field
from attncli.problem.text import decode
from attncli.problem.values import Setting, placed

JOB_LISTS = (".csv", ".tsv")
_NOT_HERE = ("problems", "stages", "format")

Listed = list[tuple[str | None, str, Callable[[], Problem]]]


def columns() -> dict[str, Field]:
    """What a job may say, by key and by option: `W_Q` and `wq`, `mask_value` and `mask-value`."""
    fields = [field for field in FIELDS.values() if field.in_file and field.name not in _NOT_HERE]
    names = {field.name: field for field in fields}
    names |= {field.name.replace("_", "-"): field for field in fields}
    return {field.flag.lstrip("-"): field for field in fields if field.flag and field.flag.startswith("--")} | names


def read_jobs(file: str, options: Layer, common: str | None, shared: SharedFiles) -> Listed | None:
    """Name, source and reader of each job; None for a YAML file that is no list of jobs.

    common: the problem of jobs that name none. Raises what is wrong with the list, and with its common problems.
    """
    commons = _Commons(common, options, shared)
    if Path(file).suffix.lower() in JOB_LISTS:
        return _from_table(file, options, commons)
    return _from_tree(file, options, commons)


class _Commons:
    """The common problems, each read once."""

    def __init__(self, common: str | None, options: Layer, shared: SharedFiles) -> None:
        self.common, self.options, self.shared = common, options, shared
        self.read: dict[str, Document] = {}

    def layer(self, path: str | None, base: Path, place: Place) -> Layer:
        """The settings of a job's common problem: a path as the list gives it, or that of --problem."""
        if path is None and self.common is None:
            raise InputError(
                "the job names no problem", place=place, hint="a column `problem`, or --problem FILE for all of them"
            )
        file = str(base / path) if path is not None else str(self.common)
        if file not in self.read:
            with placed(place):
                self.read[file] = read_document(file, self.options, shared=self.shared)
        if self.read[file].kind is not None:
            raise InputError(f"{file} holds {self.read[file].kind}, not one problem", place=place)
        return self.read[file].layer


def _from_table(file: str, options: Layer, commons: _Commons) -> Listed:
    text = decode(open_source(file).read(), file)
    reading_options = read_options(options.settings)
    separator = "\t" if file.lower().endswith(".tsv") else reading_options.separator
    rows = split(text, separator, reading_options.decimal, file).rows
    if not rows:
        raise InputError("the list of jobs is empty", place=Place(file))
    head, body = rows[0], rows[1:]
    fields, errors = _head(head, file), list[AttnError]()
    reading = Reading(Path(file).parent, reading_options, shared=commons.shared)
    listed: Listed = []
    for row in body:
        place = Place(file, row.line)
        if len(row.cells) != len(fields):
            errors.append(
                InputError(
                    f"line {row.line} has {many(len(row.cells), 'cell')}, but {there_are(len(fields), 'column')}",
                    place=place,
                )
            )
            continue
        try:
            layer, named = _row(row, fields, reading, file)
            below = commons.layer(named.get("problem"), Path(file).parent, place)
        except AttnError as error:
            errors += error.errors()
            continue
        listed.append((named.get("name"), f"{file}:{row.line}", _reader(below, layer, options)))
    if not body:
        errors.append(InputError("the list of jobs has no rows below its header", place=Place(file)))
    raise_all(errors)
    return listed


def _head(head: Row, file: str) -> list[str]:
    """The columns as field names, `problem` among them. Raises InputError for unknown ones, all together."""
    known, errors, names = columns(), list[AttnError](), list[str]()
    for index in range(len(head.cells)):
        title = head.label(index)
        place = Place(file, head.line, index + 1)
        name = title if title == "problem" else known[title].name if title in known else ""
        if not name:
            close = nearest(title, ["problem", *known])
            errors.append(InputError(f"unknown column {title!r}", place=place, hint=_hint(close)))
        elif name in names and not (name in FIELDS and FIELDS[name].repeatable):
            errors.append(InputError(f"the column {title!r} stands twice", place=place))
        names.append(name)
    raise_all(errors)
    return names


def _hint(close: str | None) -> str:
    return f"did you mean {close!r}?" if close else "columns are options (scale, mask, wq ...), name and problem"


def _row(row: Row, names: list[str], reading: Reading, file: str) -> tuple[Layer, dict[str, str]]:
    """The settings of a row; name and problem apart. What is wrong with a cell is wrong with that job."""
    layer, named = Layer(), dict[str, str]()
    cells: dict[str, tuple[Any, Place]] = {}
    for index, name in enumerate(names):
        text, place = row.label(index), Place(file, row.line, index + 1)
        if not text:
            continue
        if name in ("name", "problem"):
            named[name] = text
        elif FIELDS[name].repeatable:
            cells[name] = ([*cells.get(name, ([], None))[0], text], place)
        else:
            cells[name] = (text, place)
    for name, (given, place) in cells.items():
        try:
            with placed(place):
                layer.settings[name] = Setting(_value(FIELDS[name], given, reading), place)
        except AttnError as error:
            for inner in error.errors():
                inner.place = place if isinstance(inner.place, str) else inner.place
            layer.errors += error.errors()
            layer.broken.add(name)
    return layer, named


def _value(field: Field, given: Any, reading: Reading) -> Any:
    if field.kind != "flag":
        return value_from_text(field, given, reading)
    if given.lower() not in ("true", "false", "yes", "no", "1", "0"):
        raise UsageError(f"{field.name} is true or false, not {given!r}")
    return given.lower() in ("true", "yes", "1")


def _reader(common: Layer, job: Layer, options: Layer) -> Callable[[], Problem]:
    return lambda: make_problem(common, job, options)


def _from_tree(file: str, options: Layer, commons: _Commons) -> Listed | None:
    from attncli.problem.yamltext import compose
    from attncli.problem.yamltree import pairs_of, place_of

    root = compose(open_source(file).read(), file)
    top = {key: (node, value) for key, node, value in pairs_of(root)} if root.id == "mapping" else {}
    if "jobs" not in top:
        return None
    errors = list[AttnError]()
    for key, (node, _) in top.items():
        if key not in ("jobs", "problem", "title"):
            errors.append(
                InputError(
                    f"unknown key {key!r} beside jobs",
                    place=place_of(node, file),
                    hint="jobs, problem and title; what all jobs share stands in the problem",
                )
            )
    node = top["jobs"][1]
    if node.id != "sequence" or not node.value:
        raise_all([*errors, InputError("jobs is not a list", place=place_of(node, file), hint="jobs:\n  - {scale: 2}")])
    own = top["problem"][1] if "problem" in top else None
    known = columns()
    listed: Listed = []
    for item in node.value:
        place = place_of(item, file)
        if item.id != "mapping":
            errors.append(InputError("a job is a mapping of options", place=place, hint="- {name: first, scale: 2}"))
            continue
        odd = [(key, place_of(at, file)) for key, at, _ in pairs_of(item) if key != "problem" and key not in known]
        errors += [InputError(f"unknown column {key!r}", place=at, hint=_hint(nearest(key, known))) for key, at in odd]
        if odd:
            continue
        keys: Mapping[str, Any] = {key: value for key, _, value in pairs_of(item)}
        item.value = [(_canonical(key, known), value) for key, value in item.value if key.value != "problem"]
        layer = replace(layer_of(item, file, options, commons.shared), file=None)
        named = keys.get("problem", own)
        try:
            below = commons.layer(str(named.value) if named is not None else None, Path(file).parent, place)
        except AttnError as error:
            errors += error.errors()
            continue
        name = layer.settings.pop("name", None)
        listed.append((None if name is None else str(name.value), str(place), _reader(below, layer, options)))
    raise_all(errors)
    return listed


def _canonical(key: Any, known: Mapping[str, Field]) -> Any:
    """The key node, with the field's name in place of an option's."""
    key.value = known[key.value].name
    return key
