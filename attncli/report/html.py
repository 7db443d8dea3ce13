"""Sheets as HTML: a table that any page can hold, its weights coloured by value."""

from __future__ import annotations

from collections.abc import Iterator

from attncli.report.sheet import Sheet

# From white to a dark blue: lightness alone tells the value, so that it is read without telling colours apart.
_LIGHT, _DARK = (255, 255, 255), (8, 48, 107)
_WHITE_INK = 0.45  # from this share on, white numbers stand out better than black ones


def html(sheet: Sheet) -> Iterator[str]:
    """A table with its heading as caption, headers that a screen reader tells, and the colours of its heat."""
    yield f"<table><caption>{escape_html(sheet.heading)}</caption>"
    if sheet.cells and sheet.columns:
        yield f"<thead><tr><td></td>{''.join(_header('col', label) for label in sheet.column_labels)}</tr></thead>"
        yield "<tbody>"
        for i, (label, cells) in enumerate(zip(sheet.row_labels, sheet.cells, strict=True)):
            drawn = (_cell(cell, sheet.heat.get((i, j)), sheet.styles.get((i, j))) for j, cell in enumerate(cells))
            yield f"<tr>{_header('row', label)}{''.join(drawn)}</tr>"
        yield "</tbody>"
    yield "</table>"
    note = sheet.left_out()
    if note:
        yield f"<p>{escape_html(note)}</p>"


def escape_html(text: str) -> str:
    """The text as HTML shows it, in ASCII, whatever encoding the page around it has."""
    from html import escape

    return escape(text).encode("ascii", "xmlcharrefreplace").decode("ascii")


def _header(scope: str, label: str) -> str:
    # A label may be written from right to left: it must not turn round what stands beside it.
    return f'<th scope="{scope}"><bdi>{escape_html(label)}</bdi></th>'


def _cell(cell: str, share: float | None, style: str | None) -> str:
    if share is None:
        verdict = f' class="{style}"' if style in ("wrong", "follows") else ""
        return f"<td{verdict}>{escape_html(cell)}</td>"
    mixed = ",".join(str(round(a + (b - a) * share)) for a, b in zip(_LIGHT, _DARK, strict=True))
    ink = "#fff" if share >= _WHITE_INK else "#000"
    return f'<td style="background:rgb({mixed});color:{ink}">{escape_html(cell)}</td>'
