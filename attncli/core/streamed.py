"""Steps of n x m that are not held: a block of rows after the other, for a file, or for the rows that a table shows.

Letters: r rows of a block, n queries, m keys, d_v value width, H heads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from attncli.core import weighing
from attncli.core.attend import Rules
from attncli.core.blocks import Large, Unit
from attncli.core.dots import find_dots
from attncli.core.tiled import STREAMED, empty_output, finish, is_softmax, uniform
from attncli.core.trace import STEPS, Trace, wanted
from attncli.core.workers import in_order
from attncli.errors import InputError
from attncli.lazy import Array, np


class Stream:
    """Iterating gives (unit, {step: (r, m) array}), sequences, heads and rows in order, the next blocks being computed
    on threads meanwhile. What is small is held: `trace()` gives it when all blocks were seen.
    """

    def __init__(
        self, inputs: Mapping[str, Array], rules: Rules, steps: Iterable[str], only: list[slice] | None
    ) -> None:
        keep = wanted(steps) or ()
        self.large = Large(inputs, rules)
        self.steps = tuple(step for step in keep if STEPS[step].columns == "key")
        self.only = only
        self._small = tuple(step for step in keep if step in STREAMED)
        self._check(set(keep) - {*self.steps, *self._small})
        large, v = self.large, self.large.parts.v
        self._output = empty_output(large, v.shape[-1]) if v is not None and {"heads", "output"} & {*keep} else None
        self._lse = np.zeros((*large.lead, large.extent.n, 1), large.dtype) if "lse" in keep else None
        self._asked = (*self.steps, *(["output"] if self._output is not None else []), *({"lse"} & {*keep}))
        self._dots = find_dots(large) if is_softmax(large) and weighing.STEPS.issuperset(self._asked) else None
        rows = large.block_rows() if self._dots is None else weighing.block_rows(large.extent.m, large.dtype)
        self._units = large.units(rows, only)

    def _check(self, neither: set[str]) -> None:
        if neither or self.large.rules.both_ways or self.large.begin == "weights":
            raise InputError(
                f"{', '.join(sorted(neither)) or 'this problem'} cannot be computed by blocks of rows",
                hint="leave the choice of steps to attend()",
            )

    def __len__(self) -> int:
        """How many blocks there are."""
        return len(self._units)

    @property
    def dtype(self) -> np.dtype:
        """What the blocks are computed and given in."""
        return self.large.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a whole step, (*batch, H, n, m), tokens as rows."""
        return (*self.large.lead, self.large.extent.n, self.large.extent.m)

    def __iter__(self) -> Iterator[tuple[Unit, dict[str, Array]]]:
        for unit, found in in_order(self._units, self._compute):
            for small, held in (("output", self._output), ("lse", self._lse)):
                if held is not None:
                    held[unit.index][unit.start : unit.stop] = found.pop(small)
            yield unit, found
        self.large.tell()

    def trace(self) -> Trace:
        """The notes, and the small steps that were asked for. Of use when all blocks were seen."""
        large = self.large
        if self._output is not None:
            finish(large, self._output)
        if self._lse is not None:
            large.steps["lse"] = self._lse
        return large.as_trace(self._small)

    def _compute(self, unit: Unit) -> tuple[Unit, dict[str, Array]]:
        if self._dots is None:
            block = self.large.block(unit)
            return unit, {step: block.step(step) for step in self._asked}
        with np.errstate(all="ignore"):
            found, empty = weighing.weigh_rows(self._dots, unit, self._asked)
        if empty.any():
            self.large.empty[unit.index][unit.start : unit.stop] = empty
            self._fill(unit, found, empty[:, 0])
        return unit, found

    def _fill(self, unit: Unit, found: dict[str, Array], empty: Array) -> None:
        """What the rule gives to queries that see no key."""
        rule, m = self.large.rules.empty_rows, self.large.extent.m
        if rule not in ("nan", "uniform"):
            return
        for step in found.keys() & {"weights", "output"}:
            found[step][empty] = np.nan
        if rule == "uniform" and "weights" in found:
            found["weights"][empty] = 1 / m
        if rule == "uniform" and "output" in found:
            found["output"][empty] = uniform(self.large, unit.index)


def stream(
    inputs: Mapping[str, Array], rules: Rules, steps: Iterable[str], *, only: list[slice] | None = None
) -> Stream:
    """The steps asked for, those of n x m one block of rows after the other.

    only: slices of the rows that are wanted, such as [slice(5), slice(-5, None)] for a table; None means all.
    Raises what `attend` raises, and InputError for a step that does not go by rows.
    """
    return Stream(inputs, rules, steps, only)
