"""Sheets as text without borders, as Markdown and as LaTeX."""

from __future__ import annotations

import re
from collections.abc import Iterator

from attncli.report.look import Look, pad, widths
from attncli.report.sheet import Sheet

_MARKDOWN = {character: f"\\{character}" for character in "\\|`*_<>&~$#"}
_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
}
_NUMBERS = {"inf": r"\infty", "-inf": r"-\infty", "nan": r"\text{nan}"}


def plain(sheet: Sheet, look: Look) -> Iterator[str]:
    """Aligned lines of blanks, labels and numbers: for pipes and for diff."""
    yield sheet.heading
    if not sheet.cells or not sheet.columns:
        return
    rows = [[look.isolated(label), *cells] for label, *cells in _with_labels(sheet)]
    yield from _aligned([["", *map(look.isolated, sheet.column_labels)], *rows], "  ")


def markdown(sheet: Sheet) -> Iterator[str]:
    """A pipe table, as GitHub and others read it, with its heading in front."""
    yield escape_markdown(sheet.heading)
    if not sheet.cells or not sheet.columns:
        return
    yield ""
    head = [escape_markdown(label) for label in ("", *sheet.column_labels)]
    rows = [[escape_markdown(label), *cells] for label, *cells in _with_labels(sheet)]
    header, *body = _aligned([head, *rows], " | ")
    yield f"| {header} |"
    yield f"|---|{'---:|' * len(sheet.columns)}"
    yield from (f"| {line} |" for line in body)
    note = sheet.left_out()
    if note:
        yield ""
        yield note


def latex(sheet: Sheet, look: Look) -> Iterator[str]:
    """A line of text and an `array` in display style; needs amsmath and nothing else."""
    yield rf"\noindent {escape_latex(sheet.heading)}"
    if not sheet.cells or not sheet.columns:
        return
    yield r"\["
    yield rf"\begin{{array}}{{r|{'r' * len(sheet.columns)}}}"
    labels = [_latex_label(label, j) for label, j in zip(sheet.column_labels, sheet.columns, strict=True)]
    yield rf" & {' & '.join(labels)} \\ \hline"
    for label, i, cells in zip(sheet.row_labels, sheet.rows, sheet.cells, strict=True):
        numbers = (_latex_cell(cell, look) for cell in cells)
        yield rf"{_latex_label(label, i)} & {' & '.join(numbers)} \\"
    yield r"\end{array}"
    yield r"\]"
    note = sheet.left_out()
    if note:
        yield rf"\noindent {escape_latex(note)}"


def escape_markdown(text: str) -> str:
    """The text with what Markdown would take for markup escaped; brackets only where they would make a link."""
    return "".join(_MARKDOWN.get(character, character) for character in text).replace("](", "]\\(")


def escape_latex(text: str) -> str:
    """The text as LaTeX sets it, outside mathematics or in `\\text`."""
    escaped = "".join(_LATEX.get(character, character) for character in text)
    return re.sub(r"([-'])(?=\1)", r"\1{}", escaped)  # two of them would become a dash or a quotation mark


def _with_labels(sheet: Sheet) -> list[list[str]]:
    return [[label, *cells] for label, cells in zip(sheet.row_labels, sheet.cells, strict=True)]


def _aligned(rows: list[list[str]], gap: str) -> Iterator[str]:
    """Lines of cells in columns of one width: the first to the left, the others to the right."""
    measured = [max(widths([row[j] for row in rows])) for j in range(len(rows[0]))]
    for first, *others in rows:
        cells = (pad(cell, width, right=True) for cell, width in zip(others, measured[1:], strict=True))
        yield gap.join([pad(first, measured[0]), *cells])


def _latex_label(label: str, position: int | None) -> str:
    # Braces also keep a label such as [CLS] from being read as the argument of the line break before it.
    return r"\dots" if position is None else rf"\text{{{escape_latex(label)}}}"


def _latex_cell(cell: str, look: Look) -> str:
    if cell == look.hidden:
        return r"\cdot"
    if cell == look.gap:
        return r"\dots"
    mantissa, exponent, digits = cell.partition("e+")
    return rf"{mantissa} \times 10^{{{digits}}}" if exponent else _NUMBERS.get(cell, cell)
