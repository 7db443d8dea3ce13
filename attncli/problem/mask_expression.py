"""Masks joined in a text: `causal & (window:1,0 | prefix-keys:1)`, `!` before what is turned round.

`!` binds before `&`, and `&` before `|`; not, and, or are the same. A mask's file stands in quotes where its name
holds such signs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn

from attncli.errors import InputError, Place, UsageError
from attncli.problem.values import MaskChoice

_TOKEN = re.compile(
    r"""\s*(?P<sign>[&|!()]|(?:and|or|not)(?![\w:-]))|\s*(?P<mask>(?:"[^"]*"|'[^']*'|\[[^&|!()]*\]|[^\s&|!()"'\[])+)"""
)
_SIGNS = {"and": "&", "or": "|", "not": "!"}
_JOINS = re.compile(r"[&|!]|(?<![\w:/.-])(?:and|or|not)(?![\w:/.-])")
_QUOTED = re.compile(r""""[^"]*"|'[^']*'|\[[^&|!()]*\]""")


def is_expression(text: str) -> bool:
    """Whether masks are joined in it, quotes and lists aside."""
    plain = _QUOTED.sub("", text)
    return bool(_JOINS.search(plain)) or plain.lstrip().startswith("(")


def read_expression(text: str, place: Place | str | None, single: Callable[[str], MaskChoice]) -> MaskChoice:
    """The masks of an expression. single: reads one of them. Raises UsageError with the column of what is wrong."""
    return _Parser(text, place, single).read()


def unquoted(text: str) -> str:
    """A mask without the quotes around its file."""
    name, colon, rest = text.partition(":")
    rest = rest.strip()
    quoted = len(rest) > 1 and rest[0] == rest[-1] and rest[0] in "\"'"
    return f"{name}:{rest[1:-1]}" if colon and quoted else text


class _Parser:
    """From left to right: each method reads what binds as tightly as it says, and stops behind it."""

    def __init__(self, text: str, place: Place | str | None, single: Callable[[str], MaskChoice]) -> None:
        self.text, self.place, self.single = text, place, single
        self.tokens: list[tuple[str, bool, int]] = []  # what it is, whether it is a sign, where it begins
        at, end = 0, len(text.rstrip())
        while at < end:
            found = _TOKEN.match(text, at)
            if found is None:
                column = at + len(text[at:]) - len(text[at:].lstrip())
                self._fail(column, f"{text[column]!r} has no end" if text[column] in "\"'[" else "it cannot be read")
            sign = found["sign"]
            word = sign or found["mask"]
            self.tokens.append((_SIGNS.get(word, word) if sign else word, bool(sign), found.end() - len(word)))
            at = found.end()
        self.at = 0

    def read(self) -> MaskChoice:
        found = self._joined("or", "|", lambda: self._joined("and", "&", self._turned))
        if self.at < len(self.tokens):
            word, sign, column = self.tokens[self.at]
            self._fail(column, "a ) without its (" if sign and word == ")" else f"a sign is missing before {word!r}")
        return found

    def _joined(self, name: str, sign: str, part: Callable[[], MaskChoice]) -> MaskChoice:
        parts = [part()]
        while self._takes(sign):
            parts.append(part())
        return parts[0] if len(parts) == 1 else MaskChoice(name, place=self.place, parts=tuple(parts))

    def _turned(self) -> MaskChoice:
        if self._takes("!"):
            return MaskChoice("not", place=self.place, parts=(self._turned(),))
        if self._takes("("):
            opened = self.tokens[self.at - 1][2]
            inside = self._joined("or", "|", lambda: self._joined("and", "&", self._turned))
            if not self._takes(")"):
                self._fail(opened, "a ( without its )")
            return inside
        if self.at == len(self.tokens):
            self._fail(len(self.text.rstrip()), "a mask is missing at the end")
        word, sign, column = self.tokens[self.at]
        if sign:
            self._fail(column, f"a mask is missing before {word!r}")
        self.at += 1
        try:
            return self.single(unquoted(word))
        except (UsageError, InputError) as error:
            if error.place is None or error.place == self.place:  # what stands in a file has its place there
                error.what = f"the mask {self.text!r}, column {column + 1}: {error.what}"
            raise

    def _takes(self, sign: str) -> bool:
        if self.at < len(self.tokens) and self.tokens[self.at][:2] == (sign, True):
            self.at += 1
            return True
        return False

    def _fail(self, column: int, what: str) -> NoReturn:
        raise UsageError(
            f"the mask {self.text!r}, column {column + 1}: {what}",
            place=self.place,
            hint="as in causal & (window:1,0 | prefix-keys:1); a file whose name holds & | ! ( ) stands in quotes",
        )
