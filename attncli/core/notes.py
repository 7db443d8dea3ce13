"""What has to be told about an attention: queries that see no key, and numbers that spoil what they touch."""

from __future__ import annotations

from attncli.core.masks import Extent
from attncli.lazy import Array, np

_LISTED = 5


def empty_queries(empty: Array, rule: str, extent: Extent) -> str:
    """The note that names the queries which see no key, and what they got.

    empty: (..., n, 1) booleans.
    """
    places = [_where("query", index[:-1], extent) for index in np.argwhere(empty)]
    got = {"zero": "weights and output 0", "nan": "NaN", "uniform": "equal weights", "error": "an error"}[rule]
    what = "sees no key" if len(places) == 1 else "see no key"
    return f"{_listed(places)} {what}: {got} (--empty-rows {rule})"


def attended(logits: Array, counted: Array, empty: Array, extent: Extent) -> list[str]:
    """The note that places a NaN or +inf among the scores that count, if there is any; a row of -inf alone, too."""
    with np.errstate(invalid="ignore"):
        bad: Array = (np.isnan(logits) | np.isposinf(logits)) & counted
        sunk = np.isneginf(logits).all(axis=-1, keepdims=True) & ~empty if logits.shape[-1] else empty & False
    told = []
    if bad.any():
        places = [
            f"{_where('query', index[:-1], extent)}, key {index[-1] + 1}" for index in np.argwhere(bad)[: _LISTED + 1]
        ]
        told.append(f"NaN or infinity among the scores that count gives NaN: {_listed(places, int(bad.sum()))}")
    if sunk.any():
        places = [_where("query", index[:-1], extent) for index in np.argwhere(sunk)]
        told.append(f"every score is -inf, which gives NaN: {_listed(places)}")
    return told


def spoiled_values(v: Array, counted: Array, extent: Extent) -> list[str]:
    """The note that places a NaN or infinity among the values that count, if there is any.

    v: (..., m, d_v)   counted: (..., n, m), or what broadcasts to it
    """
    spoiled = ~np.isfinite(v).all(axis=-1)
    if not spoiled.any():
        return []
    reaching = spoiled & counted.any(axis=-2)
    places = [_where("key", index, extent) for index in np.argwhere(reaching)[: _LISTED + 1]]
    return [f"NaN or infinity among the values that count: {_listed(places, int(reaching.sum()))}"] if places else []


def _where(kind: str, index: Array, extent: Extent) -> str:
    """`sequence 1, head 2, query 3` from the indices (*batch, H, n)."""
    *leading, last = (int(i) + 1 for i in index)
    names = ["sequence"] * len(extent.batch) + (["head"] if extent.heads is not None else [])
    parts = [f"{name} {i}" for name, i in zip(names[len(names) - len(leading) :], leading, strict=False)]
    return ", ".join([*parts, f"{kind} {last}"])


def _listed(places: list[str], count: int | None = None) -> str:
    count = len(places) if count is None else count
    text = "; ".join(places[:_LISTED])
    return text if count <= _LISTED else f"{text}; and {count - _LISTED} more"
