"""Sheets as Rich tables that fit a width without ever cutting a number.

Rich shortens what does not fit, and takes its time over many cells. So the widths are settled here, a block of columns
becomes one cell of aligned text, and Rich draws the box and the styles. Where no styles are wanted (pipes, files), the
same box is drawn without Rich's console, whose import costs a quarter of NumPy's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from attncli.report.heat import ASCII_SHADES, SHADES, shade
from attncli.report.heat import style as heat_style
from attncli.report.look import Look, fold, pad, widths, wrapped
from attncli.report.sheet import Sheet

if TYPE_CHECKING:
    from rich.box import Box

FRAME = len("│ ") + len(" │ ") + len(" │")
GAP = "  "
# A header is folded to this before columns are sent to another block.
HEADER = 12
_STYLES = {"hidden": "dim", "largest": "bold", "wrong": "bold red", "follows": "yellow"}


class Block(NamedTuple):
    """Columns that stand side by side: their positions in the sheet, their widths, and the width of the labels."""

    columns: list[int]
    widths: list[int]
    label_width: int

    @property
    def width(self) -> int:
        """Terminal columns of the block with its frame."""
        return FRAME + self.label_width + sum(self.widths) + len(GAP) * (len(self.widths) - 1)


class Line(NamedTuple):
    """A line of a block: label and numbers, both at full width, and the styles of parts of the numbers."""

    label: str
    numbers: str
    styles: list[tuple[str, int, int]]


def blocks(sheet: Sheet, width: int | None) -> list[Block]:
    """The blocks of columns in which a sheet fits the width; where not even one number does, the line is longer."""
    numbers = [max((len(row[j]) for row in sheet.cells), default=0) for j in range(len(sheet.columns))]
    headers = widths(sheet.column_labels)
    labels = max(widths(sheet.row_labels), default=0)
    whole = Block(list(range(len(numbers))), [max(pair) for pair in zip(numbers, headers, strict=True)], labels)
    if width is None or whole.width <= width or not numbers:
        return [whole]
    room = width - FRAME
    labels = min(labels, max(room // 3, 2))
    labels = min(labels, max(room - max(numbers), 2))
    room -= labels
    limit = max(min(HEADER, room), 2)
    narrow = [max(number, min(header, limit)) for number, header in zip(numbers, headers, strict=True)]
    result: list[Block] = []
    for j, column_width in enumerate(narrow):
        last = result[-1] if result else None
        if last and sum(last.widths) + len(GAP) * len(last.widths) + column_width <= room:
            last.columns.append(j)
            last.widths.append(column_width)
        else:
            result.append(Block([j], [column_width], labels))
    # A block of nothing but the mark of left-out columns says nothing.
    result = [block for block in result if any(sheet.columns[j] is not None for j in block.columns)]
    spare = max(width - max(block.width for block in result), 0)
    return [block._replace(label_width=min(whole.label_width, labels + spare)) for block in result]


def draw(sheet: Sheet, look: Look) -> Iterator[str]:
    """The heading, the blocks and the notes of a sheet, as lines of text without their ends."""
    yield from _heading(sheet, look)
    if sheet.heat and not look.ramp:
        sheet = _shaded(sheet, look)
    if not sheet.cells or not sheet.columns:
        yield "(nothing to show)"
        return
    parts = blocks(sheet, look.width)
    for block in parts:
        if len(parts) > 1:
            yield from wrapped(f"columns {span([sheet.columns[j] for j in block.columns])} of {sheet.of[1]}", look)
        yield from _box(sheet, block, look)
    note = sheet.left_out()
    if note:
        yield from wrapped(note, look)


def _shaded(sheet: Sheet, look: Look) -> Sheet:
    """The sheet with a shade behind each number, where there are no colours for it."""
    blocks = SHADES if look.can_show(SHADES) else ASCII_SHADES
    shades = {at: shade(share, blocks) for at, share in sheet.heat.items()}
    cells = [[f"{cell} {shades.get((i, j), ' ')}" for j, cell in enumerate(row)] for i, row in enumerate(sheet.cells)]
    return sheet._replace(cells=cells, heat={})


def _heading(sheet: Sheet, look: Look) -> list[str]:
    plain = wrapped(sheet.heading, look)
    if not look.color:
        return plain
    from attncli.report.styled import bold

    return [bold(line) for line in plain]


def span(shown: list[int | None]) -> str:
    """`1-7`, or `1-5, 96-100` where those in between are left out, of positions from 0."""
    runs: list[list[int]] = [[]]
    for position in shown:
        if position is None:
            runs.append([])
        else:
            runs[-1].append(position + 1)
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs if run)


def _box(sheet: Sheet, block: Block, look: Look) -> Iterator[str]:
    from rich import box

    borders = box.SQUARE if look.can_show("┌─┬┐│├┼┤└┴┘") else box.ASCII
    header, body = list(_header(sheet, block, look)), list(_body(sheet, block, look))
    if look.color:
        from attncli.report.styled import table

        return iter(table(header, body, borders, block.width))
    return _plain_box(header, body, block, borders)


def _plain_box(header: list[Line], body: list[Line], block: Block, borders: Box) -> Iterator[str]:
    """The box as `styled.table` draws it, without styles."""
    inner = [block.label_width + 2, block.width - FRAME - block.label_width + 2]
    yield borders.get_top(inner)
    for line in header:
        yield f"{borders.head_left} {line.label} {borders.head_vertical} {line.numbers} {borders.head_right}"
    yield borders.get_row(inner, "head")
    for line in body:
        yield f"{borders.mid_left} {line.label} {borders.mid_vertical} {line.numbers} {borders.mid_right}"
    yield borders.get_bottom(inner)


def _header(sheet: Sheet, block: Block, look: Look) -> Iterator[Line]:
    """The labels of the columns, folded, standing on the line below them."""
    folded = [fold(sheet.column_labels[j], width) for j, width in zip(block.columns, block.widths, strict=True)]
    height = max(map(len, folded))
    for level in zip(*([""] * (height - len(texts)) + texts for texts in folded), strict=True):
        texts = (pad(look.isolated(text), width, right=True) for text, width in zip(level, block.widths, strict=True))
        yield Line(" " * block.label_width, GAP.join(texts), [])


def _body(sheet: Sheet, block: Block, look: Look) -> Iterator[Line]:
    """The rows: numbers on the first line of a folded label."""
    for i, (label, cells) in enumerate(zip(sheet.row_labels, sheet.cells, strict=True)):
        numbers = GAP.join(cells[j].rjust(width) for j, width in zip(block.columns, block.widths, strict=True))
        styles = _styles(sheet, block, i) if look.color else []
        for text in fold(label, block.label_width):
            yield Line(pad(look.isolated(text), block.label_width), numbers, styles)
            numbers, styles = " " * len(numbers), []


def _styles(sheet: Sheet, block: Block, i: int) -> list[tuple[str, int, int]]:
    """The styles of parts of a row's numbers; the colours of heat reach into the gaps, so that cells touch."""
    result, end = [], -len(GAP)
    for j, width in zip(block.columns, block.widths, strict=True):
        end += len(GAP) + width
        if (i, j) in sheet.heat:
            result.append((heat_style(sheet.heat[i, j]), max(end - width - 1, 0), end + 1))
        if (i, j) in sheet.styles:
            result.append((_STYLES[sheet.styles[i, j]], end - len(sheet.cells[i][j]), end))
    return result
