"""YAML and JSON as a tree of nodes with places: composed by PyYAML, interpreted by the rules of YAML 1.2 here.

No tags, no merge keys, no duplicate keys, no alias that refers to itself or multiplies past a limit. libyaml's
parser is used where there is one; without it the result is the same, only slower.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, TypeAlias

from attncli.errors import AttnError, InputError, Place, ShapeError, raise_all
from attncli.lazy import np
from attncli.problem.matrix import Matrix
from attncli.problem.numbers import parse_number, quote
from attncli.problem.text import decode, lines_of

# yaml.Node: the stubs know neither its id nor that every kind has a value.
Node: TypeAlias = Any

DEEPEST = 64  # levels of nesting: arrays cannot have more
EXPANDED = 1_000_000  # nodes that aliases may add

_TAG = "implicit"  # what the resolver says of every node that has no tag of its own
_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_SURROGATES = re.compile(r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
# All that plain decimals are made of: float() reads nothing else out of these characters.
_DECIMALS = re.compile(r"[0-9.eE,+-]*")


def compose(
    data: bytes | str, file: str, *, json: bool | None = None, errors: list[AttnError] | None = None
) -> Node:
    """The root node of the only document in a file.

    json: the text is JSON, where tabs may stand between values and surrogate pairs in strings; by default the
    suffix of `file` tells. errors: takes wrong tags and keys, to be told together with what else is wrong; such keys
    are left out of the tree. Raises InputError with the place of what is wrong.
    """
    import yaml

    text = decode(data, file) if isinstance(data, bytes) else data
    if json or (json is None and file.lower().endswith(".json")):
        text = _SURROGATES.sub(_join_surrogates, text.replace("\t", " "))
    _refuse_unprintable(text, file)
    parser = _parser()
    try:
        _refuse_depth(text, file, parser)
        if "\t" in text:  # libyaml lets some tabs pass: the stricter parser decides, as it would without libyaml
            _run_through(yaml.SafeLoader(text))
        try:
            root: Node | None = parser(text).get_single_node()
        except yaml.composer.ComposerError as error:
            if error.problem and "another document" in error.problem:
                raise _several_documents(text, file, parser) from None
            raise
    except yaml.MarkedYAMLError as error:
        raise _translate(error, text, file) from None
    except RecursionError:  # only the loader in Python recurses by Python's count
        raise _too_deep(Place(file)) from None
    if root is None or (isinstance(root, yaml.ScalarNode) and is_plain(root) and not root.value):
        raise InputError("the file is empty", place=Place(file))
    found = _check_tree(root, file)
    if errors is None:
        raise_all(found)
    else:
        errors += found
    return root


def place_of(node: Node, file: str) -> Place:
    """Where a node begins."""
    return Place(file, node.start_mark.line + 1, node.start_mark.column + 1)


def is_plain(node: Node) -> bool:
    """Whether a scalar was written without quotes."""
    return not node.style


def scalar_value(node: Node) -> str | float | bool | None:
    """A scalar by YAML 1.2: null, true, false and decimals where they are written plainly, else its text."""
    text: str = node.value
    if not is_plain(node):
        return text
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    try:
        return parse_number(text)
    except InputError:
        return text


def pairs_of(node: Node) -> Iterator[tuple[str, Node, Node]]:
    """Key, key node and value node of each pair of a mapping."""
    for key, value in node.value:
        yield key.value, key, value


def matrix_from_node(node: Node, file: str, *, blanks: bool = False) -> Matrix:
    """Nested lists of numbers as an array of as many axes; true and false alone give an array of bool.

    blanks: `~`, `_`, `?` and nothing are cells left out: NaN in the array, None in the spelling.
    Raises InputError for each cell that is no number (all together), ShapeError for rows of unequal length.
    """
    if node.id != "sequence":
        found = f"the value {quote(node.value)}" if node.id == "scalar" else "a mapping"
        raise InputError(f"expected a list of numbers, found {found}", place=place_of(node, file))
    shape = _shape(node, file)
    if 0 in shape:
        raise InputError(
            "the matrix has no rows" if shape[0] == 0 else "the matrix has empty rows",
            place=place_of(node, file),
            hint="a .npy file can hold a matrix without rows",
        )
    rows = _rows(node, shape, file)
    array = _array(rows, file, blanks).reshape(shape)

    def spelling() -> list[Any]:
        return _spelled(node, blanks)

    def cell(index: tuple[int, ...]) -> Place:
        inner = node
        for i in index:
            inner = inner.value[i]
        return place_of(inner, file)

    return Matrix(array, spelling=spelling, place=place_of(node, file), cell=cell)


@cache
def _parser() -> Any:
    """A loader that composes nodes and resolves nothing."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Composer(base):  # type: ignore[misc]  # which of the two is known only here
        def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
            return _TAG

        def descend_resolver(self, current_node: Any, current_index: Any) -> None:
            pass

        def ascend_resolver(self) -> None:
            pass

    return Composer


def _join_surrogates(match: re.Match[str]) -> str:
    high, low = int(match[2], 16), int(match[3], 16)
    return f"{match[1]}\\U{0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00):08x}"


def _refuse_unprintable(text: str, file: str) -> None:
    import unicodedata

    if match := _UNPRINTABLE.search(text):
        before = re.split(r"\r\n|\r|\n", text[: match.start()])
        name = unicodedata.name(match[0], "control character")
        raise InputError(
            f"the character U+{ord(match[0]):04X} ({name}) cannot stand in a YAML file",
            place=Place(file, len(before), len(before[-1]) + 1),
            hint=f'between double quotes it is written "\\u{ord(match[0]):04x}"',
        )


def _refuse_depth(text: str, file: str, parser: Any) -> None:
    """Refuse nesting that libyaml's recursion could not bear; `_check_tree` counts what can be composed.

    Brackets need no look: libyaml refuses more than 1000. Otherwise a line's blanks and dashes bound the depth.
    """
    if max(len(line) - len(line.lstrip(" ?-")) for line in lines_of(text)) < 400:
        return
    depth, events = 0, parser(text)
    while (event := events.get_event()) is not None:
        kind = type(event).__name__
        depth += kind.endswith(("SequenceStartEvent", "MappingStartEvent"))
        depth -= kind.endswith(("SequenceEndEvent", "MappingEndEvent"))
        if depth > DEEPEST:
            raise _too_deep(place_of(event, file))


def _too_deep(place: Place) -> InputError:
    return InputError(f"nested more than {DEEPEST} levels deep", place=place)


def _run_through(parser: Any) -> int:
    """Parse to the end; the number of documents."""
    documents = 0
    while (event := parser.get_event()) is not None:
        documents += type(event).__name__ == "DocumentStartEvent"
    return documents


def _several_documents(text: str, file: str, parser: Any) -> InputError:
    import yaml

    try:
        found = str(_run_through(parser(text)))
    except yaml.YAMLError:
        found = "more than one"
    return InputError(f"the file holds {found} documents, expected 1", place=Place(file), hint="--- begins another one")


def _translate(error: Any, text: str, file: str) -> InputError:
    """A YAML error as one line that points at the place."""
    mark = error.problem_mark or error.context_mark
    place = Place(file, mark.line + 1, mark.column + 1) if mark else Place(file)
    problem = error.problem or error.context or "not valid YAML"
    if "nesting depth" in problem:
        return _too_deep(place)
    lines = re.split(r"\r\n|\r|\n", text)
    line = lines[mark.line] if mark and mark.line < len(lines) else ""
    here = line[mark.column : mark.column + 1] if mark else ""
    if here == "\t" or ("cannot start any token" in problem and "\t" in line[: len(line) - len(line.lstrip())]):
        used = "for indentation" if not line[: mark.column].strip() else "between values"
        return InputError(f"line {mark.line + 1}: tab used {used}, use spaces", place=place)
    hint = None
    if "undefined alias" in problem:
        hint = "a word that begins with * stands in quotes"
    elif "cannot start any token" in problem and here:
        hint = f"a word that begins with {here} stands in quotes"
    elif "expected ',' or" in problem:
        hint = "a bracket or a comma is missing, or a word needs quotes"
    elif "mapping values are not allowed" in problem:
        hint = "text with a colon and a blank in it stands in quotes"
    elif "could not find expected ':'" in problem:
        hint = "a colon, and a blank after it, are missing"
    context = f" ({error.context})" if error.context and error.context not in problem else ""
    return InputError(f"not valid YAML: {problem}{context}", place=place, hint=hint)


def _check_tree(root: Node, file: str) -> list[AttnError]:
    """Find tags, duplicate and merge keys, and leave these keys out; refuse circles, and aliases that multiply."""
    errors: list[AttnError] = []
    sizes: dict[int, int] = {}  # of finished collections, aliases followed
    open_nodes: set[int] = set()
    written = 0
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, finished = stack.pop()
        children = _children(node)
        if finished:
            open_nodes.discard(id(node))
            sizes[id(node)] = 1 + sum(sizes.get(id(child), 1) for child in children)
            continue
        if id(node) in open_nodes:
            raise InputError("an alias refers to the list or mapping that it is part of", place=place_of(node, file))
        if id(node) in sizes:
            continue
        written += 1
        if node.tag != _TAG:
            errors.append(_tag_error(node, file))
        if node.id == "mapping":
            odd = _key_errors(node, file)
            errors += odd
            places = {error.place for error in odd}
            node.value = [pair for pair in node.value if not odd or place_of(pair[0], file) not in places]
        if {(child.id, child.tag) for child in children} <= {("scalar", _TAG)}:  # most lists: a row of numbers
            written += len(children)
            sizes[id(node)] = 1 + len(children)
            continue
        open_nodes.add(id(node))
        if len(open_nodes) >= DEEPEST:
            raise _too_deep(place_of(node, file))
        stack.append((node, True))
        for child in children:
            if child.id != "scalar":
                stack.append((child, False))
            else:
                written += 1
                if child.tag != _TAG:
                    errors.append(_tag_error(child, file))
    if sizes[id(root)] - written > EXPANDED:
        raise InputError(
            f"its aliases multiply to more than {EXPANDED:,} values", place=place_of(root, file), hint="write it out"
        )
    return errors


def _children(node: Node) -> list[Node]:
    if node.id == "mapping":
        return [part for pair in node.value for part in pair]
    return node.value if node.id == "sequence" else []


def _tag_error(node: Node, file: str) -> InputError:
    tag = node.tag.replace("tag:yaml.org,2002:", "!!")
    return InputError(
        f"the tag {tag} is not read",
        place=place_of(node, file),
        hint="write the value without it; a word that begins with ! stands in quotes",
    )


def _key_errors(node: Node, file: str) -> list[AttnError]:
    errors: list[AttnError] = []
    first: dict[str, Place] = {}
    for key, _ in node.value:
        place = place_of(key, file)
        if key.id != "scalar":
            errors.append(InputError(f"a {key.id} stands where a key is expected", place=place, hint="keys are words"))
        elif key.value == "<<" and is_plain(key):
            errors.append(InputError("the merge key << is not read", place=place, hint="write the keys out"))
        elif key.value in first:
            lines = f"lines {first[key.value].line} and {place.line}"
            errors.append(InputError(f"the key {quote(key.value)} is given twice ({lines})", place=place))
        else:
            first[key.value] = place
    return errors


def _shape(node: Node, file: str) -> tuple[int, ...]:
    """The shape of nested lists, read along the first of each; `_rows` compares the others."""
    shape: list[int] = []
    while node.id == "sequence":
        shape.append(len(node.value))
        if not node.value:
            break
        node = node.value[0]
    return tuple(shape)


def _rows(node: Node, shape: tuple[int, ...], file: str) -> list[list[Node]]:
    """The innermost lists of an array, each a list of scalar nodes; ragged ones raise ShapeError."""
    level = [node]
    for depth, size in enumerate(shape):
        last = depth == len(shape) - 1
        for number, row in enumerate(level):
            if row.id != "sequence":
                raise ShapeError(_mixed(row, f"a row of {size}"), place=place_of(row, file))
            if len(row.value) != size:
                raise _ragged(level, number, last, file)
        if last:
            break
        level = [child for row in level for child in row.value]
    for row in level:
        for child in row.value:
            if child.id != "scalar":
                raise ShapeError(_mixed(child, "a number"), place=place_of(child, file))
    return [row.value for row in level]


def _mixed(node: Node, expected: str) -> str:
    found = {"sequence": "a list", "mapping": "a mapping"}.get(node.id) or f"the single value {quote(node.value)}"
    return f"{found} stands where {expected} is expected"


def _ragged(level: list[Node], number: int, last: bool, file: str) -> ShapeError:
    first, other = level[0], level[number]
    kind = "values" if last else "rows"
    lines = place_of(first, file).line, place_of(other, file).line
    return ShapeError(
        f"row {number + 1} (line {lines[1]}) has {len(other.value)} {kind}, "
        f"row 1 (line {lines[0]}) has {len(first.value)}",
        place=place_of(other, file),
    )


def _array(rows: list[list[Node]], file: str, blanks: bool) -> Any:
    values: list[list[float]] = []
    errors: list[AttnError] = []
    truths = 0
    for row in rows:
        texts = [node.value for node in row]
        if _DECIMALS.fullmatch(",".join(texts)):
            try:
                values.append(list(map(float, texts)))
                continue
            except ValueError:
                pass  # an empty cell, or 1e or 2001-13-45: told below, with its place
        numbers = []
        for node in row:
            truths += is_plain(node) and node.value in _BOOL
            try:
                numbers.append(_cell(node, file, blanks))
            except InputError as error:
                errors.append(error)
        values.append(numbers)
    raise_all(errors)
    array = np.array(values, dtype=float)
    if truths == array.size:
        return array.astype(bool)
    if truths:
        odd = next(node for row in rows for node in row if is_plain(node) and node.value in _BOOL)
        raise InputError(f"{odd.value} stands among numbers", place=place_of(odd, file), hint="write 1 or 0")
    if np.isinf(array).any():
        _refuse_overflow(rows, file)
    return array


def _cell(node: Node, file: str, blanks: bool) -> float:
    """One cell that is not a plain decimal."""
    text = node.value
    if is_plain(node) and text in _BOOL:
        return float(_BOOL[text])
    if _is_blank(node):
        if blanks:
            return float("nan")
        shown = quote(text) if text else "nothing"
        raise InputError(f"{shown} stands where a number is expected", place=place_of(node, file))
    return parse_number(text, place=place_of(node, file))


def _is_blank(node: Node) -> bool:
    return node.value.strip() in ("", "_", "?", "~") or (is_plain(node) and node.value in _NULL)


def _refuse_overflow(rows: list[list[Node]], file: str) -> None:
    """Infinity that was not written as such: 1e400."""
    errors: list[AttnError] = []
    for node in (node for row in rows for node in row):
        try:
            if not _is_blank(node):
                parse_number(node.value, place=place_of(node, file))
        except InputError as error:
            errors.append(error)
    raise_all(errors)


def _spelled(node: Node, blanks: bool) -> list[Any]:
    return [
        _spelled(child, blanks) if child.id == "sequence" else None if blanks and _is_blank(child) else child.value
        for child in node.value
    ]
