"""Numbers in text that a program wrote are marked as its array: not by written places, and in an array's memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from attncli import check, load
from tests.inside import InputError

Array = NDArray[Any]


def text(array: Array, spell: Callable[[Any], str | None]) -> list[list[str | None]]:
    """The array as a text holds it: what `spell` leaves out is None."""
    return [[spell(x) for x in row] for row in array]


def decimals(count: int) -> Callable[[Any], str]:
    return lambda x: f"{x:.{count}f}"


def inputs(n: int, m: int, d: int, dtype: str = "float64") -> dict[str, Array]:
    rng = np.random.default_rng(n)
    return {name: rng.standard_normal((rows, d)).astype(dtype) for name, rows in (("Q", n), ("K", m), ("V", m))}


def steps(given: dict[str, Array], dtype: str = "float64") -> dict[str, Array]:
    q, k, v = (given[name].astype(dtype) for name in "QKV")
    scores = q @ k.T
    exps = np.exp(scores / np.sqrt(scores.dtype.type(q.shape[1])))
    weights = exps / exps.sum(axis=1, keepdims=True)
    return {"scores": scores, "weights": weights, "output": weights @ v}


def checked(given: dict[str, Array], **expect: Any) -> Any:
    return check({**given, "expect": expect})


def taken(result: Any) -> str:
    """What the arrays were taken for; nothing where a hand was marked."""
    found = [note for note in result.notes if "taken for" in note]
    assert len(found) == sum(mark.array is not None for mark in result.steps)
    return found[0] if found else ""


# -- what is taken for what -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spell", "of", "told"),
    [
        (lambda x: repr(float(x)), "float64", "array of float64 (more digits than a hand writes)"),
        (lambda x: f"{x:.18e}", "float64", "array of float64 (more"),
        (lambda x: f"{x:.15g}", "float64", "array of float64 (more"),
        (lambda x: repr(float(x)), "float32", "array of float32 (more"),
        (lambda x: f"{x:.18e}", "float32", "array of float32 (more"),
        (str, "float32", ""),
        (decimals(10), "float64", ""),
        (decimals(2), "float64", ""),
    ],
)
def test_the_digits_tell_a_program(spell: Callable[[Any], str], of: str, told: str) -> None:
    given = inputs(3, 4, 5, of)
    result = checked(given, output=text(steps(given)["output"].astype(of), lambda x: spell(x)))
    assert told in taken(result)
    assert bool(told) == bool(taken(result))
    assert result.verdict in (("agrees",) if told else ("agrees", "rounded"))


@pytest.mark.parametrize(
    ("spell", "of"),
    [(repr, "float64"), (decimals(12), "float64"), (decimals(4), "float32"), (lambda x: f"{x:.5g}", "float32"),
     (lambda x: repr(float(np.float32(x))), "float32"), (lambda x: str(np.float32(x)), "float32")],
)  # fmt: skip
def test_many_numbers_are_no_hands(spell: Callable[[Any], str], of: str) -> None:
    given = inputs(40, 20, 30)
    result = checked(given, output=text(steps(given)["output"], lambda x: spell(float(x))))
    assert f"array of {of} (1200 numbers are too many for a hand)" in taken(result)
    assert result.verdict == "agrees"


def test_a_large_problem_is_no_hands() -> None:
    given = inputs(2, 1100, 600)
    result = checked(given, output=text(steps(given)["output"][:1, :1].repeat(2, 0).repeat(600, 1), decimals(2)))
    assert "1200 numbers" in taken(result)
    result = checked({**given, "V": given["V"][:, :1]}, output=text(steps(given)["output"][:, :1], decimals(4)))
    assert "2 queries and 1100 keys are too many for a hand" in taken(result)
    assert result.verdict == "agrees"


def test_what_printing_rounded_is_allowed_and_no_more() -> None:
    given = inputs(40, 20, 30)
    right = steps(given)["output"]
    wrong = right.copy()
    wrong[17, 3] += 1.2e-4
    assert "printing (half of its last place, at most 5e-05)" in taken(checked(given, output=text(right, decimals(4))))
    result = checked(given, output=text(wrong, decimals(4)))
    assert result.first_wrong is not None
    assert result.first_wrong[1].at == (18, 4)
    assert [cell.at for cell in result.steps[0].cells] == [(18, 4)]


def test_places_that_a_file_has_lost() -> None:
    given = inputs(40, 20, 30)
    rounded = np.round(steps(given)["output"], 3)
    assert checked(given, output={"values": rounded, "decimals": 3}).verdict == "agrees"
    assert checked(given, output=text(rounded, lambda x: repr(float(x)))).verdict == "agrees"
    assert checked(given, output=rounded).verdict == "wrong"


def test_cells_left_out_are_not_marked() -> None:
    given = inputs(40, 20, 30)
    output = steps(given)["output"]
    output[2, 5], output[30, 0] = 7, 8
    result = checked(given, output=text(output, lambda x: None if x == 7 else repr(float(x))))
    assert [cell.at for cell in result.steps[0].cells] == [(31, 1)]
    assert result.steps[0].array is not None
    assert result.steps[0].array.size == 1199
    output[2, 5] = np.nan  # which is written, and wrong
    result = checked(given, output=text(output, lambda x: repr(float(x))))
    assert [cell.at for cell in result.steps[0].cells] == [(3, 6), (31, 1)]


def test_what_follows_from_a_slip_is_marked_alike() -> None:
    """Short scores with a slip, and long weights that follow from it: a person at a computer."""
    slip = np.array([[2.0, 4, 4], [4, 15, 12], [4, 12, 10]])
    given = {"Q": np.array([[2.0, 4, 4], [4, 16, 12], [4, 12, 10]]), "K": np.eye(3), "V": np.eye(3)}
    exps = np.exp(slip / np.sqrt(3))
    weights = exps / exps.sum(axis=1, keepdims=True)
    for of_output in (False, True):
        hands = {"scores": text(slip, lambda x: str(int(x))), "weights": text(weights, lambda x: repr(float(x)))}
        if of_output:
            hands["output"] = text(weights, lambda x: repr(float(x)))
        result = checked(given, **hands)
        assert bool(taken(result)) == of_output
        assert [mark.verdict for mark in result.steps] == ["wrong", *["follows"] * (len(hands) - 1)]


# -- memory -----------------------------------------------------------------------------------------------------


def test_a_text_takes_no_more_memory_than_its_array() -> None:
    given = inputs(300, 300, 16)
    for step, array in steps(given).items():
        hand = text(array, lambda x: repr(float(x)))
        checked(given, **{step: array})  # what is imported

        def peak(hand: Any, step: str = step) -> int:
            problem = load({**given, "expect": {step: hand}})  # reading a text takes what it takes
            tracemalloc.start()
            assert check(problem).verdict == "agrees"
            _, most = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            return most

        assert peak(hand) < 2 * peak(array)


# -- whole numbers ----------------------------------------------------------------------------------------------


def test_the_bits_of_bfloat16_are_refused() -> None:
    given = inputs(3, 4, 5, "float32")
    bits = (steps(given)["output"].astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    with pytest.raises(InputError, match="bits of bfloat16") as raised:
        checked(given, output=bits)
    assert "expect" in str(raised.value.place)
    assert raised.value.hint is not None
    assert "float32" in raised.value.hint


@pytest.mark.parametrize("digits", [4, 17])
def test_mistakes_of_hands_are_named_in_a_programs_digits_too(digits: int) -> None:
    rng = np.random.default_rng(1)
    q, k = rng.integers(0, 4, (3, 4)).astype(float), rng.integers(0, 4, (4, 4)).astype(float)
    exponentials = np.exp(q @ k.T / 2)
    over_queries = text(exponentials / exponentials.sum(axis=0), lambda x: f"{x:.{digits}g}")
    found = checked({"Q": q, "K": k}, weights=over_queries)
    assert [each.mistake for each in found.diagnosis] == ["softmax-over-queries"]


def test_a_step_rounded_by_hand_and_long_numbers_that_follow() -> None:
    """A student who rounds one step and copies the rest from a calculator made no slip."""
    q, k = np.array([[1, 2], [3, 1], [0, 1.0]]), np.array([[1, 0], [2, 1], [1, 1], [0, 2.0]])
    scaled = np.round(q @ k.T / np.sqrt(2), 4)
    weights = np.exp(scaled) / np.exp(scaled).sum(axis=1, keepdims=True)
    given = {"Q": q, "K": k, "V": np.array([[1, 2], [3, 4], [5, 6], [7, 9.0]])}
    hands = {"weights": text(weights, decimals(17)), "output": text(weights @ given["V"], decimals(16))}
    assert checked(given, scaled=text(scaled, decimals(4)), **hands).verdict == "rounded"
    assert checked(given, **hands).verdict == "rounded"


@pytest.mark.parametrize(
    ("spoil", "spell", "cut"),
    [
        (lambda x: np.floor(x * 1e4) / 1e4, decimals(4), True),
        (lambda x: np.round(x, 4), decimals(4), False),
        (np.round, decimals(0), False),
    ],
)
def test_what_is_cut_or_rounded_in_a_large_text_is_right(
    spoil: Callable[[Array], Array], spell: Callable[[Any], str], cut: bool
) -> None:
    given = inputs(40, 40, 8)
    result = checked(given, weights=text(spoil(steps(given)["weights"]), spell))
    assert result.verdict == "agrees"
    assert any("cut, not rounded" in note for note in result.notes) == cut
    assert not any("times the right" in note or "are 0" in note for note in result.notes)
