"""Small tables of text, for `attncli list`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attncli.report.look import Look, pad, widths, wrapped

GAP = "  "


def listing(rows: Sequence[Mapping[str, Any]], look: Look) -> Iterator[str]:
    """Lines of a table with the keys of the first row as its header; columns without any text are left out.

    Where it is wider than the terminal, each row becomes a paragraph: its first text, then `key: text` below it.
    """
    columns = [key for key in (rows[0] if rows else {}) if any(row.get(key) not in (None, "") for row in rows)]
    if not columns:
        return
    cells = [[look.label("" if row.get(key) is None else str(row[key])) for key in columns] for row in rows]
    measured = [max(widths([key, *texts])) for key, *texts in zip(columns, *cells, strict=True)]
    if look.width is None or sum(measured) + len(GAP) * (len(measured) - 1) <= look.width:
        for line in (columns, *cells):
            yield GAP.join(pad(text, width) for text, width in zip(line, measured, strict=True)).rstrip()
        return
    for number, texts in enumerate(cells):
        yield from ([""] if number else [])
        yield texts[0]
        for key, text in zip(columns[1:], texts[1:], strict=True):
            yield from (wrapped(f"{key}: {text}", look, indent="    ") if text else [])
