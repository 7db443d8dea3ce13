"""Variants of an exercise: other numbers that come out well, and equally hard, each with its key.

Well: small whole numbers; in each row weights that differ at the key's places, none of them nearly 0 or all.
Numbers are drawn by `random.Random` alone, which gives the same everywhere; a variant begins anywhere, and is changed
number by number as long as it becomes no worse.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from attncli.errors import AttnError, InputError
from attncli.exercises.keys import Key, key_of
from attncli.exercises.numbers import WIDTHS, Draw, idle, products, varied, with_numbers
from attncli.lazy import Array, np
from attncli.pipeline.state import plain_state
from attncli.problem.problem import Problem

CHANGES, STARTS = 900, 12  # of the numbers of one start; of a variant
FIRST = 6  # starts after which a problem is given up that has given nothing yet
MOST = 600  # numbers, given and weights
DARING = 0.02  # how often a change for the worse is kept, which leads out of dead ends
SATURATED = 0.95  # a weight above it leaves nothing to calculate
APART = 0.05  # how far a variant may be from the usual difficulty, so that any two are within 10 %
_ALIKE = 3  # times that a variant is one of those before; then more numbers are drawn from
_TRIED = 5  # variants whose middle one says what is usual
LARGE = 50  # a number of the scores beyond it is not small


@dataclass(frozen=True)
class Difficulty:
    """What a hand has to do: products of two numbers that are not 0, and digits to write."""

    products: int
    digits: int

    def is_like(self, other: Difficulty) -> bool:
        """Whether neither is much more work than the other."""
        pairs = ((self.products, other.products), (self.digits, other.digits))
        return all(abs(a - b) <= APART * max(b, 1) for a, b in pairs)


@dataclass(frozen=True)
class Variant:
    """An exercise with other numbers, its key, and how hard it is."""

    problem: Problem
    key: Key
    difficulty: Difficulty


@dataclass(frozen=True)
class Wish:
    """places: of the key. ties: whether weights of a row may be equal."""

    places: int = 2
    ties: bool = False


def variants(problem: Problem, count: int, seed: int, wish: Wish) -> Iterator[Variant]:
    """So many variants, no two alike. Raises InputError where nothing comes out well."""
    matrices = varied(problem)
    if not matrices:
        raise InputError("no matrix has numbers that could be others", hint="identities stay as they are")
    numbers = sum(array.size for array in matrices.values()) + problem.solve(("weights",))["weights"].size
    if numbers > MOST:
        raise InputError(f"{numbers:,} numbers and weights are no exercise", hint=f"{MOST} are a long one")
    tried = [_found(problem, matrices, f"{seed}/{i}", wish, None) for i in range(_TRIED)]
    middle = sorted(tried, key=lambda each: (each.difficulty.products, each.difficulty.digits))[_TRIED // 2]
    seen: set[bytes] = set()
    for number in range(1, count + 1):
        for again in range(STARTS):
            name, least = f"{seed}:{number}:{again}", again // _ALIKE
            found = _found(problem, matrices, name, wish, middle.difficulty, least)
            told = b"".join(array.tobytes() for array in varied(found.problem).values())
            if told not in seen:
                break
        else:
            raise InputError(
                f"after {number - 1} variants every further one is like one of these", hint="ask for fewer"
            )
        seen.add(told)
        yield found


def _found(
    problem: Problem, matrices: dict[str, Array], name: str, wish: Wish, like: Difficulty | None, least: int = 0
) -> Variant:
    """The first variant that comes out well, and is as hard as the others. least: how wide numbers are drawn from."""
    rng = random.Random(name)
    starts = FIRST if like is None else STARTS
    for start in range(starts):
        width = max(min(least, WIDTHS - 1), start * WIDTHS // starts)
        found = _climbed(problem, Draw(matrices, rng, width), wish, like)
        if found is not None:
            return found
    raise InputError(
        f"no numbers were found that come out well and differ at {wish.places} places",
        hint="other sizes, more --places, a scale for the scores, or --ties",
    )


def _climbed(problem: Problem, draw: Draw, wish: Wish, like: Difficulty | None) -> Variant | None:
    """What comes of some changes, few of them for the worse; None where it does not come out well."""
    made, worst = _tried(problem, draw, wish, like)
    for _ in range(CHANGES):
        if not worst:
            found = _finished(problem, made, wish)
            if found.key.is_right() and (like is None or found.difficulty.is_like(like)):
                return found
        draw.change()
        other, now = _tried(problem, draw, wish, like)
        if now > worst and draw.rng.random() > DARING:
            draw.undo()
        else:
            made, worst = other, now
    return None


def _finished(problem: Problem, made: Problem, wish: Wish) -> Variant:
    trace = replace(made, round_steps=wish.places).solve()
    key = key_of(made, trace, [*problem.expect])
    return Variant(made, key, Difficulty(products(made, trace.rows("weights")), key.digits))


def _tried(problem: Problem, draw: Draw, wish: Wish, like: Difficulty | None) -> tuple[Problem, float]:
    """The problem with these numbers, and how far it is from coming out well: 0 is well."""
    made = with_numbers(problem, draw.arrays)
    try:
        with np.errstate(all="ignore"):  # no more is computed than is looked at
            at = plain_state(made.arrays(), replace(made.rules(), round_steps=wish.places))
            weights = at["weights"]
            scores = at["scores"] if at.begin is None else None
            seen = np.broadcast_to(at["visible"] if at.begin != "weights" else True, weights.shape)
    except AttnError:
        return made, math.inf
    if not np.isfinite(weights).all():
        return made, math.inf
    bad = _badness(weights, scores, seen, wish, is_shared=at.normalizer.exponentials)
    bad += max(0, idle(draw.arrays) - draw.allowed)
    if like is not None:
        off = abs(products(made, weights) - like.products) / max(like.products, 1)
        bad += max(0.0, off - APART)
        if not bad:  # what is left is how much there is to write
            digits = _finished(problem, made, wish).difficulty.digits
            bad += max(0.0, abs(digits - like.digits) / max(like.digits, 1) - APART)
    return made, bad


def _badness(weights: Array, scores: Array | None, seen: Array, wish: Wish, *, is_shared: bool) -> float:
    """How far large scores, weights of nearly 0 or 1, and weights of a row that are alike are from coming out well."""
    unit, bad = 10.0**-wish.places, 0.0
    if scores is not None:
        bad += float(np.maximum(0, np.abs(scores[np.isfinite(scores)]) - LARGE).sum())
    for row, visible in zip(weights.reshape(-1, weights.shape[-1]), seen.reshape(-1, weights.shape[-1]), strict=True):
        shares = sorted(row[visible].tolist())
        if len(shares) < 2:
            continue
        if is_shared:
            bad += max(0.0, shares[-1] - SATURATED) + sum(max(0.0, 1.5 * unit - share) for share in shares)
        if not wish.ties:
            bad += sum(unit for a, b in pairwise(shares) if b - a < 0.5 * unit)
    return bad
