"""Random small whole numbers in place of a problem's own, as many zeros as there were."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace

from attncli.lazy import Array, np
from attncli.problem.matrix import Matrix
from attncli.problem.problem import Problem
from attncli.problem.values import StageRef

# What a matrix is drawn from besides its own range, where nothing came out well before.
_MORE: tuple[tuple[int, ...], ...] = ((1, 2), (1, 2, 3), (-1, 1, 2, 3), (-2, -1, 1, 2, 3, 4))
WIDTHS = len(_MORE)


def varied(problem: Problem) -> dict[str, Array]:
    """The matrices that variants have other numbers in: all but identities, by name; a score's as `score.W`."""
    score = problem.score.parameters if problem.score else {}
    given = {**problem.inputs, **{f"score.{name}": value for name, value in score.items()}}
    matrices = {name: each.array for name, each in given.items() if isinstance(each, Matrix)}
    return {name: array for name, array in matrices.items() if array.size and not _is_identity(array)}


def _is_identity(array: Array) -> bool:
    return array.ndim == 2 and array.shape[0] == array.shape[1] > 1 and np.array_equal(array, np.eye(len(array)))


def pool(array: Array, width: int) -> list[int]:
    """What the numbers that are not 0 are drawn from: whole numbers in the range of these, and a few more."""
    finite = array[np.isfinite(array)]
    low, high = math.floor(finite.min(initial=0)), math.ceil(finite.max(initial=0))
    found = [x for x in range(max(low, -9), min(high, 9) + 1) if x]
    return sorted({*found, *_MORE[width]})


class Draw:
    """The numbers of one variant, which can be changed one at a time.

    What is infinite (a bias that hides) stays.
    """

    def __init__(self, matrices: dict[str, Array], rng: random.Random, width: int = 0) -> None:
        self.rng = rng
        self.pools = {name: pool(array, width) for name, array in matrices.items()}
        self.arrays = {name: self._first(name, array) for name, array in matrices.items()}
        self.allowed = idle(matrices)
        self._last: tuple[str, int, float, int, float] | None = None

    def _first(self, name: str, array: Array) -> Array:
        flat = [float(x) for x in array.ravel()]
        places = [i for i, x in enumerate(flat) if math.isfinite(x)]
        zeros = sum(flat[i] == 0 for i in places)
        numbers = [0.0] * zeros + [float(self.rng.choice(self.pools[name])) for _ in places[zeros:]]
        self.rng.shuffle(numbers)
        for i, number in zip(places, numbers, strict=True):
            flat[i] = number
        return np.array(flat).reshape(array.shape)

    def change(self) -> None:
        """Draw one number anew, or exchange two of one matrix."""
        name = self.rng.choice([*self.arrays])
        flat = self.arrays[name].reshape(-1)
        i, j = self.rng.randrange(len(flat)), self.rng.randrange(len(flat))
        self._last = (name, i, flat[i], j, flat[j])
        if not (math.isfinite(flat[i]) and math.isfinite(flat[j])):
            return
        if flat[i] and flat[i] == flat[j]:
            flat[i] = self.rng.choice(self.pools[name])
        else:
            flat[i], flat[j] = flat[j], flat[i]

    def undo(self) -> None:
        """Take the last change back."""
        assert self._last is not None
        name, i, one, j, other = self._last
        flat = self.arrays[name].reshape(-1)
        flat[i], flat[j] = one, other


def idle(matrices: dict[str, Array]) -> int:
    """How many columns of several numbers are all 0: a feature that says nothing."""
    return sum(int((~array.any(axis=-2)).sum()) for array in matrices.values() if array.ndim > 1 and len(array) > 1)


def with_numbers(problem: Problem, arrays: dict[str, Array]) -> Problem:
    """The problem with these numbers, and nothing that a hand wrote."""
    inputs: dict[str, Matrix | StageRef] = {
        name: _other(each, arrays[name]) if isinstance(each, Matrix) and name in arrays else each
        for name, each in problem.inputs.items()
    }
    changed = replace(problem, inputs=inputs, expect={})
    if problem.score is not None:
        parameters = {
            name: _other(value, arrays[f"score.{name}"])
            if isinstance(value, Matrix) and f"score.{name}" in arrays
            else value
            for name, value in problem.score.parameters.items()
        }
        changed.score = replace(problem.score, parameters=parameters)
    return changed


def _other(matrix: Matrix, array: Array) -> Matrix:
    whole = np.isfinite(array).all() and (array == np.rint(array)).all()
    return replace(matrix, array=array.astype(int) if whole else array.copy(), spelling=None, cell=None)


def products(problem: Problem, weights: Array) -> int:
    """How many products a hand has to calculate in the matrix products: those of two numbers that are not 0."""
    arrays = problem.arrays()
    return sum(_pairs(*two) for two in _factors(arrays, weights))


def _factors(arrays: dict[str, Array], weights: Array) -> Iterator[tuple[Array, Array]]:
    made: dict[str, Array] = {}
    for name in ("Q", "K", "V"):
        source = arrays.get("Y" if name != "Q" and "Y" in arrays else "X")
        matrix = arrays.get(f"W_{name}")
        if name in arrays:
            made[name] = arrays[name]
        elif source is not None and matrix is not None:
            yield source, matrix
            made[name] = source @ matrix
        elif source is not None:
            made[name] = source
    if "Q" in made and "K" in made and made["Q"].shape[-1] == made["K"].shape[-1]:
        yield made["Q"], made["K"].mT
    if "V" in made and weights.shape[-1] == made["V"].shape[-2]:
        yield weights, made["V"]


def _pairs(a: Array, b: Array) -> int:
    return int(((a != 0).astype(int) @ (b != 0).astype(int)).sum())
