"""What a mistake is: an entry in the registry, which makes the changed computation.

One entry a mistake: a name, a sentence for the person (`source` is where it was seen), and the changed computation,
as the steps that differ; the rest is the definition's.
The entries are in `mistakes_*.py`; slips in single cells in `slips.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from attncli.lazy import Array
from attncli.registry import Entry, Registry


@dataclass(kw_only=True, eq=False)
class MistakeEntry(Entry):
    """A mistake as it is registered: function(given) -> the changes that it makes.

    at: the steps in which it happens. simplicity: the order in which mistakes that explain the same numbers are told.
    late: tried where no other fits. alone: not paired with another. whole: needs all rows at once, of which an
    engineer's array has too many. local: changes single cells or rows, as hands do. rounding: what machines do.
    """

    at: tuple[str, ...]
    simplicity: int
    late: bool = False
    alone: bool = False
    whole: bool = False
    local: bool = False
    rounding: bool = False


MISTAKES: Registry[MistakeEntry] = Registry("mistake", MistakeEntry)
mistake = MISTAKES


@dataclass(frozen=True, eq=False)
class Change:
    """One way to make a mistake: what some steps become instead, and the sentence for the person.

    arrays: changed steps in the form of `Given.steps`; q, k, v are Q, K, V split into heads.
    step: where it happened, if not at the mistake's own step.
    text: or, where the arrays are a stack of many such changes, a function that tells of the one at an index.
    local: only what was wrong is changed, so that only the wrong cells have to be explained.
    """

    arrays: dict[str, Array]
    text: str | Callable[[int], str]
    step: str | None = None
    local: bool = False

    @property
    def count(self) -> int:
        """How many changes the arrays hold."""
        return 1 if isinstance(self.text, str) else len(next(iter(self.arrays.values())))

    def tell(self, index: int) -> str:
        """The sentence of one of them."""
        return self.text if isinstance(self.text, str) else self.text(index)


Changes = Iterator[Change]


def number(x: float) -> str:
    """A number for a sentence: four decimals, no zeros at the end."""
    plain = x == 0 or 1e-3 <= abs(x) < 1e9
    return f"{x:.4f}".rstrip("0").rstrip(".") if plain else f"{x:.4g}"
