"""Numbers as colours: how far each lies between the lowest and the highest, and what a terminal shows of that."""

from __future__ import annotations

from attncli.lazy import Array, np

# Of the 256 colours of terminals, dark violet over green to yellow: each is lighter than the one before, so that who
# tells no colours apart reads it too; and each brings its own ink, on light and dark terminals alike.
RAMP = (53, 54, 60, 30, 36, 77, 148, 226)
_WHITE_INK = 3  # so many of them are dark
_WHITE, _BLACK = 231, 16
SHADES, ASCII_SHADES = " ░▒▓█", " .:*#"


def shares(array: Array, hidden: Array) -> Array:
    """Each number of a matrix between the lowest and the highest, 0 to 1; NaN where it is hidden or not finite.

    Where none is negative the lowest is 0, so that equal weights look like weights and not like nothing.
    """
    seen = np.isfinite(array) & ~hidden
    if not seen.any():
        return np.full(array.shape, np.nan)
    numbers = np.where(seen, array, np.nan).astype(np.float64)
    lowest, highest = min(float(np.nanmin(numbers)), 0.0), float(np.nanmax(numbers))
    if lowest == highest:
        return np.where(seen, 0.0, np.nan)
    half = numbers / 2  # of which no difference overflows
    return np.asarray((half - lowest / 2) / (highest / 2 - lowest / 2))


def style(share: float) -> str:
    """The colours of a cell, in Rich's words."""
    at = min(int(share * len(RAMP)), len(RAMP) - 1)
    return f"color({_WHITE if at < _WHITE_INK else _BLACK}) on color({RAMP[at]})"


def shade(share: float, blocks: str = SHADES) -> str:
    """The same without colours: a blank for next to nothing, up to a full block."""
    return blocks[min(int(share * len(blocks)), len(blocks) - 1)]
