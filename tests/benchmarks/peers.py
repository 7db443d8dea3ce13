"""Attention of other systems, and the two matrix products alone, for the benchmarks to compare with.

Each function takes q, k, v (1, H, n, d), causal, and threads, and returns a function that computes once; None where the
system does not do this.
"""

from __future__ import annotations

import importlib.util
from collections import deque
from collections.abc import Callable
from threading import Thread
from typing import Any

import numpy as np
from attncli.core.dots import Sizes
from attncli.core.online import all_tiles

from attncli.engine.attending import attend
from attncli.engine.blas import single_blas
from attncli.engine.threads import scratch
from attncli.pipeline.masks import mask_spec

Run = Callable[[], Any]


def attncli(q: Any, k: Any, v: Any, causal: bool, threads: int) -> Run:
    """This program's engine."""
    rules = Rules(masks=(mask_spec("causal"),) if causal else ())
    _, heads, n, _ = q.shape

    def run() -> Any:
        joined = attend({"Q": q, "K": k, "V": v}, rules, ("output",)).rows("output")
        return joined.reshape(1, n, heads, -1).swapaxes(1, 2)

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
    """q k and (q k) v alone, block by block as the engine does them: a bound for what NumPy can reach."""
    _, heads, n, d = q.shape
    sizes = Sizes.find(max(d, v.shape[-1]), q.dtype, n, k.shape[-2], heads, 2 if causal else 4)
    a, r, b, c = sizes
    rows = a * r

    def work(waiting: deque[tuple[int, int]]) -> None:
        scores, parts = scratch((b * a * c * r,), q.dtype), scratch((b * a * r * v.shape[-1],), q.dtype)
        turned = scratch((a, d, r), q.dtype)
        while waiting:
            head, start = waiting.popleft()
            turned[...] = q[0, head, start : start + rows].reshape(a, r, d).swapaxes(1, 2)
            for tile in all_tiles(min(start + rows, n) if causal else n, b, c, a):
                part, width = slice(tile.low, tile.high), min(c, tile.high - tile.low)
                shape = (tile.high - tile.low) // width, a, width, r
                of_tile = scores[: np.prod(shape)].reshape(shape)
                np.matmul(k[0, head, part].reshape(-1, 1, width, d), turned, out=of_tile)
                values = v[0, head, part].reshape(-1, 1, width, v.shape[-1])
                out = parts[: shape[0] * a * r * v.shape[-1]].reshape(shape[0], a, r, -1)
                np.matmul(of_tile.swapaxes(2, 3), values, out=out)

    def run() -> None:
        waiting = deque((head, start) for start in range(n - rows, -1, -rows) for head in range(heads))
        others = [Thread(target=work, args=(waiting,)) for _ in range(threads - 1)]
        with single_blas():
            for thread in others:
                thread.start()
            work(waiting)
            for thread in others:
                thread.join()

    return run


PEERS = {"attncli": attncli, "torch": torch, "onnxruntime": onnxruntime, "jax": jax, "products": products}
