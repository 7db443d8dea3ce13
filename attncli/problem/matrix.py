"""A matrix as it was handed over: the array, its labels, how its numbers were spelled, and where each stood."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Any

from attncli.errors import Place
from attncli.record import record

if TYPE_CHECKING:
    import numpy.typing as npt


@record
class Matrix:
    """An array with its origin.

    array: any number of axes (a vector stays one axis here; who wants a matrix takes it as one token).
    spelling: the numbers as written, nested like the array (None in place of a number that was left out),
        or a function that gives them; None where the file has no spelling (.npy).
    place: where the matrix begins. cell: the place of the cell at a zero-based index.
    stored: the type of the numbers in the file where NumPy has none such: bfloat16, which is read as float32.
    """

    array: npt.NDArray[Any]
    row_labels: list[str] | None = None
    column_labels: list[str] | None = None
    spelling: Callable[[], list[Any]] | None = None
    place: Place | None = None
    cell: Callable[[tuple[int, ...]], Place] | None = None
    notes: list[str] = field(default_factory=list)
    stored: str | None = None

    def at(self, index: tuple[int, ...]) -> Place | None:
        """The place of a cell, as exactly as it is known."""
        return self.cell(index) if self.cell is not None else self.place
