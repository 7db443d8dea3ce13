"""How exactly a machine computed: the unit round-off of the numbers that it was given and that it gave back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from attncli.lazy import Array, np
from attncli.problem.matrix import Matrix
from attncli.problem.problem import Problem
from attncli.problem.values import Hand

# Half the distance from 1 to the next number; and the smallest step of each type, below which numbers vanish.
UNITS = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
_TINY = {"float64": 2.0**-1022, "float32": 2.0**-126, "float16": 2.0**-24, "bfloat16": 2.0**-126}

_TELLING = 8  # numbers, of which fewer tell no type


@dataclass(frozen=True)
class Precision:
    """name: the coarsest type of a calculation. u: its unit round-off. v: of what sums are held in.

    rounded: some inputs are finer than the array, so that the machine may have rounded them first.
    """

    name: str
    u: float
    v: float
    tiny: float
    rounded: bool = False

    @property
    def sums(self) -> str:
        """The type that sums are held in."""
        return "float64" if self.name == "float64" else "float32"

    @classmethod
    def named(cls, name: str, *, rounded: bool = False) -> Precision:
        """That of a type: sums are held in float32 at least."""
        return cls(name, UNITS[name], UNITS["float64" if name == "float64" else "float32"], _TINY[name], rounded)


def is_array(hand: Hand) -> bool:
    """Whether numbers come from a machine: floating point that nobody spelled, or said to be written to places."""
    if hand.matrix.spelling is not None or hand.decimals is not None or hand.significant is not None:
        return False
    return hand.matrix.array.dtype.kind in "fV"


def type_name(matrix: Matrix) -> str:
    """The floating type of a matrix as it was handed over; whole numbers and text count as float64."""
    name = matrix.stored or matrix.array.dtype.name
    if name in UNITS:
        return name
    return "float16" if matrix.array.dtype.kind == "V" else "float64"


def precision_of(problem: Problem, dtypes: Iterable[str]) -> Precision:
    """That of the coarsest of arrays of these types and the inputs, for which a `dtype` that was asked for stands."""
    inputs = [type_name(matrix) for matrix in problem.inputs.values() if isinstance(matrix, Matrix)]
    coarsest = max([*dtypes, *([problem.dtype] if problem.dtype else inputs)], key=UNITS.__getitem__)
    return Precision.named(coarsest, rounded=any(UNITS[name] < UNITS[coarsest] for name in inputs))


def half_type(x: Array) -> str | None:
    """The half precision that numbers saved in a wider type were computed in; None where their last bits tell none.

    Short numbers such as 0.5 fit every type and tell nothing: the last bit of a half type is set in many of its own.
    """
    numbers = x[np.isfinite(x) & (x != 0)]
    for name, bits, narrowed in (("bfloat16", 8, to_bfloat16), ("float16", 11, to_float16)):
        if numbers.size >= _TELLING and np.array_equal(narrowed(numbers), numbers):
            last = np.frexp(numbers)[0] * 2.0**bits % 2 == 1
            return name if 4 * last.sum() >= numbers.size else None
    return None


def to_float16(x: Array) -> Array:
    """The nearest float16, in double precision."""
    return x.astype(np.float16).astype(np.float64)


def to_bfloat16(x: Array) -> Array:
    """The nearest bfloat16 (half to even), in double precision."""
    bits = x.astype(np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return rounded.view(np.float32).astype(np.float64)
