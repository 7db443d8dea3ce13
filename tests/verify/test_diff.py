"""Two arrays without a problem: errors, ulp and cells by examples whose numbers are by hand."""

from __future__ import annotations

import math
import tracemalloc
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from attncli import diff
from tests.inside import UsageError


def compared(a: Any, b: Any, dtype: Any = "float64", **allowed: float) -> Any:
    first, second = (np.asarray(x, dtype=dtype) for x in (a, b))
    return diff(first, second, **allowed)


def ulps(a: Any, b: Any, dtype: Any) -> float:
    """How many ulp two numbers of a type are apart."""
    found = compared([a], [b], dtype)
    return found.worst[0].ulp if found.worst else 0.0


def test_largest_errors_by_hand() -> None:
    found = compared([[1.0, 100.0], [0.5, 3.0]], [[1.0, 101.0], [1.0, 3.0]])
    assert (found.count, found.equal, found.outside) == (4, 2, 2)
    assert found.absolute is not None
    assert (found.absolute.at, found.absolute.absolute) == ((1, 2), 1.0)
    assert found.relative is not None
    assert (found.relative.at, found.relative.relative) == ((2, 1), 0.5)
    assert [cell.at for cell in found.worst] == [(1, 2), (2, 1)]


def test_a_difference_from_zero_has_no_relative_error() -> None:
    found = compared([[1.0]], [[0.0]])
    assert found.relative is None
    assert found.absolute is not None
    assert found.absolute.relative is None


@pytest.mark.parametrize(
    ("name", "steps"), [("float64", 2.0**-52), ("float32", 2.0**-23), ("float16", 2.0**-10), ("bfloat16", 2.0**-7)]
)
def test_ulp_of_each_type(name: str, steps: float) -> None:
    """From 1 upwards the numbers lie one step apart, downwards half a step."""
    kind = ml_dtypes.bfloat16 if name == "bfloat16" else name
    a = [1.0, 1.0, 1.0, -1.0, 0.0, -0.0, np.nan]
    b = [1.0 + 3 * steps, 1.0 - steps, 1.0, -1.0 - steps, -0.0, 0.0, 1.0]
    assert [ulps(x, y, kind) for x, y in zip(a, b, strict=True)] == [3, 2, 0, 1, 0, 0, math.inf]
    assert compared(a, b, kind).unit == name


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
def test_ulp_counts_the_numbers_between(kind: Any) -> None:
    """Across zero there is one zero, and the smallest numbers on both sides are two apart."""
    smallest = np.nextafter(kind(0), kind(1))
    assert ulps(smallest, -smallest, kind) == 2
    assert ulps(np.inf, -np.inf, kind) > 2 ** (8 if kind is ml_dtypes.bfloat16 else 14)


def test_classes() -> None:
    step = 2.0**-23
    b = [1 + step * count for count in (0, 0, 1, 2, 3, 4, 5, 8, 9)]
    found = compared(np.ones(9), b, "float32")
    assert found.classes == [(0, 0, 2), (1, 1, 1), (2, 2, 1), (3, 4, 2), (5, 8, 2), (9, 16, 1)]
    assert compared([1.0], [-1.0]).classes[-1] == (65537, None, 1)


def test_nan_and_infinity() -> None:
    nan, inf = math.nan, math.inf
    found = compared([[nan, nan, inf, inf, 1.0]], [[nan, 1.0, inf, -inf, nan]], atol=1e9)
    assert (found.equal, found.outside, found.spoiled, found.nan) == (2, 3, 3, (1, 1))
    assert not found.within
    assert {cell.at for cell in found.worst} == {(1, 2), (1, 4), (1, 5)}
    assert found.absolute is None


@pytest.mark.parametrize(
    ("allowed", "within"),
    [
        ({}, False),
        ({"atol": 0.011}, True),
        ({"atol": 0.009}, False),
        ({"rtol": 0.011}, True),
        ({"rtol": 0.009}, False),
        ({"atol": 0.006, "rtol": 0.006}, True),
        ({"ulp": 1}, False),
        ({"ulp": 1e14}, True),
    ],
)
def test_what_is_allowed(allowed: dict[str, float], within: bool) -> None:
    assert compared([[1.01]], [[1.0]], **allowed).within is within


def test_the_coarser_type_counts() -> None:
    a, b = np.array([1.0], np.float32), np.array([1.0 + 2.0**-30])
    found = diff(a, b, ulp=0)
    assert (found.unit, found.dtypes) == ("float32", ("float32", "float64"))
    assert found.within
    assert found.equal == 0
    assert diff(np.array([1.0], ml_dtypes.bfloat16), a).unit == "bfloat16"
    assert diff(np.array([1, 2]), np.array([1, 2])).within


def test_large_whole_numbers_are_compared_exactly() -> None:
    found = diff(np.array([2**53 + 1]), np.array([2**53]))
    assert found.equal == 0


def test_shapes() -> None:
    a = np.arange(6.0).reshape(2, 3)
    assert not compared(a, a[:1]).comparable
    assert compared(a, a.T).notes == ["B is A transposed: the numbers are the same"]
    assert compared(a, a.T + 1).notes == ["the shape of B is that of A transposed"]
    assert compared(a, a.reshape(6)).notes == ["they hold equally many numbers in unlike shapes"]
    assert compared(a[None], a).within
    assert compared([[1.0, 2.0]], [1.0, 2.0]).within
    assert not compared([[1.0], [2.0]], [1.0, 2.0]).comparable
    assert compared(np.zeros((0, 3)), np.zeros((0, 3))).within


def test_cells_are_told_by_their_labels(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(",x,y\ncat,1,2\nsat,3,4\n")
    (tmp_path / "b.csv").write_text("cat,1,2\nmat,3.5,4\n")
    found = diff(tmp_path / "a.csv", tmp_path / "b.csv")
    assert found.worst[0].name == "sat, x"
    assert found.notes == ["the labels of the rows differ; those of A are told"]
    deep = compared(np.zeros((2, 3, 4)), np.eye(24)[17].reshape(2, 3, 4))
    assert (deep.worst[0].at, deep.worst[0].name) == ((2, 2, 2), "[2] 2, 2")


def test_ten_of_many_the_farthest_first() -> None:
    a = np.zeros((600, 1000))
    b = a + np.arange(600_000).reshape(600, 1000)  # several blocks
    found = compared(a, b)
    assert [cell.b for cell in found.worst] == [599_999.0 - i for i in range(10)]
    turned = diff(a.T, np.asfortranarray(b.T))
    assert [cell.at for cell in turned.worst] == [cell.at[::-1] for cell in found.worst]


def test_blocks_of_large_arrays() -> None:
    a = np.zeros(2**22, np.float32)
    tracemalloc.start()
    found = diff(a, a + np.float32(1))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.count == 2**22
    assert most < 3 * a.nbytes  # one of these is the array that was made here


@pytest.mark.parametrize("allowed", [{"atol": -1.0}, {"rtol": math.nan}, {"ulp": -0.5}])
def test_senseless_tolerances(allowed: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="0 or more"):
        diff([[1.0]], [[1.0]], **allowed)
