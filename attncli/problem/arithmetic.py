"""Short arithmetic as people write it by hand, 1/3 or sqrt(2)/2: text to a tree, and a tree to a value."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from attncli.lazy import pattern

if TYPE_CHECKING:
    from fractions import Fraction

_TOKEN = pattern(r"\s*(?:((?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)|([A-Za-z]+)|(\*\*|[-+*/^()√%]))")
_LEFT_OUT = pattern(r"(?<=[0-9.)])\s*(?=sqrt\b|exp\b|\()")  # where a product has no sign
# What a hand writes instead of * and /, and powers of ten with an x: 2x10^3.
_SIGNS = str.maketrans({"\u2212": "-", "×": "*", "·": "*", "⋅": "*", "÷": "/"})
_TIMES = pattern(r"(?<=[0-9])[ ]*[xX][ ]*(?=10[ ]*(?:\^|\*\*))")
_RAISED = "⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹"
_SUPERSCRIPT = pattern(f"[{_RAISED}]+")
_LONGEST = 300  # characters
_DEEPEST = 20  # parentheses
_MOST_TOKENS = 100  # each may be a level of the tree
_BITS = 4000  # of an exact power; a double ends at 1024
_E = ("exp", ("number", "1"))
_LOWERED = str.maketrans(_RAISED, "+-0123456789")

Tree = tuple[Any, ...]


class NotArithmetic(ValueError):
    """Text that is no arithmetic of ours; its message, if any, says how to mend it."""


def parse_expression(text: str) -> Tree:
    """Arithmetic as nested tuples: "-1/3" is ("/", ("neg", ("number", "1")), ("number", "3")).

    Known are + - * × / ^ (also **), per cent, parentheses, sqrt and exp, also sqrt2, √2, √(2), 2√3 and e^2. Sums stand
    in parentheses, and so does a division of a division: 1-3 may be a range and 1/2/24 a date. Raises NotArithmetic.
    """
    if len(text) > _LONGEST or text.count("(") > _DEEPEST:
        raise NotArithmetic
    plain = ascii_signs(text).strip()
    parser = _Parser(plain)
    tree = parser.product()
    if parser.at == len(parser.tokens):
        if plain.lstrip("+- ") == "e":  # a word of one letter
            raise NotArithmetic
        return tree
    if parser.take("+", "-"):
        parser.sum()
        if parser.at == len(parser.tokens):
            raise NotArithmetic(_in_parentheses(plain))
    mended = _LEFT_OUT.sub("*", plain)
    if mended != plain:
        parse_expression(mended)
        raise NotArithmetic(f"a product has a sign: {mended}")
    raise NotArithmetic


def ascii_signs(text: str) -> str:
    """The same with the signs of a keyboard, 2×10³ as 2*10^3; what stands for "about" is left out."""
    text = text.strip().lstrip("≈~")
    text = _TIMES.sub("*", text.translate(_SIGNS))
    return _SUPERSCRIPT.sub(lambda match: "^" + match[0].translate(_LOWERED), text)


def _in_parentheses(plain: str) -> str:
    """What mends a sum, and what it then is: 1-3 may have been a range."""
    mended = f"({plain})"
    try:
        return f"a sum stands in parentheses: {mended} is {value_of(parse_expression(mended)):.9g}"
    except ArithmeticError:
        return "a sum stands in parentheses"


def evaluate(tree: Tree, operations: Mapping[str, Callable[..., Any]]) -> Any:
    """The value of a tree, with functions for "number" (of the text), "neg", "sqrt", "exp", "+", "-", "*", "/", "^"."""
    name, *parts = tree
    if name == "number":
        return operations[name](*parts)
    return operations[name](*(evaluate(part, operations) for part in parts))


def value_of(tree: Tree) -> float:
    """The nearest double: exact as long as no root comes in, so that 0.1/0.3 is a third.

    Raises OverflowError, and ArithmeticError with a message for what has no value.
    """
    return float(evaluate(tree, _EXACT))


class _Parser:
    """Recursive descent over the tokens of one piece of arithmetic."""

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        position, text = 0, text.rstrip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise NotArithmetic
            number, name, operator = match.groups()
            self.tokens.append(("number", number) if number else ("name", name) if name else ("operator", operator))
            position = match.end()
        if len(self.tokens) > _MOST_TOKENS:
            raise NotArithmetic
        self.at = 0

    def next(self, *wanted: str) -> bool:
        """Whether the next token is one of these operators or names."""
        return self.at < len(self.tokens) and self.tokens[self.at][0] != "number" and self.tokens[self.at][1] in wanted

    def take(self, *wanted: str) -> str | None:
        """The next token's text, if it is one of these operators or names."""
        if self.next(*wanted):
            self.at += 1
            return self.tokens[self.at - 1][1]
        return None

    def sum(self) -> Tree:
        tree = self.product()
        while sign := self.take("+", "-"):
            tree = (sign, tree, self.product())
        return tree

    def product(self) -> Tree:
        tree, divided = self.unary(), False
        while sign := self.take("*", "/") or ("*" if self.next("√") else None):
            if sign == "*" and divided and self.tokens[self.at - 1][1] != "*":
                raise NotArithmetic("1/2√3 may be two things: put one of them in parentheses")
            if sign == "/" and divided:
                raise NotArithmetic("put one of the divisions in parentheses")
            divided = divided or sign == "/"
            tree = (sign, tree, self.unary())
        return tree

    def unary(self) -> Tree:
        if self.take("-"):
            return ("neg", self.unary())
        if self.take("+"):
            return self.unary()
        tree = self.atom()
        if self.take("%"):
            tree = ("/", tree, ("number", "100"))
        if not self.take("^", "**"):
            return tree
        exponent = self.unary()
        return ("exp", exponent) if tree == _E else ("^", tree, exponent)

    def atom(self) -> Tree:
        if number := self.number():
            return number
        if self.take("e"):
            return _E
        function = self.take("sqrt", "√", "exp")
        if function and function != "exp" and (number := self.number()):
            return ("sqrt", number)
        if not self.take("("):
            raise NotArithmetic
        tree = self.sum()
        if not self.take(")"):
            raise NotArithmetic
        return ("exp" if function == "exp" else "sqrt", tree) if function else tree

    def number(self) -> Tree | None:
        """The next token, if it is a number."""
        if self.at == len(self.tokens) or self.tokens[self.at][0] != "number":
            return None
        self.at += 1
        return self.tokens[self.at - 1]


def _exactly(text: str) -> Fraction | int:
    if text.isdigit():
        return int(text)
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
    if isinstance(x, int) and isinstance(y, int):
        from fractions import Fraction

        return Fraction(x, y)
    return x / y


def _power(x: Fraction | float, y: Fraction | float) -> Fraction | float:
    if x == 0 and y < 0:
        raise ArithmeticError("a division by zero")
    if not isinstance(x, float) and not isinstance(y, float) and y.denominator == 1:
        size = max(x.numerator.bit_length(), x.denominator.bit_length()) - 1
        if size * abs(y) > _BITS:
            raise OverflowError
        from fractions import Fraction

        power: Fraction = Fraction(x) ** int(y)
        return power
    if x < 0:
        raise ArithmeticError("a broken power of a negative number")
    return math.pow(x, y)


def _exp(x: Fraction | float) -> Fraction | float:
    return math.exp(x)


_EXACT: dict[str, Callable[..., Fraction | float]] = {
    "number": _exactly,
    "neg": lambda x: -x,
    "sqrt": _sqrt,
    "exp": _exp,
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": _divide,
    "^": _power,
}
