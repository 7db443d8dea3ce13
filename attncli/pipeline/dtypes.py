"""What is computed in, by the types of the inputs."""

from __future__ import annotations

from collections.abc import Mapping

from attncli.errors import InputError
from attncli.lazy import Array, np


def common_dtype(inputs: Mapping[str, Array], dtype: str | None) -> np.dtype:
    """What is computed in: integers and bool count as float64, half precision as float32, then as NumPy promotes."""
    kinds = {_computed(name, array.dtype) for name, array in inputs.items()}
    if dtype is not None:
        return np.dtype(dtype)
    return np.result_type(*kinds) if kinds else np.dtype(np.float64)


def _computed(name: str, dtype: np.dtype) -> np.dtype:
    if dtype.kind == "c":
        raise InputError(f"{name} holds complex numbers ({dtype}), which have no order, and so no softmax")
    if dtype.kind in "biu":
        return np.dtype(np.float64)
    if dtype.kind not in "fV" or dtype.fields:
        raise InputError(f"{name} holds {dtype}, which is not a number")
    if dtype.itemsize <= 4:  # float32, float16, and bfloat16, whose kind is V
        return np.dtype(np.float32)
    return np.dtype(np.float64)
