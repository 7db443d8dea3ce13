"""Steps of several earlier stages joined in one matrix: their difference, layers rolled out, halves merged by lse.

Letters: A the weights of a stage, n x m; l its lse, n x 1; lambda a number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from attncli.errors import ShapeError
from attncli.lazy import np

if TYPE_CHECKING:
    from attncli.engine.plan import Sizes as Shape
    from attncli.lazy import Array


@dataclass(frozen=True)
class Join:
    """How steps become one matrix.

    steps: for each matrix that may be joined so, the steps of every stage that it is made of; "" for any, of which that
    is the step of its own name. shape, values: of these steps, in the order of the stages, tokens as rows.
    count: how many stages, None for two or more. factor: whether it takes `times`. mean: whether heads are averaged.
    """

    steps: dict[str, tuple[str, ...]]
    shape: Callable[[str, Sequence[Shape]], Shape]
    values: Callable[[str, Sequence[Array], float], Array]
    example: str
    count: int | None = None
    factor: bool = False
    mean: bool = False

    def steps_of(self, name: str) -> tuple[str, ...] | None:
        """The steps of each stage that the matrix of that name is made of; None where it is not joined so."""
        return self.steps.get(name, (name,) if "" in self.steps else None)


def _alike(name: str, shapes: Sequence[Shape]) -> Shape:
    if len({*shapes}) != 1:
        told = " and ".join(" x ".join(map(str, shape)) for shape in shapes)
        raise ShapeError(f"{name} is made of {told}, which are not of one size")
    return shapes[0]


def _minus(name: str, arrays: Sequence[Array], times: float) -> Array:
    """A_1 - lambda A_2 (Ye et al. 2024, arXiv:2410.05258)."""
    difference: Array = arrays[0] - times * arrays[1]
    return difference


def _rolled_shape(name: str, shapes: Sequence[Shape]) -> Shape:
    shape = _alike(name, shapes)
    if shape[-1] != shape[-2]:
        raise ShapeError(
            f"a rollout goes from tokens to the same tokens, but {name} is {shape[-2]} x {shape[-1]}",
            hint="layers of self attention",
        )
    return shape


def _rollout(name: str, arrays: Sequence[Array], _: float) -> Array:
    """The product of (A + 1) / 2, last layer first, A the mean of its heads (Abnar, Zuidema 2020, arXiv:2005.00928)."""
    layers = [(weights + np.eye(weights.shape[-1], dtype=weights.dtype)) / 2 for weights in arrays]
    return reduce(lambda below, above: above @ below, layers)


def _merged_shape(name: str, shapes: Sequence[Shape]) -> Shape:
    axis = -2 if name == "V" else -1
    own = shapes if name == "V" else shapes[::2]
    others = [shape[:axis] + shape[len(shape) + axis + 1 :] for shape in own]
    _alike(f"{name}, its keys aside,", others)
    whole = list(own[0])
    whole[axis] = sum(shape[axis] for shape in own)
    return tuple(whole)


def _merge(name: str, arrays: Sequence[Array], _: float) -> Array:
    """The keys of all stages one after the other; scores as their weights and lse have them: log A + l."""
    if name == "V":
        return np.concatenate(arrays, axis=-2)
    weights, lse = arrays[::2], arrays[1::2]
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = [np.where(a > 0, np.log(a) + total, -np.inf) for a, total in zip(weights, lse, strict=True)]
    return np.concatenate(scores, axis=-1)


JOINS = {
    "minus": Join({"": ()}, _alike, _minus, "{minus: [first, second], times: 0.8}", count=2, factor=True),
    "rollout": Join({"weights": ("weights",)}, _rolled_shape, _rollout, "weights: {rollout: [layer1, layer2]}",
                    mean=True),
    "merge": Join({"masked": ("weights", "lse"), "V": ("V",)}, _merged_shape, _merge,
                  "masked: {merge: [first, second]} and V: {merge: [first, second]}"),
}  # fmt: skip
