"""Naming the mistake: which changed computation gives the hand's numbers at the first wrong step.

The hand's earlier numbers are taken as they stand, so that a mistake is found behind an earlier slip too. All mistakes
are tried as one stack; where none gives the numbers as they are written, the nearest are tried from numbers within
half a unit of the hand's; then slips in unwritten steps, an unknown factor, two mistakes together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from attncli.errors import AttnError
from attncli.extensions import installed
from attncli.lazy import Array, np
from attncli.verify.frame import Frame
from attncli.verify.given import Given
from attncli.verify.mistakes import MISTAKES, MistakeEntry
from attncli.verify.pairs import pairs
from attncli.verify.search import Search, Tried, Tries
from attncli.verify.written import Written

# They register theirs, in this order: of equally simple mistakes the first is told first.
from attncli.verify import (  # noqa: F401  # isort: skip
    mistakes_positions,
    mistakes_logits,
    mistakes_softmax,
    mistakes_masks,
    mistakes_projections,
    mistakes_products,
    mistakes_heads,
    slips,
    mistakes_factor,
)

if TYPE_CHECKING:
    from attncli.verify.marking import Marking

_MOST_NUMBERS = 20_000
_MOST_TOLD = 5  # pairs


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
    return diagnose(marking.frame, hand, step, marking.slips[step])


def diagnose(frame: Frame, hand: Mapping[str, Written], step: str, wrong: Array | None = None) -> list[Diagnosis]:
    """The mistakes that give the hand's numbers of the first wrong step, simplest first; none for a plain slip.

    hand: the written steps, and wrong: which cells of the step are wrong, in the form of `Frame`.
    Several that are exact cannot be told apart on these numbers.
    """
    if max(frame.exact(name).size for name in frame.trace.steps) > _MOST_NUMBERS:
        return []  # no hand calculates so much, and the stack of all mistakes would not fit
    try:
        given = Given(frame, hand, step, wrong)
    except AttnError:
        return []  # the hand's numbers themselves do not make an attention
    return _found(Search(given))


def _found(search: Search) -> list[Diagnosis]:
    """All exact explanations of the first kind that has any; else what explains a part."""
    given = search.given
    singles = search.tried(given, _entries(given))
    exact = search.matching(singles)
    if all(one.entry.local for one in exact):
        exact += search.within_half_units(singles)
    if not exact:
        given.deep = True
        exact = search.matching(search.tried(given, _entries(given, local=True)))
    if not exact:
        late = search.tried(given, _entries(given, late=True))
        exact = search.matching(late) or search.within_half_units(late)
    if exact:
        return _told(exact)
    together = pairs(search, _entries(given))[:_MOST_TOLD]
    return [_told_together(first, second) for first, second in together] or _partly(search, singles)


def _entries(given: Given, *, local: bool = False, late: bool = False) -> list[MistakeEntry]:
    """The mistakes that may have happened in an open step, simplest first: all but the late ones, or only some."""
    installed()
    found = [
        entry
        for entry in MISTAKES
        if given.open.intersection(entry.at) and entry.late == late and (not local or entry.local)
    ]
    return sorted(found, key=lambda entry: entry.simplicity)


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
    alike = set(mine) == set(other.change.arrays) and not (one.entry.local or other.entry.local)
    return alike and all(np.allclose(one.numbers(name), other.numbers(name), rtol=1e-12, atol=1e-12) for name in mine)


def _told_together(first: Tried, second: Tried) -> Diagnosis:
    text = f"two mistakes: {first.tell()}; and {second.tell()}"
    return Diagnosis(f"{first.entry.name}+{second.entry.name}", first.step, text, True)


def _partly(search: Search, tries: Tries) -> list[Diagnosis]:
    """Mistakes that explain at least half of the wrong cells, two or more, and spoil none of the right ones."""
    wrong, count = search.given.wrong, int(search.given.wrong.sum())
    here = tries.results[:, 0]
    explained = search.numbers.reproduced(here)
    same = np.abs(here - search.right[0]) <= 1e-9
    spoiled = ~(explained | wrong | search.numbers.blank | same)
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
