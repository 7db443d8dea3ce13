"""Tensors of PyTorch from Python: these stand-ins refuse what PyTorch 2 refuses, in its words."""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from attncli import AttnError, assert_close, attend, check, diff, run

Q, K, V = [[1.0, 2.0], [0.5, -1.0]], [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [[2.0], [3.0], [5.0]]


class Dtype:
    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return f"torch.{self.name}"

    __repr__ = __str__


class Tensor:
    """What a torch.Tensor lets NumPy see of it."""

    def __init__(self, rows: Any, dtype: str = "float32", *, requires_grad: bool = False, sparse: bool = False) -> None:
        self._array = np.asarray(rows).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
        self.dtype, self.requires_grad, self.sparse = Dtype(dtype), requires_grad, sparse

    @property
    def ndim(self) -> int:
        return self._array.ndim

    def is_floating_point(self) -> bool:
        return "float" in self.dtype.name

    def detach(self) -> Tensor:
        return Tensor(self._array, self.dtype.name, sparse=self.sparse)

    def float(self) -> Tensor:
        return Tensor(self._array, requires_grad=self.requires_grad, sparse=self.sparse)

    def numpy(self, *, force: bool = False) -> Any:
        if self.sparse:
            raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")
        if self.requires_grad and not force:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        if self.dtype.name == "bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self._array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.numpy()


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int64"])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_every_type(dtype: str, requires_grad: bool) -> None:
    q, k, v = (Tensor(rows, dtype, requires_grad=requires_grad) for rows in (Q, K, V))
    exact = np.trunc if dtype == "int64" else np.asarray
    trace = attend(q, k, v)
    want = attend(exact(Q), exact(K), exact(V))
    np.testing.assert_allclose(trace.output, want.output, rtol=0, atol=1e-6)
    assert trace.output.dtype == (np.float64 if dtype in ("float64", "int64") else np.float32)
    assert "torch" not in sys.modules


def test_wherever_an_array_may_stand() -> None:
    def tensor(rows: Any) -> Tensor:
        return Tensor(rows, "bfloat16", requires_grad=True)

    want = attend(Q, K, V, bias=[[0.5, 0, 0], [0, 0, 1]], mask={"keep": [[1, 1, 0], [1, 1, 1]]}, dtype="float32")
    said = {"mask": {"keep": Tensor([[1, 1, 0], [1, 1, 1]], "int64")}, "bias": tensor([[0.5, 0, 0], [0, 0, 1]])}
    found = attend(tensor(Q), tensor(K), tensor(V), dtype=Dtype("float32"), **said)
    np.testing.assert_allclose(found.output, want.output, atol=1e-6)
    problem = {"Q": tensor(Q), "K": tensor(K), "V": tensor(V), **said}
    np.testing.assert_allclose(run(problem).output, want.output, atol=1e-6)
    assert check({**problem, "expect": {"output": tensor(want.output)}}).verdict == "agrees"
    assert check({**problem, "expect": {"output": tensor(want.output + 0.5)}}).verdict == "wrong"
    assert_close(tensor(want.output), problem)
    assert diff(tensor(Q), Q).within
    hand = attend(Q, K, V).output.round(4).tolist()
    listed = check({"problems": [{"Q": tensor(Q), "K": tensor(K), "V": tensor(V), "expect": {"output": hand}}]})
    assert listed.verdict == "agrees"


def test_bfloat16_has_the_tolerance_of_bfloat16() -> None:
    exact = attend(Q, K, V).output
    near = Tensor(exact, "bfloat16").float().numpy()
    assert np.abs(near - exact).max() > 1e-3
    assert check({"Q": Q, "K": K, "V": V, "expect": {"output": Tensor(exact, "bfloat16")}}).verdict == "agrees"


@pytest.mark.parametrize(
    "value", [Tensor(Q, sparse=True), [Tensor([1.0, 2.0], requires_grad=True), Tensor([0.5, -1.0], requires_grad=True)]]
)
def test_what_cannot_become_an_array_is_told(value: Any) -> None:
    with pytest.raises(AttnError, match=r"^Q cannot become an array: (Can't|can't) .*\n.*dense tensor"):
        attend(value, K)
