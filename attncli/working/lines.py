"""The lines of an explanation: which numbers of which steps are told, in the order of the arithmetic."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

from attncli.arithmetic.terms import MADE
from attncli.arithmetic.trees import Cell, Term, evaluate, leaves, magnitude
from attncli.lazy import Array, np
from attncli.pipeline.heads import spread_to
from attncli.pipeline.steps import STEPS, Axis, Step
from attncli.pipeline.steps import Line as StepLine
from attncli.pipeline.together import all_of
from attncli.working.reading import Row

_LINES = 12  # of one step; of more, the first and the number of the others are told
_FIRST = 3


@dataclass
class Line:
    """One number: its cell, where it stands, the term it comes from (None where none can be told), and words.

    places: its row and column, tokens as rows, each as an axis and a position from 0. leading: its place among the
    sequences and heads.
    """

    cell: Cell
    places: tuple[tuple[Axis, int], ...]
    leading: tuple[int, ...]
    term: Term | None
    words: str = ""


@dataclass
class Group:
    """The lines of one step. formula: in text and in LaTeX. left_out: how many more there are of the same kind."""

    step: str
    formula: tuple[str, str]
    lines: list[Line]
    left_out: int = 0


def weight_groups(row: Row, head: int, key: int | None) -> list[Group]:
    """From the data to the weights of one head: of one key, or of all."""
    keys = range(row.shape.m) if key is None else [key]
    used = _used(row, head, {"query": [0], "key": keys})
    groups = [_given_group(row, entry, head, used) for entry in _told(row, "data", "query", "key")]
    for entry in _told(row, "logits", "shares"):
        cells = _logits(row, entry, head, keys) if entry.line == "logits" else _shares(row, entry, head, keys)
        groups.append(_group(row, entry, cells))
    return [group for group in groups if group.lines]


def output_groups(row: Row, head: int) -> list[Group]:
    """The values that a query sees, and what it gets of them, in one head."""
    seen = np.flatnonzero(_of_head(row["contributing"], row, head)).tolist()
    used = _used(row, head, {"value": seen})
    groups = [_given_group(row, entry, head, used) for entry in _told(row, "value")]
    groups += [_whole_row(row, entry, head) for entry in _told(row, "output") if entry.per_head]
    return [group for group in groups if group.lines]


def joined_groups(row: Row) -> list[Group]:
    """The output that is made of all heads."""
    return [_whole_row(row, entry, 0) for entry in _told(row, "output") if not entry.per_head]


def every_line(row: Row, head: int, steps: Container[str]) -> Iterator[Line]:
    """Each number of these steps that is computed for a query in one head, from its scores to its output."""
    keys = range(row.shape.m)
    for entry in _told(row, "logits", "shares", "output"):
        if entry.name not in steps:
            continue
        if entry.line == "logits":
            yield from _lines(row, entry, _logits(row, entry, head, keys))
        elif entry.line == "shares":
            yield from _lines(row, entry, _shares(row, entry, head, keys))
        elif entry.per_head or head == 0:
            yield from _lines(row, entry, [(cell, "") for cell in _cells(row, entry, head, ())])


def every_given_line(row: Row, steps: Container[str]) -> Iterator[Line]:
    """Each number of these steps that is computed among data, queries, keys and values, of all sequences."""
    for entry in _told(row, "data", "query", "key", "value"):
        if entry.name not in steps:
            continue
        cells = (Cell(entry.name, index) for index in np.ndindex(*row.whole.numbers[entry.name].shape))
        yield from _lines(row, entry, [(cell, "") for cell in cells if row.is_computed(cell)])


def _told(row: Row, *lines: StepLine) -> Iterator[Step]:
    """The steps of these lines that are told: all named ones, and what is made on request where it was used."""
    for line in lines:
        last = row.name_latest(line)
        if last is not None:
            _ = row[last]
        for entry in STEPS.of_line(line):
            if entry.told_as and row.has(entry.name) and entry.name not in row.inputs and not _is_unused(row, entry):
                yield entry


def _is_unused(row: Row, entry: Step) -> bool:
    return (entry.on_request or not entry.shown) and not row.has_read(entry.name)


# -- queries, keys and values ----------------------------------------------------------------------------------------


def _used(row: Row, head: int, rows: dict[StepLine, Iterable[int]]) -> dict[str, set[Cell]]:
    """Of each step before the scores (or of the values) the numbers that one head makes use of.

    rows: which rows of the last step of a line.
    """
    todo: list[Cell] = []
    for line, wanted in rows.items():
        name = row.name_latest(line)
        if name is not None:
            x = row[name]
            own = head * x.shape[0] // row.heads
            todo += [cell for r in wanted for c in range(x.shape[-1]) for cell in leaves(x.term(own, r, c))]
    used: dict[str, set[Cell]] = {}
    goes_on: dict[str, bool] = {}
    while todo:
        cell = todo.pop()
        if cell.step not in used:
            used[cell.step], goes_on[cell.step] = set(), _comes_of_told(row, cell.step)
        if cell not in used[cell.step]:
            used[cell.step].add(cell)
            todo += leaves(row.term(cell)) if goes_on[cell.step] else ()
    return used


def _comes_of_told(row: Row, step: str) -> bool:
    """Whether numbers that are computed stand before a step in its line, or among the data."""
    made = row.whole.terms
    if step not in made:
        return False
    lines = ("data", STEPS.find(step).line)
    earlier = (name for name in made if STEPS.find(name).line in lines and STEPS.order(name) < STEPS.order(step))
    return any((made[name].nature == MADE).any() for name in earlier)


def _given_group(row: Row, entry: Step, head: int, used: dict[str, set[Cell]]) -> Group:
    """The numbers that are computed, each once in a head; where they are the data themselves, nothing is to be told."""
    told = row.whole.told.setdefault(head, set())
    new = (cell for cell in used.get(entry.name, ()) if cell not in told and row.is_computed(cell))
    cells = sorted(new, key=lambda cell: cell.index)
    told.update(cells)
    return _group(row, entry, [(cell, "") for cell in cells])


# -- scores and weights ----------------------------------------------------------------------------------------------


def _logits(row: Row, entry: Step, head: int, keys: Iterable[int]) -> list[tuple[Cell, str]]:
    """What a step changes; a number that it only repeats is not told."""
    told = [cell for cell in _cells(row, entry, head, keys) if not row.is_repeated(cell)]
    return [(cell, _hidden_by(row, head, cell) if entry.hides else "") for cell in told]


def _shares(row: Row, entry: Step, head: int, keys: Iterable[int]) -> list[tuple[Cell, str]]:
    """The weights, and what they are made of."""
    cells = _cells(row, entry, head, keys if not entry.on_request else range(row.shape.m))
    if _of_head(row["empty"], row, head).any():
        words = f"sees no key (--empty-rows {row.config.empty_rows})"
        return [] if entry.on_request else [(cell, words) for cell in cells]
    if not entry.is_pairs:
        return [(cell, "") for cell in cells]
    counts = _of_head(row["contributing"], row, head)
    seen = [(cell, "" if counts[cell.index[-1]] else "hidden") for cell in cells]
    return [(cell, words) for cell, words in seen if not (words and entry.on_request)]


def _whole_row(row: Row, entry: Step, head: int) -> Group:
    return _group(row, entry, [(cell, "") for cell in _cells(row, entry, head, ())])


def _cells(row: Row, entry: Step, head: int, keys: Iterable[int]) -> list[Cell]:
    """The cells of a step in the row of the query: of these keys, or all features."""
    shape = row[entry.name].shape
    leading = tuple(min(head, size - 1) for size in shape[:-2])
    return [Cell(entry.name, (*leading, 0, c)) for c in (keys if entry.is_pairs else range(shape[-1]))]


def _of_head(x: Array, row: Row, head: int) -> Array:
    """Booleans of one head, one for each key."""
    found: Array = spread_to(x, (row.heads, 1, row.shape.m))[head, 0]
    return found


def _hidden_by(row: Row, head: int, cell: Cell) -> str:
    """The masks that hide a key from the query."""
    masks, hiding = row.masks, []
    for spec, predicate in zip(row.config.masks, masks.predicates if masks else (), strict=False):
        assert masks is not None
        shown = all_of([predicate], row.indices(masks))
        if not _of_head(shown.reshape(-1, *shown.shape[-2:]), row, head)[cell.index[-1]]:
            hiding.append(spec.text)
    return f"hidden by {' and '.join(hiding) or 'the mask'}"


# -- lines -----------------------------------------------------------------------------------------------------------


def _group(row: Row, entry: Step, cells: list[tuple[Cell, str]]) -> Group:
    shown = cells if len(cells) <= _LINES else cells[:_FIRST]
    return Group(entry.told_as, entry.formulas(row.plain), _lines(row, entry, shown), len(cells) - len(shown))


def _lines(row: Row, entry: Step, cells: list[tuple[Cell, str]]) -> list[Line]:
    return [_line(row, entry, cell, words) for cell, words in cells]


def _line(row: Row, entry: Step, cell: Cell, words: str) -> Line:
    """A number with its term; where that cannot be told, or would not give the number, with the reason."""
    term = None if words else row.term(cell)
    opaque = row.why_opaque(entry.name)
    if opaque is None and term is not None and _is_mistold(row, term, row.number(cell)):
        term, opaque = None, "the terms of its formula give another number"
    beside = words or (f"opaque: {opaque}" if opaque else "")
    # What is computed of one query has but one row, and where all rows are, a cell knows its own.
    owned = row.owns(cell.step)
    position = row.query if owned and entry.rows == "query" else cell.index[-2]
    places: tuple[tuple[Axis, int], ...] = ((entry.rows, position), (entry.columns, cell.index[-1]))
    leading = (*(row.sequence if owned else ()), *cell.index[:-2])
    if entry.per_head and row.whole.layout.heads is None:
        leading = leading[:-1]
    single = entry.line == "shares" and not entry.is_pairs
    return Line(cell, places[:1] if single else places, leading, term, beside)


def _is_mistold(row: Row, term: Term, number: float) -> bool:
    """Whether a term gives another number than it should, beyond what its arithmetic may be off."""
    info = np.finfo(row.plain.dtype)
    value = evaluate(term, row.number)
    if not (np.isfinite(value) and np.isfinite(number)):
        return not (value == number or info.bits < 64 or (np.isnan(value) and np.isnan(number)))
    return bool(abs(value - number) > 1e3 * float(info.eps) * magnitude(term, row.number) + float(info.tiny))
