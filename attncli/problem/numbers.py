"""Numbers as people write them: decimals, infinities, and short arithmetic such as 1/3 or sqrt(2)/2."""

from __future__ import annotations

import math
import re

from attncli.errors import InputError, Place
from attncli.lazy import pattern
from attncli.problem.arithmetic import NotArithmetic, parse_expression, value_of

_DECIMAL = pattern(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NAMED = pattern(r"([+-]?)(?:(\.?inf|infinity|∞)|\.?nan)", re.IGNORECASE)
_PLACES = pattern(r"[+-]?[0-9]*(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+))?")
# Digits with marks between them, hex, percent, Fortran and complex numbers: no numbers here, but no words either.
_SPOILED = pattern(
    r"[+-]?(?:0[xob][0-9a-f]+|(?=.*[0-9])[0-9.,:_'\s]+(?:[ed][+-]?[0-9]+)?[%ij]?|[0-9.e]+[+-][0-9.e]*[ij])",
    re.IGNORECASE,
)
_THOUSANDS = pattern(r"[+-]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]*)?")
_HIDDEN = (
    "tables show a hidden cell so; in numbers to be checked it is left out: ~ in YAML, null in JSON, nothing in CSV"
)
_DASHES = dict.fromkeys(map(ord, "‐‑‒–—―﹣－"), "-")


def parse_number(text: str, *, decimal: str | None = None, place: Place | str | None = None) -> float:
    """The double nearest to what is written.

    decimal: what --decimal says, "." or ","; None where it has no say, and the mark is a point. Raises InputError, at
    `place`, for what is no number and for what no double can hold.
    """
    plain = _plain(text, decimal, place)
    if _DECIMAL.fullmatch(plain):
        value = float(plain)
        if math.isinf(value):
            raise _too_large(text, place)
        return value
    if named := _NAMED.fullmatch(plain):
        return float(f"{named[1]}inf") if named[2] else math.nan
    try:
        return value_of(parse_expression(plain))
    except NotArithmetic as error:
        raise _no_number(text, plain, str(error) or None, decimal, place) from None
    except OverflowError:
        raise _too_large(text, place) from None
    except ArithmeticError as error:
        raise InputError(f"{quote(text)} has no value: {error}", place=place) from None


def is_number(text: str, *, decimal: str | None = None) -> bool:
    """Whether parse_number takes it."""
    try:
        parse_number(text, decimal=decimal)
    except InputError:
        return False
    return True


def looks_like_number(text: str, *, decimal: str | None = None) -> bool:
    """Whether it is a number, or was meant as one (0x10, 1_000, 1,5, 1e400, 1/0): never taken for a label."""
    import unicodedata

    if is_number(text, decimal=decimal):
        return True
    plain = unicodedata.normalize("NFKC", text).translate(_DASHES).replace("\u2212", "-").strip()
    if _SPOILED.fullmatch(plain):
        return True
    try:
        parse_expression(plain)
    except NotArithmetic:
        return False
    return True


def places(text: str) -> int | None:
    """How many decimals a number is written with: "0.50" 2, "6.0e-06" 7, "12" 0, "1.2e3" -2.

    None for what is exact or has no last place: arithmetic, inf, nan.
    """
    match = _PLACES.fullmatch(_plain(text, None, None))
    return len(match[1] or "") - int(match[2] or 0) if match else None


def shortest(value: float) -> str:
    """The shortest text that reads back to the same double."""
    return repr(float(value))


def quote(text: str) -> str:
    """The text in double quotes for a message: short, with control characters escaped."""
    cut = text if len(text) <= 40 else text[:39] + "…"
    return '"' + "".join(c if c.isprintable() or c == "\u00a0" else repr(c)[1:-1] for c in cut) + '"'


def _plain(text: str, decimal: str | None, place: Place | str | None) -> str:
    """Without surrounding blanks, with an ASCII minus and a decimal point."""
    plain = text.strip().replace("\u2212", "-")
    if decimal in (None, ".") or ("," not in plain and "." not in plain):
        return plain
    if "." in plain and not _NAMED.fullmatch(plain):
        raise InputError(f"{quote(text)} has a point, but the decimal mark is {quote(decimal)}", place=place)
    return plain.replace(decimal, ".") if plain.count(decimal) == 1 or "/" in plain else plain


def _too_large(text: str, place: Place | str | None) -> InputError:
    return InputError(f"{quote(text)} is too large for a double", place=place, hint="write inf if infinity is meant")


def _no_number(
    text: str, plain: str, hint: str | None, decimal: str | None, place: Place | str | None
) -> InputError:
    """Why it is none, as exactly as can be told."""
    import unicodedata

    if not plain:
        return InputError("a number is missing here", place=place)
    what = f"{quote(text)} is not a number"
    if plain in ("·", "."):
        return InputError(what, place=place, hint=_HIDDEN)
    odd = next((c for c in plain if not " " <= c <= "~" and c not in "\u2212∞√"), None)
    if odd is not None and not odd.isalpha():
        what += f": it holds U+{ord(odd):04X} {unicodedata.name(odd, 'control character')}"
        hint = "write plain ASCII digits and signs, without blanks between them"
    elif hint is not None:
        pass
    elif "," in plain:
        hint = _comma_hint(plain, decimal)
    elif re.match(r"[+-]?0[xob]", plain, re.IGNORECASE):
        hint = "hexadecimal, octal and binary numbers are not read: write decimals"
    elif "_" in plain and re.search(r"[0-9]", plain):
        hint = f"write {plain.replace('_', '')} without underscores"
    elif re.fullmatch(r"[+-]?[0-9.]+%", plain):
        hint = f"write {plain[:-1]}/100"
    elif re.fullmatch(r"[+-]?[0-9]+(?:\s+[0-9]+)+", plain):
        hint = "a blank stands between its digits"
    elif ":" in plain:
        hint = "a colon stands where a point or a comma was meant?"
    elif re.fullmatch(r"[-+0-9.e]*[0-9][ij]", plain, re.IGNORECASE):
        hint = "complex numbers are not read"
    else:
        hint = "write it as in 0.5, -2, 1e-3, 1/3 or sqrt(2)/2"
    return InputError(what, place=place, hint=hint)


def _comma_hint(plain: str, decimal: str | None) -> str:
    """A comma is a decimal mark, or stands between thousands; --decimal helps only where it was not given yet."""
    if decimal == ",":
        return "the comma is the decimal mark here: a number has one of them"
    pointed = plain.replace(",", ".")
    if not is_number(pointed):
        pointed = ""
    mended = "use --decimal ," if decimal is not None else f"write {pointed or 'a point'}"
    if not _THOUSANDS.fullmatch(plain):
        return f"a decimal comma? {mended}"
    whole = f"write {plain.replace(',', '')} without separators"
    return f"{whole}, or {mended} if the comma is the decimal mark" if pointed else whole
