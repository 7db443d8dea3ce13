"""A workbook to fill in: what is given, and a sheet for each step, whose empty cells have names that `check` knows."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from typing import Any

from attncli.errors import UsageError
from attncli.exercises.keys import Key
from attncli.report.sheet import Sheet

_THEN = (1980, 1, 1, 0, 0, 0)  # the time that every part says, so that the same exercise gives the same bytes
_WHEN = "1980-01-01T00:00:00Z"


def workbook(key: Key, given: Iterable[Sheet], blank: Iterable[tuple[str, Sheet]]) -> bytes:
    """The workbook. blank: the empty tables by the address of their matrix. Raises UsageError without openpyxl."""
    try:
        from openpyxl import Workbook
        from openpyxl.utils import get_column_letter
        from openpyxl.workbook.defined_name import DefinedName
    except ImportError:
        hint = "pip install 'attncli[xlsx]'"
        raise UsageError("workbooks need openpyxl", place="--sheet xlsx", hint=hint) from None
    book = Workbook()
    sheet = book.active
    sheet.title = "given"
    row = 1
    for table in given:
        row = _put(sheet, row, table) + 2
    shown_as = f"0.{'0' * key.places}" if key.places else "0"
    for address, table in blank:
        title = re.sub(r"\[(.*)\]", lambda found: "_" + found[1].replace(",", "_"), address)
        sheet = book.create_sheet(title)
        last = _put(sheet, 1, table)
        sheet.freeze_panes = "B3"
        corner = f"${get_column_letter(1 + len(table.columns))}${last}"
        for cells in sheet[f"B3:{corner.replace('$', '')}"]:
            for cell in cells:
                cell.number_format = shown_as
        name = f"expected_{title}"
        book.defined_names[name] = DefinedName(name, attr_text=f"'{title}'!$B$3:{corner}")
    stream = io.BytesIO()
    book.save(stream)
    return _timeless(stream.getvalue())


def _put(sheet: Any, row: int, table: Sheet) -> int:
    """Write a table with its heading and labels from a row on; gives its last row."""
    _text(sheet.cell(row, 1), table.heading)
    for j, label in enumerate(table.column_labels, start=2):
        _text(sheet.cell(row + 1, j), label)
    for i, (label, cells) in enumerate(zip(table.row_labels, table.cells, strict=True), start=row + 2):
        _text(sheet.cell(i, 1), label)
        for j, number in enumerate(cells, start=2):
            if number:
                sheet.cell(i, j).value = float(number)
    return row + 1 + len(table.cells)


def _text(cell: Any, text: str) -> None:
    """Text as text, even where it begins as a formula does; what XML cannot hold as an escape."""
    cell.value = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", lambda found: f"\\x{ord(found[0]):02x}", text)
    cell.data_type = "s"
    cell.quotePrefix = text.startswith(("=", "+", "-", "@"))


def _timeless(data: bytes) -> bytes:
    """The same workbook without the time at which it was made."""
    from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

    stream = io.BytesIO()
    with ZipFile(io.BytesIO(data)) as made, ZipFile(stream, "w") as packed:
        for name in made.namelist():
            content = made.read(name)
            if name == "docProps/core.xml":
                content = re.sub(rb">[0-9]{4}-[0-9-]+T[0-9:]+Z<", f">{_WHEN}<".encode(), content)
            info = ZipInfo(name, _THEN)
            info.compress_type = ZIP_DEFLATED
            packed.writestr(info, content)
    return stream.getvalue()
