"""Attention of other systems, and the two matrix products alone, for the benchmarks to compare with.

Each function takes q, k, v (1, H, n, d), causal, and threads, and returns a function that computes once; None where the
system does not do this.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from attncli import attend

Run = Callable[[], Any]


def attncli(q: Any, k: Any, v: Any, causal: bool, threads: int) -> Run:
    """This program, as anyone calls it; heads that share nothing are sequences of a stack."""

    def run() -> Any:
        return attend(q[0], k[0], v[0], mask="causal" if causal else None, steps=("output",)).output[None]

    return run


def torch(q: Any, k: Any, v: Any, causal: bool, threads: int) -> Run | None:
    """PyTorch's scaled_dot_product_attention."""
    if not importlib.util.find_spec("torch"):
        return None
    import torch as pytorch

    pytorch.set_num_threads(threads)
    tensors = [pytorch.from_numpy(x) for x in (q, k, v)]
    attention = pytorch.nn.functional.scaled_dot_product_attention

    def run() -> Any:
        with pytorch.no_grad():
            return attention(*tensors, is_causal=causal).numpy()

    return run


def onnxruntime(q: Any, k: Any, v: Any, causal: bool, threads: int) -> Run | None:
    """ONNX Runtime's Attention, the operator of opset 23; single precision only."""
    if q.dtype != np.float32 or not (importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("onnx")):
        return None
    import onnxruntime as runtime
    from onnx import TensorProto, helper

    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, q.shape) for name in "qkv"]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, q.shape)
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"], is_causal=int(causal))
    graph = helper.make_graph([node], "attention", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"q": q, "k": k, "v": v})[0]


def jax(q: Any, k: Any, v: Any, causal: bool, threads: int) -> Run | None:
    """JAX's dot_product_attention, compiled; it has no number of threads to set."""
    if not importlib.util.find_spec("jax"):
        return None
    import jax as framework

    framework.config.update("jax_enable_x64", True)
    attention = framework.jit(framework.nn.dot_product_attention, static_argnames="is_causal")
    arrays = [framework.numpy.asarray(np.ascontiguousarray(x.swapaxes(1, 2))) for x in (q, k, v)]
    return lambda: np.asarray(attention(*arrays, is_causal=causal)).swapaxes(1, 2)


def products(q: Any, k: Any, v: Any, causal: bool, threads: int) -> Run:
    """q k and (q k) v alone, of blocks of rows, by NumPy's BLAS; under a causal mask half of the keys."""
    n, rows = q.shape[-2], 512

    def run() -> None:
        for start in range(0, n, rows):
            seen = slice(None, start + rows if causal else n)
            scores = q[..., start : start + rows, :] @ k[..., seen, :].mT
            scores @ v[..., seen, :]

    return run


PEERS = {"attncli": attncli, "torch": torch, "onnxruntime": onnxruntime, "jax": jax, "products": products}
