"""Two arrays without a problem: how far they are apart, number by number, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from attncli.errors import UsageError
from attncli.lazy import Array, np
from attncli.problem.matrix import Matrix
from attncli.verify.precision import UNITS, to_bfloat16

_BLOCK = 2**18  # numbers at once
_WORST = 10
_LAST = 16  # ulps beyond 2 to this power are one class


@dataclass(frozen=True)
class Allowed:
    """What a number may be off: |a - b| <= atol + rtol |b|, or at most so many ulp. Nothing given: nothing.

    Raises UsageError for what is negative or no number.
    """

    atol: float | None = None
    rtol: float | None = None
    ulp: float | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and not value >= 0:
                raise UsageError(f"a tolerance is 0 or more, not {value:g}", place=f"--{name}")

    @property
    def anything(self) -> bool:
        """Whether any tolerance was given."""
        return any(value is not None for value in vars(self).values())

    def __str__(self) -> str:
        return ", ".join(f"{name} {value:g}" for name, value in vars(self).items() if value is not None)


@dataclass(frozen=True)
class Cell:
    """A pair of numbers. at: counted from 1. relative: |a - b| / |b|, None where b is 0."""

    at: tuple[int, ...]
    name: str
    a: float
    b: float
    absolute: float
    relative: float | None
    ulp: float


@dataclass
class Difference:
    """What `diff` found. shapes, dtypes: of A and B. classes: (from, to) in ulp and how many; to None: and more.

    equal: how many pairs are equal (NaN and NaN, equal infinities too). outside: how many are off by more than allowed.
    spoiled: how many are NaN or infinite in one of the two, or infinite with unlike signs.
    comparable: whether the shapes let them be compared at all.
    """

    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    dtypes: tuple[str, str]
    allowed: Allowed
    unit: str = "float64"
    comparable: bool = True
    count: int = 0
    equal: int = 0
    outside: int = 0
    spoiled: int = 0
    nan: tuple[int, int] = (0, 0)
    absolute: Cell | None = None
    relative: Cell | None = None
    classes: list[tuple[int, int | None, int]] = field(default_factory=list)
    worst: list[Cell] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def within(self) -> bool:
        """Whether A and B are as equal as they have to be."""
        return self.comparable and self.outside == 0


def compare(a: Matrix, b: Matrix, allowed: Allowed | None = None) -> Difference:
    """How B differs from A, of arrays of any size: nothing of their size is made but blocks.

    Shapes that differ by more than leading axes of 1 are told, and nothing is compared.
    """
    names = type_name_of(a), type_name_of(b)
    found = Difference((a.array.shape, b.array.shape), names, allowed or Allowed())
    found.unit = max((name for name in names if name in UNITS), key=UNITS.__getitem__, default="float64")
    first, second = (_stripped(matrix.array) for matrix in (a, b))
    if first.shape != second.shape:
        found.comparable = False
        found.notes += _shapes(first, second)
        return found
    shape = max(a.array.shape, b.array.shape, key=len)
    labels = _labels(a, b, shape, found.notes)
    if a.array.ndim != b.array.ndim:
        found.notes.append("leading axes of 1 are left out of account")
    _Totals(found, shape, labels).go_through(first, second)
    return found


def type_name_of(matrix: Matrix) -> str:
    """The type as it was stored."""
    return matrix.stored or matrix.array.dtype.name


def _stripped(array: Array) -> Array:
    """Without leading axes of 1, as far as two are left."""
    shape = array.shape
    while shape and shape[0] == 1:
        shape = shape[1:]
    return array.reshape(shape)


def _shapes(a: Array, b: Array) -> list[str]:
    """What is to be said of shapes that differ."""
    if a.ndim >= 2 and b.ndim >= 2 and a.shape == b.mT.shape:
        same = np.array_equal(a, b.mT, equal_nan=True)
        return ["B is A transposed: the numbers are the same" if same else "the shape of B is that of A transposed"]
    if a.size == b.size:
        return ["they hold equally many numbers in unlike shapes"]
    return []


def _labels(a: Matrix, b: Matrix, shape: tuple[int, ...], notes: list[str]) -> list[list[str] | None]:
    """The labels of rows and columns, A's where both have some."""
    found: list[list[str] | None] = []
    for what, one, other in (
        ("rows", a.row_labels, b.row_labels),
        ("columns", a.column_labels, b.column_labels),
    ):
        axis = -2 if what == "rows" else -1
        if one and other and one != other:
            notes.append(f"the labels of the {what} differ; those of A are told")
        labels = one or other
        found.append(labels if labels and len(shape) >= -axis and len(labels) == shape[axis] else None)
    return found


class _Totals:
    """What is known after some blocks."""

    def __init__(self, found: Difference, shape: tuple[int, ...], labels: list[list[str] | None]) -> None:
        self.found, self.shape, self.labels = found, shape, labels
        self.classes = np.zeros(_LAST + 3, dtype=np.int64)
        self.best = np.empty(0, dtype=[(name, "f8") for name in ("rank", "at", "a", "b", "ulp")])
        self.largest: dict[str, tuple[float, Cell]] = {}

    def go_through(self, a: Array, b: Array) -> None:
        """All blocks, then the result."""
        only_a = only_b = 0
        for start, x, y in _blocks(a, b):
            same = (x == y) | ((x != x) & (y != y))
            first, second = x.astype(np.float64), y.astype(np.float64)
            nan_a, nan_b = np.isnan(first), np.isnan(second)
            only_a, only_b = only_a + int((nan_a & ~nan_b).sum()), only_b + int((nan_b & ~nan_a).sum())
            self._block(start, first, second, same)
        found = self.found
        found.nan = only_a, only_b
        found.worst = [self._cell(*(float(best[name]) for name in ("at", "a", "b", "ulp"))) for best in self.best]
        found.absolute, found.relative = (
            self.largest[name][1] if name in self.largest else None for name in ("absolute", "relative")
        )
        found.classes = self._classes()

    def _block(self, start: int, a: Array, b: Array, same: Array) -> None:
        found = self.found
        found.count += a.size
        found.equal += int(same.sum())
        with np.errstate(all="ignore"):
            absolute = np.where(same, 0, np.abs(a - b))
            spoiled = ~same & ~(np.isfinite(a) & np.isfinite(b))
            relative = np.where(b == 0, np.nan, absolute / np.abs(b))
        ulps = np.where(same, 0, ulps_apart(a, b, found.unit))
        found.spoiled += int(spoiled.sum())
        found.outside += int((~self._is_allowed(absolute, b, ulps, same) | spoiled).sum())
        self._count(ulps[~spoiled])
        self._keep(start, a, b, ulps, np.where(spoiled, np.inf, absolute))
        for name, error in (("absolute", absolute), ("relative", relative)):
            finite = np.where(np.isfinite(error), error, 0)
            at = int(finite.argmax())
            if finite[at] > (self.largest[name][0] if name in self.largest else 0):
                cell = self._cell(start + at, float(a[at]), float(b[at]), float(ulps[at]))
                self.largest[name] = float(finite[at]), cell

    def _is_allowed(self, absolute: Array, b: Array, ulps: Array, same: Array) -> Array:
        allowed, found = self.found.allowed, same
        if allowed.atol is not None or allowed.rtol is not None:
            with np.errstate(all="ignore"):
                found = found | (absolute <= (allowed.atol or 0) + (allowed.rtol or 0) * np.abs(b))
        return found if allowed.ulp is None else found | (ulps <= allowed.ulp)

    def _count(self, ulps: Array) -> None:
        """0, 1, 2, 3 to 4, 5 to 8 ..."""
        with np.errstate(divide="ignore"):
            power = np.ceil(np.log2(np.maximum(ulps, 1)))
        classes = np.where(ulps == 0, 0, np.minimum(power, _LAST + 1) + 1).astype(np.int64)
        self.classes += np.bincount(classes, minlength=len(self.classes))

    def _classes(self) -> list[tuple[int, int | None, int]]:
        counts = self.classes.tolist()
        ends: list[tuple[int, int | None]] = [(0, 0), (1, 1)]
        ends += [(2 ** (power - 1) + 1, 2**power) for power in range(1, _LAST + 1)]
        ends.append((2**_LAST + 1, None))
        last = max((place for place, count in enumerate(counts) if count), default=0)
        return [(*end, count) for end, count in zip(ends[: last + 1], counts, strict=False)]

    def _keep(self, start: int, a: Array, b: Array, ulps: Array, rank: Array) -> None:
        """The largest of what was kept before and of this block."""
        count = min(_WORST, rank.size)
        at = np.argpartition(rank, -count)[-count:]
        at = at[rank[at] > 0]
        more = np.empty(len(at), dtype=self.best.dtype)
        more["rank"], more["at"], more["a"], more["b"], more["ulp"] = rank[at], start + at, a[at], b[at], ulps[at]
        both = np.concatenate([self.best, more])
        order = np.lexsort([both["at"], -both["rank"]])
        self.best = both[order[:_WORST]]

    def _cell(self, at: float, a: float, b: float, ulp: float) -> Cell:
        index = tuple(int(i) for i in np.unravel_index(int(at), self.shape)) if self.shape else ()
        absolute = abs(a - b)
        relative = absolute / abs(b) if b and np.isfinite(absolute) else None
        return Cell(tuple(i + 1 for i in index), self._name(index), a, b, absolute, relative, ulp)

    def _name(self, index: tuple[int, ...]) -> str:
        """`cat, sat`, or `3, 5`; in front of it the other axes: `[2,1] cat, sat`."""
        names = [str(i + 1) if labels is None else labels[i]
                 for i, labels in zip(index[-2:], self.labels[-len(index[-2:]) :], strict=True)]  # fmt: skip
        leading = ",".join(str(i + 1) for i in index[:-2])
        return (f"[{leading}] " if leading else "") + ", ".join(names)


def _blocks(a: Array, b: Array) -> Iterator[tuple[int, Array, Array]]:
    """Pieces of both in reading order, as vectors, with the place where they begin."""
    flat = [array.reshape(-1) if array.flags.c_contiguous else array.flat for array in (a, b)]
    for start in range(0, a.size, _BLOCK):
        x, y = (_numbers(np.asarray(part[start : start + _BLOCK])) for part in flat)
        yield start, x, y


def _numbers(x: Array) -> Array:
    """The numbers in a type that NumPy computes with."""
    return x.astype(np.float32) if x.dtype.kind == "V" else x


def ulps_apart(a: Array, b: Array, name: str) -> Array:
    """How many numbers of a type lie from a to b, both rounded to it; inf where one is no number.

    a, b: double precision, of one shape. name: float64, float32, float16 or bfloat16.
    """
    with np.errstate(all="ignore"):
        x, y = _place(a, name), _place(b, name)
        # Of unlike signs the difference may be beyond int64.
        sum_of_both = np.abs(x.astype(np.float64)) + np.abs(y.astype(np.float64))
        found = np.where((x < 0) == (y < 0), np.abs(x - y).astype(np.float64), sum_of_both)
    return np.where(np.isnan(a) | np.isnan(b), np.inf, found)


def _place(x: Array, name: str) -> Array:
    """The place of each number in the order of all numbers of the type, 0 for zero of either sign."""
    kinds = {"float64": np.int64, "float32": np.int32, "float16": np.int16, "bfloat16": np.int32}
    rounded = to_bfloat16(x).astype(np.float32) if name == "bfloat16" else x.astype(name)
    bits = np.ascontiguousarray(rounded).view(kinds[name]).astype(np.int64)
    if name == "bfloat16":
        bits >>= 16
    lowest = -(2 ** (15 if name in ("float16", "bfloat16") else 31 if name == "float32" else 63))
    return np.where(bits < 0, lowest - bits, bits)
