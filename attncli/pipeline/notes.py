"""What has to be told about an attention: queries that see no key, and numbers that spoil what they touch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attncli.lazy import Array, np
from attncli.pipeline.masking import ScoreShape

OVERFLOW = "exp: e^s overflows to inf; the weights, of shifted scores, do not"
BEYOND = ": numbers beyond"
_LISTED = 5


def beyond(given: Mapping[str, Array], computed: Mapping[str, Array]) -> list[str]:
    """The notes of matrices with numbers that are too large for the dtype which is computed in."""
    return [
        f"{name}{BEYOND} {array.dtype} became infinite"
        for name, array in computed.items()
        if array.dtype.itemsize < given[name].dtype.itemsize and np.any(np.isinf(array) & np.isfinite(given[name]))
    ]


def empty_queries(empty: Array, rule: str, shape: ScoreShape) -> str:
    """The note that names the queries which see no key, and what they got.

    empty: (..., n, 1) booleans.
    """
    indices = np.argwhere(empty)
    places = [_where("query", index[:-1], shape) for index in indices[: _LISTED + 1]]
    what = f"{_listed(places, len(indices))} {'sees' if len(places) == 1 else 'see'} no key"
    if rule == "error":
        return what
    got = {"zero": "weights and output 0", "nan": "NaN", "uniform": "equal weights"}[rule]
    return f"{what}: {got} (--empty-rows {rule})"


@dataclass(eq=False, repr=False)
class NonFinite:
    """Scores that count and are NaN or +inf: the indices of some, (*batch, H, query, key), and how many there are.

    all_neg_inf: which queries have scores of -inf alone, though they see something, (..., n, 1).
    """

    indices: list[tuple[int, ...]]
    count: int
    all_neg_inf: Array


def spoiled_scores(logits: Array, counted: Array, empty: Array) -> NonFinite:
    """What among the scores (..., n, m) gives NaN."""
    with np.errstate(invalid="ignore", over="ignore"):
        if np.isfinite(logits.sum()):  # neither NaN nor infinity anywhere
            return NonFinite([], 0, empty & False)
        bad: Array = (np.isnan(logits) | np.isposinf(logits)) & counted
        all_neg_inf: Array = (
            np.isneginf(logits).all(axis=-1, keepdims=True) & ~empty if logits.shape[-1] else empty & False
        )
    count = int(bad.sum())
    return NonFinite([tuple(index) for index in np.argwhere(bad)[: _LISTED + 1]] if count else [], count, all_neg_inf)


def attended(found: NonFinite, shape: ScoreShape) -> list[str]:
    """The note that places a NaN or +inf among the scores that count, if there is any; a row of -inf alone, too."""
    told = []
    if found.count:
        places = [f"{_where('query', index[:-1], shape)}, key {index[-1] + 1}" for index in found.indices]
        told.append(f"NaN or infinity among the scores that count gives NaN: {_listed(places, found.count)}")
    if found.all_neg_inf.any():
        indices = np.argwhere(found.all_neg_inf)
        places = [_where("query", index[:-1], shape) for index in indices[: _LISTED + 1]]
        told.append(f"every score is -inf, which gives NaN: {_listed(places, len(indices))}")
    return told


def given_weights(weights: Array, shape: ScoreShape) -> list[str]:
    """The note that places a NaN or infinity among weights, (..., n, m), that were given, if there is any."""
    bad = np.argwhere(~np.isfinite(weights))
    if not len(bad):
        return []
    places = [f"{_where('query', index[:-1], shape)}, key {index[-1] + 1}" for index in bad[: _LISTED + 1]]
    return [f"NaN or infinity among the weights: {_listed(places, len(bad))}"]


def spoiled_values(v: Array, counted: Array) -> Array:
    """Which values that count hold NaN or infinity, (..., m).

    v: (..., m, d_v)   counted: (..., n, m), or what broadcasts to it
    """
    finite = np.isfinite(v)
    if finite.all():
        return np.zeros(v.shape[:-1], bool)
    spoiled: Array = np.logical_not(finite.all(axis=-1))
    return spoiled & counted.any(axis=-2)


def attended_values(reaching: Array, shape: ScoreShape) -> list[str]:
    """The note that places a NaN or infinity among the values that count, (..., m), if there is any."""
    if not reaching.any():
        return []
    places = [_where("key", index, shape) for index in np.argwhere(reaching)[: _LISTED + 1]]
    return [f"NaN or infinity among the values that count: {_listed(places, int(reaching.sum()))}"]


def output_weights(inputs: Mapping[str, Array]) -> list[str]:
    """The note that tells which features of the output NaN or infinity in W_O or b_O reach, for every query."""
    told = []
    for name in {"W_O", "b_O"} & inputs.keys():
        bad = ~np.isfinite(inputs[name])
        if bad.any():
            features = np.flatnonzero(bad.reshape(-1, bad.shape[-1]).any(axis=0))
            places = [f"feature {i + 1}" for i in features[: _LISTED + 1]]
            told.append(f"NaN or infinity in {name} reaches the output: {_listed(places, len(features))}")
    return sorted(told)


def _where(kind: str, index: Array | Sequence[int], shape: ScoreShape) -> str:
    """`sequence 1, head 2, query 3` from the indices (*batch, H, n); without heads that axis is not told."""
    *leading, last = (int(i) + 1 for i in index)
    names = [*(["sequence"] * len(shape.batch)), "head"]
    named = list(zip(names[len(names) - len(leading) :], leading, strict=False))
    parts = [f"{name} {i}" for name, i in named if name != "head" or shape.heads is not None]
    return ", ".join([*parts, f"{kind} {last}"])


def _listed(places: list[str], count: int | None = None) -> str:
    count = len(places) if count is None else count
    text = "; ".join(places[:_LISTED])
    return text if count <= _LISTED else f"{text}; and {count - _LISTED} more"
