"""A matrix as it was handed over: the array, its labels, how its numbers were spelled, and where each stood."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from attncli.errors import Place
from attncli.lazy import Array, np


@dataclass(eq=False, repr=False)
class Matrix:
    """An array with its origin.

    array: any number of axes (a vector stays one axis here; who wants a matrix takes it as one token).
    spelling: the numbers as written, nested like the array (None in place of a number that was left out),
        or a function that gives them; None where the file has no spelling (.npy).
    place: where the matrix begins. cell: the place of the cell at a zero-based index.
    stored: the type of the numbers in the file where NumPy has none such: bfloat16, which is read as float32.
    """

    array: Array
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

    def rearranged(self, turn: Callable[[Array], Array]) -> Matrix:
        """The numbers in another order or shape, or some of them, with their spelling and places, without labels.

        turn: does it to an array of the same shape.
        """
        shape, cell, spelling = self.array.shape, self.cell, self.spelling

        def place(index: tuple[int, ...]) -> Place:
            assert cell is not None
            where = turn(np.arange(math.prod(shape)).reshape(shape))
            return cell(tuple(int(i) for i in np.unravel_index(int(where[index]), shape)))

        def spelled() -> list[Any]:
            assert spelling is not None
            texts = np.empty(shape, object)
            texts[...] = spelling()
            found: list[Any] = turn(texts).tolist()
            return found

        return replace(
            self,
            array=turn(self.array),
            cell=None if cell is None else place,
            spelling=None if spelling is None else spelled,
            row_labels=None,
            column_labels=None,
        )
