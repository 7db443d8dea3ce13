"""The order of axes in stored arrays: from that of the file to that of the definition, and back.

Letters: b sequence, h head, t token, d feature. The definition has b h t d, and b t d where the heads lie in the
features.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from attncli.errors import AttnError, UsageError
from attncli.lazy import Array
from attncli.pipeline.trace import ORDER
from attncli.problem.matrix import Matrix
from attncli.problem.values import Hand, Setting

_SPLIT = ("Q", "K", "V", "past_k", "past_v")
_DATA = ("X", "Y")  # their heads lie in the features


def in_order(settings: Mapping[str, Setting], implied: str) -> tuple[dict[str, Setting], str | None, list[AttnError]]:
    """The settings with their matrices in the order of the definition, the letters of the results, and what is wrong.

    implied: the letters where nobody named any, "" for those of the definition. The letters are None where they change
    nothing.
    """
    said = settings.get("axes")
    letters = implied if said is None else str(said.value)
    if not letters:
        return dict(settings), None, []
    try:
        _check(letters, settings)
    except AttnError as error:
        return dict(settings), None, [error]
    turned, errors, most = dict(settings), [], ""
    for name in (*_SPLIT, *_DATA):
        if name not in settings or not isinstance(settings[name].value, Matrix):
            continue
        matrix, place = settings[name]
        try:
            own = _own(name, matrix, letters)
            most = max(most, own, key=len)
            turned[name] = Setting(_turned(matrix, own, into_order), place)
        except AttnError as error:
            error.place = error.place or matrix.place or place
            errors.append(error)
    if "expect" in settings and most:
        hands, place = settings["expect"]
        turned["expect"] = Setting({step: hand_in_order(step, hand, most) for step, hand in hands.items()}, place)
    return turned, most or None, errors


def _check(letters: str, settings: Mapping[str, Setting]) -> None:
    said = settings.get("axes")
    place = said.place if said is not None else None
    ways = "as in bthd, bhtd, thd or tbd: b sequence, h head, t token, d feature"
    for number, letter in enumerate(letters, 1):
        if letter not in ORDER:
            raise UsageError(f"axes {letters}: letter {number} is {letter!r}, and no axis", place=place, hint=ways)
        if letter in letters[: number - 1]:
            raise UsageError(f"axes {letters}: {letter!r} stands twice", place=place, hint=ways)
    for letter, what in (("t", "tokens"), ("d", "features")):
        if letter not in letters:
            raise UsageError(f"axes {letters}: {letter!r} is missing, the axis of the {what}", place=place, hint=ways)
    if said is not None and "layout" in settings and settings["layout"].value == "columns":
        raise UsageError("axes and layout columns both say where tokens lie", place=place, hint="leave one of them out")


def _own(name: str, matrix: Matrix, letters: str) -> str:
    """The letters of one array: all, or of one with fewer axes those without b, or without b and h."""
    count = matrix.array.ndim
    if name in _DATA and count < len(ORDER):
        letters = letters.replace("h", "")
    short = letters.replace("b", "")
    known = {len(way): way for way in (short.replace("h", ""), short, letters)}
    if count < min(known):
        return ""  # a single token
    if count not in known:
        told = f"{name} has {count} axes, but axes {letters} names {len(letters)}"
        raise UsageError(told, hint="--axes has a letter for each: b sequence, h head, t token, d feature")
    return known[count]


def hand_in_order(step: str, hand: Hand, letters: str) -> Hand:
    """Expected numbers of a step that has the order of the inputs; others stay."""
    own = _of_step(step, hand.matrix.array.ndim, letters)
    return hand if own is None else replace(hand, matrix=_turned(hand.matrix, own, into_order))


def as_stored(name: str, matrix: Matrix, letters: str) -> Matrix:
    """An input as it was given, from the order of the definition."""
    own = _of_step(name, matrix.array.ndim - _is_inserted(matrix.array, letters), letters)
    return matrix if own is None else _turned(matrix, own, out_of_order)


def hand_as_stored(step: str, hand: Hand, letters: str) -> Hand:
    """Expected numbers as they were given."""
    return replace(hand, matrix=as_stored(step, hand.matrix, letters))


def _of_step(step: str, count: int, letters: str) -> str | None:
    """The letters of a step's array with so many axes; None where its axes have another meaning."""
    if step not in (*_SPLIT, *_DATA, "output"):
        return None
    short = letters.replace("b", "")
    joined = letters.replace("h", "")
    known = {2: short.replace("h", ""), len(short): short, len(joined): joined, len(letters): letters}
    return known.get(count)


def _is_inserted(array: Array, letters: str) -> bool:
    return "h" in letters and "b" not in letters and array.ndim == len(ORDER)


def into_order(array: Array, letters: str) -> Array:
    """From the order of the letters to that of the definition; of one sequence alone with heads, an axis in front."""
    turned = array.transpose([letters.index(letter) for letter in ORDER if letter in letters])
    return turned[None] if "h" in letters and "b" not in letters else turned


def out_of_order(array: Array, letters: str) -> Array:
    """The way back."""
    kept = [letter for letter in ORDER if letter in letters]
    array = array[0] if array.ndim > len(kept) else array
    return array.transpose([kept.index(letter) for letter in letters])


def _turned(matrix: Matrix, letters: str, turn: Any) -> Matrix:
    """A Matrix with its axes in another order, its spelling and its places with them."""
    if letters in ("", "td", "btd", ORDER):
        return matrix
    return matrix.rearranged(lambda array: turn(array, letters))
