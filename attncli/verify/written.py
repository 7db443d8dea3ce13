"""Numbers as a hand wrote them: the value, the unit of its last place, and what may stand behind it.

h is a number as written, u the unit of its last written place (0.50: 0.01), x a computed number. What is exact, such as
1/3, sqrt(2)/2 or inf, has no last place: its unit is 0. Everything works on whole grids; x may have more leading axes.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from itertools import product
from typing import Any

from attncli.lazy import Array, np
from attncli.problem.arithmetic import Tree, evaluate, parse_expression
from attncli.problem.numbers import decimal_spelling

_DECIMAL = re.compile(r"[+-]?[0-9]*(?:[.,]([0-9]*))?(?:[eE]([+-]?[0-9]+))?")
_TENTHS = re.compile(r"[+-]?[0-9]+/1(0+)")
_EPSILON = 2.0**-52
_LARGEST = 1e300  # of which infinity is as far as of any number
CALCULATOR = 1e-6  # of a unit: what numbers may be off that are read off a display


@dataclass(frozen=True)
class Written:
    """The numbers of one grid: value (NaN where nothing is to be marked), unit (0: exact), blank (booleans).

    whole: every number was written without decimals. half: how far arithmetic with decimals in it (1/1.73) may be off,
    since each of them is known to its places; None where there is none.
    """

    value: Array
    unit: Array
    blank: Array
    whole: bool = False
    half: Array | None = None

    def agrees(self, x: Array, room: Array | float = 0.0) -> Array:
        """|h - x| <= u/2, a tie either way; room is what x itself may be off. True where blank."""
        return self.blank | rounded(self.value, self.unit, x, room)

    def truncated(self, x: Array, room: Array | float = 0.0) -> Array:
        """h is x cut towards zero after its last place, not to a whole number unless x is one. True where blank."""
        found = cut(self.value, self.unit, x, room)
        if (self.unit >= 1).any():
            found = found & ~((self.unit >= 1) & (np.abs(x - np.rint(x)) > room_of(self.unit, x, x) + room))
        explained: Array = self.blank | found
        return explained

    def reproduced(self, x: Array, room: Array | float = 0.0) -> Array:
        """h is x rounded to its places (a tie either way) or cut: a computation of x explains h. True where blank."""
        return self.agrees(x, room) | self.truncated(x, room)

    def meets(self, low: Array, high: Array) -> Array:
        """Some number of [low, high] gives h, rounded or cut. True where blank."""
        h, u = self.value, self.unit
        noise = room_of(u, h, h)
        if self.half is not None:
            low, high = low - self.half, high + self.half
        # Cut from up to one unit farther from zero, rounded from half a unit on the other side.
        below = np.where(h > 0, low < h + u - noise, low <= h + u / 2 + noise) | (low <= h + u / 2 + noise)
        above = np.where(h < 0, high > h - u + noise, high >= h - u / 2 - noise) | (high >= h - u / 2 - noise)
        met = below & above
        if (h == 0).any():
            met |= (h == 0) & (low < u - noise) & (high > noise - u)
        found: Array = met | (np.isnan(h) & np.isnan(low)) | self.blank
        return found

    def changed(self, change: Callable[[Array], Array]) -> Written:
        """The same numbers after a change of shape, or a part of them."""
        half = None if self.half is None else change(self.half)
        return Written(change(self.value), change(self.unit), change(self.blank), self.whole, half)

    @property
    def digits(self) -> Array:
        """How many significant digits each number is written with; 0 for zeros and for what is exact."""
        count = np.floor(np.log10(np.abs(self.value))) - np.rint(np.log10(self.unit)) + 1
        return np.where(np.isfinite(count), count, 0)

    def fits(self, x: Array, room: Array | float = 0.0) -> bool:
        """Whether every x has no more places than were used, so that nothing had to be rounded."""
        off = np.abs(x - np.rint(x / self.unit) * self.unit)
        exact: Array = (off <= room_of(self.unit, x, x) + room) | (self.unit == 0) | ~np.isfinite(x)
        return bool((exact | self.blank).all())

    def to_unit(self, x: Array) -> Array:
        """x rounded to the places of each number."""
        return np.where(self.unit > 0, np.rint(x / self.unit) * self.unit, x)


def together(parts: Sequence[Written]) -> Written:
    """Several parts of one grid as one; of two that wrote the same cell the later one counts."""
    whole = parts[0]
    for part in parts[1:]:
        halves = [each.half if each.half is not None else np.zeros(each.value.shape) for each in (whole, part)]
        some = whole.half is not None or part.half is not None
        whole = Written(
            np.where(part.blank, whole.value, part.value),
            np.where(part.blank, whole.unit, part.unit),
            whole.blank & part.blank,
            whole.whole and part.whole,
            np.where(part.blank, *halves) if some else None,
        )
    return whole


def rounded(h: Array, u: Array, x: Array, room: Array | float = 0.0) -> Array:
    """|h - x| <= u/2, with room for float noise; equal infinities and NaN agree."""
    close: Array = np.abs(h - x) <= u / 2 + room_of(u, h, x) + room
    same: Array = (h == x) | (np.isnan(h) & np.isnan(x))
    return close & np.isfinite(x) | same


def cut(h: Array, u: Array, x: Array, room: Array | float = 0.0) -> Array:
    """x without what comes after h's last place: |h| <= |x| < |h| + u, on the same side of zero."""
    beyond = np.where(h == 0, np.abs(x), (x - h) * np.sign(h))
    noise = room_of(u, h, x) + room
    # A number that reaches h + u but for noise has its own last place: it is not cut to h. From below, somebody
    # reads 1.0000 off a calculator where 0.9999999999 is meant.
    found: Array = (beyond >= -noise - CALCULATOR * u) & (beyond < u - noise)
    return found


def room_of(u: Array, h: Array, x: Array) -> Array:
    """What float arithmetic may be off, where nothing more exact is known."""
    largest = np.minimum(np.maximum(np.abs(h), np.abs(x)), _LARGEST)
    return 1e-12 * u + 64 * _EPSILON * largest


def as_written(
    values: Array, spelling: Sequence[Any] | None, decimals: int | None = None, significant: int | None = None
) -> Written:
    """The numbers with their units.

    values: any shape, NaN where blank. spelling: nested alike, None where blank; None altogether where the file has
    no spelling, and each number then counts as written in its shortest form. decimals, significant: the places that
    were meant, where the file has lost them.
    """
    values = np.asarray(values, dtype=np.float64)
    texts = flat(spelling, values.ndim) if spelling is not None else _shortest(values)
    blank = np.array([text is None for text in texts], dtype=bool).reshape(values.shape)
    if significant is not None:
        unit = _significant_units(values, [None if text is None else _spelled(text)[0] for text in texts], significant)
    else:
        # NaN stands for what is exact, and has no last place.
        last = np.array(_places(texts), dtype=np.float64).reshape(values.shape)
        unit = np.nan_to_num(10.0 ** -(last if decimals is None else np.where(np.isnan(last), last, decimals)))
    whole = bool((unit[~blank] >= 1).all()) and not any("." in text or "," in text for text in texts if text)
    half = np.array([_half(text) if text else 0.0 for text in texts]).reshape(values.shape)
    of_arithmetic = half if half.any() else None
    if not blank.any():
        return Written(values, unit, blank, whole, of_arithmetic)
    return Written(np.where(blank, np.nan, values), np.where(blank, 0, unit), blank, whole, of_arithmetic)


@lru_cache(maxsize=4096)
def _half(text: str) -> float:
    """How far the value of some arithmetic may be off, whose decimals are each known to their places: 1/1.73."""
    if _spelled(text)[0] is not None or not any(mark in text for mark in ".,"):
        return 0.0
    try:
        tree = parse_expression(decimal_spelling(text))
    except ValueError:
        return 0.0
    ends = [_value_of(tree, signs) for signs in product((-1, 1), repeat=min(_OPERANDS, text.count(".")))]
    return (max(ends) - min(ends)) / 2


_OPERANDS = 6  # with decimals in one piece of arithmetic


def _value_of(tree: Tree, signs: tuple[int, ...]) -> float:
    """The value, each number with a point moved by half a unit as its sign says."""
    left = iter(signs)

    def number(text: str) -> float:
        if "." not in text:
            return float(text)
        return float(text) + next(left, 0) * 0.5 * 10.0 ** -(_spelled(text)[0] or 0)

    plain: dict[str, Callable[..., float]] = {
        "number": number, "neg": operator.neg, "sqrt": math.sqrt, "exp": math.exp, "+": operator.add,
        "-": operator.sub, "*": operator.mul, "/": operator.truediv, "^": operator.pow,
    }  # fmt: skip
    try:
        return float(evaluate(tree, plain))
    except (ArithmeticError, ValueError):
        return math.nan


def spelled(hand: float, unit: float) -> str:
    """A number of the hand's with the places that it wrote; what is exact (unit 0) in its shortest form."""
    return fixed(hand, places_of(unit)) if unit > 0 else repr(hand).removesuffix(".0")


def fixed(x: float, places: int) -> str:
    """A number with so many decimals, as far as a double has digits for them: of the shortest text that reads back."""
    return f"{Decimal(repr(x)):.{held(x, places)}f}" if math.isfinite(x) else repr(x)


def held(x: float, places: int) -> int:
    """So many decimals of x, but no more than make 17 significant digits: beyond those a double says nothing."""
    return max(0, min(places, 16 - math.floor(math.log10(abs(x))))) if x and math.isfinite(x) else places


def places_of(unit: float) -> int:
    """How many decimals a unit stands for: 0.01 is 2; 0 for tens, and for what is exact."""
    return max(0, round(-math.log10(unit))) if unit > 0 else 0


@lru_cache(maxsize=4096)
def _spelled(text: str) -> tuple[int | None, bool]:
    """The decimals after the point, and whether the number is written plainly, without a point (or an exponent).

    "0.50" has 2 decimals, "6.0e-06" 7, "12" 0; None stands for what is exact.
    """
    plain = decimal_spelling(text)
    if tenths := _TENTHS.fullmatch(plain):
        return len(tenths[1]), False  # 27/100 is 0.27
    match = _DECIMAL.fullmatch(plain)
    if match is None or not any(c.isdigit() for c in text):
        return None, False
    return len(match[1] or "") - int(match[2] or 0), match[1] is None and match[2] is None


def _places(texts: list[str | None]) -> list[int | None]:
    """The decimals of each; a number without a point among others that have one is written in full."""
    spelled = [(None, False) if text is None else _spelled(text) for text in texts]
    pointed = [places for places, plain in spelled if places is not None and not plain]
    if not pointed or len(pointed) == len(spelled):
        return [places for places, _ in spelled]
    usual = max(set(pointed), key=lambda places: (pointed.count(places), places))
    return [max(usual, 0) if plain else places for places, plain in spelled]


def _significant_units(values: Array, places: list[int | None], significant: int) -> Array:
    """The unit of each number's last significant digit; a zero has the finest unit of the others."""
    power = np.floor(np.log10(np.abs(values)) + 1e-12) - significant + 1
    written = np.array([np.nan if p is None else float(-p) for p in places]).reshape(values.shape)
    power = np.where(written < 0, np.fmin(power, written), power)
    known = np.isfinite(power)
    finest = power[known].min() if known.any() else 1.0 - significant
    return np.where(np.isnan(written), 0.0, 10.0 ** np.where(known, power, finest))


def flat(nested: Any, depth: int) -> list[Any]:
    """The texts of lists within lists, so many deep."""
    flat = [nested] if depth == 0 else nested
    for _ in range(depth - 1):
        flat = [text for part in flat for text in part]
    return list(flat)


def _shortest(values: Array) -> list[str | None]:
    return [None if np.isnan(value) else repr(float(value)) for value in values.ravel()]
