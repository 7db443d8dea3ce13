"""What is known of a problem's sizes before anything is computed: the user's shapes, and those in rows and in-out.

Letters: n queries, m keys, d_x, d_y data widths, d_k, d_v key and value widths.
"""

from __future__ import annotations

from typing import TypeAlias

from attncli.errors import Place
from attncli.problem.labels import past_count
from attncli.problem.matrix import Matrix
from attncli.problem.problem import Problem
from attncli.problem.settings import LATER_STEPS

Shape: TypeAlias = tuple[int, ...]

# Rows and columns of each matrix, in the rows layout and in-out.
_LETTERS = {
    "X": ("n", "d_x"), "Y": ("m", "d_y"), "Q": ("n", "d_k"), "K": ("m", "d_k"), "V": ("m", "d_v"),
    "W_Q": ("d_x", "d_k"), "W_K": ("d_x", "d_k"), "W_V": ("d_x", "d_v"), "W_O": ("d_v", "d_o"),
}  # fmt: skip


class Known:
    """The shapes of a problem's matrices; nothing is known of those in `unknown`, given but not understood."""

    def __init__(self, problem: Problem, unknown: frozenset[str]) -> None:
        self.problem = problem
        self.unknown = unknown
        self.sources = {letter: self._source(letter) for letter in "QKV"}
        self.shapes = {
            name: self.as_rows(name, matrix.array.shape)
            for name, matrix in problem.inputs.items()
            if isinstance(matrix, Matrix)
        }

    def as_rows(self, name: str, shape: Shape) -> Shape:
        """The shape in the rows layout, in x out."""
        if len(shape) < 2 or name.startswith("b_"):
            return (1, *shape) if len(shape) == 1 and name[:2] not in ("b_", "W_") else shape
        turned = self.turned(name)
        return (*shape[:-2], shape[-1], shape[-2]) if turned else shape

    def turned(self, name: str) -> bool:
        """Whether the user's rows are our columns."""
        if name.startswith("W_"):
            return self.problem.weight_layout == "out-in"
        return self.problem.layout == "columns"

    def text(self, name: str) -> str:
        """`3 x 4 (n x d_x)`: the shape as it was given."""
        matrix = self.problem.inputs[name]
        assert isinstance(matrix, Matrix)
        letters: tuple[str, ...] = _LETTERS.get(name, ())
        if matrix.array.ndim != len(letters):
            letters = ()
        elif name in ("W_K", "W_V") and "Y" in self.problem.inputs:
            letters = ("d_y", letters[1])
        if self.turned(name):
            letters = letters[::-1]
        return self.given(name) + (f" ({' x '.join(letters)})" if letters else "")

    def given(self, name: str) -> str:
        """`3 x 4`: the shape as it was given, without letters."""
        matrix = self.problem.inputs[name]
        assert isinstance(matrix, Matrix)
        return times(matrix.array.shape)

    def place(self, name: str) -> Place | str | None:
        """Where the matrix begins, or where it was asked for."""
        return self.problem.place_of(name)

    def data(self, letter: str) -> str | None:
        """The name of what Q, K or V is made of: itself, X or Y; None where there is nothing."""
        return self.sources[letter]

    def _source(self, letter: str) -> str | None:
        for name in (letter, "X") if letter == "Q" else (letter, "Y", "X"):
            if name in self.problem.inputs or name in self.unknown:
                return name
        return None

    def width(self, letter: str) -> int | None:
        """The features of Q, K or V after projection, where they are known."""
        name, shape = f"W_{letter}", self.shapes.get(self.data(letter) or "")
        if name in self.unknown:
            return None
        if name in self.problem.inputs:
            weight = self.shapes.get(name, ())
            fits = len(weight) == 2 and (not shape or weight[0] == shape[-1])
            return weight[-1] if fits else None
        return shape[-1] if shape else None

    def count(self, letter: str) -> int | None:
        """n for Q and m for K, past keys included, where they are known."""
        if self.problem.begins:
            shape = self.shapes.get(self.problem.begins)
            return (shape[-2] if letter == "Q" else shape[-1]) if shape and len(shape) > 1 else None
        if self.unknown & {*LATER_STEPS}:
            return None
        shape = self.shapes.get(self.data(letter) or "")
        if not shape or len(shape) < 2 or {"past_k", "past_v"} & self.unknown:
            return None
        return shape[-2] + (past_count(self.problem) if letter != "Q" else 0)


def times(shape: Shape) -> str:
    """`3 x 4`."""
    return " x ".join(str(size) for size in shape)
