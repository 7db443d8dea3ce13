"""The working of one attention: for every number of every step the term that gives it.

A `Working` is one head of one sequence. Inside, tokens are rows; the cells of Q, K and V count the head's own columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from attncli.lazy import Array
from attncli.pipeline.scores import ScoreSpec
from attncli.pipeline.trace import Trace
from attncli.problem.problem import Problem
from attncli.working.normalizing import NORMALIZING
from attncli.working.scores import EXPLAINERS
from attncli.working.terms import Cell, Number, Op, Term, evaluate, op, products, total

LOGIT_STEPS = ("scores", "scaled", "capped", "biased", "masked")


@dataclass
class Working:
    """The numbers and terms of one head of one sequence.

    arrays: each step and input as a matrix of that part. offsets: at which column of all heads' Q, K, V this begins.
    counted: where a key has a say for a query, (n, m).
    """

    problem: Problem
    trace: Trace
    arrays: dict[str, Array]
    counted: Array
    score: ScoreSpec | None
    offsets: dict[str, int] = field(default_factory=dict)
    widths: dict[str, int] = field(default_factory=dict)
    past: int = 0
    siblings: list[Working] = field(default_factory=list)
    _rounded: dict[Cell, float] = field(default_factory=dict)

    def value(self, cell: Cell) -> float:
        """The number of a cell, as the Trace has it; of exp, sum and tau as the term gives it."""
        if cell.step == "joined":
            return float(self.of_sibling(cell, Working.value))
        if cell.step in self.arrays:
            return float(self.arrays[cell.step][cell.index])
        term = self.term(cell)
        assert term is not None
        return float(evaluate(term, self.value))

    def of_sibling(self, cell: Cell, ask: Callable[[Working, Cell], Any]) -> Any:
        """What another head says of a cell of the joined heads."""
        i, c = cell.index
        head, column = divmod(c, self.widths["V"])
        return ask(self.siblings[head], Cell("heads", (i, column)))

    @property
    def several(self) -> bool:
        """Whether there are several heads, whose results are joined."""
        return len(self.siblings) > 1

    def rounded(self, cell: Cell, rounding: Callable[[float], float]) -> float:
        """The number of a cell for somebody who rounds every number that is computed; inputs stay as they are."""
        if cell.step == "joined":
            return float(self.of_sibling(cell, lambda working, inner: working.rounded(inner, rounding)))
        if cell not in self._rounded:
            term = self.term(cell)
            if term is None:
                self._rounded[cell] = self.value(cell)
            elif isinstance(term, Cell):
                self._rounded[cell] = self.rounded(term, rounding)
            else:
                self._rounded[cell] = rounding(evaluate(term, lambda inner: self.rounded(inner, rounding)))
        return self._rounded[cell]

    @property
    def logit(self) -> str:
        """The last step before the normalizer."""
        return next((step for step in reversed(LOGIT_STEPS) if step in self.arrays), "scores")

    def keys_of(self, query: int) -> list[int]:
        """The keys that have a say for a query."""
        return [j for j in range(self.counted.shape[1]) if self.counted[query, j]]

    def term(self, cell: Cell) -> Term | None:
        """How the number comes about from those before it; None for an input, and where no term can be told."""
        builder = getattr(self, f"_{cell.step}", None)
        if cell.step in self.problem.inputs or builder is None:
            return None
        term: Term | None = builder(*cell.index)
        return term

    # --- one method a step: the term of a cell ---------------------------------------------------------------------

    def _Q(self, i: int, c: int) -> Term:
        return self._projected("Q", "X", i, c)

    def _K(self, j: int, c: int) -> Term:
        return self._projected("K", "Y" if "Y" in self.arrays else "X", j, c)

    def _V(self, j: int, c: int) -> Term:
        return self._projected("V", "Y" if "Y" in self.arrays else "X", j, c)

    def _projected(self, name: str, source: str, token: int, column: int) -> Term:
        column += self.offsets.get(name, 0)
        past = f"past_{name.lower()}"
        if past in self.arrays and name != "Q":
            if token < self.past:
                return Cell(past, (token, column))
            token -= self.past
        return self._affine(name, lambda d: Cell(source, (token, d)), column)

    def _affine(self, name: str, entry: Callable[[int], Term], column: int) -> Term:
        """entry . column of W + b; without W the entry itself."""
        weight, bias = f"W_{name}", f"b_{name}"
        term: Term = entry(column)
        if weight in self.arrays:
            depth = self.arrays[weight].shape[0]
            term = products(map(entry, range(depth)), (Cell(weight, (d, column)) for d in range(depth)))
        if bias in self.arrays:
            terms = term.args if isinstance(term, Op) and term.kind == "sum" else (term,)
            term = op("sum", *terms, Cell(bias, (0, column)))
        return term

    def row(self, name: str, token: int) -> list[Cell]:
        """The cells of one query, key or value."""
        return [Cell(name, (token, c)) for c in range(self.widths[name])]

    def _explained(self, i: int, j: int) -> dict[str, Term]:
        if self.score is None or self.score.name not in EXPLAINERS:
            return {}
        given: dict[str, Any] = {}
        for name, value in self.score.parameters.items():
            if isinstance(value, float | int):
                given[name] = float(value)
            else:
                table = self.arrays[f"score.{name}"]
                rows, columns = map(range, table.shape)
                given[name] = [[Cell(f"score.{name}", (r, c)) for c in columns] for r in rows]
        q, k = self.row("Q", i), self.row("K", j)
        if self.score.name == "cosine" and not all(any(map(self.value, vector)) for vector in (q, k)):
            return {"scores": Number(0)}  # a zero vector has no direction
        return EXPLAINERS[self.score.name](q, k, given)

    def _kernel(self, i: int, j: int) -> Term | None:
        return self._explained(i, j).get("kernel")

    def _scores(self, i: int, j: int) -> Term | None:
        if "kernel" in self.problem.inputs:
            return op("log", Cell("kernel", (i, j)))
        terms = self._explained(i, j)
        if "kernel" in terms and "scores" not in terms:
            return op("log", Cell("kernel", (i, j)))
        return terms.get("scores")

    def _scaled(self, i: int, j: int) -> Term:
        scores, problem = Cell("scores", (i, j)), self.problem
        if problem.scale is not None:
            return op("product", scores, Number(problem.scale))
        by: list[Term] = [] if problem.temperature is None else [Number(problem.temperature)]
        if self.score is None or self.score.scaled:
            width = self.widths["K"] if "K" in self.widths and problem.begins is None else problem.d_k
            by = [op("sqrt", Number(float(width or 1))), *by]
        return op("quotient", scores, by[0] if len(by) == 1 else op("product", *by))

    def _before(self, step: str, i: int, j: int) -> Cell:
        earlier = LOGIT_STEPS[: LOGIT_STEPS.index(step)]
        return Cell(next(name for name in reversed(earlier) if name in self.arrays), (i, j))

    def _capped(self, i: int, j: int) -> Term:
        cap = Number(self.problem.softcap or 0.0)
        return op("product", cap, op("tanh", op("quotient", self._before("capped", i, j), cap)))

    def _biased(self, i: int, j: int) -> Term:
        return op("sum", self._before("biased", i, j), Cell("bias", (i, j)))

    def _masked(self, i: int, j: int) -> Term:
        before = self._before("masked", i, j)
        value = self.value(Cell("masked", (i, j)))
        return before if self.value(before) == value else Number(value)

    def _exp(self, i: int, j: int) -> Term:
        logit = Cell(self.logit, (i, j))
        largest = self.shift(i)
        return op("exp", logit if largest is None else op("difference", logit, Number(largest)))

    def shift(self, i: int) -> float | None:
        """The row's maximum, where e^s would leave what a double (or a calculator) holds; else None."""
        seen = [self.value(Cell(self.logit, (i, j))) for j in self.keys_of(i)]
        return max(seen) if seen and max(map(abs, seen)) > 200 else None

    def _sum(self, i: int, _: int) -> Term:
        return total(Cell("exp", (i, j)) for j in self.keys_of(i))

    def _tau(self, i: int, _: int) -> Term:
        support = [j for j in self.keys_of(i) if self.value(Cell("weights", (i, j))) > 0]
        logits = total(Cell(self.logit, (i, j)) for j in support)
        return op("quotient", op("difference", logits, Number(1)), Number(float(len(support))))

    def _weights(self, i: int, j: int) -> Term | None:
        if not self.counted[i].any():
            return None
        explain = NORMALIZING.get(self.trace.normalizer)
        return explain(self, i, j) if explain and self.counted[i, j] else None

    def _heads(self, i: int, c: int) -> Term:
        seen = [j for j in range(self.counted.shape[1]) if self.counted[i, j] or self.value(Cell("weights", (i, j)))]
        return products((Cell("weights", (i, j)) for j in seen), (Cell("V", (j, c)) for j in seen))

    def _output(self, i: int, c: int) -> Term:
        if not self.several and "W_O" not in self.arrays and "b_O" not in self.arrays:
            return self._heads(i, c)
        step, width = ("joined", len(self.siblings) * self.widths["V"]) if self.several else ("heads", self.widths["V"])
        return self._affine("O", [Cell(step, (i, d)) for d in range(width)].__getitem__, c)
