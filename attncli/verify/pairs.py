"""Two mistakes together: all pairs as one stack, of which only what the first leaves to the second is computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby

from attncli.lazy import Array, np
from attncli.pipeline.steps import STEPS
from attncli.pipeline.trace import NAMED_STEPS
from attncli.verify.given import Given
from attncli.verify.mistakes import MistakeEntry
from attncli.verify.search import Search, Tried, stacked

_MOST_PAIRED = 2_000  # numbers of a step
_ORDER = {step: place for place, step in enumerate(NAMED_STEPS)}


def pairs(search: Search, entries: list[MistakeEntry]) -> list[tuple[Tried, Tried]]:
    """Two of these mistakes, one after the other in the pipeline, that together give every number; simplest first."""
    if search.given.wrong.sum() < 2 or search.right.size > _MOST_PAIRED:
        return []
    entries = [entry for entry in entries if not (entry.local or entry.alone)]
    singles = search.tried(search.given, entries)
    unlike: dict[bytes, Tried] = {}
    for row, one in enumerate(singles.changes):
        if one.step != search.given.target and search.differs(singles.results[row]):
            unlike.setdefault(singles.results[row].tobytes(), one)
    firsts = list(unlike.values())
    if not firsts:
        return []
    firsts.sort(key=lambda one: _ORDER[one.step])
    given = _all_at_once(search, firsts)
    exact: list[tuple[Tried, Tried]] = []
    for last, group in groupby(sorted(entries, key=_last_step), key=_last_step):
        # Only the first mistakes of earlier steps can come before these.
        count = sum(_ORDER[one.step] < last for one in firsts)
        exact += _pairs_of(search, given, firsts[:count], group) if count else []
    return sorted(exact, key=lambda pair: pair[0].simplicity + pair[1].simplicity)


def _pairs_of(
    search: Search, given: Given, firsts: list[Tried], entries: Iterable[MistakeEntry]
) -> list[tuple[Tried, Tried]]:
    """The second mistakes that give every number after one of these first ones, the first ones of `given`."""
    rows = len(search.right) * len(firsts)
    part = given.after({})
    part.steps = {name: array[:rows] if len(array) > 1 else array for name, array in given.steps.items()}
    part.mistaken = {name: array for name, array in part.steps.items() if len(array) == rows}
    seconds = search.tried(part, entries)
    if seconds.results.shape[1] != rows:
        return []
    found: dict[tuple[int, int], tuple[Tried, Tried]] = {}
    for row in search.fitting(seconds.results.reshape(-1, *search.right.shape[1:])):
        at, place = divmod(row, rows)
        first, second = firsts[place // len(search.right)], seconds[at]
        if _ORDER[first.step] < _ORDER[second.step]:
            found[place // len(search.right), at] = (first, second)
    return list(found.values())


def _all_at_once(search: Search, firsts: list[Tried]) -> Given:
    """The steps after each first mistake, from each base: one after the other in the stack axis."""
    kinds: dict[frozenset[str], list[int]] = {}
    for place, one in enumerate(firsts):
        kinds.setdefault(frozenset(one.change.arrays), []).append(place)
    bases, steps, made = len(search.right), dict[str, Array](), dict[str, Array]()
    for places in kinds.values():
        arrays = stacked([firsts[place].change for place in places], bases)
        for name, array in search.given.following(arrays).items():
            tail = array.shape[-search.given.frame.axes(name) :]
            if name not in steps:
                steps[name] = np.full((len(firsts), bases, *tail), np.nan)
                made[name] = np.zeros(len(firsts), dtype=bool)
            steps[name][places] = np.broadcast_to(array, (len(places), bases, *tail))
            made[name][places] = True
    for name in sorted(steps, key=STEPS.order):
        steps[name][~made[name]] = _unmistaken(search, name, steps, ~made[name])
    given = search.given.after({})
    spread = {name: array for name, array in search.given.steps.items() if len(array) > 1}
    given.steps = search.given.steps | {name: np.concatenate([array] * len(firsts)) for name, array in spread.items()}
    given.steps |= {name: array.reshape(-1, *array.shape[2:]) for name, array in steps.items()}
    return given


def _unmistaken(search: Search, name: str, steps: Mapping[str, Array], places: Array) -> Array:
    """A step where no first mistake makes it another; one that the problem does not have hands on what came."""
    line = [each.name for each in STEPS.of_line("logits")]
    if name not in line or name in search.given:
        return search.given[name]
    earlier = [before for before in line[: line.index(name)] if before in steps or before in search.given]
    return steps[earlier[-1]][places] if earlier[-1] in steps else search.given[earlier[-1]]


def _last_step(entry: MistakeEntry) -> int:
    return max(_ORDER[step] for step in entry.at)
