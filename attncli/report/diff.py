"""How two arrays differ, as lines for a person and as one JSON object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attncli.errors import UsageError
from attncli.escapes import shown
from attncli.lazy import np
from attncli.report.look import Look, wrapped
from attncli.report.marking import drawing
from attncli.report.numbers import percent
from attncli.report.sheet import Sheet
from attncli.verify.diff import Cell, Difference
from attncli.verify.precision import UNITS
from attncli.verify.verdicts import number

FORMATS = ("table", "plain", "markdown", "latex", "json")
_BAR = 40
_COLUMNS = ["A", "B", "absolute", "relative", "ulp"]


def difference(found: Difference, names: tuple[str, str], look: Look, format: str = "table") -> Iterator[str]:
    """Pieces of text with their line ends. Raises UsageError for a format that is none of `FORMATS`."""
    if format == "json":
        import json

        yield json.dumps(to_dict(found, names), ensure_ascii=False, allow_nan=False) + "\n"
        return
    if format not in FORMATS:
        raise UsageError(f"a difference is not shown as {format}", place="--format", hint=", ".join(FORMATS))
    draw = drawing(format, look)
    lines = [*_arrays(found, names, look), *_numbers(found, look)]
    yield _lines(line for text in lines for line in wrapped(text, look))
    if found.equal < found.count:
        yield "\n" + _lines(_histogram(found, look)) + "\n"
        yield _lines(draw(_worst(found, look))) + "\n"
    yield _lines(wrapped(sentence(found), look))


def sentence(found: Difference) -> str:
    """The verdict in one sentence."""
    if not found.comparable:
        return f"they differ: {_size(found.shapes[0])} against {_size(found.shapes[1])}"
    if found.equal == found.count:
        return "equal: all numbers are the same"
    off = found.count - found.equal
    if not found.allowed.anything:
        return f"they differ: {_of(off, found)} are not the same"
    if found.within:
        return f"within {found.allowed}: {_of(off, found)} are not the same, but none is off by more"
    return f"they differ: {_of(found.outside, found)} are off by more than {found.allowed}"


def to_dict(found: Difference, names: tuple[str, str]) -> dict[str, Any]:
    """The JSON object: infinities and NaN as strings."""
    arrays = {
        letter: {"file": shown(name), "shape": list(shape), "dtype": dtype}
        for letter, name, shape, dtype in zip("ab", names, found.shapes, found.dtypes, strict=True)
    }
    return {
        "schema": 1,
        **arrays,
        "comparable": found.comparable,
        "within": found.within,
        "allowed": vars(found.allowed),
        "count": found.count,
        "equal": found.equal,
        "outside": found.outside,
        "not_finite": found.spoiled,
        "nan_only_in": {"a": found.nan[0], "b": found.nan[1]},
        "largest_absolute": None if found.absolute is None else _cell(found.absolute),
        "largest_relative": None if found.relative is None else _cell(found.relative),
        "ulp_of": found.unit,
        "ulps": [{"from": low, "to": high, "count": count} for low, high, count in found.classes],
        "worst": [_cell(cell) for cell in found.worst],
        "notes": found.notes,
    }


def _cell(cell: Cell) -> dict[str, Any]:
    relative = None if cell.relative is None else number(cell.relative)
    return {
        "at": list(cell.at), "name": cell.name, "a": number(cell.a), "b": number(cell.b),
        "absolute": number(cell.absolute), "relative": relative, "ulp": number(cell.ulp),
    }  # fmt: skip


def _arrays(found: Difference, names: tuple[str, str], look: Look) -> Iterator[str]:
    for letter, name, shape, dtype in zip("AB", names, found.shapes, found.dtypes, strict=True):
        yield f"{letter}: {look.label(name)}: {_size(shape)}, {dtype}"


def _numbers(found: Difference, look: Look) -> Iterator[str]:
    if not found.comparable:
        return
    yield f"{found.count} numbers, {found.equal} equal, {found.count - found.equal} not"
    for what, cell in (("absolute", found.absolute), ("relative", found.relative)):
        if cell is not None:
            error = cell.absolute if what == "absolute" else cell.relative
            a, b = _spelled(cell, found)
            yield f"largest {what} error: {error:.3g} at {look.label(cell.name)} ({a} against {b})"
    if found.spoiled:
        only = [f"{count} NaN only in {letter}" for letter, count in zip("AB", found.nan, strict=True) if count]
        infinite = found.spoiled - sum(found.nan)
        only += [f"{infinite} infinite in one, or of unlike signs"] if infinite else []
        yield f"not finite: {', '.join(only)}"


def _histogram(found: Difference, look: Look) -> Iterator[str]:
    """A bar a class: how many numbers are so many ulp apart."""
    yield f"ulp of {found.unit}"
    mark = "█" if look.can_show("█") else "#"
    names = [_class(low, high) for low, high, _ in found.classes]
    most = max((count for *_, count in found.classes), default=0)
    width, digits = max(map(len, names), default=0), len(str(most))
    for name, (*_, count) in zip(names, found.classes, strict=True):
        bar = mark * max(round(_BAR * count / most), 1) if count else ""
        yield f"{name:>{width}}  {count:>{digits}}  {bar}".rstrip()


def _class(low: int, high: int | None) -> str:
    return f"{low} or more" if high is None else str(low) if low == high else f"{low}-{high}"


def _worst(found: Difference, look: Look) -> Sheet:
    cells = [
        [*_spelled(cell, found), f"{cell.absolute:.3g}", "-" if cell.relative is None else f"{cell.relative:.3g}",
         f"{cell.ulp:.0f}"]
        for cell in found.worst
    ]  # fmt: skip
    count = len(cells)
    return Sheet(
        title="farthest apart", size=f"{count} of {found.count - found.equal}",
        caption="by their absolute error, numbers against NaN or infinity first",
        row_labels=[look.label(cell.name) for cell in found.worst], column_labels=_COLUMNS, cells=cells,
        rows=list(range(count)), columns=list(range(len(_COLUMNS))), of=(count, len(_COLUMNS)),
    )  # fmt: skip


def _spelled(cell: Cell, found: Difference) -> list[str]:
    """Both numbers as short as their type lets them be."""
    return [f"{x:.4g}" if dtype == "bfloat16" else str(np.float64(x).astype(dtype)) if dtype in UNITS else f"{x:.17g}"
            for x, dtype in zip((cell.a, cell.b), found.dtypes, strict=True)]  # fmt: skip


def _of(count: int, found: Difference) -> str:
    return f"{count} of {found.count} numbers ({percent(count, found.count)})"


def _size(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) if len(shape) > 1 else f"a vector of {shape[0]}"


def _lines(lines: Iterator[str] | list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
