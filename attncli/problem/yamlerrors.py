"""What a YAML parser says, in our words: what is wrong, where, and what mends it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attncli.errors import MOST_TOLD, AttnError, InputError, Place
from attncli.lazy import pattern
from attncli.problem.text import lines_of
from attncli.problem.yamltree import Node, is_plain, too_deep

if TYPE_CHECKING:
    from re import Match

_NO_COLON = "could not find expected ':'"
# `Q:[[1]]` and `-[1]`; what may be a key without a blank after it; the same up to its colon, within braces.
_TIGHT = pattern(r"\s*(?:- +)*([A-Za-z_]\w*:|-)(?=[\[{])")
_KEY = pattern(r"\s*(?:- +)*([A-Za-z_]\w*:)(?![\s/:]|$)")
_KEY_IN_BRACES = pattern(r"(?:[^A-Za-z_]++|\w++(?!:\Z))*+([A-Za-z_]\w*+:)\Z")


def in_our_words(error: Any, text: str, file: str) -> list[AttnError]:
    """What a YAML error means, each with its place."""
    return missing_blanks(text, file, error) or [_translated(error, text, file)]


def missing_blanks(text: str, file: str, error: Any = None) -> list[AttnError]:
    """Lines that begin as `Q:[[1]]` or `-[1]`, which YAML reads as a word.

    error: what the parser said; where that is of another kind, there are none.
    """
    lines = lines_of(text)
    suspects = {number: match for number, line in enumerate(lines) if (match := _TIGHT.match(line))}
    if error is not None:
        problem, mark = error.problem or "", error.problem_mark
        if not mark or not any(kind in problem for kind in (_NO_COLON, "mapping values are not", "unexpected ':'")):
            return []
        at = error.context_mark.line if error.context_mark else max(mark.line - 1, 0)
        at = min(at, len(lines) - 1)  # YAML knows more ends of lines than we do
        if match := _KEY_IN_BRACES.match(lines[at], 0, mark.column + 1) if "unexpected" in problem else None:
            suspects[at] = match
        elif match := _KEY.match(lines[at]):
            suspects.setdefault(at, match)
    told = sorted(suspects.items())[:MOST_TOLD]
    return [_missing(match, Place(file, number + 1, match.end() + 1)) for number, match in told]


def missing_blank(node: Node, file: str) -> list[AttnError]:
    """The same of a word that stands where keys are expected: `expect: weights:[[1]]`."""
    match = _TIGHT.match(node.value) if node.id == "scalar" and is_plain(node) else None
    start = node.start_mark
    return [_missing(match, Place(file, start.line + 1, start.column + match.end() + 1))] if match else []


def _missing(match: Match[str], place: Place) -> InputError:
    sign, rest = match[1], match.string[match.end() :]
    after = "the dash" if sign == "-" else f"the colon of {sign}"
    meant = rest[: len(rest) - len(rest.lstrip("[{"))] or rest.split()[0]
    return InputError(f"a blank is missing after {after}", place=place, hint=f"write {sign} {meant}")


def _translated(error: Any, text: str, file: str) -> InputError:
    """One line that points at the place."""
    mark = error.problem_mark or error.context_mark
    place = Place(file, mark.line + 1, mark.column + 1) if mark else Place(file)
    problem = error.problem or error.context or "not valid YAML"
    if "nesting depth" in problem:
        return too_deep(place)
    lines = lines_of(text)
    line = lines[mark.line] if mark and mark.line < len(lines) else ""
    here = line[mark.column : mark.column + 1] if mark else ""
    if here == "\t" or ("cannot start any token" in problem and "\t" in line[: len(line) - len(line.lstrip())]):
        return _tab(mark.line + 1, line[: mark.column], place)
    if _NO_COLON in problem:  # the parser goes on to where a colon could not stand any more: it is missing before
        place = Place(file, error.context_mark.line + 1, error.context_mark.column + 1)
    context = f" ({error.context})" if error.context and error.context not in problem else ""
    return InputError(f"not valid YAML: {problem}{context}", place=place, hint=_hint(problem, context, here))


def tab_at(at: int, text: str, file: str) -> InputError:
    """The error of a tab at that character, which may stand for any number of blanks."""
    before = lines_of(text[:at])
    return _tab(len(before), before[-1], Place(file, len(before), len(before[-1]) + 1))


def _tab(line: int, before: str, place: Place) -> InputError:
    used = "between values" if before.strip() else "for indentation"
    return InputError(f"line {line}: tab used {used}, use spaces", place=place)


def _hint(problem: str, context: str, here: str) -> str | None:
    """What mends it, where that can be told; here: the character at which the parser stopped."""
    if "undefined alias" in problem:
        return "a word that begins with * stands in quotes"
    if "cannot start any token" in problem and here:
        return f"a word that begins with {here} stands in quotes"
    if "node content" in problem and here in (",", "]") and "flow" in context:
        return "between brackets, a cell that is left out is written ~"
    if "expected ',' or" in problem:
        return "a bracket or a comma is missing, or a word needs quotes"
    if "mapping values are not allowed" in problem:
        return "text with a colon and a blank in it stands in quotes"
    return "a colon, and a blank after it, are missing" if _NO_COLON in problem else None
