"""From the text of options to the normal forms: one function for each kind of setting."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from attncli.errors import AttnError, Place, UsageError, raise_all, unknown
from attncli.lazy import np
from attncli.pipeline.masks import MASKS, mask_spec, split_spec
from attncli.pipeline.scores import SCORES, words_of
from attncli.pipeline.trace import parse_address
from attncli.problem.build import Layer
from attncli.problem.mask_expression import is_expression, read_expression, unquoted
from attncli.problem.matrix import Matrix
from attncli.problem.numbers import looks_like_number, parse_number
from attncli.problem.reading import Reading, split_stage, split_steps, split_words
from attncli.problem.settings import FIELDS, Field, check_choice, check_integer, check_number
from attncli.problem.values import Hand, MaskChoice, ScoreChoice, Setting, placed


def layer_from_options(values: Mapping[str, Any], reading: Reading) -> Layer:
    """The settings of a command line, by field name: texts, lists of texts where repeatable, bools for flags.

    None, False (but of a switch) and empty lists were not given. What is wrong is collected in the layer, for
    `make_problem` to raise.
    """
    layer = Layer()
    for name, given in values.items():
        field = FIELDS[name]
        if given is None or (given is False and field.kind != "switch") or given == []:
            continue
        place = field.said_as
        try:
            with placed(place):
                layer.settings[name] = Setting(value_from_text(field, given, reading), place)
        except AttnError as error:
            layer.errors += error.errors()
            layer.broken.add(name)
    return layer


def value_from_text(field: Field, given: Any, reading: Reading) -> Any:
    """The normal form of what was given for one option. Raises AttnError."""
    return _KINDS[field.kind](field, given, reading)


def _matrix(field: Field, text: str, reading: Reading) -> Matrix:
    return reading.matrix(text, field.said_as)


def _number(field: Field, text: Any, reading: Reading) -> float:
    number = parse_number(text, decimal=reading.options.decimal) if isinstance(text, str) else float(text)
    return check_number(field, number, str(text), None)


def _integer(field: Field, text: Any, reading: Reading) -> int:
    number = parse_number(text) if isinstance(text, str) else text
    return check_integer(field, number, str(text), None)


def _choice(field: Field, text: str, reading: Reading) -> str:
    return check_choice(field, text, None)


def _flag(field: Field, given: bool, reading: Reading) -> bool:
    return bool(given)


def _text(field: Field, text: Any, reading: Reading) -> Any:
    return text


def numbers_from_text(field: Field, text: Any, reading: Reading, place: Place | str | None) -> float | Matrix | str:
    """One of the field's names, a number, numbers in a comma list, or a matrix."""
    if not isinstance(text, str):
        return check_number(field, float(text), str(text), None)
    names = field.choices() if field.choices else []
    if text.strip() in names:
        return text.strip()
    parts = [part.strip() for part in text.split(",")]
    if all(looks_like_number(part, decimal=reading.options.decimal) for part in parts):
        read = [check_number(field, parse_number(part, decimal=reading.options.decimal), part, None) for part in parts]
        return read[0] if len(read) == 1 else Matrix(np.array(read))
    if not reading.is_matrix(text):
        if names:
            raise unknown(field.name, text.strip(), [*names, "numbers"])
        return check_number(field, parse_number(text, decimal=reading.options.decimal), text, None)
    return reading.matrix(text, place)


def _numbers(field: Field, text: Any, reading: Reading) -> float | Matrix | str:
    return numbers_from_text(field, text, reading, field.said_as)


def _score(field: Field, text: str, reading: Reading) -> ScoreChoice:
    return ScoreChoice(SCORES.find(text).name, {}, field.said_as)


def _parameters(field: Field, texts: Sequence[str], reading: Reading) -> dict[str, float | Matrix | str]:
    values: dict[str, float | Matrix | str] = {}
    errors: list[AttnError] = []
    for text in texts:
        name, equals, value = text.partition("=")
        try:
            if not equals or not name.strip() or not value.strip():
                raise UsageError(f"{text!r} is not NAME=VALUE", hint="--param sigma=2, or --param W=w.npy")
            values[name.strip()] = parameter_from_text(value, reading, field.said_as, name.strip())
        except AttnError as error:
            errors += error.errors()
    raise_all(errors)
    return values


def word_of(name: str, text: str, words: Collection[str], place: Place | None) -> str:
    """The word, if a parameter of that name may be it. Raises InputError with the nearest."""
    if text not in words:
        raise unknown(name, text, words, place=place)
    return text


def parameter_from_text(text: str, reading: Reading, place: str, name: str = "") -> float | Matrix | str:
    """A word if the parameter of that name is one, a number if it looks like one, else a matrix."""
    words = words_of(name or place)
    if words:
        return word_of(name or place, text.strip(), words, None)
    if looks_like_number(text, decimal=reading.options.decimal):
        return parse_number(text, decimal=reading.options.decimal)
    return reading.matrix(text, place)


def _masks(field: Field, texts: Sequence[str], reading: Reading) -> list[MaskChoice]:
    return masks_from_text(texts, reading, field.said_as)


def masks_from_text(texts: Sequence[str], reading: Reading, place: Place | str | None) -> list[MaskChoice]:
    """Masks as `causal:bottom-right`, `window:2,0`, `keep:FILE`; `none` alone is no mask. Raises all that is wrong."""
    if [text.strip() for text in texts] == ["none"]:
        return []
    choices = []
    errors: list[AttnError] = []
    for text in texts:
        try:
            with placed(place):
                choices.append(_mask(text, reading, place))
        except AttnError as error:
            errors += error.errors()
    raise_all(errors)
    return choices


def _mask(text: str, reading: Reading, place: Place | str | None) -> MaskChoice:
    if is_expression(text):
        return read_expression(text, place, lambda part: _single_mask(part, reading, place))
    return _single_mask(unquoted(text), reading, place)


def _single_mask(text: str, reading: Reading, place: Place | str | None) -> MaskChoice:
    if text.partition(":")[0].strip() not in MASKS and reading.is_matrix(text):
        raise UsageError(
            f"{text!r} is a matrix, which may mean two things",
            hint=f"keep:{text} (1 = visible) or block:{text} (1 = hidden)",
        )
    name, argument, alignment = split_spec(text)
    takes = MASKS.find(name).takes or ""
    if argument is not None and "array" in takes:
        like = [looks_like_number(part) for part in re.split("[,/]", argument)]
        numbers = all(like) or (any(like) and not reading.is_matrix(argument))
        if takes == "array" or not numbers:
            try:
                return MaskChoice(name, reading.matrix(argument, place), alignment, place)
            except AttnError as error:
                if takes != "array" and error.hint is None:
                    error.hint = f"a file, or numbers as in {MASKS.find(name).example}"
                raise
    mask_spec(name, argument, alignment)
    return MaskChoice(name, argument, alignment, place)


def _tokens(field: Field, text: str, reading: Reading) -> list[str]:
    return reading.lines(text[1:], None) if text.startswith("@") else split_words(text)


def _steps(field: Field, text: str, reading: Reading) -> list[str]:
    return split_steps(text)


def _expect(field: Field, texts: Sequence[str], reading: Reading) -> dict[str, Hand]:
    hands: dict[str, Hand] = {}
    errors: list[AttnError] = []
    for text in texts:
        address, equals, spec = text.partition("=")
        try:
            if not equals or not spec:
                raise UsageError(f"{text!r} is not STEP=FILE", hint="--expect weights=hand.csv")
            parse_address(split_stage(address)[1])
            hands[address.strip()] = Hand(reading.matrix(spec, field.said_as, blanks=True), place=field.said_as)
        except AttnError as error:
            errors += error.errors()
    raise_all(errors)
    return hands


_KINDS: dict[str, Callable[[Field, Any, Reading], Any]] = {
    "matrix": _matrix, "number": _number, "integer": _integer, "choice": _choice, "flag": _flag, "switch": _flag,
    "text": _text,
    "score": _score, "parameters": _parameters, "masks": _masks, "tokens": _tokens, "steps": _steps,
    "expect": _expect, "numbers": _numbers, "parts": _matrix,
}  # fmt: skip
