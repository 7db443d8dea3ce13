"""Numbers as people write them: decimals, infinities, and short arithmetic such as 1/3 or sqrt(2)/2."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from attncli.errors import InputError, Place

if TYPE_CHECKING:
    from fractions import Fraction

_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NAMED = re.compile(r"([+-]?)(?:(\.?inf|infinity|∞)|\.?nan)", re.IGNORECASE)
_TOKEN = re.compile(r"\s*(?:((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)|([A-Za-z]+)|(\*\*|[-+*/^()]))")
_PLACES = re.compile(r"[+-]?[0-9]*(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+))?")
# Digits with marks between them, hex, percent, Fortran and complex numbers: no numbers here, but no words either.
_SPOILED = re.compile(
    r"[+-]?(?:0[xob][0-9a-f]+|(?=.*[0-9])[0-9.,:_'\s]+(?:[ed][+-]?[0-9]+)?[%ij]?|[0-9.e]+[+-][0-9.e]*[ij])",
    re.IGNORECASE,
)
_THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]*)?")
_DASHES = dict.fromkeys(map(ord, "‐‑‒–—―﹣－"), "-")

_LONGEST = 300  # characters of arithmetic; decimals may be longer
_BITS = 4000  # of an exact power; a double ends at 1024


def parse_number(text: str, *, decimal: str = ".", place: Place | str | None = None) -> float:
    """The double nearest to what is written.

    decimal: the decimal mark, "." or ",". Raises InputError, at `place`, for what is no number and for what no
    double can hold.
    """
    plain = _plain(text, decimal, place)
    if _DECIMAL.fullmatch(plain):
        value = float(plain)
        if math.isinf(value):
            raise _too_large(text, place)
        return value
    if named := _NAMED.fullmatch(plain):
        return float(f"{named[1]}inf") if named[2] else math.nan
    tree = _parse(plain, text, place)
    try:
        return float(evaluate(tree, _EXACT))
    except OverflowError:
        raise _too_large(text, place) from None
    except ArithmeticError as error:
        raise InputError(f"{quote(text)} has no value: {error}", place=place) from None


def is_number(text: str, *, decimal: str = ".") -> bool:
    """Whether parse_number takes it."""
    try:
        parse_number(text, decimal=decimal)
    except InputError:
        return False
    return True


def looks_like_number(text: str, *, decimal: str = ".") -> bool:
    """Whether it is a number, or was meant as one (0x10, 1_000, 1,5, 1e400, 1/0): never taken for a label."""
    import unicodedata

    if is_number(text, decimal=decimal):
        return True
    plain = unicodedata.normalize("NFKC", text).translate(_DASHES).replace("\u2212", "-").strip()
    if _SPOILED.fullmatch(plain):
        return True
    try:
        parse_expression(plain)
    except InputError:
        return False
    return True


def places(text: str) -> int | None:
    """How many decimals a number is written with: "0.50" 2, "6.0e-06" 7, "12" 0, "1.2e3" -2.

    None for what is exact or has no last place: arithmetic, inf, nan.
    """
    match = _PLACES.fullmatch(_plain(text, ".", None))
    return len(match[1] or "") - int(match[2] or 0) if match else None


def shortest(value: float) -> str:
    """The shortest text that reads back to the same double."""
    return repr(float(value))


def parse_expression(text: str) -> tuple[Any, ...]:
    """Arithmetic as nested tuples: "-1/3" is ("/", ("neg", ("number", "1")), ("number", "3")).

    Known are + - * / ^ (also **), parentheses and sqrt. Sums stand in parentheses, and so does a division of a
    division: 1-3 may be a range and 1/2/24 a date. Raises InputError.
    """
    return _parse(_plain(text, ".", None), text, None)


def evaluate(tree: tuple[Any, ...], operations: Mapping[str, Callable[..., Any]]) -> Any:
    """The value of a tree, with functions for "number" (of the text), "neg", "sqrt", "+", "-", "*", "/" and "^"."""
    name, *parts = tree
    if name == "number":
        return operations[name](*parts)
    return operations[name](*(evaluate(part, operations) for part in parts))


def quote(text: str) -> str:
    """The text in double quotes for a message: short, with control characters escaped."""
    cut = text if len(text) <= 40 else text[:39] + "…"
    return '"' + "".join(c if c.isprintable() or c == "\u00a0" else repr(c)[1:-1] for c in cut) + '"'


def _plain(text: str, decimal: str, place: Place | str | None) -> str:
    """Without surrounding blanks, with an ASCII minus and a decimal point."""
    plain = text.strip().replace("\u2212", "-")
    if decimal == "." or ("," not in plain and "." not in plain):
        return plain
    if "." in plain and not _NAMED.fullmatch(plain):
        raise InputError(f"{quote(text)} has a point, but the decimal mark is {quote(decimal)}", place=place)
    return plain.replace(decimal, ".") if plain.count(decimal) == 1 or "/" in plain else plain


def _too_large(text: str, place: Place | str | None) -> InputError:
    return InputError(f"{quote(text)} is too large for a double", place=place, hint="write inf if infinity is meant")


def _no_number(text: str, place: Place | str | None) -> InputError:
    """Why it is none, as exactly as can be told."""
    import unicodedata

    what = f"{quote(text)} is not a number"
    plain = text.strip()
    hint: str | None = None
    odd = next((c for c in plain if not " " <= c <= "~" and c not in "\u2212∞"), None)
    if odd is not None and not odd.isalpha():
        what += f": it holds U+{ord(odd):04X} {unicodedata.name(odd, 'control character')}"
        hint = "write plain ASCII digits and signs, without blanks between them"
    elif _THOUSANDS.fullmatch(plain):
        hint = f"write {plain.replace(',', '')} without separators, or use --decimal , if the comma is the decimal mark"
    elif "," in plain:
        hint = "a decimal comma? use --decimal ,"
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
    return InputError(what, place=place, hint=hint)


class _Parser:
    """Recursive descent over the tokens of one piece of arithmetic."""

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        position, text = 0, text.rstrip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise SyntaxError
            number, name, operator = match.groups()
            self.tokens.append(("number", number) if number else ("name", name) if name else ("operator", operator))
            position = match.end()
        self.at = 0

    def take(self, *wanted: str) -> str | None:
        """The next token's text, if it is one of these operators or names."""
        if self.at < len(self.tokens) and self.tokens[self.at][0] != "number" and self.tokens[self.at][1] in wanted:
            self.at += 1
            return self.tokens[self.at - 1][1]
        return None

    def sum(self) -> tuple[Any, ...]:
        tree = self.product()
        while sign := self.take("+", "-"):
            tree = (sign, tree, self.product())
        return tree

    def product(self) -> tuple[Any, ...]:
        tree, divided = self.unary(), False
        while sign := self.take("*", "/"):
            if sign == "/" and divided:
                raise SyntaxError("put one of the divisions in parentheses")
            divided = divided or sign == "/"
            tree = (sign, tree, self.unary())
        return tree

    def unary(self) -> tuple[Any, ...]:
        if self.take("-"):
            return ("neg", self.unary())
        if self.take("+"):
            return self.unary()
        tree = self.atom()
        return ("^", tree, self.unary()) if self.take("^", "**") else tree

    def atom(self) -> tuple[Any, ...]:
        if self.at < len(self.tokens) and self.tokens[self.at][0] == "number":
            self.at += 1
            return self.tokens[self.at - 1]
        function = self.take("sqrt")
        if not self.take("("):
            raise SyntaxError
        tree = self.sum()
        if not self.take(")"):
            raise SyntaxError
        return ("sqrt", tree) if function else tree


def _parse(plain: str, text: str, place: Place | str | None) -> tuple[Any, ...]:
    """The tree of `plain`; messages quote `text`."""
    if not plain:
        raise InputError("a number is missing here", place=place)
    try:
        if len(plain) > _LONGEST or plain.count("(") > 20:
            raise SyntaxError
        parser = _Parser(plain)
        tree = parser.product()
        if parser.at == len(parser.tokens):
            return tree
        if parser.take("+", "-") and (parser.sum(), parser.at)[1] == len(parser.tokens):
            raise SyntaxError("put a sum or difference in parentheses")
    except SyntaxError as error:
        if error.msg:
            raise InputError(f"{quote(text)} is not a plain number", place=place, hint=str(error.msg)) from None
    raise _no_number(text, place) from None


def _fraction(text: str) -> Fraction:
    from fractions import Fraction

    _, _, exponent = text.lower().partition("e")
    if exponent and (len(exponent) > 4 or abs(int(exponent)) > 400):
        raise OverflowError
    return Fraction(text)


def _sqrt(x: Fraction | float) -> Fraction | float:
    if x < 0:
        raise ArithmeticError("the square root of a negative number")
    if not isinstance(x, float):
        from fractions import Fraction

        above, below = math.isqrt(x.numerator), math.isqrt(x.denominator)
        if above * above == x.numerator and below * below == x.denominator:
            return Fraction(above, below)
    return math.sqrt(x)


def _divide(x: Fraction | float, y: Fraction | float) -> Fraction | float:
    if y == 0:
        raise ArithmeticError("a division by zero")
    return x / y


def _power(x: Fraction | float, y: Fraction | float) -> Fraction | float:
    if x == 0 and y < 0:
        raise ArithmeticError("a division by zero")
    if not isinstance(x, float) and not isinstance(y, float) and y.denominator == 1:
        size = max(x.numerator.bit_length(), x.denominator.bit_length()) - 1
        if size * abs(y) > _BITS:
            raise OverflowError
        power: Fraction = x ** int(y)
        return power
    if x < 0:
        raise ArithmeticError("a broken power of a negative number")
    return math.pow(x, y)


# Exact as long as no root comes in, so that 0.1/0.3 is a third.
_EXACT: dict[str, Callable[..., Fraction | float]] = {
    "number": _fraction,
    "neg": lambda x: -x,
    "sqrt": _sqrt,
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": _divide,
    "^": _power,
}
