"""Whether all numbers of an array are the right ones times one factor, which no rounding brings about."""

from __future__ import annotations

from attncli.lazy import Array, np

_FEWEST = 16
_LEFT = 0.1  # of the squared errors, beside the factor; cutting instead of rounding leaves a quarter of them


def common_factor(given: Array, exact: Array) -> float | None:
    """The factor, by least squares; None where errors are no more alike than those of rounding, or none is there."""
    known = np.isfinite(given) & np.isfinite(exact)
    right = exact[known]
    largest = np.abs(right).max(initial=0)
    if right.size < _FEWEST or largest == 0:
        return None
    right = right / largest
    off = given[known] / largest - right
    more = float(right @ off / (right @ right))
    left, before = off - more * right, float(off @ off)
    return 1 + more if 0 < before < np.inf and float(left @ left) <= _LEFT * before else None
