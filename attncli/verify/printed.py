"""Numbers in text that no hand wrote: too many of them, or with more digits than anybody writes down.

They are marked as the array that a program printed. Its type is told from the digits, and what printing rounded away
is allowed for. All such texts of one problem are taken together: what follows from a slip must be marked alike.
Letters: n queries, m keys, d the width of keys or values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from attncli.lazy import Array, np
from attncli.problem.plan import step_shapes
from attncli.problem.problem import Problem
from attncli.problem.values import Hand
from attncli.verify.written import Written, as_written, flat

_MANY = 1000  # numbers of a step: more than any hand calculates
_TERMS = 10**6  # n m d: from here on the bounds of what follows from a hand's numbers take gigabytes
_LONG = 15  # significant digits with which nothing but a float64 is written
_SINGLE = 9  # significant digits that tell every float32 from its neighbours
_SAMPLE = 10_000  # numbers of a step whose digits are counted


@dataclass(frozen=True)
class Printed:
    """What a program's text of a step is taken for.

    dtype: the type of its numbers. why: what tells that it is no hand's. decimals, digits: the most that a number has
    after the point, and in all. blank: where nothing was written; None where everything was.
    """

    dtype: str
    why: str
    decimals: int
    digits: int
    blank: Array | None = None

    def half_unit(self, x: Array) -> Array:
        """Half of each number's last place: what printing rounds away. A number has no more digits than the longest."""
        first = np.floor(np.log10(np.abs(x)))
        first = np.where(np.isfinite(first), first, -400)
        return np.asarray(10.0 ** np.maximum(-self.decimals, first - self.digits + 1) / 2)


def printed_texts(problem: Problem, hands: Mapping[str, Hand]) -> dict[str, Printed]:
    """What these numbers are taken for where a program wrote them; nothing where a hand did."""
    if not hands:
        return {}
    many = too_many(problem, hands)
    if not many and all(map(_is_short, hands.values())):
        return {}
    samples = {address: _sample(hand) for address, hand in hands.items()}
    cells = [_Cells.of(written) for written, _ in samples.values()]
    every = _Cells(*(np.concatenate(parts) for parts in zip(*(vars(each).values() for each in cells), strict=True)))
    rounded = any(each.are_rounded() for each in cells)  # by a hand, whose later numbers follow from these
    why = many or ("" if rounded else every.too_long())
    if not why:
        return {}
    return {
        address: Printed(every.dtype(), why, *each.places(), blank)
        for (address, (_, blank)), each in zip(samples.items(), cells, strict=True)
    }


def too_many(problem: Problem, hands: Mapping[str, Hand]) -> str:
    """Why nobody calculates so much by hand; empty where somebody may."""
    most = max(hand.matrix.array.size for hand in hands.values())
    if most > _MANY:
        return f"{most} numbers are too many for a hand"
    numbers = sum(array.size for array in problem.arrays().values())
    if numbers**3 * (problem.heads or 1) < 16 * _TERMS:
        return ""  # so few numbers cannot make as many: n queries and keys of n numbers, n + 2 d <= numbers
    shapes = step_shapes(problem)
    n, m = shapes["weights"][-2:]
    terms = prod(shapes["weights"]) * max(shapes[name][-1] for name in ("K", "V", "weights") if name in shapes)
    return f"{n} queries and {m} keys are too many for a hand" if terms > _TERMS else ""


def _is_short(hand: Hand) -> bool:
    """Whether no number is written with so many characters that its digits could be a program's."""
    if hand.matrix.spelling is None:
        return False
    texts = flat(hand.matrix.spelling(), hand.matrix.array.ndim)
    return all(text is None or len(text) <= _SINGLE for text in texts)


def _sample(hand: Hand) -> tuple[Written, Array | None]:
    """Some numbers as they were written, spread over all; and which of all are left out, None if none is."""
    values = np.asarray(hand.matrix.array, dtype=np.float64)
    places = np.unique(np.linspace(0, values.size - 1, min(values.size, _SAMPLE)).astype(int))
    odd = np.flatnonzero(np.isnan(values))
    blank = np.isnan(values)
    spelling = None
    if hand.matrix.spelling is not None:
        texts = flat(hand.matrix.spelling(), values.ndim)
        blank.reshape(-1)[odd] = [texts[place] is None for place in odd]  # nan may be written, too
        spelling = [texts[place] for place in places]
    written = as_written(values.reshape(-1)[places], spelling, hand.decimals, hand.significant)
    return written, blank if blank.any() else None


@dataclass(frozen=True)
class _Cells:
    """Numbers that tell something of who wrote them: neither blank nor 0. unit: of the last place, 0 if exact."""

    value: Array
    unit: Array
    digits: Array

    @classmethod
    def of(cls, written: Written) -> _Cells:
        counted = ~written.blank & np.isfinite(written.value) & (written.value != 0)
        return cls(written.value[counted], written.unit[counted], written.digits[counted])

    def too_long(self) -> str:
        """Why the digits are a program's; empty where a hand may have written most of them."""
        exactly = (self.digits > _SINGLE) & (_single(self.value) == self.value)
        long = (self.digits >= _LONG) | exactly
        return "more digits than a hand writes" if 2 * long.sum() > long.size else ""

    def are_rounded(self) -> bool:
        """Whether most are rounded to a few places: short, though not as halves, quarters and the like are short."""
        short = (self.digits <= _SINGLE - 1) & (self.unit > 0)
        return bool(2 * (short & (self.value % (1 / 1024) != 0)).sum() > self.value.size)

    def dtype(self) -> str:
        """float64 where most have more digits than a float32 needs, and are no float32 written out in full."""
        longer = 2 * (self.digits > _SINGLE).sum() > self.digits.size
        single = np.abs(_single(self.value) - self.value) <= self.unit / 2 * (1 + 1e-6)
        return "float64" if longer and not single.all() else "float32"

    def places(self) -> tuple[int, int]:
        """The most decimals, and the most significant digits; whole numbers may have been rounded to such."""
        known = self.unit > 0
        if not known.any():
            return 0, 17
        return round(float(-np.log10(self.unit[known].min()))), int(self.digits.max())


def _single(x: Array) -> Array:
    return x.astype(np.float32).astype(np.float64)
