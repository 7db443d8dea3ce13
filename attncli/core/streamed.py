"""Steps of n x m that are not held: a block of rows after the other, for a file, or for the rows that a table shows.

Letters: r rows of a block, n queries, m keys, d_v value width, H heads.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping

from attncli.core import weighing
from attncli.core.attend import Rules
from attncli.core.blocks import Large, Unit
from attncli.core.dots import find_dots
from attncli.core.large import STREAMED
from attncli.core.tiled import empty_output, finish, is_softmax, spoils_empty, uniform
from attncli.core.trace import STEPS, Held, Trace, wanted
from attncli.core.visibility import Index
from attncli.core.workers import in_order
from attncli.errors import InputError
from attncli.lazy import Array, np

# Where no key is hidden, (r or 1, m or 1): asked for beside the steps.
VISIBLE = "visible"


class Stream:
    """Iterating gives (unit, {step: (r, m) array}), sequences, heads and rows in order, the next blocks being computed
    on threads meanwhile. What is small is held: `trace()` gives it when all blocks were seen.
    """

    def __init__(
        self,
        inputs: Mapping[str, Array],
        rules: Rules,
        steps: Iterable[str],
        only: list[slice] | None,
        parts: set[Index] | None,
        visible: bool,
    ) -> None:
        keep = wanted(steps) or ()
        self.large = large = Large(inputs, rules)
        self.steps = tuple(step for step in keep if STEPS[step].columns == "key")
        self.rows = None if only is None else np.concatenate([np.arange(large.extent.n)[part] for part in only])
        self._small = tuple(step for step in keep if step in STREAMED or step == "sum")
        self._check(set(keep) - {*self.steps, *self._small})
        self._held = self._room({*keep})
        asked = (*self.steps, *self._held, *([VISIBLE] if visible else []))
        self._asked = asked
        self._dots = find_dots(large) if is_softmax(large) and weighing.STEPS.issuperset(asked) else None
        rows = large.block_rows() if self._dots is None else weighing.block_rows(large.extent.m, large.dtype)
        self._units = large.units(rows, only, parts)

    def _check(self, neither: set[str]) -> None:
        if neither or self.large.rules.both_ways or self.large.begin == "weights":
            raise InputError(
                f"{', '.join(sorted(neither)) or 'this problem'} cannot be computed by blocks of rows",
                hint="leave the choice of steps to attend()",
            )

    def _room(self, keep: set[str]) -> dict[str, Array]:
        """Arrays for the steps that are small, of all rows or of those that are wanted."""
        large, v = self.large, self.large.parts.v
        count = large.extent.n if self.rows is None else len(self.rows)
        held: dict[str, Array] = {}
        for step in keep & {"sum", "lse"}:
            held[step] = np.zeros((*large.lead, count, 1), large.dtype)
        if v is not None and {"heads", "output"} & keep:
            held["output"] = empty_output(large, count, v.shape[-1])
        return held

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

    def place(self, unit: Unit) -> tuple[int | slice, ...]:
        """Where the rows of a block lie in an array of all rows that are wanted, (*batch, H, rows, ...)."""
        start = unit.start if self.rows is None else int(np.flatnonzero(self.rows == unit.start)[0])
        return (*unit.index, slice(start, start + unit.stop - unit.start))

    def __iter__(self) -> Generator[tuple[Unit, dict[str, Array]], None, None]:
        for unit, found in in_order(self._units, self._compute):
            for step, held in self._held.items():
                held[self.place(unit)] = found.pop(step)
            yield unit, found
        self.large.tell()

    def trace(self) -> Trace:
        """The notes, and the small steps that were asked for. Of use when all blocks were seen."""
        large, held = self.large, dict(self._held)
        output = held.pop("output", None)
        if output is not None:
            finish(large, output)
        large.steps |= held
        trace = large.as_trace(self._small)
        if self.rows is not None:
            trace.held = Held(self.rows.tolist(), large.extent.n)
            for step in {"X", "Q"} & trace.steps.keys():
                trace.steps[step] = trace.steps[step][..., self.rows, :]
        return trace

    def _compute(self, unit: Unit) -> tuple[Unit, dict[str, Array]]:
        with np.errstate(all="ignore"):
            weighed = None if self._dots is None else weighing.weigh_rows(self._dots, unit, self._asked)
        if weighed is None or spoils_empty(self.large, unit.index, weighed[1]):
            return unit, self._by_definition(unit)
        found, empty = weighed
        if empty.any():
            self.large.empty[unit.index][unit.start : unit.stop] = empty
            self._fill(unit, found, empty[:, 0])
        return unit, found

    def _by_definition(self, unit: Unit) -> dict[str, Array]:
        block = self.large.block(unit)
        steps = block.as_trace(None)
        found = {step: block.visible if step == VISIBLE else steps.rows(step) for step in self._asked}
        self.large.remember(steps.notes)
        return found

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
    inputs: Mapping[str, Array],
    rules: Rules,
    steps: Iterable[str],
    *,
    only: list[slice] | None = None,
    parts: set[Index] | None = None,
    visible: bool = False,
) -> Stream:
    """The steps asked for, those of n x m one block of rows after the other.

    only: slices of the rows that are wanted, in order; None means all. parts: the sequences and heads that are wanted,
    (*batch, H) from 0. visible: each block tells under `VISIBLE` where no key is hidden.
    Raises what `attend` raises, and InputError for a step that does not go by rows.
    """
    return Stream(inputs, rules, steps, only, parts, visible)


def sample(
    inputs: Mapping[str, Array],
    rules: Rules,
    steps: Iterable[str],
    rows: list[slice],
    progress: Callable[[float], None] | None = None,
) -> Trace:
    """The steps asked for, of these rows (queries) alone: what `trace.held` names. Raises as `stream` does."""
    parts = stream(inputs, rules, steps, only=rows, visible=True)
    assert parts.rows is not None
    shape = (*parts.shape[:-2], len(parts.rows), parts.shape[-1])
    found = {step: np.empty(shape, parts.dtype) for step in parts.steps}
    visible = np.empty(shape, bool)
    for done, (unit, block) in enumerate(parts, start=1):
        place = parts.place(unit)
        visible[place] = block[VISIBLE]
        for step, array in found.items():
            array[place] = block[step]
        if progress is not None:
            progress(done / len(parts))
    trace = parts.trace()
    trace.steps |= found
    trace.visible = None if visible.all() else visible
    return trace
