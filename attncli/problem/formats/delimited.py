"""CSV, TSV and text with blanks: numbers in rows, with or without labels and a header."""

from __future__ import annotations

import math
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple

from attncli.errors import AttnError, InputError, Place, ShapeError, many, raise_all
from attncli.lazy import np, pattern
from attncli.problem.formats.base import FORMATS, ByRows, Part, ReadOptions, Source
from attncli.problem.formats.cells import BLANKS, Row, cells_of, separator_of, split
from attncli.problem.matrix import Matrix
from attncli.problem.numbers import is_number, looks_like_number, parse_number, quote
from attncli.problem.text import decode, lines_of

_DECIMALS = pattern(r"[0-9.eE+ ,-]*")  # float() reads nothing else out of these characters
_LEFT_OUT = frozenset(("", "?", "~", "_"))
_MOST_ERRORS = 10
_OPTIONS = "--header yes|no and --labels yes|no say what is what"


class Marks(NamedTuple):
    """What stands between the cells of a text that is written, and in its numbers."""

    separator: str
    decimal: str

    @classmethod
    def of(cls, told: Mapping[str, Any], usual: str | None) -> Marks:
        """As --separator and --decimal say, of which the first is for CSV alone."""
        decimal = told.get("decimal") or "."
        named = told.get("separator") if usual is None else None
        return cls(usual or (separator_of(named, decimal) if named else ";" if decimal == "," else ","), decimal)


def _by_rows(usual: str | None) -> Callable[..., ByRows | None]:
    def by_rows(part: Part, layout: str, told: Mapping[str, Any] = MappingProxyType({})) -> ByRows | None:
        from attncli.problem.formats.delimited_write import by_rows

        return by_rows(part, *Marks.of(told, usual)) if layout == "rows" and part.array.ndim == 2 else None

    return by_rows


def _write(usual: str | None) -> Callable[[BinaryIO, Mapping[str, Part], Mapping[str, Any]], None]:
    def write(stream: BinaryIO, steps: Mapping[str, Part], meta: Mapping[str, Any]) -> None:
        from attncli.problem.formats.delimited_write import by_rows

        (part,) = steps.values()
        array = np.atleast_2d(part.array)  # a vector is one row
        text = by_rows(Matrix(array, part.row_labels, part.column_labels), *Marks.of(meta, usual))
        stream.write(text.head)
        stream.writelines(text.rows(array, 0))

    return write


@FORMATS("csv", suffixes=(".csv",), write=_write(None), by_rows=_by_rows(None), axes=2)
def read_csv(source: Source, options: ReadOptions, name: str | None) -> dict[str, Matrix]:
    """Text, one row a line, cells separated by commas, semicolons or tabs."""
    return {"": read_table(source, options, None)}


@FORMATS("tsv", suffixes=(".tsv",), write=_write("\t"), by_rows=_by_rows("\t"), axes=2)
def read_tsv(source: Source, options: ReadOptions, name: str | None) -> dict[str, Matrix]:
    """The same with tabs."""
    return {"": read_table(source, options, None)}


@FORMATS("txt", suffixes=(".txt",), write=_write(BLANKS), by_rows=_by_rows(BLANKS), axes=2)
def read_txt(source: Source, options: ReadOptions, name: str | None) -> dict[str, Matrix]:
    """The same with blanks."""
    return {"": read_table(source, options, BLANKS)}


def read_table(source: Source, options: ReadOptions, usual: str | None) -> Matrix:
    """The matrix of a delimited text.

    usual: the separator where neither an option nor the text names one; None if the first line tells.
    Raises InputError with line and column; a hint names the separator or decimal mark with which it can be read.
    """
    if options.decimal not in (".", ","):
        raise InputError(f"{quote(options.decimal)} is no decimal mark", place="--decimal", hint="write . or ,")
    if options.separator is not None:
        separator_of(options.separator, options.decimal)  # raises
    data = source.read()
    try:
        return _read(data, source.file, options, usual)
    except AttnError as error:
        from attncli.problem.formats.other_marks import with_advice

        raise with_advice(error, data, options, usual, _read) from None


def _read(data: bytes, file: str, options: ReadOptions, usual: str | None) -> Matrix:
    named = None if options.separator is None else separator_of(options.separator, options.decimal)
    matrix = _plain(data, file, options, named or usual)
    return matrix or _Table(decode(data, file), file, options, named, usual).matrix()


def _plain(data: bytes, file: str, options: ReadOptions, separator: str | None) -> Matrix | None:
    """The quick way for what most files are: plain decimals and nothing else. None where a closer look is needed."""
    if options.decimal != "." or options.header or options.labels:
        return None
    data = data.removeprefix(BOM_UTF8).replace("\u2212".encode(), b"-")
    others = {byte for byte in b"\t;,|" if separator is None or separator.encode() == bytes([byte])}
    if data.translate(None, b"0123456789.+-eE \r\n" + (b"\t" if separator == BLANKS else b"") + bytes(others)):
        return None
    blank = " \t" if separator == BLANKS else " "
    numbered = [(number, line) for number, line in enumerate(lines_of(data.decode()), 1) if line.strip(blank)]
    if not numbered:
        return None
    first = numbered[0][1]
    mark = separator or next((mark for mark in "\t;" if mark in first), ",")
    try:
        lines = [line for _, line in numbered]
        array = np.loadtxt(lines, delimiter=None if mark == BLANKS else mark, comments=None, ndmin=2)
    except ValueError:  # an odd cell, or rows of unequal length
        return None
    if np.isinf(array).any():  # 1e400
        return None

    def spelling() -> list[Any]:
        return [[cell.strip() for cell in cells_of(line, mark)] for _, line in numbered]

    def cell(index: tuple[int, ...]) -> Place:
        return Place(file, numbered[index[0]][0], *(i + 1 for i in index[1:]))

    return Matrix(array, spelling=spelling, place=Place(file, numbered[0][0], 1), cell=cell)


class _Table:
    """The rows of one text, and what of them is taken for header and labels."""

    def __init__(self, text: str, file: str, options: ReadOptions, separator: str | None, usual: str | None) -> None:
        self.file, self.options, self.notes = file, options, list[str]()
        self.known: dict[str, float] = {}  # a cell is read once, however often it stands there
        cells = split(text, separator, options.decimal, file, usual=usual)
        self.separator, self.rows = cells.separator, cells.rows
        if not self.rows:
            raise InputError("the file has no rows: it holds no numbers", place=Place(file))
        self._refuse_separators_only()
        self._drop_trailing_separators()
        self.truths = _is_truth(self.rows[-1].cells[-1])
        self._tell_of_skipped(cells.comments)
        self.short = self._check_widths()
        self.labels, self.header = self._labels_and_header()

    def matrix(self) -> Matrix:
        """The numbers, with labels and header, and a note of what was taken as what."""
        body = self.rows[1:] if self.header else self.rows
        skip = int(self.labels)
        taken = " and ".join(["the first line as a header"] * self.header + ["the first column as labels"] * skip)
        if not body or len(body[0].cells) <= skip:
            what = f"the file has no rows of numbers: it was read with {taken}"
            raise InputError(what, place=Place(self.file), hint=_OPTIONS)
        if taken:
            self.notes.append(f"{self.file}: read with {taken}")
        array = self._array(body, skip)
        columns = None
        if self.header:
            top = self.rows[0]
            columns = [top.label(i) for i in range(0 if self.short else skip, len(top.cells))]

        def cell(index: tuple[int, ...]) -> Place:
            return Place(self.file, body[index[0]].line, *(i + 1 + skip for i in index[1:]))

        return Matrix(
            array,
            row_labels=[row.label(0) for row in body] if self.labels else None,
            column_labels=columns,
            spelling=lambda: [[self._spelled(text) for text in row.cells[skip:]] for row in body],
            place=cell((0, 0)),
            cell=cell,
            notes=self.notes,
        )

    def _refuse_separators_only(self) -> None:
        for row in self.rows:
            if len(row.cells) > 1 and not row.quoted and not any(cell.strip() for cell in row.cells):
                raise InputError(
                    f"line {row.line} holds separators only",
                    place=Place(self.file, row.line, 1),
                    hint="take the line out, or fill its cells",
                )

    def _drop_trailing_separators(self) -> None:
        last = [(row, len(row.cells) - 1) for row in self.rows]
        if all(i > 0 and row.is_empty(i) and i not in row.quoted for row, i in last):
            self.rows = [Row(row.line, row.cells[:-1], row.quoted) for row in self.rows]
            self.notes.append(f"{self.file}: the separator at the end of every line was dropped")

    def _tell_of_skipped(self, comments: list[str]) -> None:
        """Lines that would be rows but for their #: `##ing,1,2` is a word and two numbers."""
        width = len(self.rows[-1].cells)
        cells = [cells_of(content, self.separator) for content in comments] if width > 1 else []
        count = sum(len(row) == width and self._is_value(row[-1]) for row in cells)
        if count:
            self.notes.append(
                f"{self.file}: {count} line{'s' * (count > 1)} that begin{'s' * (count == 1)} with # "
                f"{'were' if count > 1 else 'was'} skipped (a label that begins so stands in quotes)"
            )

    def _check_widths(self) -> bool:
        """Whether the first line is one cell shorter, and so a header; other unequal rows are refused."""
        first, *others = self.rows
        width = len(first.cells)
        odd = next((row for row in others if len(row.cells) != width), None)
        if odd is None:
            return False
        short = all(len(row.cells) == width + 1 for row in others)
        told = self.options.header and self.options.labels
        numbers = all(map(self._is_value, first.cells)) and all(self._is_value(row.cells[0]) for row in others)
        if short and self.options.header is not False and self.options.labels is not False and (told or not numbers):
            return True
        raise ShapeError(
            f"line {odd.line} has {many(len(odd.cells), 'value')}, line {first.line} has {width}",
            place=Place(self.file, odd.line, min(len(odd.cells), width) + 1),
            hint="if the first line is a header over labelled rows: --header yes --labels yes" if short else None,
        )

    def _labels_and_header(self) -> tuple[bool, bool]:
        """By the options; by an empty first cell or a shorter first line; else by where numbers stand."""
        labels, header = self.options.labels, self.options.header
        first, *others = self.rows
        corner = self.short or (first.is_empty(0) and len(first.cells) > 1 and header is not False)
        if labels is None:
            labels = (corner and header is not False) or self._first_column_is_words(others)
        if header is None:
            cells = [(first, i) for i in range(int(labels), len(first.cells))]
            header = (corner and labels) or self._all_words(cells, "the first line", "a header")
            if header and not corner and all(_is_truth(row.cells[i]) for row, i in cells):
                self._value(first, len(first.cells) - 1)  # raises: true and false are the first row, and a slip follows
        return labels, header

    def _first_column_is_words(self, others: list[Row]) -> bool:
        """Whether it holds labels: words alone, the cell over them aside where the first line is a header."""
        first = self.rows[0]
        if len(first.cells) == 1:
            return False
        beside = [self._is_value(cell) for cell in first.cells[1:]]
        header = self.options.header or (self.options.header is None and not any(beside))
        cells = [(row, 0) for row in (others if header and others else self.rows)]
        if not self._all_words(cells, "the first column", "labels"):
            return False
        for row, i in cells:
            if row.is_empty(i):
                self._value(row, i)  # raises: nothing is no word either
        return True

    def _all_words(self, cells: list[tuple[Row, int]], where: str, meant: str) -> bool:
        """Whether none of these cells is a number; where only some are, nothing is guessed."""
        values = [self._is_value(row.cells[i]) for row, i in cells]
        for (row, i), value in zip(cells, values, strict=True):
            if not value and looks_like_number(row.cells[i], decimal=self.options.decimal):
                self._value(row, i)  # raises: a number gone wrong is no word
        if not any(values):
            return bool(values)
        if all(values):
            return False
        row, i = cells[values.index(False)]
        if row.is_empty(i):
            self._value(row, i)  # raises: nothing is no word either
        raise InputError(
            f"line {row.line}, column {i + 1}: {quote(row.cells[i].strip())} is not a number, but other cells of "
            f"{where} are",
            place=Place(self.file, row.line, i + 1),
            hint=f"if {where} is {meant}, say so: {_OPTIONS}",
        )

    def _is_value(self, text: str) -> bool:
        text = text.strip()
        if self.options.blanks and text in _LEFT_OUT:
            return True
        return _is_truth(text) if self.truths else is_number(text, decimal=self.options.decimal)

    def _array(self, body: list[Row], skip: int) -> Any:
        values: list[list[float]] = []
        errors: list[AttnError] = []
        for row in body:
            texts = row.cells[skip:]
            if self.options.decimal == "." and _DECIMALS.fullmatch("".join(texts)):
                try:
                    numbers = list(map(float, texts))
                    if math.inf not in numbers and -math.inf not in numbers:
                        values.append(numbers)
                        continue
                except ValueError:
                    pass  # told below, with its place
            numbers = []
            for i in range(skip, len(row.cells)):
                try:
                    numbers.append(self._value(row, i))
                except InputError as error:
                    errors.append(error)
            if len(errors) >= _MOST_ERRORS:
                break
            values.append(numbers)
        raise_all(errors[:_MOST_ERRORS])
        return np.array(values, dtype=bool if self.truths else float)

    def _value(self, row: Row, i: int) -> float:
        """The number in a cell. Raises InputError with its line and column."""
        text = row.cells[i].strip()
        if self.options.blanks and text in _LEFT_OUT:
            return math.nan
        if self.truths and _is_truth(text):
            return float(text.lower() == "true")
        if text in self.known:
            return self.known[text]
        at, place = f"line {row.line}, column {i + 1}: ", Place(self.file, row.line, i + 1)
        if not text:
            raise InputError(f"{at}the cell is empty", place=place)
        if self.truths:
            raise InputError(f"{at}{quote(text)} stands among true and false", place=place, hint="write 1 and 0")
        try:
            number = self.known[text] = parse_number(text, decimal=self.options.decimal)
        except InputError as error:
            raise InputError(at + error.what, place=place, hint=error.hint) from None
        return number

    def _spelled(self, text: str) -> str | None:
        """As written, with a point for the decimal mark."""
        text = text.strip()
        if self.options.blanks and text in _LEFT_OUT:
            return None
        return text.replace(",", ".") if self.options.decimal == "," else text


def _is_truth(text: str) -> bool:
    return text.strip().lower() in ("true", "false")
