"""Trying mistakes: many changes in one call of the core, and which of them give the numbers that the hand wrote."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import accumulate, islice
from typing import Any

from attncli.errors import AttnError
from attncli.lazy import Array, np
from attncli.verify.given import Given
from attncli.verify.mistakes import Change, MistakeEntry
from attncli.verify.written import Written, rounded

_CLOSEST = 8  # how many are tried from numbers within half a unit
_DIRECTIONS = 8
_MOST_CELLS = 400  # of the hand's, each of which is moved by half a unit


@dataclass(frozen=True, eq=False)
class Tried:
    """One change that was computed: `place` is the change's number among the entry's, `index` its own in the change."""

    entry: MistakeEntry
    change: Change
    place: int
    index: int = 0

    @property
    def simplicity(self) -> int:
        return self.entry.simplicity

    @property
    def step(self) -> str:
        return self.change.step or self.entry.at[0]

    def tell(self) -> str:
        return self.change.tell(self.index)

    def numbers(self, step: str) -> Array:
        """What the step becomes by this change, (R, ...)."""
        array = self.change.arrays[step]
        return array if isinstance(self.change.text, str) else array[self.index]


@dataclass(frozen=True, eq=False)
class Tries:
    """Many changes, and what each gives: results (M, R, *shape of the target)."""

    changes: list[Tried]
    starts: list[int]
    results: Array

    def __getitem__(self, row: int) -> Tried:
        at = bisect_right(self.starts, row) - 1
        return replace(self.changes[at], index=row - self.starts[at])

    def spread(self, values: list[bool]) -> Array:
        """One value a change, for each of its rows."""
        counts = [change.change.count for change in self.changes]
        return np.repeat(np.array(values, dtype=bool), counts)


class Search:
    """The search at one wrong step: what was tried, and whether it fits.

    right: the step as it follows from the hand's numbers, and from the right ones, (R, *shape).
    """

    def __init__(self, given: Given) -> None:
        self.given = given
        self.numbers = given.numbers
        self.right = given.as_exact(given[given.target])  # (R, *shape)

    def tried(self, given: Given, entries: Iterable[MistakeEntry]) -> Tries:
        """All changes of these entries, each with what it gives; the core is called once for each kind of change."""
        kinds: dict[frozenset[str], list[Tried]] = {}
        for entry in entries:
            try:
                for place, change in enumerate(entry.function(given)):
                    if self._reaches_target(change):
                        kinds.setdefault(frozenset(change.arrays), []).append(Tried(entry, change, place))
            except (AttnError, KeyError, ArithmeticError):
                continue  # it needs what this problem does not have, or a number beyond all doubles
        changes, results = [], []
        for kind in kinds.values():
            try:
                result = given.as_exact(given.run(stacked([one.change for one in kind])))
            except AttnError:
                continue
            if len(result) != sum(one.change.count for one in kind):  # nothing comes of what is changed
                continue
            changes += kind
            results.append(result)
        starts = [0, *accumulate(one.change.count for one in changes)]
        rows = max((result.shape[1] for result in results), default=1)
        shape = (rows, *self.right.shape[1:])
        spread = [np.broadcast_to(result, (len(result), *shape)) for result in results]
        return Tries(changes, starts[:-1], np.concatenate(spread) if spread else np.empty((0, *shape)))

    def _reaches_target(self, change: Change) -> bool:
        """Whether no written (and right) step lies between what is changed and the wrong step."""
        target = self.given.target
        if target in change.arrays or (target == "output" and "heads" in change.arrays):
            return True
        return target not in ("Q", "K", "V") and not (target == "output" and "heads" in self.given.written)

    def again(self, given: Given, one: Tried) -> Array:
        """The same mistake from other numbers, (R, *shape of the target)."""
        change = next(islice(one.entry.function(given), one.place, None))
        now = replace(one, change=change)
        return given.as_exact(given.run({name: now.numbers(name) for name in change.arrays}))

    # -- matching -----------------------------------------------------------------------------------------------

    def matching(self, tries: Tries) -> list[Tried]:
        """Those that reproduce every written number, from the numbers as written or as they were kept.

        One that needs rounding for it is left out where another, no less simple, gives every number as it stands.
        """
        local = tries.spread([one.change.local for one in tries.changes])
        rows = {row: None for at in range(tries.results.shape[1]) for row in self.fitting(tries.results[:, at], local)}
        found = {row: tries[row] for row in rows if self.differs(tries.results[row])}
        as_it_stands = {row for row in found if self._gives(tries.results[row])}
        simplest = min((found[row].simplicity for row in as_it_stands), default=None)
        return [
            one for row, one in found.items() if simplest is None or row in as_it_stands or one.simplicity < simplest
        ]

    def _gives(self, result: Array) -> bool:
        """Whether a mistake gives (from one of the bases, R) every written number without rounding."""
        same = rounded(self.numbers.value, np.zeros(()), result) | self.numbers.blank
        return bool(same.reshape(len(result), -1).all(axis=1).any())

    def fitting(self, results: Array, local: Array | None = None) -> list[int]:
        """The rows of (M, *shape) that give every number; of a local change only the wrong cells are asked."""
        wrong, blank = self.given.wrong.reshape(-1), self.numbers.blank.reshape(-1)
        flat = results.reshape(len(results), wrong.size)
        alive = np.arange(len(results))
        for cell in np.flatnonzero(wrong)[:3]:
            alive = alive[self._at(cell).reproduced(flat[alive, cell])]
        fits = self._at(slice(None)).reproduced(flat[alive]) | blank
        if local is not None:
            fits |= local[alive, None] & ~wrong
        return [int(row) for row in alive[fits.all(axis=1)]]

    def _at(self, cells: Any) -> Written:
        n = self.numbers
        return Written(n.value.reshape(-1)[cells], n.unit.reshape(-1)[cells], n.blank.reshape(-1)[cells])

    def differs(self, result: Array) -> bool:
        """Whether a mistake gives other numbers (R, *shape) than the right computation at all."""
        off = np.abs(result - self.right) > 1e-12 + 1e-9 * np.abs(self.right)
        return bool(off.any() or (np.isfinite(result) != np.isfinite(self.right)).any())

    def within_half_units(self, tries: Tries) -> list[Tried]:
        """Those that give every number from numbers within half a unit of the hand's, if not from themselves."""
        halves, here = self.given.halves, tries.results[:, 0]
        count = sum(int((half > 0).sum()) for half in halves.values())
        if not 0 < count <= _MOST_CELLS or not len(here):
            return []
        random = np.random.default_rng(0)
        signs = {name: random.choice((-1.0, 1.0), (_DIRECTIONS, *half.shape[1:])) for name, half in halves.items()}
        entries = {one.entry.name: one.entry for one in tries.changes}
        others = self.tried(self.given.shifted(signs), entries.values())
        if len(others.results) != len(here):
            return []
        reach = 1.5 * np.sqrt(count * ((others.results - here[:, None]) ** 2).mean(axis=1))
        off = np.abs(here - self.numbers.value) - self.numbers.unit - reach
        local = tries.spread([one.change.local for one in tries.changes])
        local = local.reshape(-1, *(1,) * self.given.wrong.ndim)
        near = (off <= 0) | self.numbers.reproduced(here) | (local & ~self.given.wrong)
        rows = np.flatnonzero(near.reshape(len(near), -1).all(axis=1))
        ranked = sorted(rows, key=lambda row: tries[int(row)].simplicity)
        found: list[Tried] = []
        for row in ranked[:_CLOSEST]:
            one = tries[int(row)]
            if self.differs(tries.results[row]) and self._reaches(one, here[row]):
                found.append(one)
        return found

    def _reaches(self, one: Tried, here: Array) -> bool:
        """Whether each number not reproduced is, from a corner of the box of numbers within half a unit.

        The corner is the one to which the computation rises (and falls) fastest; what it gives there is attained.
        """
        asked = self.given.wrong if one.change.local else ~self.numbers.blank
        failing = np.flatnonzero((asked & ~self.numbers.reproduced(here)).reshape(-1))
        if not len(failing):
            return True
        count = sum(half.size for half in self.given.halves.values())
        try:
            slopes = self.again(self.given.shifted(self._by_step(np.eye(count))), one) - here
            signs = np.sign(np.broadcast_to(slopes, (count, *here.shape)).reshape(count, -1)[:, failing]).T
            corners = self._by_step(np.concatenate([signs, -signs]))
            values = self.again(self.given.shifted(corners), one)
        except (AttnError, KeyError, StopIteration):
            return False
        flat = np.broadcast_to(values, (2 * len(failing), *here.shape)).reshape(2, len(failing), -1)
        ends = np.stack([*flat[:, np.arange(len(failing)), failing], here.reshape(-1)[failing]])
        return bool(self._at(failing).meets(np.fmin.reduce(ends), np.fmax.reduce(ends)).all())

    def _by_step(self, rows: Array) -> dict[str, Array]:
        """Signs (R, all cells) as arrays by step."""
        found, start = {}, 0
        for name, half in self.given.halves.items():
            found[name] = rows[:, start : start + half.size].reshape(-1, *half.shape[1:])
            start += half.size
        return found


def stacked(changes: list[Change], bases: int = 1) -> dict[str, Array]:
    """Changes of the same steps, one under the other in a new first axis: (M, R, ...), R at least `bases`."""
    found = {}
    for name in changes[0].arrays:
        arrays = [
            change.arrays[name][None] if isinstance(change.text, str) else change.arrays[name] for change in changes
        ]
        tail = np.broadcast_shapes((bases,) + (1,) * (arrays[0].ndim - 2), *(array.shape[1:] for array in arrays))
        found[name] = np.concatenate([np.broadcast_to(array, (len(array), *tail)) for array in arrays])
    return found
