"""The cells of a workbook: the number that is stored in one, how it is shown, and what is no number."""

from __future__ import annotations

import re
from typing import Any

from attncli.errors import InputError, Place
from attncli.problem.numbers import is_number, parse_number, quote, shortest

_FIXED = re.compile(r"#?,?#*0(?:\.(0+))?")  # 0.00 and #,##0.00
_DIGITS = 10  # significant ones, of a number that is shown without a format of its own
_BLANKS = ("", "?", "~", "_")


def spelled(value: float, shown_as: str) -> str:
    """A number as the workbook shows it: its format tells the places; without one, as far as a cell has room."""
    plain = re.sub(r'\[[^\]]*\]|"[^"]*"|\\.|_.|\*.', "", shown_as.partition(";")[0]).strip()
    per_cent = plain.endswith("%")
    body, power, _ = plain.removesuffix("%").strip().partition("E+")
    fixed = _FIXED.fullmatch(body)
    if fixed is None:
        exact = shortest(value).removesuffix(".0")
        return exact if sum(map(str.isdigit, exact)) <= _DIGITS + 1 else f"{value:.{_DIGITS}g}"
    places = len(fixed[1] or "")
    if power:
        return f"{value:.{places}e}"
    return f"{value * 100:z.{places}f} %" if per_cent else f"{value:z.{places}f}"


def is_text(cell: Any) -> bool:
    """Whether a cell holds words: text that is no number and no blank."""
    value = cell.value
    return isinstance(value, str) and cell.data_type != "e" and not is_blank(cell) and not is_number(value.strip())


def is_blank(cell: Any) -> bool:
    """Whether nothing stands in a cell, or the sign of a number that was left out."""
    return cell.value is None or (isinstance(cell.value, str) and cell.value.strip() in _BLANKS)


def number_of(cell: Any, place: Place) -> tuple[float, str]:
    """The number of a cell as it is stored, and as it is shown. Raises InputError for what is none."""
    value = cell.value
    if isinstance(value, bool):
        raise InputError(f"the cell holds {str(value).upper()}, not a number", place=place, hint="write 1 or 0")
    if isinstance(value, int | float):
        return float(value), spelled(float(value), str(cell.number_format))
    if cell.data_type == "e":
        raise InputError(f"the cell holds an error, {value}", place=place, hint="mend its formula")
    if cell.data_type == "d":
        raise InputError("the cell holds a date", place=place, hint="format it as a number")
    text = str(value).strip()
    if is_number(text):
        return parse_number(text), text
    raise InputError(f"{quote(text)} is no number", place=place, hint="labels stand in the first row or column")
