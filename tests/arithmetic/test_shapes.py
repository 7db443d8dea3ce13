"""Shapes are those that NumPy gives of arrays of these sizes; what NumPy refuses is an error that names both shapes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from formulas import FORMULAS, Formula
from hypothesis import given
from hypothesis import strategies as st

from attncli.arithmetic.shapes import Shape
from attncli.errors import Opaque, ShapeError
from attncli.pipeline.normalizers import NORMALIZERS

SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)


@pytest.mark.parametrize("formula", FORMULAS)
def test_formulas_give_the_shape_of_their_result(formula: Formula) -> None:
    q, k = np.ones((2, 3)), np.ones((4, 3))
    found = formula(Shape(2, 3), Shape(4, 3))
    assert found.shape == formula(q, k).shape


@pytest.mark.parametrize("name", ["softmax", "sum", "hardmax", "sigmoid", "none", "sparsemax"])
def test_normalizers_keep_the_shape(name: str) -> None:
    assert NORMALIZERS.find(name).function(Shape(2, 5, 7), np.ones((5, 7), dtype=bool)).shape == (2, 5, 7)


def same(operation: Callable[..., Any], *shapes: tuple[int, ...]) -> None:
    """NumPy and the shapes agree, in the shape of the result or in refusing it."""
    try:
        with warnings.catch_warnings():
            # Older releases only warn of an index that lies beyond an axis where the result is empty.
            warnings.simplefilter("error", DeprecationWarning)
            expected = operation(*(np.ones(shape) for shape in shapes)).shape
    except (ValueError, IndexError, DeprecationWarning):
        with pytest.raises(ShapeError):
            operation(*(Shape(*shape) for shape in shapes))
    else:
        assert operation(*(Shape(*shape) for shape in shapes)).shape == expected


@given(SHAPES, SHAPES)
def test_two_arrays(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    same(np.add, a, b)
    same(np.matmul, a, b)
    same(lambda x, y: np.where(True, x, y), a, b)
    same(lambda x, y: np.broadcast_to(x, y.shape), a, b)
    same(lambda x, y: np.reshape(x, y.shape), a, b)
    same(lambda x, y: np.stack([x, y], axis=0), a, b)


AXES = st.integers(-5, 4)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=4).map(tuple), SHAPES, AXES, AXES, st.booleans())
def test_functions_along_axes(a: tuple[int, ...], b: tuple[int, ...], one: int, two: int, keep: bool) -> None:
    same(lambda x: np.sum(x, axis=one, keepdims=keep), a)
    same(lambda x: np.mean(x, axis=(0, -1), keepdims=keep), (2, 3, 4))
    same(lambda x: np.max(x, axis=one, keepdims=keep), a)
    same(lambda x: np.swapaxes(x, one, two), a)
    same(lambda x: np.moveaxis(x, one, two), a)
    same(lambda x: np.expand_dims(x, one), a)
    same(lambda x: np.squeeze(x, one), a)
    same(lambda x: np.repeat(x, 3, axis=one), a)
    same(lambda x: np.take(x, [0, 1, 1], axis=one), tuple(size + 1 for size in a))
    same(lambda x: np.concatenate([x, x], axis=one), a)
    same(lambda x, y: np.concatenate([x, y], axis=one), a, b)
    same(lambda x: x.reshape(3, -1), a)
    same(lambda x: x.T, a)


SLICES = st.builds(slice, *[st.one_of(st.none(), st.integers(-5, 5))] * 2, st.sampled_from([None, 1, 2, -1]))
INDICES = st.one_of(SLICES, st.integers(-4, 3), st.none(), st.lists(st.integers(-2, 1), min_size=2, max_size=2))


@given(SHAPES, st.lists(INDICES, max_size=4), st.integers(0, 5))
def test_indices(shape: tuple[int, ...], index: list[Any], at: int) -> None:
    parts = tuple(np.array(part) if isinstance(part, list) else part for part in index)
    same(lambda x: x[parts], shape)
    same(lambda x: x[(*parts[:at], ..., *parts[at:])], shape)


def test_nothing_is_allocated_whatever_the_sizes_are() -> None:
    q, k = Shape(64, 10**12, 128), Shape(64, 10**12, 128)
    s = (q[..., :, None, :] + k[..., None, :, :]).sum(axis=-1) + np.exp(q @ k.mT)
    assert s.shape == (64, 10**12, 10**12)
    twice = np.concatenate([s, np.repeat(s, 3, axis=-1)], axis=-1)
    assert twice[:, -1].reshape(-1).shape == (64 * 4 * 10**12,)
    assert np.where(np.isneginf(s), s, 0.0).swapaxes(-1, 0).shape == (10**12, 10**12, 64)


@pytest.mark.parametrize(
    ("operation", "both"),
    [
        (lambda a, b: a @ b, r"\(2, 3\) @ \(4, 3\): 3 columns meet 4 rows"),
        (lambda a, b: a + b, r"\(2, 3\) and \(4, 3\)"),
        (lambda a, b: np.concatenate([a, b], axis=1), r"\(2, 3\) and \(4, 3\)"),
        (lambda a, b: a.reshape(4, -1), r"\(2, 3\).*\(4, -1\)"),
    ],
)
def test_a_mistake_names_both_shapes(operation: Callable[..., Any], both: str) -> None:
    with pytest.raises(ShapeError, match=both):
        operation(Shape(2, 3), Shape(4, 3))


def test_a_branch_on_numbers_is_told() -> None:
    with pytest.raises(Opaque, match="branch"):
        bool(Shape(1) > 0)
