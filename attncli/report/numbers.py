"""Numbers as tables show them: the shortest decimal that reads back, rounded to so many places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attncli.lazy import Array, np

if TYPE_CHECKING:
    from decimal import Context

# From here on a number is written with an exponent, so that its column stays narrow.
_LARGE = 1e16


def spell(array: Array, precision: int = 4, rounding: str = "half-even") -> list[list[str]]:
    """The cells (rows x columns) of a matrix with `precision` decimals, never `-0.00`; `inf`, `-inf` and `nan` as such.

    rounding: "half-even" or "half-up" (away from zero), of the shortest decimal that reads back: 2.675 gives 2.68 in
    both, 0.125 gives 0.12 or 0.13. Numbers of 1e16 and more have an exponent: 1.2346e+300.
    """
    array = np.asarray(array)
    if array.dtype.kind != "f":
        array = array.astype(np.float64)
    pattern = f"z.{precision}f"
    cells = [[format(x, pattern) for x in row] for row in array.tolist()]
    context = None
    for row, column in np.argwhere(_doubtful(array, precision)).tolist():
        context = context or _context(rounding)
        cells[row][column] = _exactly(array[row, column], precision, context)
    return cells


def spell_one(number: Any, precision: int = 4, rounding: str = "half-even") -> str:
    """One number, as `spell` writes it."""
    return spell(np.asarray(number).reshape(1, 1), precision, rounding)[0][0]


def percent(part: int, whole: int) -> str:
    """`12.3 %`: three digits, and as many more as it takes not to say 100 % of what is not all."""
    digits = 3
    while part < whole and digits < 17 and float(f"{100 * part / whole:.{digits}g}") >= 100:
        digits += 1
    return f"{100 * part / whole:.{digits}g} %"


def _doubtful(array: Array, precision: int) -> Array:
    """Where Python's format may differ: it rounds the binary number, which lies within half an ulp of its decimal.

    Unless a tie lies about as near, both fall on the same side of it.
    """
    step = float(np.finfo(array.dtype).eps)
    with np.errstate(all="ignore"):
        units = np.abs(array.astype(np.float64)) * np.power(10.0, precision)
        near_tie = ~(np.abs(units - np.floor(units) - 0.5) > 4 * step * units)  # true of all large ones
        return np.asarray(np.isfinite(array) & (near_tie | (np.abs(array) >= _LARGE)))


def _context(rounding: str) -> Context:
    import decimal

    modes = {"half-even": decimal.ROUND_HALF_EVEN, "half-up": decimal.ROUND_HALF_UP}
    return decimal.Context(prec=400, rounding=modes[rounding])


def _exactly(number: Any, precision: int, context: Context) -> str:
    # str of a NumPy scalar is the shortest decimal of its own width: 0.1 for a float32 too.
    exact = context.create_decimal(str(number))
    unit = context.create_decimal(1).scaleb(-precision)
    if abs(number) < _LARGE:
        rounded = context.quantize(exact, unit)
        return f"{abs(rounded) if rounded.is_zero() else rounded:f}"
    digits = exact.adjusted()
    mantissa = context.quantize(exact.scaleb(-digits, context), unit)
    if abs(mantissa) >= 10:  # 9.99996e16 with 4 decimals
        mantissa, digits = context.quantize(mantissa.scaleb(-1, context), unit), digits + 1
    return f"{mantissa:f}e+{digits}"
