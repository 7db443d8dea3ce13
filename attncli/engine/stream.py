"""Steps of n x m that are not held: a block of rows after the other, for a file, or for the rows that a table shows.

Letters: r rows of a block, n queries, m keys, d_v value width, H heads.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping

from attncli.engine.blas import single_blas
from attncli.engine.blocks import BlockedAttention, Index, Unit
from attncli.engine.compiled import compiled
from attncli.engine.plan import is_small
from attncli.engine.threads import in_order, thread_count
from attncli.errors import InputError
from attncli.lazy import Array, np
from attncli.pipeline.config import AttentionConfig
from attncli.pipeline.steps import STEPS
from attncli.pipeline.trace import Held, Trace, wanted

# Where no key is hidden, (r or 1, m or 1): asked for beside the steps.
VISIBLE = "visible"


class Stream:
    """Iterating gives (unit, {step: (r, m) array}), its index as the step is shown.

    Sequences, heads and rows come in order, the next blocks being computed on threads meanwhile. What is small is
    held: `trace()` gives it when all blocks were seen.
    """

    def __init__(
        self,
        inputs: Mapping[str, Array],
        config: AttentionConfig,
        steps: Iterable[str],
        only: list[slice] | None,
        parts: set[Index] | None,
        visible: bool,
    ) -> None:
        keep = wanted(steps) or ()
        self.blocked = blocked = BlockedAttention(inputs, config)
        self.steps = tuple(step for step in keep if STEPS.find(step).is_pairs)
        self.rows = None if only is None else np.concatenate([np.arange(blocked.shape.n)[part] for part in only])
        self._small = tuple(step for step in keep if is_small(step) or step == "sum")
        self._check(set(keep) - {*self.steps, *self._small})
        self._held = self._room({*keep})
        self._asked = (*self.steps, *self._held, *([VISIBLE] if visible else []))
        if parts is not None and blocked.shape.heads is None:
            parts = {(*index, 0) for index in parts}
        known = {"weights", "attended", "lse"}.issuperset(self._asked)
        self._kernel = compiled(blocked) if known else None
        self._units = blocked.units(blocked.block_rows(), only, parts)

    def _shown(self, index: Index) -> Index:
        """The place of a block among the leading axes as they are shown."""
        return index if self.blocked.shape.heads is not None else index[:-1]

    def _check(self, neither: set[str]) -> None:
        if neither or self.blocked.at.line("back") or self.blocked.at.begin == "weights":
            raise InputError(
                f"{', '.join(sorted(neither)) or 'this problem'} cannot be computed by blocks of rows",
                hint="leave the choice of steps to attend()",
            )

    def _room(self, keep: set[str]) -> dict[str, Array]:
        """Arrays for the steps that are small, of all rows or of those that are wanted."""
        blocked = self.blocked
        count = blocked.shape.n if self.rows is None else len(self.rows)
        held: dict[str, Array] = {}
        for step in keep & {"sum", "lse"}:
            held[step] = np.zeros((*blocked.shape.lead, count, 1), blocked.dtype)
        if blocked.at.has("V") and {"heads", "output"} & keep:
            held["attended"] = blocked.empty_output(count)
        return held

    def __len__(self) -> int:
        """How many blocks there are."""
        return len(self._units)

    @property
    def dtype(self) -> np.dtype:
        """What the blocks are computed and given in."""
        return self.blocked.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a whole step as it is shown, tokens as rows: (*batch, H, n, m), without heads (*batch, n, m)."""
        shape = self.blocked.shape
        return shape.shape if shape.heads is not None else (*shape.batch, shape.n, shape.m)

    def place(self, unit: Unit) -> tuple[int | slice, ...]:
        """Where the rows of a block lie in an array of all rows that are wanted, as it is shown."""
        return self._place(unit.index, unit)

    def _place(self, index: Index, unit: Unit) -> tuple[int | slice, ...]:
        start = unit.start if self.rows is None else int(np.flatnonzero(self.rows == unit.start)[0])
        return (*index, slice(start, start + unit.stop - unit.start))

    def __iter__(self) -> Generator[tuple[Unit, dict[str, Array]], None, None]:
        for unit, found in in_order(self._units, self._compute, thread_count()):
            for step, held in self._held.items():
                held[self._place(unit.index, unit)] = found.pop(step)
            yield Unit(self._shown(unit.index), unit.start, unit.stop), found
        self.blocked.tell()

    def trace(self) -> Trace:
        """The notes, and the small steps that were asked for. Of use when all blocks were seen."""
        blocked, held = self.blocked, dict(self._held)
        attended = held.pop("attended", None)
        if attended is not None:
            blocked.finish(attended)
        blocked.steps |= held
        trace = blocked.trace(self._small)
        if self.rows is not None:
            trace.held = Held(self.rows.tolist(), blocked.shape.n)
            for step in trace.steps:
                if STEPS.find(step).line in ("data", "query") and STEPS.find(step).rows == "query":
                    trace.steps[step] = trace.steps[step][..., self.rows, :]
        return trace

    def _compute(self, unit: Unit) -> tuple[Unit, dict[str, Array]]:
        found = self._by_kernel(unit) if self._kernel is not None else None
        if found is not None:
            return unit, found
        with single_blas(), np.errstate(all="ignore"):
            block = self.blocked.block(unit)
            found = {step: _matrix(block["visible" if step == VISIBLE else step]) for step in self._asked}
            if block.has("exp") and {"exp", "sum"} & found.keys() and np.isposinf(block["exp"]).any():
                self.blocked.overflowed()
        return unit, found

    def _by_kernel(self, unit: Unit) -> dict[str, Array] | None:
        """The same by the compiled kernel; None where rows are left to the definition."""
        kernel, rows = self._kernel, unit.stop - unit.start
        assert kernel is not None
        weights, states = np.empty((rows, self.blocked.shape.m), self.dtype), np.empty(rows, np.uint8)
        attended, lse = np.empty((rows, kernel.v.shape[-1]), self.dtype), np.empty(rows, self.dtype)
        kernel.attend(unit, attended, states, lse, weights)
        if states.any():
            return None
        found = {"weights": weights, "attended": attended, "lse": lse[:, None]}
        return {step: found[step] for step in self._asked}


def _matrix(x: Array) -> Array:
    """Without the axes of one in front."""
    return x.reshape(x.shape[-2:])


def stream(
    inputs: Mapping[str, Array],
    config: AttentionConfig,
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
    return Stream(inputs, config, steps, only, parts, visible)


def sample(
    inputs: Mapping[str, Array],
    config: AttentionConfig,
    steps: Iterable[str],
    rows: list[slice],
    progress: Callable[[float], None] | None = None,
) -> Trace:
    """The steps asked for, of these rows (queries) alone: what `trace.held` names. Raises as `stream` does."""
    parts = stream(inputs, config, steps, only=rows, visible=True)
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
