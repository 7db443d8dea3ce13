"""How results are to look, and what a label looks like: escaped, encodable, and as wide as it is measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from attncli.escapes import shown

_ISOLATE, _POP = "\u2068", "\u2069"


class Look(NamedTuple):
    """What the reader wants and what the place of display can show.

    precision: decimals, 0 to 17. rounding: "half-even" or "half-up". width: of the terminal, None without a limit.
    color: styles are written. heat: cells are coloured by value; None: weights are, where `ramp` tells that there are
    the colours for it. ascii: nothing but ASCII can be shown. encoding: what the text will be encoded in.
    terminal: a person reads it on a terminal (right-to-left labels are isolated there, and only there).
    separator, decimal: of CSV, where its reader wants others than a comma and a point.
    """

    precision: int = 4
    rounding: str = "half-even"
    width: int | None = None
    color: bool = False
    heat: bool | None = None
    ramp: bool = False
    ascii: bool = False
    encoding: str = "utf-8"
    terminal: bool = False
    separator: str | None = None
    decimal: str = "."

    @property
    def codec(self) -> str:
        """The encoding that labels must fit in; a name that Python does not know is taken for ASCII."""
        try:
            "".encode(self.encoding)
        except LookupError:
            return "ascii"
        return "ascii" if self.ascii else self.encoding

    def can_show(self, text: str) -> bool:
        """Whether every character of the text can be encoded."""
        try:
            text.encode(self.codec)
        except UnicodeEncodeError:
            return False
        return True

    @property
    def hidden(self) -> str:
        """The mark of a hidden cell."""
        return "·" if self.can_show("·") else "."

    @property
    def gap(self) -> str:
        """The mark of rows or columns that are left out."""
        return "…" if self.can_show("…") else "..."

    def label(self, text: str) -> str:
        """A user's text as it is shown: control characters and what cannot be encoded stand as escapes."""
        if text.isascii() and text.isprintable():
            return text
        # Before any layout: an escape is wider than its character, and columns must stay aligned.
        return shown(text).encode(self.codec, "backslashreplace").decode(self.codec)

    def isolated(self, text: str) -> str:
        """A label with right-to-left letters in isolation: a terminal then does not reorder what stands beside it."""
        if not self.terminal or text.isascii() or not self.can_show(_ISOLATE):
            return text
        from unicodedata import bidirectional

        right_to_left = any(bidirectional(character) in ("R", "AL", "AN") for character in text)
        return f"{_ISOLATE}{text}{_POP}" if right_to_left else text


def told_apart(labels: Sequence[str]) -> list[str]:
    """Labels of which each names one place: of those that stand more than once the second is `the#2`."""
    if len(set(labels)) == len(labels):
        return [*labels]
    counts, so_far = Counter(labels), Counter[str]()
    told = []
    for label in labels:
        so_far[label] += 1
        told.append(f"{label}#{so_far[label]}" if counts[label] > 1 else label)
    return told


def widths(texts: list[str]) -> list[int]:
    """The widths of texts in terminal columns."""
    if all(text.isascii() for text in texts):
        return [len(text) for text in texts]
    from rich.cells import cell_len

    return [cell_len(text) for text in texts]


def pad(text: str, width: int, *, right: bool = False) -> str:
    """The text filled up with blanks to a width in terminal columns; `right` puts the blanks in front."""
    blanks = " " * (width - widths([text])[0])
    return blanks + text if right else text + blanks


def fold(text: str, width: int) -> list[str]:
    """The text over lines of at most that many terminal columns (at least 2, which a wide character needs)."""
    width = max(width, 2)
    if text.isascii():
        return [text[start : start + width] for start in range(0, len(text), width)] or [""]
    from rich.cells import chop_cells

    return chop_cells(text, width) or [text]


def wrapped(text: str, look: Look, *, indent: str = "") -> list[str]:
    """A sentence over lines that fit the width, each after the indent; no word is cut."""
    if look.width is None or len(indent + text) <= look.width:
        return [indent + text]
    from textwrap import wrap

    return wrap(
        text, look.width, initial_indent=indent, subsequent_indent=indent, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
