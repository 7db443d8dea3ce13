"""The definition read in terms: the numbers of one query, each with the arithmetic from the steps before.

What later steps start from are cells of the steps before them, with the numbers that the Trace has there. A `Whole` is
a problem, a `Row` one query of one of its sequences, with all heads: scores are (H, 1, m) there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from attncli.arithmetic import forms as _  # noqa: F401  (the forms of terms)
from attncli.arithmetic.terms import CELL, MADE, NUMBER, Terms
from attncli.arithmetic.trees import Cell, Term, evaluate
from attncli.lazy import Array, np
from attncli.pipeline.heads import spread_to
from attncli.pipeline.state import RowBlock, State
from attncli.pipeline.steps import STEPS, Step


class _InTerms:
    """A State whose steps are read in terms. plain: the same in plain numbers, as the Trace has them.

    terms: of each step that is told. numbers: those of its cells, and of the inputs.
    opaque: why the arithmetic of a step cannot be told.
    """

    def begin_reading(self: Any, plain: State) -> None:
        """Take up what the reading needs, besides what a State has."""
        self.plain = plain
        self.terms: dict[str, Terms] = {}
        self.numbers: dict[str, Array] = {}
        self.opaque: dict[str, str] = {}
        self.between = self._cut

    def compute(self: Any, entry: Step) -> Any:
        """What the function of a step gives in terms; of one that cannot be read so, the numbers alone."""
        if entry.truth:  # what is decided is decided by the right numbers
            return self.right(entry)
        try:
            return super().compute(entry)  # type: ignore[misc]
        except Exception as error:  # a function of the user's own may raise anything, where numbers are not plain
            if not entry.told_as:
                raise
            self.opaque[entry.name] = str(error) or type(error).__name__
            return self.right(entry)

    def from_steps(self: Any, *names: str) -> bool:
        """Each step is made from the one before; but of a kernel that vanished there is no logarithm to tell."""
        return "kernel" not in names

    def _cut(self: Any, name: str, x: Any) -> Any:
        """What later steps start from, where a step gave x: cells."""
        entry = STEPS.find(name)
        if entry.truth or name in self.inputs or self.is_known(name):
            return x
        if isinstance(x, np.ndarray):
            if name in self.opaque or entry.line == "table":
                self.numbers[name] = x
                return Terms.cells(name, x)
            x = Terms.numbers(x)
        if not entry.told_as:
            return x
        self.terms[name] = x
        # Those on request are told as a hand has them, shifted where they would leave what a calculator holds.
        numbers = x.value if entry.on_request or not entry.shown else spread_to(self.right(entry), x.shape)
        self.numbers[name] = numbers
        # Where a step hides, a 0 (or -inf) is no number to calculate with.
        return x.cut(name, numbers, (CELL, NUMBER) if entry.hides else (CELL,))


class Whole(_InTerms, State):
    """A problem in terms of its inputs and of its steps."""

    def __init__(self, plain: State) -> None:
        inputs = {name: _double(x) for name, x in plain.inputs.items()}
        super().__init__(plain.config, {name: Terms.cells(name, x) for name, x in inputs.items()}, stepwise=True)
        self.begin_reading(plain)
        self.given_numbers = inputs
        # Of each head the keys and values that were told already, for one query or another.
        self.told: dict[int, set[Cell]] = {}
        self.layout, self.shape, self.masks = plain.layout, plain.shape, plain.masks
        self.normalizer, self.score = plain.normalizer, plain.score

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """The score's parameters, matrices among them as cells of `score.W`."""
        found = {}
        for name, x in self.plain.parameters.items():
            if isinstance(x, np.ndarray):
                self.given_numbers[f"score.{name}"] = _double(x)
            found[name] = Terms.cells(f"score.{name}", _double(x)) if isinstance(x, np.ndarray) else x
        return found

    def is_known(self, name: str) -> bool:
        """Whether the cells of a step are made elsewhere."""
        return False

    def right(self, entry: Step) -> Any:
        """The right numbers of a step, or whether something is so."""
        x = self.plain[entry.name]
        return x if entry.truth else _double(x)


class Row(_InTerms, RowBlock):
    """One query, counted from 0, of one sequence."""

    whole: Whole

    def __init__(self, whole: Whole, sequence: tuple[int, ...], query: int) -> None:
        super().__init__(whole, sequence, None, slice(query, query + 1))
        self.begin_reading(whole.plain)
        self.given_numbers, self.query = whole.given_numbers, query

    @cached_property
    def parameters(self) -> dict[str, Any]:
        return self.whole.parameters

    def is_known(self, name: str) -> bool:
        return name in self.whole.terms or name in self.whole.numbers

    def right(self, entry: Step) -> Any:
        x = self.plain[entry.name]
        x = self.cut(x, rows=True) if entry.per_head else self._of_sequence(x, self.sequence)[..., self.rows, :]
        return x if entry.truth else _double(x)

    # -- single numbers ------------------------------------------------------------------------------------------

    def _place(self, step: str) -> Row | Whole | None:
        """Where the cells of a step are known; None for an input."""
        return next((at for at in (self, self.whole) if step in at.numbers), None)

    def owns(self, step: str) -> bool:
        """Whether a step is computed for this query alone."""
        return step in self.numbers

    def has_read(self, step: str) -> bool:
        """Whether a step was used on the way to what was asked for."""
        return self._place(step) is not None

    def number(self, cell: Cell) -> float:
        """The number of a cell, as the Trace has it; of exp, sum and tau as the term gives it."""
        at = self._place(cell.step)
        return float((self.given_numbers if at is None else at.numbers)[cell.step][cell.index])

    def is_computed(self, cell: Cell) -> bool:
        """Whether the number comes of arithmetic; not one that is given, or that is repeated from elsewhere."""
        at = self._place(cell.step)
        return at is not None and (cell.step not in at.terms or at.terms[cell.step].nature[cell.index] == MADE)

    def is_repeated(self, cell: Cell) -> bool:
        """Whether the number is one from before, unchanged."""
        at = self._place(cell.step)
        return at is None or (cell.step in at.terms and at.terms[cell.step].nature[cell.index] == CELL)

    def term(self, cell: Cell) -> Term | None:
        """How the number comes about from those before it; None for an input, and where no term can be told."""
        at = self._place(cell.step)
        return at.terms[cell.step].term(*cell.index) if at is not None and cell.step in at.terms else None

    def why_opaque(self, step: str) -> str | None:
        """Why the arithmetic of a step cannot be told; None where it can."""
        return self.opaque.get(step, self.whole.opaque.get(step))

    @cached_property
    def _rounded(self) -> dict[Cell, float]:
        return {}

    def rounded(self, cell: Cell, rounding: Callable[[float], float]) -> float:
        """The number of a cell for somebody who rounds every number that is computed; inputs stay as they are."""
        if cell not in self._rounded:
            term, is_computed = self.term(cell), self.is_computed(cell)
            value = self.number(cell) if term is None else evaluate(term, lambda inner: self.rounded(inner, rounding))
            self._rounded[cell] = rounding(value) if is_computed else value
        return self._rounded[cell]


def _double(x: Any) -> Array:
    return np.asarray(x, dtype=np.float64)
