"""The hand's numbers of a problem, laid over its steps: which cells of which step were written, and how."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from attncli.errors import AttnError, InputError, ShapeError, raise_all
from attncli.lazy import Array, np
from attncli.pipeline.heads import join_heads
from attncli.pipeline.trace import NAMED_STEPS, Trace, parse_address
from attncli.problem.values import Hand
from attncli.verify.frame import Frame, index_of
from attncli.verify.written import Written, as_written

_MANY_WRITE = -1e4  # how a hidden score is written, from here down: -inf


@dataclass(frozen=True)
class Entry:
    """What one line of `expect:` holds.

    address: as written there; indices: its numbers in brackets. written: the whole step in the form of `Frame`, blank
    outside of this part. part: where in that form the part lies; shape: of the part, tokens as rows. notes: on how it
    is written.
    """

    address: str
    step: str
    indices: tuple[int, ...]
    written: Written
    part: tuple[int | slice, ...]
    shape: tuple[int, ...]
    columns: bool
    notes: tuple[str, ...] = ()

    def shown(self, array: Array) -> Array:
        """The part of a step in the form of `Frame`, as it is displayed."""
        rows: Array = array[self.part].reshape(self.shape)
        return rows.mT if self.columns else rows


def entries_of(frame: Frame, expect: dict[str, Hand]) -> list[Entry]:
    """The hand's numbers in the order of the pipeline. Raises what is wrong with any of them, all at once."""
    found, errors = [], []
    for address, hand in expect.items():
        try:
            found.append(_entry(frame, address, hand))
        except AttnError as error:
            for inner in error.errors():
                inner.place = inner.place or hand.matrix.place or hand.place
            errors.append(error)
    raise_all(errors)
    order = list(NAMED_STEPS)
    return sorted(found, key=lambda entry: (order.index(entry.step), entry.indices))


def _entry(frame: Frame, address: str, hand: Hand) -> Entry:
    step, indices = parse_address(address)
    trace = frame.trace
    if step not in trace:
        raise InputError(
            f"this problem has no step {step!r}", hint=f"it has: {', '.join(trace.names(on_request=True))}"
        )
    shape = trace[address].shape
    spelling = hand.matrix.spelling() if hand.matrix.spelling is not None else None
    shown = as_written(hand.matrix.array, spelling, hand.decimals, hand.significant)
    columns = trace.layout == "columns"

    def placed_in(array: Array) -> Array:
        joined = heads_joined(trace, address, array) if step == "output" and not indices and not columns else None
        return fitted(address, array, shape, trace, written=spelling is not None) if joined is None else joined

    shown = shown.changed(placed_in)
    rows = shown.changed(lambda array: array.mT) if columns else shown
    part = index_of(frame, step, indices)
    whole = frame.exact(step).shape

    def placed(array: Array, empty: float | bool) -> Array:
        if array.size == math.prod(whole):
            return array.reshape(whole)
        full = np.full(whole, empty)
        full[part] = array.reshape(full[part].shape)
        return full

    half = None if rows.half is None else placed(rows.half, 0.0)
    written = Written(placed(rows.value, np.nan), placed(rows.unit, 0.0), placed(rows.blank, True), rows.whole, half)
    notes: list[str] = []
    if NAMED_STEPS[step].is_pairs:
        written = _hidden_as_infinite(frame, step, written, notes, address)
        if step in ("weights", "weights_back") and frame.sums_to_one:
            written = _per_cent(written, notes, address)
    return Entry(address, step, indices, written, part, rows.value.shape, columns, tuple(notes))


def _hidden_as_infinite(frame: Frame, step: str, written: Written, notes: list[str], address: str) -> Written:
    """Numbers of -1e4 and below, where the right ones hide a key: how many write -inf."""
    exact, hidden = frame.exact(step), frame.is_hidden(step)
    hides = np.isneginf(exact) if hidden is None else np.isneginf(exact) | (hidden & (exact <= _MANY_WRITE))
    meant = hides & (written.value <= _MANY_WRITE)
    other = meant & (written.value != exact)
    if not other.any():
        return written
    first = written.value[other][0]
    notes.append(f"{address}: {first:g} in a hidden cell is taken as -inf")
    whole = written.whole or bool((written.unit[~written.blank & ~meant] >= 1).all())
    return replace(
        written, value=np.where(meant, exact, written.value), unit=np.where(meant, 0.0, written.unit), whole=whole
    )


def _per_cent(written: Written, notes: list[str], address: str) -> Written:
    """Weights whose rows sum to about 100, as shares of 1."""
    h, full = written.value, ~written.blank.any(axis=-1)
    about = np.abs(h.sum(axis=-1) - 100) <= np.maximum(2.0, written.unit.sum(axis=-1))
    counted = full & np.any(h != 0, axis=-1)
    if not counted.any() or not about[counted].all():
        return written
    notes.append(f"{address}: written per cent")
    half = None if written.half is None else written.half / 100
    return Written(h / 100, written.unit / 100, written.blank, half=half)


def fitted(address: str, array: Array, shape: tuple[int, ...], trace: Trace, *, written: bool = False) -> Array:
    """The hand's grid in the step's shape: a vector may stand for a single row or column, axes of 1 may be left out.

    written: in a text, where cells may be left out.
    """
    if array.shape == shape:
        return array
    single = array.ndim == 1 and 1 in shape[-2:] and array.size == max(shape[-2:])
    if array.ndim < len(shape) and all(size == 1 for size in shape[:-2]) and (single or array.shape == shape[-2:]):
        return array.reshape(shape)
    leading = [*trace.leading_names(parse_address(address)[0])][-(len(shape) - 2) :] if len(shape) > 2 else []
    names = [*leading, *trace.axes(address)]
    hint = _mended(address, array.shape, shape, names)
    if array.ndim >= 2 and array.shape != shape[-2:] and array.mT.shape in (shape, shape[-2:]):
        hint = f"transposed would fit: is the layout {'rows' if trace.layout == 'columns' else 'columns'}?"
    elif written and array.size < math.prod(shape) and array.shape != shape[-2:]:
        blank = "a cell that is not to be marked is written ~ (YAML), null (JSON), or left empty (CSV)"
        hint = f"{hint}; {blank}" if hint else blank
    told = " x ".join(map(_plural, names))
    raise ShapeError(
        f"the numbers of {address} are {_size(array.shape)}, but the step is {_size(shape)} ({told})", hint=hint
    )


def heads_joined(trace: Trace, address: str, array: Array) -> Array | None:
    """An output whose heads lie apart, (..., H, n, d_v) or (..., n, H, d_v), as (..., n, H d_v), tokens as rows.

    None where it is not given so.
    """
    shape, heads = trace.rows(address).shape, trace.heads
    if heads is None or shape[-1] % heads or array.shape == trace[address].shape:
        return None
    width = shape[-1] // heads
    batch = shape[:-2]
    columns = trace.layout == "columns"
    rows = array.mT if columns and array.ndim > 2 else array
    for lead in (batch, () if all(size == 1 for size in batch) else batch):
        if rows.shape == (*lead, heads, shape[-2], width):
            joined: Array = join_heads(rows).reshape(shape)
            return joined
        if not columns and array.shape == (*lead, shape[-2], heads, width):
            return array.reshape(shape)
    return None


def _mended(address: str, found: tuple[int, ...], shape: tuple[int, ...], names: list[str]) -> str | None:
    """In what the numbers differ from the step; names: of its axes."""
    more = len(found) - len(shape)
    if more > 0 and found == (1,) * more + shape:
        return f"they would fit without the leading {'axis' if more == 1 else 'axes'} of 1"
    if found == shape[-2:]:
        return f"that is one matrix of it, such as {address}[{','.join('1' for _ in shape[:-2])}]"
    if more:
        return None
    differ = [(abs(own - size), own > size, name) for own, size, name in zip(found, shape, names, strict=True)]
    told = [
        f"{count} {name if count == 1 else _plural(name)} {'too many' if above else 'missing'}"
        for count, above, name in differ
        if count
    ]
    return " and ".join(told)


def _size(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) if len(shape) > 1 else f"a list of {shape[0]}" if shape else "a single number"


def _plural(name: str) -> str:
    return {"query": "queries"}.get(name, f"{name}s")
