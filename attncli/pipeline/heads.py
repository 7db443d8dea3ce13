"""Projections, past keys and values, and the split into heads.

Letters: X n x d_x, Y m x d_y, W_Q d_x x (H d_k), W_K d_y x (G d_k), W_V d_y x (G d_v), W_O (H d_v) x d_o;
H query heads, G key heads. All with tokens as rows; leading axes are sequences.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attncli.errors import ShapeError, many, there_are
from attncli.lazy import np


def as_matrix(name: str, x: Any) -> Any:
    """A vector is one token; a single number is refused."""
    if x.ndim == 0:
        raise ShapeError(f"{name} is a single number, not a matrix", hint="write it as [[x]]")
    return x[None, :] if x.ndim == 1 else x


def project(name: str, x: Any, weight: Any | None, bias: Any | None) -> Any:
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


def with_past(name: str, past: Any, now: Any, heads: int | None) -> Any:
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


def broadcast_leading(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shapes broadcast together, also where no array could be so large. Raises ValueError."""
    if len({*shapes}) == 1:  # which is most of the time
        return shapes[0]
    found: list[int] = []
    for place in range(-max(map(len, shapes), default=0), 0):
        sizes = {shape[place] for shape in shapes if -place <= len(shape)} - {1}
        if len(sizes) > 1:
            raise ValueError(f"{' and '.join(map(str, shapes))} do not fit together")
        found.append(sizes.pop() if sizes else 1)
    return tuple(found)


def common_leading(arrays: Mapping[str, Any], tail: int = 2) -> tuple[int, ...]:
    """The axes before the last `tail`, broadcast together. Raises ShapeError where they do not match."""
    try:
        return broadcast_leading(*(array.shape[: array.ndim - tail] for array in arrays.values()))
    except ValueError:
        told = ", ".join(f"{name} {' x '.join(map(str, array.shape))}" for name, array in arrays.items())
        raise ShapeError(f"the leading axes do not match: {told}", hint="sequences must be as many, or 1") from None


def split_heads(name: str, x: Any, heads: int) -> Any:
    """(..., n, H d) as (..., H, n, d). Raises ShapeError where H does not divide the width."""
    if x.shape[-1] % heads:
        raise ShapeError(f"{name} has {x.shape[-1]} features, which {heads} heads cannot share equally")
    return x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads).swapaxes(-2, -3)


def join_heads(x: Any) -> Any:
    """(..., H, n, d) as (..., n, H d)."""
    return x.swapaxes(-2, -3).reshape(*x.shape[:-3], x.shape[-2], x.shape[-3] * x.shape[-1])


def repeat_heads(name: str, x: Any, query_heads: int) -> Any:
    """(..., G, m, d) as (..., H, m, d): query head h (from 0) uses key head floor(h G / H)."""
    key_heads = x.shape[-3]
    if key_heads in (1, query_heads):
        return x
    if key_heads == 0 or query_heads % key_heads:
        raise ShapeError(f"{query_heads} query heads cannot share the {key_heads} heads of {name} equally")
    return np.repeat(x, query_heads // key_heads, axis=-3)


def one_a_head(name: str, numbers: Any, heads: int, hint: str) -> Any:
    """One number, or one a head, as (H or 1, 1, 1). Raises ShapeError for other heads."""
    if numbers.size not in (1, heads):
        if heads == 1 and numbers.size == 2 and np.all(numbers == np.rint(np.abs(numbers))):
            a, b = (f"{number:.0f}" for number in numbers.flat)
            hint = f"one number? {a},{b} is written {a}.{b}"
        raise ShapeError(f"{name} has {many(numbers.size, 'number')}, but {there_are(heads, 'head')}", hint=hint)
    return numbers.reshape(-1, 1, 1)


def spread_to(x: Any, shape: tuple[int, ...]) -> Any:
    """x broadcast to a shape; one of that shape, which is most of the time, without asking NumPy."""
    return x if x.shape == shape else np.broadcast_to(x, shape)
