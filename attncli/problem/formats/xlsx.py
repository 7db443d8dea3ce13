"""Workbooks (.xlsx): the numbers of a sheet, of some of its cells, or of a name; needs openpyxl.

As an input a number counts as it is stored, as a hand's number as it is shown. Formulas are not computed here: what
the program that saved the workbook stored is read.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, BinaryIO, NoReturn

from attncli.errors import InputError, Place, UsageError, many, raise_all, unknown
from attncli.lazy import Array, np
from attncli.problem.formats.base import FORMATS, Part, ReadOptions, Source, placeholder
from attncli.problem.matrix import Matrix

_AREA = re.compile(r"\$?([A-Za-z]{1,3})\$?([0-9]{1,7})(?::\$?([A-Za-z]{1,3})\$?([0-9]{1,7}))?")
_MOST = 1 << 23  # bytes that the parts of a workbook may unpack to; some hundred thousand cells
_HEAD = 1 << 12  # bytes in which XML would declare entities
_MOST_ERRORS = 10


def write(stream: BinaryIO, steps: Mapping[str, Part], meta: Mapping[str, Any]) -> NoReturn:
    """Refused: a workbook of numbers alone would compute nothing."""
    raise UsageError("workbooks are read, not written", place="-o", hint="-o PATH.csv, which a spreadsheet opens")


def describe(source: Source) -> dict[str, Matrix]:
    """The sheets that hold anything, and the defined names, with their shapes."""
    book = _Book(source)
    sheets = [sheet.title for sheet in book.values.worksheets if book.used(sheet) is not None]
    found = {}
    for name in (*book.values.defined_names, *sheets):
        _, (top, left, bottom, right) = book.area(name)
        shape = (bottom - top + 1, right - left + 1)
        found[name] = Matrix(placeholder(shape, np.dtype(float)), place=Place(f"{source.file}::{name}"))
    return found


@FORMATS("xlsx", suffixes=(".xlsx",), write=write, several=True, describe=describe)
def read(source: Source, options: ReadOptions, name: str | None) -> dict[str, Matrix]:
    """A workbook (needs openpyxl): FILE.xlsx::Sheet1!B2:D4, a sheet, or a defined name."""
    book = _Book(source)
    if name is not None:
        return {name: book.matrix(*book.area(name), options)}
    filled = [sheet.title for sheet in book.values.worksheets if book.used(sheet) is not None]
    if not filled:
        raise InputError("no sheet holds anything", place=Place(source.file))
    return {title: book.matrix(*book.area(title), options) for title in filled}


class _Book:
    """A workbook that was opened: values as they were stored."""

    def __init__(self, source: Source) -> None:
        self.file = source.file
        self.data = source.read()
        _check(self.data, self.file)
        self.values = _opened(self.data, self.file, values=True)
        self._formulas: Any = None

    def used(self, sheet: Any) -> tuple[int, int, int, int] | None:
        """The first and last row and column that hold anything."""
        cells = [(cell.row, cell.column) for row in sheet.iter_rows() for cell in row if cell.value is not None]
        if not cells:
            return None
        rows, columns = zip(*cells, strict=True)
        return min(rows), min(columns), max(rows), max(columns)

    def area(self, name: str) -> tuple[Any, tuple[int, int, int, int]]:
        """The sheet and the cells that a name stands for: Sheet1, Sheet1!B2:D4, B2:D4 or a defined name."""
        place = Place(self.file)
        titles = {sheet.title: sheet for sheet in self.values.worksheets}
        defined = self.values.defined_names.get(name)
        if defined is not None and name not in titles:
            return self.area(str(defined.attr_text))
        title, mark, cells = name.rpartition("!")
        title = title.removeprefix("'").removesuffix("'").replace("''", "'") if mark else title
        if name in titles:
            used = self.used(titles[name])
            if used is None:
                raise InputError(f"the sheet {name!r} is empty", place=place)
            return titles[name], used
        match = _AREA.fullmatch(cells)
        if match is None:
            raise unknown("sheet or name", name, [*titles, *self.values.defined_names], place=place)
        if mark and title not in titles:
            raise unknown("sheet", title, titles, place=place)
        if not mark and len(titles) > 1:
            hint = f"say which: {self.file}::{next(iter(titles))}!{cells}"
            raise InputError(f"there are {len(titles)} sheets", place=place, hint=hint)
        first, last = (match[1], match[2]), (match[3] or match[1], match[4] or match[2])
        rows = sorted((int(first[1]), int(last[1])))
        columns = sorted((_column(first[0]), _column(last[0])))
        if rows[0] < 1 or (rows[1] - rows[0] + 1) * (columns[1] - columns[0] + 1) > _MOST // 16:
            raise InputError(f"{cells} are too many cells, or none", place=place)
        return titles[title] if mark else next(iter(titles.values())), (rows[0], columns[0], rows[1], columns[1])

    def matrix(self, sheet: Any, area: tuple[int, int, int, int], options: ReadOptions) -> Matrix:
        """The numbers of an area, and its labels where a first row or column holds words alone."""
        top, left, bottom, right = area
        cells = [[sheet.cell(i, j) for j in range(left, right + 1)] for i in range(top, bottom + 1)]
        merged = next((each for each in sheet.merged_cells.ranges if _overlap(each, area)), None)
        if merged is not None:
            hint = "unmerge them: each number has a cell of its own"
            raise InputError("cells are merged", place=self._place(sheet, merged.min_row, merged.min_col), hint=hint)
        head, labels = _labels(cells, options)
        numbers = [row[labels:] for row in cells[head:]]
        if not numbers or not numbers[0]:
            raise InputError("there are labels, but no numbers", place=self._place(sheet, top, left))
        array, texts = self._numbers(sheet, numbers, options)
        names = [_text(row[0]) for row in cells[head:]] if labels else None
        columns = [_text(cell) for cell in cells[0][labels:]] if head else None
        taken = {"row": head, "column": labels}
        notes = [f"{self.file}: the first {what} holds labels" for what in taken if taken[what]]
        return Matrix(
            array, names, columns, lambda: texts, self._place(sheet, top, left),
            lambda index: self._place(sheet, top + head + index[0], left + labels + index[1]), notes,
        )  # fmt: skip

    def _numbers(self, sheet: Any, cells: list[list[Any]], options: ReadOptions) -> tuple[Array, list[list[Any]]]:
        """The numbers, as they are stored or (of a hand, unless --stored) as shown; and their spelling."""
        from attncli.problem.formats.xlsx_cells import is_blank, number_of
        from attncli.problem.numbers import parse_number, shortest

        array = np.full((len(cells), len(cells[0])), math.nan)
        texts: list[list[Any]] = [[None] * len(row) for row in cells]
        errors: list[Any] = []
        for i, row in enumerate(cells):
            for j, cell in enumerate(row):
                place = self._place(sheet, cell.row, cell.column)
                try:
                    if is_blank(cell):
                        self._check_blank(sheet, cell, place, options)
                        continue
                    stored, shown = number_of(cell, place)
                except InputError as error:
                    errors.append(error)
                    if len(errors) == _MOST_ERRORS:
                        raise_all(errors)
                    continue
                as_shown = options.blanks and not options.stored
                texts[i][j] = shown if as_shown else shortest(stored)
                array[i, j] = parse_number(shown) if as_shown else stored
        raise_all(errors)
        return array, texts

    def _check_blank(self, sheet: Any, cell: Any, place: Place, options: ReadOptions) -> None:
        """Raise InputError for an empty cell where a number is needed, and for a formula without a stored result."""
        if cell.value is None:
            if self._formulas is None:
                self._formulas = _opened(self.data, self.file, values=False)
            if self._formulas[sheet.title].cell(cell.row, cell.column).value is not None:
                hint = "open the workbook in a spreadsheet and save it: formulas are not computed here"
                raise InputError("the formula has no stored result", place=place, hint=hint)
        if not options.blanks:
            raise InputError("the cell is empty", place=place, hint="write the number that is missing")

    def _place(self, sheet: Any, row: int, column: int) -> Place:
        title = sheet.title if re.fullmatch(r"\w+", sheet.title) else "'" + sheet.title.replace("'", "''") + "'"
        return Place(f"{self.file}::{title}!{sheet.cell(row, column).coordinate}")


def _labels(cells: list[list[Any]], options: ReadOptions) -> tuple[int, int]:
    """Whether the first row, and the first column, hold labels: 1 or 0 of each."""
    from attncli.problem.formats.xlsx_cells import is_blank, is_text

    corner = is_blank(cells[0][0]) and not options.blanks
    head = (all(is_text(cell) for cell in cells[0][1:]) and len(cells[0]) > 1) or (
        len(cells[0]) == 1 and is_text(cells[0][0])
    )
    below = cells[1:] if head else cells
    labels = bool(below) and len(cells[0]) > 1 and all(is_text(row[0]) for row in below)
    if corner and any(is_text(cell) for cell in cells[0][1:]):
        head = True
    return int(head if options.header is None else options.header), int(
        labels if options.labels is None else options.labels
    )


def _text(cell: Any) -> str:
    return "" if cell.value is None else str(cell.value)


def _column(letters: str) -> int:
    number = 0
    for letter in letters.upper():
        number = number * 26 + ord(letter) - ord("A") + 1
    return number


def _overlap(merged: Any, area: tuple[int, int, int, int]) -> bool:
    top, left, bottom, right = area
    return bool(
        merged.min_row <= bottom and merged.max_row >= top and merged.min_col <= right and merged.max_col >= left
    )


def _check(data: bytes, file: str) -> None:
    """Raise InputError for what is no workbook, and for one that would unpack to more than a sheet of numbers."""
    import zlib
    from zipfile import BadZipFile, ZipFile

    place = Place(file)
    try:
        with ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            size = sum(info.file_size for info in members)
            if size > _MOST or len(members) > 1000:
                hint = f"up to {_MOST >> 20} MiB; large arrays go into .npy, .npz or .csv"
                raise InputError(f"the workbook unpacks to {size:,} bytes in {many(len(members), 'part')}",
                                 place=place, hint=hint)  # fmt: skip
            for info in members:
                with archive.open(info) as part:
                    head = part.read(_HEAD)
                if b"<!DOCTYPE" in head or b"<!ENTITY" in head:
                    raise InputError(f"{info.filename} declares entities, which no workbook needs", place=place)
    except (BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError, ValueError) as error:
        raise InputError(f"not a sound workbook: {error}", place=place) from None


@lru_cache(maxsize=2)  # of a class, each step of one workbook after the other is asked for
def _opened(data: bytes, file: str, *, values: bool) -> Any:
    """The workbook: the values that were stored, or the formulas; no link is followed."""
    try:
        from openpyxl import load_workbook
    except ImportError:
        hint = "pip install 'attncli[xlsx]'"
        raise UsageError("workbooks need openpyxl", place=Place(file), hint=hint) from None
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what openpyxl does not keep, and nobody here asks for
            return load_workbook(io.BytesIO(data), data_only=values, keep_links=False)
    except Exception as error:  # openpyxl raises what its parts raise
        raise InputError(f"not a sound workbook: {type(error).__name__}: {error}", place=Place(file)) from None
