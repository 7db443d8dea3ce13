"""What a teacher added to feedback and gradebooks: it stays when they are written anew."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

MARK = "below this line, a teacher's own words are kept"
_AROUND = {"markdown": ("<!-- ", " -->"), "html": ("<!-- ", " -->"), "latex": ("% ", "")}
_ENDS = {"markdown": "", "html": "</body>\n</html>\n", "latex": "\\end{document}\n"}
# The points as they were marked, beside those that a teacher may change.
_MARKED = "marked"


def with_words(text: str, format: str, before: str | None) -> str:
    """A feedback file's text, with what stood below the mark in the file as it was before."""
    head, tail = _AROUND[format]
    line = f"{head}{MARK}{tail}"
    end = _ENDS[format]
    _, _, words = (before or "").partition(f"{line}\n")
    words = words.replace(end, "") if end else words
    return f"{text.removesuffix(end).rstrip()}\n\n{line}\n{words}{end}"


def with_grades(rows: list[list[str]], separator: str, before: str | None) -> tuple[str, list[str]]:
    """A gradebook's text, and notes: columns of a teacher's own, points that they changed, and rows of files that are
    not among these stay as they are.

    rows: the header and a row a file. Points are those that a teacher gave where they are not what was marked then.
    """
    header, *own = rows
    own_points = header.index("points") if "points" in header else None
    if own_points is not None:
        header, own = [*header, _MARKED], [[*row, row[own_points]] for row in own]
    table = list(csv.reader(io.StringIO(before or "", newline=""), delimiter=separator))
    known = {row[0]: dict(zip(table[0], row, strict=False)) for row in table[1:] if row} if table else {}
    added = [name for name in (table[0] if table else []) if name not in header]
    notes: list[str] = []
    for row in own:
        then = known.pop(row[0], {})
        if own_points is not None and then.get("points", "") != then.get(_MARKED, ""):
            row[own_points] = then["points"]
            notes.append(f"{row[0]}: the points that a teacher gave stay: {then['points']}")
        row += [then.get(name, "") for name in added]
    header = [*header, *added]
    if known:
        notes.append(f"files that are not among these keep their rows: {', '.join(known)}")
    others = [[then.get(name, "") for name in header] for then in known.values()]
    return _written([header, *own, *others], separator), notes


def _written(rows: Sequence[Sequence[str]], separator: str) -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator="\n").writerows(rows)
    return text.getvalue()
