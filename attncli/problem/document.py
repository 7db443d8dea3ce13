"""Problem files: YAML or JSON read into settings with their places; everything that is wrong is reported at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from attncli.errors import MOST_TOLD, AttnError, InputError, Place, nearest, raise_all
from attncli.problem.build import Layer, in_order, make_problem, merge
from attncli.problem.convert_node import Nodes
from attncli.problem.formats import STDIN, ReadOptions, open_source
from attncli.problem.mistaken import problem_root
from attncli.problem.problem import Problem
from attncli.problem.reading import READ_OPTIONS, Reading, SharedFiles, read_options, split_stage
from attncli.problem.settings import FIELDS, find_key
from attncli.problem.values import Setting, StageRef
from attncli.problem.yamltree import Node, is_plain, pairs_of, place_of, scalar_value

_MOST_STAGES = 1000


@dataclass
class Document:
    """One problem of a file, or a file with a list of them.

    layer: its settings. members: the problems under `problems:` or `stages:`; kind says which, None for neither.
    lines: the first line of its text, and the one after its last.
    """

    layer: Layer
    members: list[Document] = field(default_factory=list)
    kind: str | None = None
    file: str = ""
    lines: tuple[int, int] = (0, 0)

    def strays(self) -> list[AttnError]:
        """What is wrong with a list itself; what stands within one of its members is given to that member."""
        strays = []
        for error in self.layer.errors:
            line = error.place.line if isinstance(error.place, Place) and error.place.file == self.file else None
            at = bisect_right(self.members, line or 0, key=lambda member: member.lines[0]) - 1
            if line is not None and at >= 0 and line < self.members[at].lines[1]:
                self.members[at].layer.errors.append(error)
            else:
                strays.append(error)
        self.layer.errors = strays
        return strays

    @property
    def name(self) -> str | None:
        """The name of a stage."""
        setting = self.layer.settings.get("name")
        return None if setting is None else str(setting.value)

    def problem(self, options: Layer | None = None) -> Problem:
        """The one Problem of the file, options winning. Raises all that is wrong, and InputError for a list."""
        if self.kind is not None:
            raise_all(self.layer.errors)
            raise InputError(
                f"the file holds {len(self.members)} {self.kind}, not one problem",
                place=Place(self.file),
                hint="`run` and `batch` of the command line take lists",
            )
        return make_problem(self.layer, *([options] if options else []))

    def problems(self, options: Layer | None = None) -> list[Problem]:
        """All problems of the file: its members, in order, or the single one. Raises all that is wrong in any."""
        if self.kind is None:
            return [self.problem(options)]
        problems = []
        errors = list(self.layer.errors)
        for member in self.members:
            try:
                problems.append(member.problem(options))
            except AttnError as error:
                errors += error.errors()
        raise_all(in_order(errors, self.file))
        return problems


def read_document(
    path: str | Path,
    options: Layer | None = None,
    *,
    stdin: Callable[[], bytes] | None = None,
    shared: SharedFiles | None = None,
) -> Document:
    """The problem file at `path`, `-` for standard input.

    options: the command line, whose --separator, --decimal, --header and --labels reach the files named in it.
    shared: matrices that other problems have read from files.
    Raises InputError for a file that is no YAML mapping at all; what is wrong with its keys is kept in the layer.
    """
    name = str(path)
    if name == "-" and stdin is not None:
        return document_of(stdin(), STDIN, None, options)
    return document_of(_bytes(name), name, Path(path).parent, options, shared)


def document_of(
    data: bytes, file: str, base: Path | None, options: Layer | None = None, shared: SharedFiles | None = None
) -> Document:
    """The problem file that these bytes are. base: the folder of the files that it names. Else like read_document."""
    errors: list[AttnError] = []
    root = problem_root(data, file, errors)
    document = _document(root, _Source(file, base, options or Layer(), shared))
    document.layer.errors += errors
    return document


def _bytes(name: str) -> bytes:
    if name and Path(name).is_dir():
        raise InputError("this is a folder, not a file", place=Place(name), hint="`batch` takes folders")
    return open_source(name).read()


def layer_of(root: Node, file: str, options: Layer, shared: SharedFiles | None = None) -> Layer:
    """The settings of a mapping within a file, as if it were a problem of its own."""
    return _document(root, _Source(file, Path(file).parent, options, shared)).layer


@dataclass(frozen=True)
class _Source:
    """Where a document stands: its file, the folder of the files that it names, and how these are read."""

    file: str
    base: Path | None
    options: Layer
    shared: SharedFiles | None


def _document(root: Node, source: _Source, shared: Layer | None = None, nodes: Nodes | None = None) -> Document:
    """shared, nodes: of a list, what stands beside it, and the converters of members that are read no other way."""
    file = source.file
    layer = Layer(file=file, line=root.start_mark.line + 1 if shared is not None else None)
    fields = _fields(root, file, layer)
    if nodes is None or not fields.keys().isdisjoint(READ_OPTIONS):
        how = _read_options(fields, file, source.options, shared, layer)
        nodes = Nodes(file, Reading(source.base, how, shared=source.shared))
    for name, (node, place) in fields.items():
        if name not in ("problems", "stages") and name not in layer.settings and name not in layer.broken:
            _convert(name, node, place, nodes, layer)
    kinds = [name for name in ("problems", "stages") if name in fields]
    if shared is not None:
        settings, _ = merge([shared, layer])
        layer.settings = settings
        layer.broken |= shared.broken
    lines = root.start_mark.line + 1, root.end_mark.line + 1 + (root.end_mark.column > 0)
    document = Document(layer, kind=kinds[0] if kinds else None, file=file, lines=lines)
    if len(kinds) == 2:
        layer.errors.append(InputError("problems and stages are both given", place=fields["stages"][1]))
    elif kinds and shared is not None:
        layer.errors.append(InputError(f"{kinds[0]} within a list of problems", place=fields[kinds[0]][1]))
    elif kinds:
        _members(document, fields[kinds[0]][0], source)
    return document


def _fields(root: Node, file: str, layer: Layer) -> dict[str, tuple[Node, Place]]:
    """Value node and key place by field name; unknown keys become errors of the layer."""
    found: dict[str, tuple[Node, Place]] = {}
    for key, key_node, value in pairs_of(root):
        if len(layer.errors) >= MOST_TOLD:
            break
        place = place_of(key_node, file)
        if key not in FIELDS and is_plain(key_node) and not isinstance(scalar_value(key_node), str):
            layer.errors.append(
                InputError(
                    f"the key {key or 'null'} is not a word", place=place, hint="keys are names such as X, W_Q or score"
                )
            )
            continue
        try:
            name = find_key(key, place).name
        except InputError as error:
            if error.hint in (other.hint for other in layer.errors) and str(error.hint).startswith("known:"):
                error.hint = None  # the list of all keys, once
            layer.errors.append(error)
            continue
        if name in found:
            layer.errors.append(InputError(f"the key {key!r} is given twice, with `_` and with `-`", place=place))
        found[name] = (value, place)
    return found


def _convert(name: str, node: Node, place: Place, nodes: Nodes, layer: Layer) -> None:
    try:
        layer.settings[name] = Setting(nodes.value(find_key(name), node), place)
    except AttnError as error:
        layer.errors += error.errors()
        layer.broken.add(name)


def _read_options(
    fields: dict[str, tuple[Node, Place]], file: str, options: Layer, shared: Layer | None, layer: Layer
) -> ReadOptions:
    """How text files are read: options win over the problem, the problem over what its list shares."""
    for name in READ_OPTIONS:
        if name in fields:
            _convert(name, *fields[name], Nodes(file, Reading()), layer)
    layers = [each for each in (shared, layer, options) if each is not None]
    return read_options(merge(layers)[0])


def _members(document: Document, node: Node, source: _Source) -> None:
    """The problems of a list; what stands beside the list is shared by them all, except what is said of one stage."""
    kind, layer, file = document.kind, document.layer, source.file
    if node.id != "sequence" or not node.value:
        layer.errors.append(
            InputError(
                f"{kind} is not a list of problems",
                place=place_of(node, file),
                hint=f"{kind}:\n  - {{Q: [[1]], K: [[1]]}}",
            )
        )
        return
    if kind == "stages" and len(node.value) > _MOST_STAGES:
        what = f"{len(node.value):,} stages are more than {_MOST_STAGES:,}"
        layer.errors.append(InputError(what, place=place_of(node, file), hint="problems: holds any number"))
        return
    settings = {name: setting for name, setting in layer.settings.items() if name not in ("title", "expect", "show")}
    shared = Layer(settings, broken=set(layer.broken))
    how = _read_options({}, file, source.options, shared, Layer())
    nodes = Nodes(file, Reading(source.base, how, shared=source.shared))
    for item in node.value:
        if item.id != "mapping":
            layer.errors.append(
                InputError(
                    f"an entry of {kind} is no problem",
                    place=place_of(item, file),
                    hint="- {name: first, Q: [[1, 0]], K: [[0, 1]]}",
                )
            )
            continue
        document.members.append(_document(item, source, shared, nodes))
        if kind == "stages" and document.members[-1].name is None:
            place = place_of(item, file)
            layer.errors.append(InputError("a stage without a name", place=place, hint="- name: encoder"))
    if kind == "stages":
        _check_stages(document)
        _share_expect(document)
    elif "expect" in layer.settings:
        layer.errors.append(
            InputError(
                "expect beside a list of problems",
                place=layer.settings["expect"].place,
                hint="it belongs to one of them",
            )
        )


def _check_stages(document: Document) -> None:
    """Names are unique, and a stage uses steps of earlier ones only."""
    seen: dict[str, None] = {}
    errors = document.layer.errors
    for member in document.members:
        for setting in member.layer.settings.values():
            used = setting.value.single() if isinstance(setting.value, StageRef) else ()
            for stage, place in {reference.stage: reference.place for reference in used}.items():
                if stage not in seen:
                    close = nearest(stage, seen)
                    hint = f"did you mean {close!r}?" if close else f"earlier: {', '.join(seen) or 'none'}"
                    errors.append(InputError(f"there is no earlier stage {stage!r}", place=place, hint=hint))
        if member.name is not None and member.name in seen:
            errors.append(
                InputError(f"two stages are named {member.name!r}", place=member.layer.settings["name"].place)
            )
        seen[member.name or ""] = None


def _share_expect(document: Document) -> None:
    """`expect:` beside stages: `encoder.weights` goes to the stage encoder, a plain step to the last one."""
    setting = document.layer.settings.get("expect")
    if setting is None or not document.members:
        return
    by_name = {member.name: member for member in document.members}
    for address, hand in setting.value.items():
        stage, step = split_stage(address)
        member = by_name.get(stage) if stage else document.members[-1]
        if member is None:
            names = [name for name in by_name if name]
            document.layer.errors.append(
                InputError(f"there is no stage {stage!r}", place=hand.place, hint=f"stages: {', '.join(names)}")
            )
            continue
        own = member.layer.settings.get("expect", Setting({}, setting.place))
        member.layer.settings["expect"] = own._replace(value={**own.value, step: hand})
