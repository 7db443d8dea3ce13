"""Large problems at their edges: calls at the same time, empty axes, factors and numbers near the ends of a dtype."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from attncli import attend, load, run
from tests.inside import UsageError

rng = np.random.default_rng(3)


def _normal(n: int, width: int = 8, dtype: str = "float32") -> dict[str, np.ndarray]:
    return {name: rng.standard_normal((n, width)).astype(dtype) for name in "QKV"}


def blas_threads() -> list[int]:
    """How many threads each BLAS library would use now."""
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_calls_at_the_same_time_change_no_digit() -> None:
    problems = [_normal(n, 64) for n in (700, 1025, 2048)]

    def solve(i: int) -> np.ndarray:
        return attend(**problems[i], steps=("output",))["output"]

    threads, alone = blas_threads(), [solve(i) for i in range(3)]
    same: list[bool] = []

    def work(first: int) -> None:
        same.extend(np.array_equal(solve(i % 3), alone[i % 3]) for i in range(first, first + 6))

    callers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert same == [True] * 24
    assert blas_threads() == threads


@pytest.mark.parametrize("empty", ["Q", "K"])
@pytest.mark.parametrize("heads", [(), (2,)])
def test_an_empty_batch(empty: str, heads: tuple[int, ...]) -> None:
    inputs = {name: np.ones((0 if name == empty else 1, *heads, 600, 8), "f") for name in "QK"}
    inputs["V"] = inputs["K"]
    assert attend(**inputs, steps=("output",))["output"].shape == (0, 600, 16 if heads else 8)


@pytest.mark.parametrize(
    ("dtype", "size", "scale", "softcap"),
    [
        ("float32", 1e15, 1e-30, 1e14),  # scale / softcap is less than any normal number
        ("float32", 1e15, 1e-30, 1e12),
        ("float32", 1e15, 1e-30, None),
        ("float64", 1e150, 1e-300, 1e14),
    ],
)
def test_a_small_factor_loses_no_digits(dtype: str, size: float, scale: float, softcap: float | None) -> None:
    inputs = _normal(600, dtype=dtype)
    inputs |= {name: inputs[name] * np.dtype(dtype).type(size) for name in "QK"}
    rules: dict[str, Any] = {"score": "dot", "scale": scale, "softcap": softcap}
    plain = attend(**inputs, **rules)
    got = attend(**inputs, **rules, steps=("output", "lse"))
    for step in ("output", "lse"):
        atol = 4 * np.finfo(dtype).eps * (np.abs(plain["scaled"]).max() + 600)
        np.testing.assert_allclose(got[step], plain[step], rtol=0, atol=atol)


def test_keys_near_the_end_of_the_dtype_lose_no_digits() -> None:
    inputs = _normal(600)
    inputs["Q"] *= np.float32(1e-20)
    inputs["K"] *= np.float32(1e37)
    got = attend(**inputs, score="dot", scale=1e-18, steps=("output",))["output"]
    np.testing.assert_allclose(got, attend(**inputs, score="dot", scale=1e-18)["output"], rtol=0, atol=1e-6)


@pytest.mark.parametrize(("scale", "told"), [(1e39, "infinite"), (-1e39, "infinite"), (1e-46, "is 0")])
@pytest.mark.parametrize("n", [6, 600])
def test_a_scale_beyond_the_dtype_is_refused(scale: float, told: str, n: int) -> None:
    with pytest.raises(UsageError, match=f"{told} in float32"):
        attend(**_normal(n), scale=scale, steps=("output",))
    assert np.isfinite(attend(**_normal(n, dtype="float64"), scale=1e-46, steps=("output",))["output"]).all()


def test_notes_of_numbers_beyond_the_dtype_come_in_one_order() -> None:
    inputs: dict[str, Any] = {"W_O": np.ones((8, 8)), **_normal(600, dtype="float64"), "b_O": np.ones(8)}
    for name in ("W_O", "Q", "b_O"):
        inputs[name][(0,) * inputs[name].ndim] = 1e300
    inputs["bias"] = np.ones((600, 600))
    inputs["dtype"] = "float32"
    told = [[note for note in run(inputs, steps=steps).notes if "beyond" in note] for steps in (None, ("output",))]
    assert told[0] == told[1]
    assert [note.partition(":")[0] for note in told[0]] == ["Q", "W_O", "b_O"]


def test_progress_ends_at_the_whole() -> None:
    shares: list[float] = []
    load(_normal(2048)).solve(("output",), shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1
