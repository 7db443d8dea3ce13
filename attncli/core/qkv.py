"""Queries, keys and values: from the data through the projections, past ones in front, split into heads.

Letters: n queries, m keys, H query heads, G key heads; leading axes are sequences.
"""

from __future__ import annotations

from collections.abc import Mapping

from attncli.core.projections import common_leading, project, repeat_heads, split_heads, with_past
from attncli.errors import ShapeError, UsageError
from attncli.lazy import Array
from attncli.record import record


@record
class QKV:
    """steps: X, Y, Q, K, V as they are shown, heads joined. q, k, v: (..., H, n, d) each, or (..., n, d) without heads.

    past: how many keys of earlier steps stand in front. joined: the heads lie in the features of Q, K and V.
    """

    steps: dict[str, Array]
    q: Array | None
    k: Array | None
    v: Array | None
    heads: int | None
    past: int
    joined: bool


def query_key_value(
    inputs: Mapping[str, Array], begin: str | None, heads: int | None, kv_heads: int | None, *, spread: bool = True
) -> QKV:
    """Q = X W_Q + b_Q and so on. `begin` names a later step that is given, before which no Q and K are needed.

    spread: repeat the heads of grouped keys and values; else they stay G, (..., G, m, d).

    Raises UsageError for what is missing or given twice, ShapeError for sizes that disagree.
    """
    steps = _projected(inputs, begin)
    begun = as_matrix(begin, inputs[begin]) if begin else None
    joined, heads, key_heads = _count_heads(steps, begun, heads, kv_heads)
    pasts = {}
    for name, earlier in (("K", "past_k"), ("V", "past_v")):
        if earlier in inputs and name in steps:
            past = as_matrix(earlier, inputs[earlier])
            pasts[earlier] = past.shape[-2]
            steps[name] = with_past(name, past, steps[name], key_heads if joined and heads else None)
    if len({*pasts.values()}) > 1:
        raise ShapeError(f"past_k has {pasts['past_k']} keys, but past_v has {pasts['past_v']} values")
    _same_count(steps, begun)

    def split(name: str) -> Array | None:
        x = steps.get(name)
        if x is None or heads is None:
            return x
        if joined:
            x = split_heads(name, x, heads if name == "Q" else key_heads)
        elif x.ndim == 2:
            x = x[None]
        return x

    parts = {name: x for name in ("Q", "K", "V") if (x := split(name)) is not None}
    repeated = parts
    if heads is not None:
        # Without tokens where nothing is to be spread: the heads must fit all the same.
        repeated = {
            name: x if name == "Q" else repeat_heads(name, x if spread else x[..., :0, :], heads)
            for name, x in parts.items()
        }
    common_leading(repeated if begun is None else repeated | {begin or "": begun})
    q, k, v = ((repeated if spread else parts).get(name) for name in ("Q", "K", "V"))
    return QKV(steps, q, k, v, heads, max(pasts.values(), default=0), joined)


def as_matrix(name: str, array: Array) -> Array:
    """A vector is one token; a single number is refused."""
    if array.ndim == 0:
        raise ShapeError(f"{name} is a single number, not a matrix", hint="write it as [[x]]")
    return array[None, :] if array.ndim == 1 else array


def _projected(inputs: Mapping[str, Array], begin: str | None) -> dict[str, Array]:
    steps = {name: as_matrix(name, inputs[name]) for name in ("X", "Y") if name in inputs}
    x, y = steps.get("X"), steps.get("Y", steps.get("X"))
    sources = {"V": y} if begin else {"Q": x, "K": y, "V": y}
    for name, source in sources.items():
        if name in inputs:
            steps[name] = as_matrix(name, inputs[name])
        elif source is not None:
            steps[name] = project(name, source, inputs.get(f"W_{name}"), inputs.get(f"b_{name}"))
    for name in ("Q", "K"):
        if begin is None and name not in steps:
            raise UsageError(f"{name} is missing", hint="give Q and K, or X (and Y) with weights, or scores")
    return steps


def _count_heads(
    steps: Mapping[str, Array], begun: Array | None, heads: int | None, kv_heads: int | None
) -> tuple[bool, int | None, int]:
    """Whether the heads lie in the features, how many query heads there are (None: no heads), how many key heads."""
    if kv_heads is not None and heads is None:
        raise UsageError("kv_heads is given without heads", hint="--heads says how many query heads there are")
    if (heads is not None and heads < 1) or (kv_heads is not None and kv_heads < 1):
        raise UsageError("heads are counted from 1")
    given = {name: steps[name] for name in ("Q", "K", "V") if name in steps}
    if begun is not None:
        given["the given step"] = begun
    several = [name for name, array in given.items() if array.ndim >= 4]
    if not several:
        if begun is not None and heads is not None and (begun.ndim < 3 or begun.shape[-3] not in (1, heads)):
            shape = " x ".join(map(str, begun.shape))
            raise ShapeError(f"the given step is {shape}, but there are {heads} heads", hint=f"{heads} x n x m")
        return True, heads, kv_heads or heads or 1
    if heads is not None:
        raise UsageError(
            f"{several[0]} has {given[several[0]].ndim} axes, the third from last of which counts the heads: "
            f"heads={heads} cannot split it again",
            hint="leave --heads out, or join the heads in the features",
        )
    counts = {name: array.shape[-3] for name, array in given.items() if array.ndim >= 3}
    most = max(counts.values())
    asking = {name: count for name, count in counts.items() if name not in ("K", "V")}
    for name, count in asking.items():
        if count not in (1, most):
            told = ", ".join(f"{name} {count}" for name, count in counts.items())
            raise ShapeError(f"{name} has {count} heads, but there are {most} elsewhere: {told}")
    return False, most, most


def _same_count(steps: Mapping[str, Array], begun: Array | None) -> None:
    v, k = steps.get("V"), steps.get("K")
    m = k.shape[-2] if k is not None else begun.shape[-1] if begun is not None else None
    if v is not None and m is not None and v.shape[-2] != m:
        raise ShapeError(
            f"V has {v.shape[-2]} rows, but there are {m} keys", hint="each key has one value (past ones count)"
        )
