"""From the text of a YAML or JSON file to its tree: parsed by PyYAML, told in one line where it cannot be.

libyaml's parser is used where there is one; without it the result is the same, only slower.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from attncli.errors import AttnError, InputError, Place, raise_all, together
from attncli.lazy import pattern
from attncli.problem.literals import MARK, Literal, Literals
from attncli.problem.text import decode, lines_of
from attncli.problem.yamltree import DEEPEST, IMPLICIT, Node, check_tree, is_plain, place_of, too_deep

_UNPRINTABLE = pattern("[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_COMMENT = pattern("#[^\r\n]*")
_SURROGATES = pattern(r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")

_FLAT = pattern(r"""[\[{][^\[\]{}"'#!]*[\]}]""")  # what surely ends with its bracket, and holds no other
_REMARK = pattern(r"(?m)(?:^|(?<=[ \t]))#[^\r\n]*")  # surely a comment, where there are no quotes
_BRACKET = pattern(r"[\[\]{}]")
_QUOTED = pattern("""["'!]""")  # what may hold a bracket that is none: quotes, and a tag such as !<a]>
_DEEP = 400  # so much nesting is worth a look; libyaml bears ten times that


def compose(data: bytes | str, file: str, *, json: bool | None = None, errors: list[AttnError] | None = None) -> Node:
    """The root node of the only document in a file.

    json: the text is JSON, where tabs may stand between values and surrogate pairs in strings; by default the
    suffix of `file` tells. errors: takes wrong tags and keys, to be told together with what else is wrong; such keys
    are left out of the tree. Raises InputError with the place of what is wrong.
    """
    with _without_collector():
        return _composed(data, file, json, errors)


@contextmanager
def _without_collector() -> Iterator[None]:
    """While a tree grows: looking through it again and again for circles, which it has none of, took two thirds."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _composed(data: bytes | str, file: str, json: bool | None, errors: list[AttnError] | None) -> Node:
    import yaml

    text = decode(data, file) if isinstance(data, bytes) else data
    if json or (json is None and file.lower().endswith(".json")):
        text = _SURROGATES.sub(_join_surrogates, text.replace("\t", " "))
    _refuse_unprintable(text, file)
    parser = _parser()
    try:
        _refuse_depth(text, file, parser)
        if "\t" in text:
            _refuse_tabs(text, file, parser)
        try:
            root: Node | None = _without_matrices(text, parser) or parser(text).get_single_node()
        except yaml.composer.ComposerError as error:
            if error.problem and "another document" in error.problem:
                raise _several_documents(text, file, parser) from None
            raise
    except yaml.MarkedYAMLError as error:
        from attncli.problem.yamlerrors import in_our_words

        raise together(in_our_words(error, text, file)) from None
    except RecursionError:  # only the loader in Python recurses by Python's count
        raise too_deep(Place(file)) from None
    if root is None or (isinstance(root, yaml.ScalarNode) and is_plain(root) and not root.value):
        raise InputError("the file is empty", place=Place(file))
    if root.id == "scalar" and is_plain(root):
        from attncli.problem.yamlerrors import missing_blanks

        raise_all(missing_blanks(text, file))
    found = check_tree(root, file)
    if errors is None:
        raise_all(found)
    else:
        errors += found
    return root


def _without_matrices(text: str, parser: Any) -> Node | None:
    """The tree with each matrix of plain numbers as one node; None where that cannot be done, or changes nothing."""
    import yaml

    literals = Literals(text)
    if not literals.taken:
        return None
    try:
        root = parser(literals.text).get_single_node()
    except yaml.MarkedYAMLError:
        return None  # told of the text as it is
    if root is None:
        return None
    known: dict[int, Literal | None] = {}

    def put(node: Node) -> Node:
        if node.id != "scalar" or MARK not in node.value:
            return node
        if id(node) not in known:  # aliases of one node stay one
            known[id(node)] = literals.node(node, lambda part: parser(part).get_single_node())
        return known[id(node)]

    root = put(root)
    stack, seen = [root], set[int]()
    while stack:
        node = stack.pop()
        if node is None:
            return None
        if node.id == "scalar" or isinstance(node, Literal) or id(node) in seen:
            continue
        seen.add(id(node))
        if node.id == "sequence":
            node.value = [put(child) for child in node.value]
            stack += node.value
        else:
            if any(MARK in key.value for key, _ in node.value if key.id == "scalar"):
                return None
            node.value = [(key, put(child)) for key, child in node.value]
            stack += [part for pair in node.value for part in pair]
    if literals.straddles(node.text for node in known.values() if node is not None):
        return None
    return root


@cache
def _parser() -> Any:
    """A loader that composes nodes and resolves nothing."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Composer(base):  # type: ignore[misc]  # which of the two is known only here
        def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
            return IMPLICIT

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
        before = lines_of(text[: match.start()])
        name = unicodedata.name(match[0], "control character")
        raise InputError(
            f"the character U+{ord(match[0]):04X} ({name}) cannot stand in a YAML file",
            place=Place(file, len(before), len(before[-1]) + 1),
            hint=f'between double quotes it is written "\\u{ord(match[0]):04x}"',
        )


def _refuse_depth(text: str, file: str, parser: Any) -> None:
    """Refuse nesting that libyaml's recursion could not bear; `check_tree` counts what can be composed.

    A line's blanks and dashes bound the depth of blocks, the brackets that hold more than plain words bound that of
    lists. libyaml refuses deep ones from 0.2.6 on; 0.2.5, which PyYAML 6.0.1 comes with, crashes.
    """
    blocks = max(len(line) - len(line.lstrip(" ?-")) for line in lines_of(text))
    brackets = text.count("[") + text.count("{")
    if brackets >= _DEEP:
        bare = _FLAT.sub("", text)
        brackets = bare.count("[") + bare.count("{")
        if brackets >= _DEEP and not _QUOTED.search(bare):
            brackets = _deepest(_REMARK.sub("", bare))
    if max(blocks, brackets) < _DEEP:
        return
    depth, events = 0, parser(text)
    while (event := events.get_event()) is not None:
        kind = type(event).__name__
        depth += kind.endswith(("SequenceStartEvent", "MappingStartEvent"))
        depth -= kind.endswith(("SequenceEndEvent", "MappingEndEvent"))
        if depth > DEEPEST:
            raise too_deep(place_of(event, file))


def _deepest(text: str) -> int:
    """How deep brackets lie in each other at most, in a text without quotes, tags and comments.

    One that closes and is none of a list stands in a block, where no list is open, so that this is never too low.
    """
    depth = deepest = 0
    for bracket in _BRACKET.findall(text):
        if bracket in "[{":
            depth += 1
            deepest = max(deepest, depth)
        else:
            depth = max(0, depth - 1)
    return deepest


def _refuse_tabs(text: str, file: str, parser: Any) -> None:
    """Refuse tabs outside quotes, block scalars and comments, of which libyaml lets some pass and PyYAML none."""
    tokens, end = parser(text), 0
    while (token := tokens.get_token()) is not None:
        start = token.start_mark.index
        gap = _COMMENT.sub(lambda match: " " * len(match[0]), text[end:start])
        if getattr(token, "plain", False):
            gap += text[start : token.end_mark.index]
        if (at := gap.find("\t")) >= 0:
            from attncli.problem.yamlerrors import tab_at

            raise tab_at(end + at, text, file)
        end = token.end_mark.index


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
