"""Naming the mistake behind an engineer's array: the entries of `MISTAKES`, tried on a sample of rows, then in full.

The entries are those of hand calculations; what is theirs alone (slips in single cells, a fitted factor) is left out,
and so is what needs all rows at once. One mistake is tried after the other, so that memory does not grow with their
number. Letters: n queries, H heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from attncli.engine.blas import single_blas
from attncli.engine.threads import in_order, thread_count
from attncli.errors import AttnError
from attncli.lazy import Array, np
from attncli.pipeline.config import AttentionConfig
from attncli.pipeline.masks import ScoreShape
from attncli.problem.problem import Problem
from attncli.verify import mistakes_precision  # noqa: F401  (it registers its own)
from attncli.verify.diagnosis import Diagnosis
from attncli.verify.frame import JOINED, is_of_all_heads
from attncli.verify.mistakes import MISTAKES
from attncli.verify.right import Right
from attncli.verify.rows import Index, RowsExtent, RowsGiven, rows_given
from attncli.verify.search import Tried

_SAMPLE = 8  # rows
_WORST = 4  # of them those that are farthest off
_FULL = 4  # mistakes that are tried on all rows
_BLOCK = 2**18  # numbers of a step of a block
_SLACK = 2.0  # a mistake has its own |weights| |V|, for which the right one stands
_ROUNDING = 0.5  # of the numbers' size: no sum in half precision is farther off
_ALIKE = 4.0  # times the root mean square of the best


@dataclass(frozen=True)
class Suspect:
    """A mistake that was tried. off: the root mean square of what it leaves, in units of the tolerance."""

    tried: Tried
    off: float

    def told(self, exact: bool = True) -> Diagnosis:
        return Diagnosis(self.tried.entry.name, self.tried.step, self.tried.tell(), exact)


class Suspects:
    """The search for one step of one array.

    given: the array, tokens as rows, shaped as the step; right: the step; ratio: how far each cell is off.
    dtype: what mistakes are computed in; the tolerance has room for that.
    """

    def __init__(
        self, problem: Problem, inputs: Mapping[str, Array], rules: AttentionConfig, extent: ScoreShape, step: str,
        given: Array,
        right: Right, ratio: Array, dtype: str,
    ) -> None:  # fmt: skip
        self.problem, self.extent, self.step = problem, extent, step
        self.rules = replace(rules, dtype=dtype, empty_rows="zero" if rules.empty_rows == "error" else rules.empty_rows)
        self.inputs = {name: array.astype(dtype, copy=False) for name, array in inputs.items()}
        self.given, self.right, self.ratio = given, right, ratio
        own = 2 if extent.heads is None or step in JOINED or is_of_all_heads(step) else 3
        self.leading = given.shape[: given.ndim - own]

    def found(self) -> list[Diagnosis]:
        """The mistakes that give the array, the simplest first; those of rounding only where there is no other."""
        with np.errstate(all="ignore"), single_blas():  # products of a few rows: threads would wait for each other
            sample = self._rows(self._worst_sequence(), self._sample())
            if sample is None:
                return []
            plain = self._tried(sample, rounding=False)
            if plain:
                whole = self._in_full(plain[:_FULL])
                if whole:
                    return [suspect.told() for suspect in whole]
            if sample.error() > _ROUNDING:
                return []
            return [suspect.told(False) for suspect in self._tried(sample, rounding=True)[:1]]

    # -- the sample ---------------------------------------------------------------------------------------------

    def _worst_sequence(self) -> Index:
        """The place among the sequences of the cell that is farthest off."""
        worst = np.unravel_index(int(np.argmax(self.ratio)), self.ratio.shape)
        own = tuple(int(i) for i in worst[: len(self.leading)])
        return (0,) * (len(self.extent.batch) - len(own)) + own

    def _sample(self) -> Array:
        """The rows that are farthest off, and others spread over all."""
        n = self.given.shape[-2]
        by_row = self.ratio[self._place(self._worst_sequence())].reshape(-1, n, self.ratio.shape[-1]).max(axis=(0, 2))
        worst = np.argsort(by_row)[::-1][:_WORST]
        spread = np.linspace(0, n - 1, min(n, _SAMPLE - len(worst) + 1)).round().astype(int)
        return np.unique(np.concatenate([worst, spread]))

    def _place(self, sequence: Index) -> tuple[slice, ...]:
        """Where that sequence lies in the step."""
        own = sequence[len(sequence) - len(self.leading) :] if self.leading else ()
        return tuple(slice(i, i + 1) if size > 1 else slice(None) for i, size in zip(own, self.leading, strict=True))

    def _rows(self, sequence: Index, rows: Array) -> Rows | None:
        """Some rows with their `Given`; None where the problem cannot be taken apart."""
        e = self.extent
        of = RowsExtent(e.batch, e.heads, e.n, e.m, e.past, e.behind, sequence, rows)

        def cut(array: Array) -> Array:
            part: Array = array[self._place(sequence)][..., rows, :]
            return part

        def cut_bound(bound: Array | float) -> Array | float:
            if not isinstance(bound, np.ndarray):
                return bound
            return cut(np.broadcast_to(bound, (*self.given.shape[:-1], bound.shape[-1])))

        numbers = cut(self.given).astype(np.float64)
        relative, absolute = cut_bound(self.right.relative), cut_bound(self.right.absolute)
        try:
            given = rows_given(self.problem, self.inputs, self.rules, of, self.step, numbers, cut(self.right.exact))
        except AttnError:
            return None
        # What belongs to the right weights may stand at another place of the row under a mistake.
        largest = absolute.max(axis=-1, keepdims=True) if isinstance(absolute, np.ndarray) else absolute
        return Rows(given, relative, given.frame.uniform(self.step, np.broadcast_to(largest, numbers.shape)))

    # -- the mistakes -------------------------------------------------------------------------------------------

    def _tried(self, rows: Rows, *, rounding: bool) -> list[Suspect]:
        """The mistakes that give these rows, the closest first, those about as close by simplicity."""
        suspects = []
        for tried in _changes(rows.given, rounding):
            ratio = rows.ratio_of(tried)
            limit = 1.0 if not rounding else np.inf
            if ratio is not None and ratio.max(initial=0) <= limit:
                suspects.append(Suspect(tried, float(np.sqrt(np.mean(ratio**2)))))
        before = rows.before()
        suspects = [each for each in suspects if each.off < before / 2]
        return _ranked(suspects)

    def _in_full(self, suspects: Sequence[Suspect]) -> list[Suspect]:
        """Those of them that give the whole array, block by block."""
        left, sums, count = list(suspects), [0.0] * len(suspects), 0

        def work(block: tuple[Index, Array]) -> list[float]:
            """What each leaves of a block, as a sum of squares; inf where it is outside the tolerance."""
            with np.errstate(all="ignore"):  # of each thread
                rows = self._rows(*block)
                return [np.inf if rows is None else rows.left_by(suspect.tried) for suspect in suspects]

        for squares in in_order(self._blocks(), work, thread_count()):
            sums = [before + more for before, more in zip(sums, squares, strict=True)]
            count += 1
            if np.isinf(sums).all():
                return []
        left = [replace(suspect, off=(total / count) ** 0.5) for suspect, total in zip(left, sums, strict=True)]
        return _ranked([suspect for suspect in left if np.isfinite(suspect.off)])

    def _blocks(self) -> Iterator[tuple[Index, Array]]:
        e, n = self.extent, self.given.shape[-2]
        most = int(max(1, _BLOCK // max(1, (e.heads or 1) * e.m)))
        batch = e.batch if self.leading else (1,) * len(e.batch)
        for sequence in np.ndindex(*batch):
            for start in range(0, n, most):
                yield sequence, np.arange(start, min(start + most, n))


@dataclass(frozen=True)
class Rows:
    """Some rows of the array, what follows from them, and what a cell may be off."""

    given: RowsGiven
    relative: Array | float
    absolute: Array

    def ratio_of(self, tried: Tried) -> Array | None:
        """How far the array is off what this mistake gives, in units of the tolerance; None where it gives nothing."""
        try:
            made = self.given.as_exact(self.given.run(tried.change.arrays))[0]
        except (AttnError, KeyError, ValueError):
            return None
        return self._ratio(made)

    def left_by(self, tried: Tried) -> float:
        """The mean square of what the same mistake leaves here; inf where a cell is outside the tolerance."""
        try:
            changes = tried.entry.function(self.given)
            change = next((change for change in changes if change.text == tried.change.text), None)
        except (AttnError, KeyError, ValueError):
            return np.inf
        # A mask that is off by one may hide the same of these rows: then they are the right ones.
        right = self.given.frame.exact(self.given.target)
        ratio = self._ratio(right) if change is None else self.ratio_of(replace(tried, change=change))
        return np.inf if ratio is None or ratio.max(initial=0) > 1 else float((ratio**2).mean())

    def before(self) -> float:
        """The root mean square of what the right numbers leave."""
        ratio = self._ratio(self.given.frame.exact(self.given.target))
        return float(np.sqrt(np.mean(np.minimum(ratio, 1e150) ** 2)))

    def error(self) -> float:
        """How large the error is beside the numbers themselves, by root mean squares."""
        right, given = self.given.frame.exact(self.given.target), self.given.numbers.value
        known = np.isfinite(right) & np.isfinite(given)
        return float(np.sqrt(((given - right)[known] ** 2).mean() / (right[known] ** 2).mean())) if known.any() else 0.0

    def _ratio(self, made: Array) -> Array:
        right = Right(made, self.relative * _SLACK, self.absolute * _SLACK)
        return right.ratio(self.given.numbers.value)


def _changes(given: RowsGiven, rounding: bool) -> Iterator[Tried]:
    """All changes that an entry makes to these rows, the simplest first."""
    for entry in sorted(MISTAKES, key=lambda entry: entry.simplicity):
        if entry.local or entry.late or entry.whole or entry.rounding != rounding:
            continue
        if not given.open.intersection(entry.at):
            continue
        try:
            for place, change in enumerate(entry.function(given)):
                if isinstance(change.text, str):
                    yield Tried(entry, change, place)
        except (AttnError, KeyError, ValueError, ArithmeticError):
            continue  # it needs what this problem does not have, all rows, or a number beyond all doubles


def _ranked(suspects: Sequence[Suspect]) -> list[Suspect]:
    """Only those about as close as the closest, one a mistake, simplest first."""
    closest = min((suspect.off for suspect in suspects), default=0.0)
    alike = [suspect for suspect in suspects if suspect.off <= _ALIKE * closest + 1e-6]
    alike.sort(key=lambda suspect: suspect.tried.simplicity)
    return list({suspect.tried.entry.name: suspect for suspect in reversed(alike)}.values())[::-1]
