"""What a check says, cell by cell, step by step and as a whole; `to_dict` is the JSON of the contract."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from attncli.errors import AttnError
from attncli.lazy import Array
from attncli.verify.written import spelled

if TYPE_CHECKING:
    from attncli.verify.diagnosis import Diagnosis

# A cell has the first that fits; a step has the last that one of its cells needs.
VERDICTS = ("agrees", "follows", "truncated", "follows", "last-place", "wrong")
AGREES, FOLLOWS, TRUNCATED, BY_HABIT, LAST_PLACE, WRONG = range(6)
BLANK = -1
NOT_MARKED = "not marked"  # a step of which no number was


@dataclass(frozen=True)
class CellMark:
    """A cell that does not agree. at counts from 1: sequence and head where there are any, row, column as displayed.

    from_hand: the bounds of what follows from the hand's own earlier numbers. unit: of the hand's last written place.
    """

    at: tuple[int, ...]
    row: str
    column: str
    verdict: str
    hand: float
    exact: float
    from_hand: tuple[float, float]
    unit: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        return {
            "at": list(self.at),
            "row": self.row,
            "column": self.column,
            "verdict": self.verdict,
            "hand": spelled(self.hand, self.unit),
            "exact": number(self.exact),
            "from_hand": [number(end) for end in self.from_hand],
        }


@dataclass(frozen=True)
class ArrayMark:
    """What is said of an array as a whole, which is marked by tolerance and not by written places.

    tolerance: in words. outside: how many of `size` numbers are off by more. largest: the largest of all errors, in
    units of what its cell may be off. worst: the cells that are farthest off. where: where those outside lie.
    """

    tolerance: str
    outside: int
    size: int
    largest: float
    worst: list[CellMark]
    where: list[str]

    @property
    def share(self) -> float:
        """The share of numbers outside the tolerance."""
        return self.outside / self.size if self.size else 0.0

    def to_dict(self) -> dict[str, Any]:
        return {
            "tolerance": self.tolerance,
            "outside": self.outside,
            "share": self.share,
            "largest": number(self.largest),
            "worst": [cell.to_dict() for cell in self.worst],
            "where": self.where,
        }


@dataclass(frozen=True)
class StepMark:
    """A step (or a part such as weights[2]) with its verdict.

    The arrays are as displayed, in the layout asked for: hand (NaN where blank) and its units, exact, low and high (the
    bounds of what follows from the hand's numbers), codes (indices of VERDICTS, BLANK where nothing is marked).
    array: of an engineer's array, of which `cells` holds the first ones only. is_checked: whether anything was: not
    where all is blank, or whole numbers stand where the right ones are not.
    """

    step: str
    verdict: str
    rows: str
    columns: str
    row_labels: list[str]
    column_labels: list[str]
    cells: list[CellMark]
    hand: Array
    unit: Array
    exact: Array
    low: Array
    high: Array
    codes: Array
    reason: str = ""
    array: ArrayMark | None = None
    is_checked: bool = True

    def to_dict(self) -> dict[str, Any]:
        told = {
            "step": self.step,
            "verdict": self.verdict,
            "rows": self.rows,
            "columns": self.columns,
            "cells": [cell.to_dict() for cell in self.cells],
        }
        if self.reason:
            told["habit"] = self.reason
        return told if self.array is None else told | {"array": self.array.to_dict()}


@dataclass
class CheckResult:
    """The marked steps of one problem, in the order of the pipeline; reason: why it could not be read and marked."""

    file: str | None
    steps: list[StepMark]
    diagnosis: list[Diagnosis] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    reason: str = ""

    @classmethod
    def unreadable(cls, file: str | None, error: AttnError) -> CheckResult:
        """What stands in place of marks where there is nothing to mark."""
        told = [f"{inner.place}: {inner.what}" if inner.place else inner.what for inner in error.errors()]
        return cls(file, [], reason="; ".join(told))

    @property
    def verdict(self) -> str:
        """`wrong` where a step is; else `agrees` where all do; else `rounded`. `unreadable` where nothing is marked."""
        if self.reason:
            return "unreadable"
        found = {step.verdict for step in self.steps} - {NOT_MARKED}
        return "wrong" if "wrong" in found else "agrees" if found <= {"agrees"} else "rounded"

    @property
    def first_wrong(self) -> tuple[StepMark, CellMark] | None:
        """The first wrong cell of the first wrong step."""
        for step in self.steps:
            for cell in step.cells:
                if cell.verdict == "wrong":
                    return step, cell
        return None

    def to_dict(self) -> dict[str, Any]:
        """The JSON of section 6: infinities and NaN as strings."""
        wrong = self.first_wrong
        told: dict[str, Any] = {
            "schema": 2,
            "file": self.file,
            "verdict": self.verdict,
            "steps": [step.to_dict() for step in self.steps],
            "first_wrong": None
            if wrong is None
            else {"step": wrong[0].step, "at": list(wrong[1].at), "row": wrong[1].row, "column": wrong[1].column},
            "diagnosis": [diagnosis.as_json() for diagnosis in self.diagnosis],
            "notes": self.notes,
        }
        return told | ({"reason": self.reason} if self.reason else {})


def number(x: float) -> float | str:
    """A number for JSON."""
    if x != x:
        return "nan"
    if x in (float("inf"), float("-inf")):
        return "inf" if x > 0 else "-inf"
    return float(x)
