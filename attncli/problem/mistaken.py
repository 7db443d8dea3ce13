"""Files that are given as problems and are none: matrices, results, lists of jobs. What each is, and what takes it."""

from __future__ import annotations

import os

from attncli.errors import AttnError, InputError, Place, raise_all
from attncli.problem.formats import FORMATS, STDIN
from attncli.problem.yamltext import compose
from attncli.problem.yamltree import Node, pairs_of, place_of


def problem_root(data: bytes, file: str, errors: list[AttnError]) -> Node:
    """The mapping of a problem. Raises what is wrong with a file that is none; wrong tags and keys go to `errors`."""
    if (wrong := _binary(data, file)) is not None:
        raise wrong
    try:
        root = compose(data, file, errors=errors)
    except AttnError as error:
        # A table of words, or with tabs; but a .txt may well be a problem with a slip in it.
        raise (None if file.lower().endswith(".txt") else _table(file)) or error from None
    if (wrong := _no_problem(root, file)) is not None:
        raise_all(errors)
        raise wrong
    return root


def _binary(data: bytes, file: str) -> AttnError | None:
    """What is wrong with a file that holds arrays, as its first bytes tell."""
    for entry in FORMATS:
        suits = os.path.splitext(file)[1].lower() in ("", *entry.suffixes)
        if suits and any(data.startswith(magic) for magic in entry.magic):
            return _matrix(file, f".{entry.name}", several=bool(entry.several))
    return None


def _table(file: str) -> AttnError | None:
    """What is wrong with a file that is no tree, where its suffix is that of matrices."""
    suffix = os.path.splitext(file)[1].lower()
    tables = [each for entry in FORMATS if entry.name not in ("yaml", "json") for each in entry.suffixes]
    return _matrix(file, suffix) if suffix in tables else None


def _no_problem(root: Node, file: str) -> AttnError | None:
    """What is wrong with a tree: it is a list, a result of attncli, or a list of jobs."""
    results = root.value if root.id == "sequence" else [root]  # a check has a list of them
    if results and all(_is_result(each) for each in results):
        return InputError(
            "this is a result of attncli, not a problem",
            place=Place(file),
            hint="--save-problem PATH writes the problem that is computed",
        )
    if root.id != "mapping":
        kind = "a list" if root.id == "sequence" else "a single value"
        hint = "a problem is written as keys: Q: [[1, 0]], K: [[0, 1]]; matrices alone are for `show` and `self`"
        what = f"the file holds {kind}, not a problem"
        return _table(file) or InputError(what, place=place_of(root, file), hint=hint)
    if "jobs" in {key for key, _, _ in pairs_of(root)}:
        return InputError(
            "this is a list of jobs, not a problem",
            place=Place(file),
            hint=f"`attncli batch {'FILE' if file == STDIN else file}` computes and checks it",
        )
    return None


def _is_result(node: Node) -> bool:
    """Whether a tree is what attncli writes of a problem or a check."""
    keys = {key for key, _, _ in pairs_of(node)} if node.id == "mapping" else set()
    return "attncli" in keys or {"schema", "verdict", "steps"} <= keys


def _matrix(file: str, suffix: str, *, several: bool = False) -> InputError:
    what = f"these are matrices ({suffix})" if several else f"this is a matrix ({suffix})"
    name = "::NAME" * several
    alone, named = ("-", f"x{suffix}") if file == STDIN else (file, file)
    return InputError(
        f"{what}, not a problem",
        place=Place(file),
        hint=f"`attncli self {alone}{name}` takes it as it is (--expect STEP=FILE to check numbers); "
        f"a problem file, YAML or JSON, names it: X: {named}{name}",
    )
