"""What comes before the scores: projections, past keys and values, and the split into heads.

Letters: X n x d_x, Y m x d_y, W_Q d_x x (H d_k), W_K d_y x (G d_k), W_V d_y x (G d_v), W_O (H d_v) x d_o;
H query heads, G key heads. All with tokens as rows; leading axes are batch axes.
"""

from __future__ import annotations

from collections.abc import Mapping

from attncli.errors import InputError, ShapeError
from attncli.lazy import Array, np

MATRICES = (
    "X", "Y", "Q", "K", "V", "W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O", "past_k", "past_v", "bias",
    "kernel", "scores", "scaled", "masked", "weights",
)  # fmt: skip


def project(name: str, x: Array, weight: Array | None, bias: Array | None) -> Array:
    """x W + b; a weight left out is the identity, a bias 0.

    x: (..., n, d)   weight: (d, d_out)   bias: (d_out,)   ->   (..., n, d_out). Raises ShapeError.
    """
    letter = name[-1]
    if weight is not None:
        if weight.ndim != 2 or weight.shape[0] != x.shape[-1]:
            shape = " x ".join(map(str, weight.shape))
            raise ShapeError(
                f"W_{letter} is {shape} (in x out), but there are {x.shape[-1]} features to project",
                hint="--weight-layout says whether a weight is stored in-out or out-in",
            )
        x = x @ weight
    if bias is None:
        return x
    if bias.size != x.shape[-1]:
        raise ShapeError(f"b_{letter} has {bias.size} numbers, but {name} has {x.shape[-1]} features")
    return x + bias.reshape(-1)


def with_past(name: str, past: Array, now: Array, heads: int | None) -> Array:
    """The keys (or values) of earlier steps in front of those of now.

    past: (..., p, G d), or split into heads already: (..., G, p, d).   now: (..., m, G d), or split alike.
    heads: G where they lie in the features of `now`, else None. Raises ShapeError.
    """
    if heads is not None and past.ndim == now.ndim + 1:
        if past.shape[-3] != heads:
            raise ShapeError(f"past_{name.lower()} has {past.shape[-3]} heads, but {name} has {heads}")
        past = join_heads(past)
    if past.shape[-1] != now.shape[-1]:
        raise ShapeError(f"past_{name.lower()} has {past.shape[-1]} features, but {name} has {now.shape[-1]}")
    leading = common_leading({f"past_{name.lower()}": past, name: now})
    spread = [np.broadcast_to(part, leading + part.shape[-2:]) for part in (past, now)]
    return np.concatenate(spread, axis=-2)


def together(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shapes broadcast together; equal ones, which is most of the time, without asking NumPy."""
    return shapes[0] if len({*shapes}) == 1 else np.broadcast_shapes(*shapes)


def common_leading(arrays: Mapping[str, Array]) -> tuple[int, ...]:
    """The leading axes of matrices, broadcast together. Raises ShapeError where they do not match."""
    try:
        return together(*(array.shape[:-2] for array in arrays.values()))
    except ValueError:
        told = ", ".join(f"{name} {' x '.join(map(str, array.shape))}" for name, array in arrays.items())
        raise ShapeError(f"the leading axes do not match: {told}", hint="sequences must be as many, or 1") from None


def split_heads(name: str, x: Array, heads: int) -> Array:
    """(..., n, H d) as (..., H, n, d). Raises ShapeError where H does not divide the width."""
    if x.shape[-1] % heads:
        raise ShapeError(f"{name} has {x.shape[-1]} features, which {heads} heads cannot share equally")
    split: Array = x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads).swapaxes(-2, -3)
    return split


def join_heads(x: Array) -> Array:
    """(..., H, n, d) as (..., n, H d)."""
    joined: Array = x.swapaxes(-2, -3).reshape(*x.shape[:-3], x.shape[-2], x.shape[-3] * x.shape[-1])
    return joined


def repeat_heads(name: str, x: Array, query_heads: int) -> Array:
    """(..., G, m, d) as (..., H, m, d): query head h (from 0) uses key head floor(h G / H)."""
    key_heads = x.shape[-3]
    if key_heads in (1, query_heads):
        return x
    if query_heads % key_heads:
        raise ShapeError(f"{query_heads} query heads cannot share the {key_heads} heads of {name} equally")
    return np.repeat(x, query_heads // key_heads, axis=-3)


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
