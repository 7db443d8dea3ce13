"""Biases by how far a key stands from the query: ALiBi, tables by distance, T5's buckets; vectors by distance.

Letters: i a query's place, j a key's; H heads, n queries, m keys, d the width of one head.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from attncli.errors import ShapeError, UsageError, unknown
from attncli.lazy import Array, np
from attncli.pipeline.biases import bias
from attncli.pipeline.masking import ScoreIndices
from attncli.pipeline.state import State
from attncli.registry import Setting


def published_slopes(heads: int) -> list[float]:
    """As the authors' code has them: between the slopes for fewer heads stand every other one of twice as many."""
    near = 2 ** int(math.log2(heads))
    own = [2.0 ** (-8 * (h + 1) / near) for h in range(near)]
    return own + [2.0 ** (-4 * (2 * h + 1) / near) for h in range(heads - near)]


def geometric_slopes(heads: int) -> list[float]:
    """2^(-8 h / H)."""
    return [2.0 ** (-8 * (h + 1) / heads) for h in range(heads)]


SLOPES = {"published": published_slopes, "geometric": geometric_slopes}


@bias(
    "alibi", formula="slope (j - i) with a causal mask, else -slope |j - i|",
    source="Press, Smith, Lewis 2022, arXiv:2108.12409",
    setting=Setting(name="alibi", kind="numbers", metavar="published|geometric|SLOPES", choices=lambda: [*SLOPES],
                    help="add slope x (j - i), a slope a head: as the published code, geometric, or given"),
)  # fmt: skip
def alibi(at: State, indices: ScoreIndices, said: Any) -> Array:
    """Less the farther a key is from the query, each head by its own slope."""
    heads = at.whole.heads
    slopes = np.array(SLOPES[said](heads)) if isinstance(said, str) else np.ravel(said)
    if slopes.size != heads:
        raise ShapeError(
            f"alibi has {slopes.size} slope{'s' * (slopes.size != 1)}, but there {'is' if heads == 1 else 'are'} "
            f"{heads} head{'s' * (heads != 1)}",
            hint="one slope a head, or published, or geometric",
        )
    causal = at.masks is not None and at.masks.causal
    away = indices.key - indices.position
    added: Array = slopes[indices.head] * (away if causal else -np.abs(away))
    return added


def _is_table(at: State, said: Any) -> bool:
    if isinstance(said, Mapping) and "t5" not in said:
        if at.begin is not None:
            raise UsageError(f"relative has no effect: the problem begins at {at.begin}", hint="leave relative out")
        return False
    return True


RELATIVE = Setting(
    name="relative", kind="parts", metavar="MATRIX", choices=lambda: ["t5", "max", "shaw", "xl", "u", "v"],
    help="add a table by distance j - i from -(n - 1) to m - 1, one row or one a head; in a problem file also "
    "{t5: table, max: M}, {shaw: table} and {xl: table, u: vector, v: vector}",
)  # fmt: skip


@bias("relative", formula="table[j - i]", source="Raffel et al. 2020, arXiv:1910.10683 (t5)", setting=RELATIVE,
      when=_is_table)  # fmt: skip
def relative(at: State, indices: ScoreIndices, said: Any) -> Array:
    """A number for each distance, or for each of T5's buckets of distances."""
    if isinstance(said, Mapping):
        return _of_buckets(at, indices, said)
    table = _by_head(at, "relative", said)
    added: Array = table[indices.head, _row_of(at, "relative", table.shape[-1], None, indices)]
    return added


def _by_head(at: State, name: str, given: Array) -> Array:
    """One row for all heads, or one a head, as H x distances."""
    table = np.atleast_2d(given)
    if table.ndim > 2 or table.shape[0] not in (1, at.whole.heads):
        raise ShapeError(f"{name} has {table.shape[0]} rows, but there are {at.whole.heads} heads",
                         hint="one row, or one a head; a column for each distance")  # fmt: skip
    return np.broadcast_to(table, (at.whole.heads, table.shape[-1]))


def reach(at: State) -> tuple[int, int]:
    """The least and the greatest distance j - i."""
    queries, keys = at.whole["standing"]
    if not queries.size or not keys.size:
        return 0, -1
    return int(keys.min() - queries.max()), int(keys.max() - queries.min())


def _row_of(at: State, name: str, count: int, most: float | None, indices: ScoreIndices) -> Array:
    """Which row of a table by distance each pair of a query and a key has.

    most: distances beyond are as that one. Else the table goes from the least distance to the greatest.
    """
    away = np.asarray(indices.key - indices.position)
    least, greatest = reach(at) if most is None else (-int(most), int(most))
    if count != greatest - least + 1:
        raise ShapeError(
            f"{name} has {count} distance{'s' * (count != 1)}, but those from {least} to {greatest} are "
            f"{greatest - least + 1}",
            hint="j - i in order, i the query's place among the keys"
            if most is None
            else "one for each distance; beyond, the outermost count",
        )
    if np.any(away != np.floor(away)):
        raise UsageError(f"{name}: a table by distance needs whole positions", hint="positions such as 0, 1, 2")
    rows: Array = np.clip(away, least, greatest).astype(np.intp) - least
    return rows


def cut_to_row(said: Any, at: State, row: int, keys: int) -> Any:
    """What is said of vectors, for one query and the first keys alone, as a decoder comes upon them."""
    kind = next((name for name in ("shaw", "xl") if name in said), "")
    if not kind or said.get("max") is not None:
        return said
    queries, stand = at["standing"]
    start = int(stand[..., :keys].min() - queries[..., row].max()) - reach(at)[0]
    stop = int(stand[..., :keys].max() - queries[..., row].min()) - reach(at)[0] + 1
    return {**said, kind: np.asarray(said[kind])[..., start:stop, :]}


def _whole(said: Mapping[str, Any], default: float | None) -> float | None:
    most = said.get("max", default)
    if most is not None and (not isinstance(most, float | int) or most < 1 or most != int(most)):
        raise UsageError("relative: max is a whole number from 1 on", hint="the distance beyond which all are alike")
    return most


def _of_buckets(at: State, indices: ScoreIndices, said: Mapping[str, Any]) -> Array:
    """T5: near distances each have a bucket, farther ones share them, in powers; half of them look ahead."""
    table, most, heads = np.atleast_2d(np.asarray(said["t5"])), _whole(said, 128.0), at.whole.heads
    table = table.T if table.shape[1] not in (1, heads) and table.shape[0] in (1, heads) else table
    if table.ndim != 2 or table.shape[1] not in (1, heads):
        raise ShapeError(f"relative: t5 is {' x '.join(map(str, table.shape))}, but there are {heads} heads",
                         hint="buckets x heads, as a layer stores it")  # fmt: skip
    away = np.asarray(indices.key - indices.position)
    buckets = np.zeros(away.shape, np.intp)
    count = table.shape[0]
    if not (at.masks is not None and at.masks.causal):
        count //= 2
        buckets += (away > 0) * count
        away = np.abs(away)
    else:
        away = np.maximum(-away, 0)
    exact = count // 2
    if exact < 1 or most is None or most <= exact:
        raise ShapeError(f"relative: t5 has {table.shape[0]} buckets, too few for distances up to {most:g}",
                         hint="32 buckets and max: 128 are usual")  # fmt: skip
    with np.errstate(divide="ignore"):
        far = exact + (np.log(away / exact) / math.log(most / exact) * (count - exact)).clip(0).astype(np.intp)
    buckets += np.where(away < exact, away.astype(np.intp), np.minimum(far, count - 1))
    found: Array = np.broadcast_to(table, (table.shape[0], heads))[buckets, indices.head]
    return found


# -- vectors by distance -----------------------------------------------------------------------------------------------


def has_vectors(at: State) -> bool:
    """Whether queries meet a vector for each distance besides the keys."""
    said = at.config.more.get("relative")
    return said is not None and not _is_table(at, said)


def _vectors(at: State) -> tuple[str, Mapping[str, Any]]:
    said = at.config.more["relative"]
    kind = next((name for name in ("shaw", "xl") if name in said), None)
    if kind is None:
        raise unknown("relative", next(iter(said)), ["t5", "shaw", "xl"])
    if at.score is None or not at.score.dots:
        raise UsageError(f"relative: {kind} meets queries in a dot product, which this score is not",
                         hint="--score scaled-dot or dot")  # fmt: skip
    return kind, said


def asking(at: State, q: Any) -> Any:
    """Queries as they meet the keys: of Transformer-XL, q + u."""
    kind, said = _vectors(at)
    return q + _added(at, said, "u", q) if kind == "xl" and "u" in said else q


def _added(at: State, said: Mapping[str, Any], name: str, q: Any) -> Array:
    """u or v, one for all heads or one a head."""
    given = np.asarray(said[name])
    if given.size not in (q.shape[-1], at.whole.heads * q.shape[-1]):
        raise ShapeError(f"relative: {name} has {given.size} numbers, but one head has {q.shape[-1]} features",
                         hint="one vector, or one a head")  # fmt: skip
    added: Array = at.as_number(_of_heads(at, given.reshape(-1, 1, q.shape[-1])))
    return added


def _of_heads(at: State, x: Array) -> Array:
    """What is one for all heads, or one a head, for the heads of this part."""
    return x if x.shape[0] == 1 else x[at["places"].head.ravel()]


def met(at: State, q: Any) -> Any:
    """q . r, r the vector of the distance of each key; of Transformer-XL (q + v) . r. q: (..., H, n, d)"""
    kind, said = _vectors(at)
    table, d = np.asarray(said[kind]), q.shape[-1]
    heads = table.shape[0] if table.ndim == 3 else 1
    if table.ndim not in (2, 3) or table.shape[-1] != d or heads not in (1, at.whole.heads):
        raise ShapeError(f"relative: {kind} is {' x '.join(map(str, table.shape))}, but one head has {d} features",
                         hint=f"distances x {d}, or heads x distances x {d}")  # fmt: skip
    if kind == "xl" and "v" in said:
        q = q + _added(at, said, "v", q)
    by_distance = q @ at.as_number(_of_heads(at, table.reshape(-1, *table.shape[-2:]))).mT
    rows = _row_of(at, f"relative: {kind}", table.shape[-2], _whole(said, None), at["places"])
    shape = (*by_distance.shape[:-1], rows.shape[-1])
    return np.take_along_axis(by_distance, np.broadcast_to(rows, shape), axis=-1)
