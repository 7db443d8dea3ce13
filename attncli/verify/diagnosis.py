"""Naming the mistake: which changed computation gives the hand's numbers at the first wrong step.

The hand's earlier numbers are taken as they stand, so that a mistake is found behind an earlier slip too. All mistakes
are tried as one stack; where none gives the numbers as they are written, the nearest are tried from numbers within
half a unit of the hand's; then slips in unwritten steps, an unknown factor, two mistakes together.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import accumulate, groupby, islice
from typing import TYPE_CHECKING, Any

from attncli.core.trace import STEPS
from attncli.errors import AttnError
from attncli.lazy import Array, np
from attncli.registry import Entry
from attncli.verify import mistakes, mistakes_masks, mistakes_matrices, slips  # noqa: F401  (they register theirs)
from attncli.verify.frame import CHAIN, Frame
from attncli.verify.given import MISTAKES, Change, Given
from attncli.verify.written import Written

if TYPE_CHECKING:
    from attncli.verify.marking import Marking

_CLOSEST = 8  # how many are tried from numbers within half a unit
_DIRECTIONS = 8
_MOST_CELLS = 400  # of the hand's, each of which is moved by half a unit
_MOST_NUMBERS = 20_000
_MOST_PAIRED = 2_000  # numbers of a step
_PAIRS = 5
_ORDER = {step: place for place, step in enumerate(STEPS)}


@dataclass(frozen=True)
class Diagnosis:
    """A mistake that explains the hand's numbers: all of those of the first wrong step, or (not exact_match) some."""

    mistake: str
    step: str
    text: str
    exact_match: bool

    def as_json(self) -> dict[str, Any]:
        """The object of the JSON contract."""
        return asdict(self)


@dataclass(frozen=True)
class Tried:
    """One change that was computed: `place` is the change's number among the entry's, `index` its own in the change."""

    entry: Entry
    change: Change
    place: int
    index: int = 0

    @property
    def simplicity(self) -> int:
        return int(self.entry.facts["simplicity"])

    @property
    def step(self) -> str:
        return self.change.step or str(self.entry.facts["at"][0])

    def tell(self) -> str:
        return self.change.tell(self.index)

    def numbers(self, step: str) -> Array:
        """What the step becomes by this change, (R, ...)."""
        array = self.change.arrays[step]
        return array if isinstance(self.change.text, str) else array[self.index]


@dataclass(frozen=True)
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


def diagnosis_of(marking: Marking) -> list[Diagnosis]:
    """The diagnosis of a marked problem: nothing where no step is wrong."""
    step = marking.first_wrong
    if step is None:
        return []
    hand: dict[str, Written] = {}
    for entry in marking.entries:
        written = entry.written
        if entry.step in hand:
            others = hand[entry.step]
            written = Written(
                np.where(written.blank, others.value, written.value),
                np.where(written.blank, others.unit, written.unit),
                written.blank & others.blank,
            )
        hand[entry.step] = written
    return diagnose(marking.frame, hand, step, marking.bases.slips[step].written)


def diagnose(frame: Frame, hand: Mapping[str, Written], step: str, wrong: Array | None = None) -> list[Diagnosis]:
    """The mistakes that give the hand's numbers of the first wrong step, simplest first; none for a plain slip.

    hand: the written steps, and wrong: which cells of the step are wrong, in the form of `Frame`.
    Several that are exact cannot be told apart on these numbers.
    """
    if max(frame.exact(name).size for name in frame.trace.steps) > _MOST_NUMBERS:
        return []  # no hand calculates so much, and the stack of all mistakes would not fit
    with np.errstate(all="ignore"):
        try:
            given = Given(frame, hand, step, wrong)
        except AttnError:
            return []  # the hand's numbers themselves do not make an attention
        return Search(given).found()


class Search:
    """The search at one wrong step."""

    def __init__(self, given: Given) -> None:
        self.given = given
        self.numbers = given.numbers
        self.right = given.as_exact(given[given.target])  # (R, *shape)

    def found(self) -> list[Diagnosis]:
        """All exact explanations of the first kind that has any; else what explains a part."""
        singles = self.tried(self.given, _entries(self.given))
        exact = self.matching(singles)
        if all(one.entry.facts.get("local") for one in exact):
            exact += self.within_half_units(singles)
        if not exact:
            self.given.deep = True
            exact = self.matching(self.tried(self.given, _entries(self.given, local=True)))
        if not exact:
            late = self.tried(self.given, _entries(self.given, late=True))
            exact = self.matching(late) or self.within_half_units(late)
        if exact:
            return _told(exact)
        return self.pairs() or self.partly(singles)

    # -- trying -------------------------------------------------------------------------------------------------

    def tried(self, given: Given, entries: Iterable[Entry]) -> Tries:
        """All changes of these entries, each with what it gives; the core is called once for each kind of change."""
        kinds: dict[frozenset[str], list[Tried]] = {}
        for entry in entries:
            try:
                for place, change in enumerate(entry.function(given)):
                    if self._reaches_target(change):
                        kinds.setdefault(frozenset(change.arrays), []).append(Tried(entry, change, place))
            except (AttnError, KeyError):
                continue  # it needs what this problem does not have
        changes, results = [], []
        for kind in kinds.values():
            try:
                result = given.as_exact(given.run(_stacked([one.change for one in kind])))
            except AttnError:
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
        """Those that reproduce every written number, from the numbers as written or as they were kept."""
        local = tries.spread([one.change.local for one in tries.changes])
        rows = {row: None for at in range(tries.results.shape[1]) for row in self._fitting(tries.results[:, at], local)}
        return [tries[row] for row in rows if self._differs(tries.results[row])]

    def _fitting(self, results: Array, local: Array | None = None) -> list[int]:
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

    def _differs(self, result: Array) -> bool:
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
            if self._differs(tries.results[row]) and self._reaches(one, here[row]):
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

    # -- two mistakes, and a part -------------------------------------------------------------------------------

    def pairs(self) -> list[Diagnosis]:
        """Two mistakes, one after the other in the pipeline, that together give every number."""
        if self.given.wrong.sum() < 2 or self.right.size > _MOST_PAIRED:
            return []
        entries = [e for e in _entries(self.given) if not (e.facts.get("local") or e.facts.get("alone"))]
        singles = self.tried(self.given, entries)
        unlike: dict[bytes, Tried] = {}
        for row, one in enumerate(singles.changes):
            if one.step != self.given.target and self._differs(singles.results[row]):
                unlike.setdefault(singles.results[row].tobytes(), one)
        firsts = list(unlike.values())
        if not firsts:
            return []
        firsts.sort(key=lambda one: _ORDER[one.step])
        given = self._all_at_once(firsts)
        exact: list[tuple[Tried, Tried]] = []
        for last, group in groupby(sorted(entries, key=_last_step), key=_last_step):
            # Only the first mistakes of earlier steps can come before these.
            count = sum(_ORDER[one.step] < last for one in firsts)
            exact += self._pairs_of(given, firsts[:count], group) if count else []
        exact.sort(key=lambda pair: pair[0].simplicity + pair[1].simplicity)
        return [
            Diagnosis(
                f"{first.entry.name}+{second.entry.name}",
                first.step,
                f"two mistakes: {first.tell()}; and {second.tell()}",
                True,
            )
            for first, second in exact[:_PAIRS]
        ]

    def _pairs_of(self, given: Given, firsts: list[Tried], entries: Iterable[Entry]) -> list[tuple[Tried, Tried]]:
        """The second mistakes that give every number after one of these first ones, the first ones of `given`."""
        rows = len(self.right) * len(firsts)
        part = given.after({})
        part.steps = {name: array[:rows] if len(array) > 1 else array for name, array in given.steps.items()}
        seconds = self.tried(part, entries)
        if seconds.results.shape[1] != rows:
            return []
        found: list[tuple[Tried, Tried]] = []
        for row in self._fitting(seconds.results.reshape(-1, *self.right.shape[1:])):
            second, place = divmod(row, rows)
            pair = (firsts[place // len(self.right)], seconds[second])
            if pair not in found and _ORDER[pair[0].step] < _ORDER[pair[1].step]:
                found.append(pair)
        return found

    def _all_at_once(self, firsts: list[Tried]) -> Given:
        """The steps after each first mistake, from each base: one after the other in the stack axis."""
        kinds: dict[frozenset[str], list[int]] = {}
        for place, one in enumerate(firsts):
            kinds.setdefault(frozenset(one.change.arrays), []).append(place)
        bases, steps, made = len(self.right), dict[str, Array](), dict[str, Array]()
        for places in kinds.values():
            stacked = _stacked([firsts[place].change for place in places], bases)
            for name, array in self.given.following(stacked).items():
                tail = array.shape[-self.given.frame.axes(name) :]
                if name not in steps:
                    steps[name] = np.full((len(firsts), bases, *tail), np.nan)
                    made[name] = np.zeros(len(firsts), dtype=bool)
                steps[name][places] = np.broadcast_to(array, (len(places), bases, *tail))
                made[name][places] = True
        for name in sorted(steps, key=lambda name: CHAIN.index(name) if name in CHAIN else -1):
            steps[name][~made[name]] = self._unmistaken(name, steps, ~made[name])
        given = self.given.after({})
        spread = {name: array for name, array in self.given.steps.items() if len(array) > 1}
        given.steps = self.given.steps | {name: np.concatenate([array] * len(firsts)) for name, array in spread.items()}
        given.steps |= {name: array.reshape(-1, *array.shape[2:]) for name, array in steps.items()}
        return given

    def _unmistaken(self, name: str, steps: Mapping[str, Array], places: Array) -> Array:
        """A step where no first mistake makes it another; one that the problem does not have hands on what came."""
        if name not in CHAIN or name in self.given:
            return self.given[name]
        earlier = [before for before in CHAIN[: CHAIN.index(name)] if before in steps or before in self.given]
        return steps[earlier[-1]][places] if earlier[-1] in steps else self.given[earlier[-1]]

    def partly(self, tries: Tries) -> list[Diagnosis]:
        """Mistakes that explain at least half of the wrong cells, two or more, and spoil none of the right ones."""
        wrong, count = self.given.wrong, int(self.given.wrong.sum())
        here = tries.results[:, 0]
        explained = self.numbers.reproduced(here)
        same = np.abs(here - self.right[0]) <= 1e-9
        spoiled = ~(explained | wrong | self.numbers.blank | same)
        axes = tuple(range(1, here.ndim))
        counts = (explained & wrong).sum(axis=axes)
        good = (counts >= max(2, count / 2)) & ~spoiled.any(axis=axes)
        told = []
        for row in np.flatnonzero(good):
            one = tries[int(row)]
            text = f"{one.tell()} (this explains {counts[row]} of {count} wrong numbers)"
            told.append((-counts[row], one.simplicity, Diagnosis(one.entry.name, one.step, text, False)))
        told.sort(key=lambda item: item[:2])
        return [diagnosis for *_, diagnosis in told[:3]]


def _last_step(entry: Entry) -> int:
    return max(_ORDER[step] for step in entry.facts["at"])


def _entries(given: Given, *, local: bool = False, late: bool = False) -> list[Entry]:
    """The mistakes that may have happened in an open step, simplest first: all but the late ones, or only some."""
    found = [
        entry
        for entry in MISTAKES
        if given.open.intersection(entry.facts["at"])
        and bool(entry.facts.get("late")) == late
        and (not local or entry.facts.get("local"))
    ]
    return sorted(found, key=lambda entry: int(entry.facts["simplicity"]))


def _stacked(changes: list[Change], bases: int = 1) -> dict[str, Array]:
    """Changes of the same steps, one under the other in a new first axis: (M, R, ...), R at least `bases`."""
    found = {}
    for name in changes[0].arrays:
        arrays = [
            change.arrays[name][None] if isinstance(change.text, str) else change.arrays[name] for change in changes
        ]
        tail = np.broadcast_shapes((bases,) + (1,) * (arrays[0].ndim - 2), *(array.shape[1:] for array in arrays))
        found[name] = np.concatenate([np.broadcast_to(array, (len(array), *tail)) for array in arrays])
    return found


def _told(exact: list[Tried]) -> list[Diagnosis]:
    """One diagnosis a mistake, simplest first; of several ways of one mistake the first is told.

    Mistakes that are the same change of the same step (two roots of equal widths) are told in one.
    """
    kept: list[Tried] = []
    texts: list[str] = []
    for one in sorted(exact, key=lambda one: one.simplicity):
        if any(one.entry is other.entry for other in kept):
            continue
        same = next((at for at, other in enumerate(kept) if _same(one, other)), None)
        if same is None:
            kept.append(one)
            texts.append(one.tell())
        else:
            texts[same] += f"; here that is the same as: {one.tell()}"
    return [Diagnosis(one.entry.name, one.step, text, True) for one, text in zip(kept, texts, strict=True)]


def _same(one: Tried, other: Tried) -> bool:
    mine = one.change.arrays
    alike = set(mine) == set(other.change.arrays) and not (
        one.entry.facts.get("local") or other.entry.facts.get("local")
    )
    return alike and all(np.allclose(one.numbers(name), other.numbers(name), rtol=1e-12, atol=1e-12) for name in mine)
