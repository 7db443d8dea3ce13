"""How near expected arrays must be: as their type allows, as their last bits tell, or as it is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from attncli import attend, check
from tests.calling import attncli

RNG = np.random.default_rng(8)
TYPES: dict[str, Any] = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16}


def kernel(q: np.ndarray, k: np.ndarray, v: np.ndarray, dtype: Any) -> np.ndarray:
    """Causal attention as a half-precision kernel computes it: sums in float32, weights and output rounded."""
    s = q.astype(np.float32) @ k.astype(np.float32).T / np.float32(np.sqrt(q.shape[1]))
    s[np.triu_indices(len(q), 1)] = -np.inf
    e = np.exp(s - s.max(axis=1, keepdims=True))
    weights = (e / e.sum(axis=1, keepdims=True)).astype(dtype)
    return (weights.astype(np.float32) @ v.astype(np.float32)).astype(dtype)


def saved(folder: Path, dtype: Any, made: Any = kernel) -> tuple[str, ...]:
    """Inputs and output of a kernel, saved as float32, as arguments."""
    given = [RNG.normal(size=(24, 16)).astype(dtype) for _ in range(3)]
    arrays = dict(zip("qkv", given, strict=True)) | {"o": made(*given, dtype)}
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array.astype(np.float32))
    return ("attend", *(str(folder / f"{name}.npy") for name in "qkv"), "--expect", f"output={folder / 'o.npy'}")


@pytest.mark.parametrize("name", TYPES)
def test_half_precision_saved_as_float32_is_seen_from_its_last_bits(tmp_path: Path, name: str) -> None:
    done = attncli(*saved(tmp_path, TYPES[name]), "--mask", "causal")
    assert done.status == 0, done.err
    assert f"an array of {name}" in done.err


@pytest.mark.parametrize("name", TYPES)
def test_a_wrong_kernel_of_half_precision_stays_wrong(tmp_path: Path, name: str) -> None:
    assert attncli(*saved(tmp_path, TYPES[name])).status == 1  # the mask was forgotten


@pytest.mark.parametrize("off", [0.0, 2.0**-6])
def test_short_numbers_tell_no_type(off: float) -> None:
    # Halves fit bfloat16 as well: what is off by less than bfloat16's rounding is wrong in float32 all the same.
    q, k, v = np.eye(4), np.eye(4), np.round(RNG.normal(size=(4, 4)) * 8) / 2
    output = attend(q, k, v, normalizer="hardmax")["output"].astype(np.float32)
    output[0, 0] += off
    found = check({"Q": q, "K": k, "V": v, "normalizer": "hardmax", "expect": {"output": output}})
    assert found.verdict == ("wrong" if off else "agrees")


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ((), 1),
        (("--atol", "1e-3"), 0),
        (("--atol", "1e-5"), 1),
        (("--rtol", "0.01"), 0),
        (("--expect-dtype", "bfloat16"), 0),
        (("--expect-dtype", "float32"), 1),
        (("--expect-dtype", "bfloat16", "--atol", "0"), 1),
    ],
)
def test_the_tolerance_may_be_asked_for(tmp_path: Path, asked: tuple[str, ...], status: int) -> None:
    q, k, v = (RNG.normal(size=(6, 4)) + 3 for _ in range(3))
    np.savez(tmp_path / "a.npz", q=q, k=k, v=v, o=attend(q, k, v)["output"] * (1 + 1e-4))
    arrays = [f"{tmp_path / 'a.npz'}::{name}" for name in "qkvo"]
    done = attncli("attend", *arrays[:3], "--expect", f"output={arrays[3]}", *asked)
    assert done.status == status, done.err


def test_a_tolerance_below_zero_is_refused() -> None:
    done = attncli("attend", "[[1]]", "[[1]]", "--atol", "-1")
    assert (done.status, "--atol" in done.err) == (2, True)
