"""Sheets as Rich tables that fit a width without ever cutting a number.

Rich shortens what does not fit, and takes its time over many cells. So the widths are settled here, a block of columns
becomes one cell of aligned text, and Rich draws the box and the styles.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from attncli.report.look import Look, fold, pad, widths, wrapped
from attncli.report.sheet import Sheet

if TYPE_CHECKING:
    from rich.text import Text

FRAME = len("│ ") + len(" │ ") + len(" │")
GAP = "  "
# A header is folded to this before columns are sent to another block.
HEADER = 12


@dataclass(frozen=True)
class Block:
    """Columns that stand side by side: their positions in the sheet, their widths, and the width of the labels."""

    columns: list[int]
    widths: list[int]
    label_width: int

    @property
    def width(self) -> int:
        """Terminal columns of the block with its frame."""
        return FRAME + self.label_width + sum(self.widths) + len(GAP) * (len(self.widths) - 1)


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
    return [replace(block, label_width=min(whole.label_width, labels + spare)) for block in result]


def draw(sheet: Sheet, look: Look) -> Iterator[str]:
    """The heading, the blocks and the notes of a sheet, as lines of text without their ends."""
    for line in wrapped(sheet.heading, look):
        yield from _styled(line, "bold", look)
    if not sheet.cells or not sheet.columns:
        yield "(nothing to show)"
        return
    parts = blocks(sheet, look.width)
    for block in parts:
        if len(parts) > 1:
            yield from wrapped(f"columns {_span(sheet, block)} of {sheet.count[1]}", look)
        yield from _box(sheet, block, look)
    note = sheet.left_out()
    if note:
        yield from wrapped(note, look)


def _span(sheet: Sheet, block: Block) -> str:
    """`1-7`, or `1-5, 96-100` where those in between are left out."""
    shown = [sheet.columns[j] for j in block.columns]
    runs: list[list[int]] = [[]]
    for position in shown:
        if position is None:
            runs.append([])
        else:
            runs[-1].append(position + 1)
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs if run)


def _box(sheet: Sheet, block: Block, look: Look) -> Iterator[str]:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    borders = box.SQUARE if look.can_show("┌─┬┐│├┼┤└┴┘") else box.ASCII
    table = Table(box=borders, border_style="dim", header_style="")
    table.add_column("", no_wrap=True, overflow="ignore", width=block.label_width)
    header = [fold(sheet.column_labels[j], width) for j, width in zip(block.columns, block.widths, strict=True)]
    height = max(map(len, header))
    lines = [
        GAP.join(
            pad(look.isolated(line), width, right=True)
            for line, width in zip(level, block.widths, strict=True)
        )
        for level in zip(*([""] * (height - len(texts)) + texts for texts in header), strict=True)
    ]
    body_width = block.width - FRAME - block.label_width
    table.add_column(Text("\n".join(lines)), no_wrap=True, overflow="ignore", width=body_width)
    labels, body = Text(), Text()
    for i, label in enumerate(sheet.row_labels):
        folded = fold(label, block.label_width)
        labels.append("\n".join(map(look.isolated, folded)) + "\n")
        _append_row(body, sheet, block, i, look)
        body.append("\n" * len(folded))
    labels.right_crop(1)
    body.right_crop(1)
    table.add_row(labels, body)
    yield from _lines(table, block.width, look)


def _append_row(body: Text, sheet: Sheet, block: Block, i: int, look: Look) -> None:
    cells = sheet.cells[i]
    start = len(body)
    body.append(GAP.join(cells[j].rjust(width) for j, width in zip(block.columns, block.widths, strict=True)))
    if not look.color:
        return
    for j, width in zip(block.columns, block.widths, strict=True):
        style = "dim" if (i, j) in sheet.hidden else "bold" if (i, j) in sheet.largest else None
        if style:
            body.stylize(style, start + width - len(cells[j]), start + width)
        start += width + len(GAP)


def _styled(text: str, style: str, look: Look) -> Iterator[str]:
    if not look.color:
        yield text
        return
    from rich.cells import cell_len
    from rich.text import Text

    yield from _lines(Text(text, style=style), cell_len(text) + 1, look)


def _lines(renderable: object, width: int, look: Look) -> list[str]:
    """What Rich makes of it at that width, whatever the environment says of terminals and colours."""
    import io

    from rich.console import Console

    console = Console(
        file=io.StringIO(), width=width, height=100, color_system="standard" if look.color else None,
        force_terminal=look.color, force_jupyter=False, force_interactive=False, legacy_windows=False,
        markup=False, emoji=False, highlight=False, _environ={},
    )  # fmt: skip
    console.print(renderable)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text.removesuffix("\n").split("\n")
