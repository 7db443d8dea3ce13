"""YAML and JSON as a tree of nodes with places, interpreted by the rules of YAML 1.2.

No tags, no merge keys, no duplicate keys, no alias that refers to itself or multiplies past a limit. The tree of a
text is composed in `yamltext.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from attncli.errors import MOST_TOLD, AttnError, InputError, Place
from attncli.problem.literals import Literal
from attncli.problem.numbers import begins_a_word, parse_number, quote

# yaml.Node: the stubs know neither its id nor that every kind has a value.
Node: TypeAlias = Any

DEEPEST = 64  # levels of nesting: arrays cannot have more
EXPANDED = 1_000_000  # nodes that aliases may add

NULL = frozenset(("", "~", "null", "Null", "NULL"))
BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
IMPLICIT = "implicit"  # what the resolver says of every node that has no tag of its own


def place_of(node: Node, file: str) -> Place:
    """Where a node begins."""
    return Place(file, node.start_mark.line + 1, node.start_mark.column + 1)


def is_plain(node: Node) -> bool:
    """Whether a scalar was written without quotes."""
    return not node.style


def is_null(node: Node) -> bool:
    """Whether nothing stands where a value is expected, or null."""
    return node.id == "scalar" and node.value in NULL and is_plain(node)


def scalar_value(node: Node) -> str | float | bool | None:
    """A scalar by YAML 1.2: null, true, false and decimals where they are written plainly, else its text."""
    text: str = node.value
    if not is_plain(node) or (begins_a_word(text) and text not in NULL and text not in BOOL):
        return text
    if text in NULL:
        return None
    if text in BOOL:
        return BOOL[text]
    try:
        return parse_number(text)
    except InputError:
        return text


def pairs_of(node: Node) -> Iterator[tuple[str, Node, Node]]:
    """Key, key node and value node of each pair of a mapping."""
    for key, value in node.value:
        yield key.value, key, value


def check_tree(root: Node, file: str) -> list[AttnError]:
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
        if node.tag != IMPLICIT and len(errors) < MOST_TOLD:
            errors.append(_tag_error(node, file))
        if node.id == "mapping":
            odd = _odd_keys(node, file)
            errors += [error for _, error in odd[: max(0, MOST_TOLD - len(errors))]]
            left_out = {id(key) for key, _ in odd}
            node.value = [pair for pair in node.value if id(pair[0]) not in left_out]
        if {(child.id, child.tag) for child in children} <= {("scalar", IMPLICIT)}:  # most lists: a row of numbers
            sizes[id(node)] = node.count if isinstance(node, Literal) else 1 + len(children)
            written += sizes[id(node)] - 1
            if isinstance(node, Literal) and len(open_nodes) + 1 >= DEEPEST:
                raise too_deep(place_of(node, file))
            continue
        open_nodes.add(id(node))
        if len(open_nodes) >= DEEPEST:
            raise too_deep(place_of(node, file))
        stack.append((node, True))
        for child in children:
            if child.id != "scalar":
                stack.append((child, False))
            else:
                written += 1
                if child.tag != IMPLICIT and len(errors) < MOST_TOLD:
                    errors.append(_tag_error(child, file))
    if sizes[id(root)] - written > EXPANDED:
        raise InputError(
            f"its aliases multiply to more than {EXPANDED:,} values", place=place_of(root, file), hint="write it out"
        )
    return errors


def too_deep(place: Place) -> InputError:
    """The error of a node that lies too deep."""
    return InputError(f"nested more than {DEEPEST} levels deep", place=place)


def _children(node: Node) -> list[Node]:
    if node.id == "mapping":
        return [part for pair in node.value for part in pair]
    return node.value if node.id == "sequence" and not isinstance(node, Literal) else []


def _tag_error(node: Node, file: str) -> InputError:
    tag = node.tag.replace("tag:yaml.org,2002:", "!!")
    return InputError(
        f"the tag {tag} is not read",
        place=place_of(node, file),
        hint="write the value without it; a word that begins with ! stands in quotes",
    )


def _odd_keys(node: Node, file: str) -> list[tuple[Node, AttnError]]:
    """Keys that are no words, merge keys, and those that were given before, with what is wrong."""
    odd: list[tuple[Node, AttnError]] = []
    first: dict[str, Node] = {}
    error: AttnError | None = None
    for key, _ in node.value:
        if key.id == "scalar" and (key.value != "<<" or not is_plain(key)) and key.value not in first:
            first[key.value] = key
            continue
        if len(odd) < MOST_TOLD or error is None:  # those after them say nothing new
            error = _key_error(key, first, file)
        odd.append((key, error))
    return odd


def _key_error(key: Node, first: dict[str, Node], file: str) -> AttnError:
    place = place_of(key, file)
    if key.id != "scalar":
        return InputError(f"a {key.id} stands where a key is expected", place=place, hint="keys are words")
    if key.value == "<<" and is_plain(key):
        return InputError("the merge key << is not read", place=place, hint="write the keys out")
    lines = f"lines {place_of(first[key.value], file).line} and {place.line}"
    return InputError(f"the key {quote(key.value)} is given twice ({lines})", place=place)
