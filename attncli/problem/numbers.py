"""Numbers as people write them: decimals, infinities, and short arithmetic such as 1/3 or sqrt(2)/2."""

from __future__ import annotations

import math
import re

from attncli.errors import InputError, Place
from attncli.lazy import pattern
from attncli.problem.arithmetic import NotArithmetic, ascii_signs, parse_expression, value_of

_WORD = pattern("(?!sqrt|inf|nan|exp|e ?[*^/])[a-z]", re.IGNORECASE | re.ASCII)  # no number begins so
_DECIMAL = pattern(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NAMED = pattern(r"([+-]?)(?:(\.?inf|infinity|∞|(?<=[+-])oo)|\.?nan)", re.IGNORECASE)
_PLACES = pattern(r"[+-]?[0-9]*(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+))?")
_POWER_OF_TEN = pattern(r"([+-]?[0-9.]+)[ ]*\*[ ]*10[ ]*(?:\^|\*\*)[ ]*\(?[ ]*([+-]?[0-9]+)[ ]*\)?")
_QUOTIENT = pattern(r"([+-]?[0-9]{1,15})/([0-9]{1,15})")
# Digits with marks between them, hex, Fortran and complex numbers: no numbers here, but no words either.
_SPOILED = pattern(
    r"[+-]?(?:0[xob][0-9a-f]+|(?=[^0-9]*[0-9])[0-9.,:_'\s]+(?:[ed][+-]?[0-9]+)?[%ij]?|[0-9.e]+[+-][0-9.e]*[ij])",
    re.IGNORECASE,
)
_THOUSANDS = pattern(r"[+-]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]*)?")
_SHOWN = 40  # characters of a number that messages quote
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
    try:
        return _value(plain)
    except NotArithmetic as error:
        raise _no_number(text, plain, str(error) or None, decimal, place) from None
    except OverflowError:
        raise _too_large(text, place) from None
    except ArithmeticError as error:
        raise InputError(f"{quote(text)} has no value: {error}", place=place) from None


def begins_a_word(text: str) -> bool:
    """Whether the text is no number for certain, as its first letters tell."""
    return _WORD.match(text) is not None


def is_number(text: str, *, decimal: str | None = None) -> bool:
    """Whether parse_number takes it."""
    if _WORD.match(text):
        return False
    try:
        _value(_plain(text, decimal, None))
    except (InputError, NotArithmetic, ArithmeticError):
        return False
    return True


def _value(plain: str) -> float:
    """The double. Raises NotArithmetic, OverflowError for what is too large, ArithmeticError where there is none."""
    if _DECIMAL.fullmatch(plain):
        value = float(plain)
        if math.isinf(value):
            raise OverflowError
        return value
    if named := _NAMED.fullmatch(plain):
        return float(f"{named[1]}inf") if named[2] else math.nan
    if (quotient := _QUOTIENT.fullmatch(plain)) and int(quotient[2]):
        return int(quotient[1]) / int(quotient[2])  # rounded once, as the long way would
    return value_of(parse_expression(plain))


def looks_like_number(text: str, *, decimal: str | None = None) -> bool:
    """Whether it is a number, or was meant as one (0x10, 1_000, 1,5, 1e400, 1/0): never taken for a label."""
    import unicodedata

    if _WORD.match(text):
        return False
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
    """How many decimals a number is written with: "0.50" 2, "6.0e-06" 7, "12" 0, "1.2e3" -2, "27 %" 2.

    None for what is exact or has no last place: arithmetic, inf, nan.
    """
    match = _PLACES.fullmatch(decimal_spelling(text))
    return len(match[1] or "") - int(match[2] or 0) if match else None


def decimal_spelling(text: str) -> str:
    """The plain decimal that is written as "≈0.71", "27 %" or "2.0×10^3", with its places (27e-2); else the text."""
    plain = text.strip().replace("\u2212", "-")
    if _DECIMAL.fullmatch(plain):
        return plain
    plain = ascii_signs(plain).strip()
    if plain.endswith("%") and _PLACES.fullmatch(plain[:-1].rstrip()):
        return f"{plain[:-1].rstrip()}e-2"
    if power := _POWER_OF_TEN.fullmatch(plain):
        return f"{power[1]}e{power[2]}"
    return plain


def shortest(value: float) -> str:
    """The shortest text that reads back to the same double."""
    return repr(float(value))


def quote(text: str) -> str:
    """The text in double quotes for a message: short, with control characters escaped."""
    cut = text if len(text) <= 40 else text[:39] + "…"
    return '"' + "".join(c if c.isprintable() or c == "\u00a0" else repr(c)[1:-1] for c in cut) + '"'


def _plain(text: str, decimal: str | None, place: Place | str | None) -> str:
    """Without surrounding blanks and "about", with an ASCII minus and a decimal point."""
    plain = text.strip().replace("\u2212", "-").lstrip("≈~").lstrip()
    if decimal in (None, ".") or ("," not in plain and "." not in plain):
        return plain
    if "." in plain and not _NAMED.fullmatch(plain):
        raise InputError(f"{quote(text)} has a point, but the decimal mark is {quote(decimal)}", place=place)
    return plain.replace(decimal, ".") if plain.count(decimal) == 1 or "/" in plain else plain


def _too_large(text: str, place: Place | str | None) -> InputError:
    return InputError(f"{quote(text)} is too large for a double", place=place, hint="write inf if infinity is meant")


def _no_number(text: str, plain: str, hint: str | None, decimal: str | None, place: Place | str | None) -> InputError:
    """Why it is none, as exactly as can be told; what the hint proposes is a number."""
    import unicodedata

    if not plain:
        return InputError("a number is missing here", place=place)
    what = f"{quote(text)} is not a number"
    if plain in ("·", "."):
        return InputError(what, place=place, hint=_HIDDEN)
    odd = next((c for c in plain if not " " <= c <= "~" and c not in _SIGNS), None)
    if odd is not None and not odd.isalpha():
        what += f": it holds U+{ord(odd):04X} {unicodedata.name(odd, 'control character')}"
        hint = "write plain ASCII digits and signs, without blanks between them"
    elif len(plain) > _SHOWN:
        hint = None
    elif "," in plain:
        hint = _comma_hint(plain, decimal)
    else:
        hint = _several(plain) or hint or _spelled_oddly(plain)
    return InputError(what, place=place, hint=hint)


_SIGNS = "\u2212∞√×·⋅÷≈⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹"


def _several(plain: str) -> str | None:
    """Blanks between what are numbers each by itself: a comma is missing, or it is one number with its thousands."""
    parts = plain.split()
    if len(parts) < 2 or not all(
        _DECIMAL.fullmatch(_plain(part, None, None)) or _QUOTIENT.fullmatch(part) for part in parts
    ):
        return None
    if re.fullmatch(r"[+-]?[0-9]{1,3}(?:\s+[0-9]{3})+", plain):
        return f"a blank stands between its digits: write {''.join(parts)}, or {', '.join(parts)} if they are several"
    return f"a comma is missing: {', '.join(parts)}"


def _spelled_oddly(plain: str) -> str:
    """How to write a number that is written as other programs write it."""
    if match := re.fullmatch(r"([+-]?)(0x[0-9a-f]+|0o[0-7]+|0b[01]+)", plain, re.IGNORECASE):
        return f"hexadecimal, octal and binary numbers are not read: write {match[1]}{int(match[2], 0)}"
    if "_" in plain and is_number(plain.replace("_", "")):
        return f"write {plain.replace('_', '')} without underscores"
    if ":" in plain and is_number(plain.replace(":", ".")):
        return f"a colon stands where a point or a comma was meant? write {plain.replace(':', '.')}"
    if re.fullmatch(r"[-+0-9.e]*[0-9][ij]", plain, re.IGNORECASE):
        return "complex numbers are not read"
    if is_number(fortran := re.sub(r"(?<=[0-9.])[dD](?=[+-]?[0-9])", "e", plain)):
        return f"write {fortran}"
    return "write it as in 0.5, -2, 1e-3, 1/3 or sqrt(2)/2"


def _comma_hint(plain: str, decimal: str | None) -> str:
    """A comma is a decimal mark, or stands between thousands; --decimal helps only where it was not given yet."""
    if decimal == ",":
        return "the comma is the decimal mark here: a number has one of them"
    pointed = plain.replace(",", ".")
    if not is_number(pointed):
        pointed = ""
    mended = "use --decimal ," if decimal is not None and is_number(plain, decimal=",") else f"write {pointed}"
    parts = [part.strip() for part in plain.split(",")]
    if not _THOUSANDS.fullmatch(plain):
        if pointed:
            return f"a decimal comma? {mended}"
        if all(map(is_number, parts)):
            return f"these are {len(parts)} numbers: they stand in cells of their own"
        return "write it as in 0.5, -2, 1e-3, 1/3 or sqrt(2)/2"
    whole = f"write {plain.replace(',', '')} without separators"
    return f"{whole}, or {mended} if the comma is the decimal mark" if pointed else whole
