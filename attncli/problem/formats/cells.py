"""Delimited text as rows of cells: separators, quotes, comments, and the line on which each row begins."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from attncli.errors import InputError, Place, UsageError
from attncli.lazy import pattern
from attncli.problem.numbers import quote

BLANKS = " "  # as a separator: any run of blanks and tabs

_END = pattern(r"\r\n|\n|\r")
_SEP_LINE = pattern(r"sep=(.)?[ ]*(?:\r\n|\n|\r|\Z)", re.IGNORECASE)
_QUOTED = pattern(r'"((?:[^"]|"")*)"')
_NAMED = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "blank": BLANKS, "blanks": BLANKS, "space": BLANKS}


class Row(NamedTuple):
    """The cells of one row, those in quotes marked, and the line on which it begins."""

    line: int
    cells: list[str]
    quoted: frozenset[int] = frozenset()

    def is_empty(self, index: int) -> bool:
        """Whether nothing stands in a cell."""
        return not self.cells[index].strip()

    def label(self, index: int) -> str:
        """A cell as a label: blanks around it belong to it only between quotes."""
        return self.cells[index] if index in self.quoted else self.cells[index].strip()


def separator_of(name: str, decimal: str, place: Place | str = "--separator") -> str:
    """The separator that `--separator` names, or a line at `place`. Raises UsageError for what cannot be one."""
    separator = _NAMED.get(name.lower(), name)
    blank = separator.isspace() and separator not in ("\t", BLANKS)
    if len(separator) != 1 or blank or separator.isalnum() or separator in '"+-.#' or separator == decimal:
        raise UsageError(
            f"{quote(name)} cannot separate numbers",
            place=place,
            hint="write one character, such as , ; | or the word tab or blank",
        )
    return separator


class Cells(NamedTuple):
    """A text as rows of cells without blank lines and comments, and the lines that begin with # outside quotes."""

    separator: str
    rows: list[Row]
    comments: list[str]


def split(text: str, separator: str | None, decimal: str, file: str, *, usual: str | None = None) -> Cells:
    """The cells of a text.

    separator: what an option names; None where the text tells: a first line `sep=X`, else `usual`, else the first of
    tab, ; and , that the first line holds outside quotes. Raises InputError for quotes that are not closed.
    """
    position, line = 0, 1
    if match := _SEP_LINE.match(text):
        if match[1] is None:
            raise InputError("sep= names no separator", place=Place(file, 1, 1))
        separator = separator or separator_of(match[1], decimal, Place(file, 1, 1))
        position, line = match.end(), 2
    separator = separator or usual
    rows: list[Row] = []
    comments: list[str] = []
    while position < len(text):
        end = _END.search(text, position)
        stop, after = end.span() if end else (len(text), len(text))
        content = text[position:stop]
        if not content.strip() and not (separator == "\t" and "\t" in content):
            position, line = after, line + 1
            continue
        if content.lstrip().startswith("#"):
            comments.append(content)
            position, line = after, line + 1
            continue
        if separator is None:
            separator = _guess(text, position, stop, decimal)
        if '"' in content:
            row, after = _quoted_row(text, position, separator, line, file)
        else:
            row = Row(line, cells_of(content, separator))
        rows.append(row)
        line += len(_END.findall(text, position, after)) if row.quoted else 1
        position = after
    return Cells(separator or ",", rows, comments)


def cells_of(content: str, separator: str) -> list[str]:
    """The cells of a line without quotes."""
    return re.split(r"[ \t]+", content.strip(" \t")) if separator == BLANKS else content.split(separator)


def _guess(text: str, start: int, stop: int, decimal: str) -> str:
    """The separator by the first line."""
    line = text[start:stop]
    if '"' in line:
        line = _END.split(_QUOTED.sub("", text[start:]), maxsplit=1)[0]
    return next((mark for mark in "\t;" if mark in line), ";" if decimal == "," else ",")


def _quoted_row(text: str, position: int, separator: str, line: int, file: str) -> tuple[Row, int]:
    """A row with quotes, which may hold separators and line ends; and where the next one begins."""
    field = _field(separator)
    cells: list[str] = []
    quoted: set[int] = set()
    while True:
        match = field.match(text, position)
        if match is None:
            closed = _QUOTED.match(text, text.index('"', position))
            what = "text follows the closing quote" if closed else "a quote is not closed"
            raise InputError(
                f"line {line}, column {len(cells) + 1}: {what}",
                place=Place(file, line, len(cells) + 1),
                hint='a quote inside quotes is written twice: ""',
            )
        in_quotes, plain, end = match.groups()
        if in_quotes is not None:
            quoted.add(len(cells))
        cells.append(plain if in_quotes is None else in_quotes.replace('""', '"'))
        position = match.end()
        if end is not None:
            return Row(line, cells, frozenset(quoted)), position


@cache
def _field(separator: str) -> re.Pattern[str]:
    """One cell, in quotes or plain, up to the separator or (third group) the line's end."""
    blank = "[ ]*" if separator == "\t" else "[ \t]*"
    mark = "[ \t]+" if separator == BLANKS else re.escape(separator)
    plain = r"[^ \t\r\n]*" if separator == BLANKS else rf"[^{mark}\r\n]*"
    end = rf"{blank}(?:\r\n|\n|\r|\Z)"
    return re.compile(rf'{blank}(?:"((?:[^"]|"")*)"|(?!")({plain}))(?:({end})|{blank}{mark})')
