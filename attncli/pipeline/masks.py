"""Masks: each one decorated function that gives a predicate on indices: is this key visible to this query?

Letters: i is a query's position among the keys, j a key's, both from 0. A mask takes the sizes it is for
(`ScoreShape`) and its argument, checks that they fit, and returns the predicate, which is asked for any part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attncli.errors import ShapeError, UsageError, many, there_are
from attncli.lazy import Array, np
from attncli.pipeline.maskargs import as_numbers, is_whole, score_table, whole_numbers
from attncli.pipeline.masking import MASKS, Masks, MaskSpec, ScoreIndices, ScoreShape, mask, mask_spec, split_spec

__all__ = ["MASKS", "MaskSpec", "Masks", "ScoreIndices", "ScoreShape", "mask", "mask_spec", "split_spec"]

Predicate = Callable[[ScoreIndices], Array]


@mask(
    "causal",
    formula="j <= i",
    source="Vaswani et al. 2017, arXiv:1706.03762",
    aligned=True,
    by_offset=True,
    causal=True,
    spec="causal | causal:top-left | causal:bottom-right | causal:lengths",
)
def causal(shape: ScoreShape, _: None) -> Predicate:
    """A query sees the keys up to its own position."""
    return lambda at: at.key <= at.position


def _window(name: str, argument: Any) -> list[int | str]:
    parts = argument.split(",") if isinstance(argument, str) else list(argument)
    if len(parts) != 2:
        hint = "window:L,R, as in window:2,0; `*` is no limit"
        raise UsageError(f"window takes two numbers, not {len(parts)}", hint=hint)
    return ["*" if str(part).strip() == "*" else whole_numbers(name, [part])[0] for part in parts]


@mask(
    "window",
    formula="i - L <= j <= i + R",
    source="Beltagy, Peters, Cohan 2020, arXiv:2004.05150",
    aligned=True,
    takes="numbers",
    parse=_window,
    by_offset=True,
    spec="window:L,R | window:L,R:bottom-right | window:L,R:lengths",
    example="window:2,0",
)
def window(shape: ScoreShape, limits: list[int | str]) -> Predicate:
    """A query sees L keys to the left of its position, its own, and R to the right; `*` is no limit."""
    left, right = (np.inf if limit == "*" else limit for limit in limits)
    return lambda at: (at.position - left <= at.key) & (at.key <= at.position + right)


@mask(
    "lengths",
    formula="j among the first L: one L for all, one a sequence; of one sequence, one a query",
    source="d2l.ai 11.3 (valid lengths)",
    takes="numbers or array",
    parse=as_numbers,
    ends=True,
    spec="lengths:3,2 | lengths:FILE",
    example="lengths:2",
    drawn=lambda n, m: f"lengths:{m - m // 3}",
)
def lengths(shape: ScoreShape, numbers: Array) -> Predicate:
    """Only the first keys of each sequence are real, the rest is padding. Past keys count."""
    if numbers.ndim == 2:
        return _by_query("lengths", shape, numbers)
    numbers = _within_keys("lengths", numbers, shape)
    if numbers.size == 1:
        return _BySequence(numbers, shape)
    if shape.sequences == 1:
        if numbers.size == shape.n:
            return _by_query("lengths", shape, numbers)
        raise ShapeError(
            f"lengths has {numbers.size} numbers, but there is one sequence of {shape.n} queries",
            hint=f"give one number for all, or {shape.n}, one a query",
        )
    if numbers.size != shape.sequences:
        raise ShapeError(
            f"lengths has {many(numbers.size, 'number')}, but {there_are(shape.sequences, 'sequence')}",
            hint="give one number for all, or one a sequence; lengths-per-query counts by query",
        )
    return _BySequence(numbers, shape)


class _BySequence:
    """A length a sequence; where there are as many queries, `note` tells that it is not one a query."""

    def __init__(self, numbers: Array, shape: ScoreShape) -> None:
        self.numbers, self.n = np.broadcast_to(numbers.reshape(-1), shape.sequences), shape.n
        told = "lengths: one a sequence (lengths-per-query: one a query)"
        self.note = told if shape.sequences == shape.n and numbers.size > 1 else None

    def __call__(self, at: ScoreIndices) -> Array:
        shown: Array = at.key < self.numbers[at.sequence]
        return shown

    def positions(self, alignment: str) -> Array | None:
        """The place of each query, the last at its sequence's last real key: (sequences, n); None if not asked for."""
        places: Array = np.arange(self.n) + (self.numbers[:, None] - self.n)
        return places if alignment == "lengths" else None


@mask(
    "lengths-per-query",
    formula="j among the first L_i, one L a query",
    source="d2l.ai 11.3 (valid lengths)",
    takes="numbers or array",
    parse=as_numbers,
    spec="lengths-per-query:3,2 | lengths-per-query:FILE",
    example="lengths-per-query:3,2",
    drawn=lambda n, m: f"lengths-per-query:{','.join(str(m - i * m // n) for i in range(n))}",
)
def lengths_per_query(shape: ScoreShape, numbers: Array) -> Predicate:
    """As lengths, with a length of its own for each query; a file is sequences x queries."""
    shown = _by_query("lengths-per-query", shape, numbers)
    return lambda at: shown(at)  # without positions: other lengths may say which key is the last real one


def _by_query(name: str, shape: ScoreShape, numbers: Array) -> Predicate:
    return _ByQuery(_query_table(name, shape, numbers))


class _ByQuery:
    """A length a query."""

    def __init__(self, table: Array) -> None:
        self.table = table

    def __call__(self, at: ScoreIndices) -> Array:
        shown: Array = at.key < self.table[at.sequence, at.query]
        return shown

    def positions(self, alignment: str) -> None:
        """None; raises UsageError where the last real key of a sequence is asked for."""
        if alignment == "lengths":
            raise UsageError(
                "lengths are one a query, and do not say which is the last real key of a sequence",
                hint="one number for all, or one a sequence: causal:lengths & lengths:3,2",
            )


def _query_table(name: str, shape: ScoreShape, numbers: Array) -> Array:
    table = np.atleast_2d(_within_keys(name, numbers, shape))
    if table.shape[1] != shape.n or table.shape[0] not in (1, shape.sequences):
        raise ShapeError(
            f"{name} is {table.shape[0]} x {table.shape[1]}, but there are "
            f"{shape.sequences} sequences of {shape.n} queries",
            hint="one number a query, and one row a sequence where they differ",
        )
    return np.broadcast_to(table, (shape.sequences, shape.n))


@mask(
    "keys",
    formula="by key: 1 = visible",
    source="padding masks",
    takes="numbers",
    parse=as_numbers,
    spec="keys:1,1,0",
    example="keys:1,1,0",
    drawn=lambda n, m: f"keys:{','.join('110'[j % 3] for j in range(m))}",
)
def keys(shape: ScoreShape, numbers: Array) -> Predicate:
    """Which keys may be seen at all, by every query."""
    if numbers.ndim != 1 or numbers.size != shape.m:
        raise ShapeError(
            f"keys has {many(numbers.size, 'number')}, but {there_are(shape.m, 'key')}", hint="one 0 or 1 a key"
        )
    return _OfKeys(_zero_or_one("keys", numbers))


class _OfKeys:
    """Which keys are real: padding, so that others count from the first."""

    of_keys = True

    def __init__(self, shown: Array) -> None:
        self.shown, self.count = shown, len(shown)

    def __call__(self, at: ScoreIndices) -> Array:
        shown: Array = self.shown[at.key]
        return shown


@mask(
    "queries",
    formula="by query: 1 = a real one; 0 sees no key",
    source="Keras (query_mask)",
    takes="numbers",
    parse=as_numbers,
    spec="queries:1,1,0",
    example="queries:1,1,0",
    drawn=lambda n, m: f"queries:{','.join('110'[i % 3] for i in range(n))}",
)
def queries(shape: ScoreShape, numbers: Array) -> Predicate:
    """Which queries are real; a padded one sees no key, and gets what --empty-rows says: zeros."""
    if numbers.ndim != 1 or numbers.size != shape.n:
        raise ShapeError(
            f"queries has {many(numbers.size, 'number')}, but the queries are {shape.n}",
            hint="one 0 or 1 a query",
        )
    real = _zero_or_one("queries", numbers)
    return lambda at: real[at.query]


@mask(
    "query-lengths",
    formula="i among the first L queries: one L for all, or one a sequence",
    source="jax.nn.dot_product_attention (query_seq_lengths)",
    takes="numbers or array",
    parse=as_numbers,
    spec="query-lengths:3,2 | query-lengths:FILE",
    example="query-lengths:2",
    drawn=lambda n, m: f"query-lengths:{n - n // 3}",
)
def query_lengths(shape: ScoreShape, numbers: Array) -> Predicate:
    """Only the first queries of each sequence are real; a padded one sees no key, and gets what --empty-rows says."""
    numbers = numbers.reshape(-1)
    if numbers.size not in (1, shape.sequences):
        raise ShapeError(
            f"query-lengths has {many(numbers.size, 'number')}, but {there_are(shape.sequences, 'sequence')}",
            hint="give one number for all, or one a sequence",
        )
    for number in numbers.tolist():
        if not is_whole(number) or not 0 <= number <= shape.n:
            raise UsageError(f"query-lengths: {number:g} is not among 0..{shape.n}, the number of queries")
    real = np.broadcast_to(numbers.astype(np.int64), shape.sequences)
    return lambda at: at.query < real[at.sequence]


@mask(
    "prefix",
    formula="j <= i or j < N",
    source="Raffel et al. 2020, arXiv:1910.10683",
    aligned=True,
    takes="numbers",
    parse=whole_numbers,
    spec="prefix:N",
    example="prefix:2",
)
def prefix(shape: ScoreShape, argument: list[int]) -> Predicate:
    """Causal, and the first N keys for all."""
    count = _one("prefix", argument, shape.m)
    return lambda at: (at.key <= at.position) | (at.key < count)


def _one(name: str, argument: list[int], m: int) -> int:
    if len(argument) != 1 or not 0 <= argument[0] <= m:
        what = f"{name}:{','.join(map(str, argument))} does not fit {m} keys"
        raise UsageError(what, hint=f"one number in 0..{m}, as in {name}:{min(m, 2)}")
    return argument[0]


def _segments(name: str, argument: Any) -> Any:
    if isinstance(argument, str):
        if argument.count("/") > 1:
            raise UsageError("segments takes one `/` at most", hint="segments:0,0,1 or segments:0,1/0,0,1")
        return [whole_numbers(name, part, negative=True) for part in argument.split("/")]
    if isinstance(argument, np.ndarray):
        return (as_numbers(name, argument),)
    if not (argument and all(isinstance(part, list | tuple) for part in argument)):
        return [whole_numbers(name, argument, negative=True)]
    if all(part and isinstance(part[0], list | tuple) for part in argument):
        return tuple(as_numbers(name, part) for part in argument)  # queries, keys: each sequences x tokens
    return [whole_numbers(name, part, negative=True) for part in argument]


@mask(
    "segments",
    formula="the same number: segment(i) = segment(j)",
    source="packed sequences",
    takes="numbers or array",
    parse=_segments,
    spec="segments:0,0,1 | segments:0,1/0,0,1 | segments:FILE",
    example="segments:0,0,1",
    drawn=lambda n, m: f"segments:{','.join(str(i // 2) for i in range(n))}/{','.join(str(j // 2) for j in range(m))}",
)
def segments(shape: ScoreShape, parts: list[list[int]] | tuple[Array, ...]) -> Predicate:
    """Several texts in one row see themselves only; keys after a `/` where they differ; a file: sequences x tokens."""
    per_sequence = isinstance(parts, list) and len(parts) == shape.sequences > 1 and len({*map(len, parts)}) == 1
    halves = (parts,) if per_sequence else parts
    if len(halves) not in (1, 2):
        raise ShapeError(f"segments has {len(halves)} rows, but {there_are(shape.sequences, 'sequence')}",
                         hint="one row a sequence")  # fmt: skip
    of_queries, of_keys = np.atleast_2d(np.array(halves[0])), np.atleast_2d(np.array(halves[-1]))
    if of_queries.shape[-1] != shape.n or of_keys.shape[-1] != shape.m:
        raise ShapeError(
            f"segments has {of_queries.shape[-1]} numbers for {shape.n} queries and {of_keys.shape[-1]} "
            f"for {shape.m} keys",
            hint="segments:QUERIES or segments:QUERIES/KEYS, as in segments:0,1/0,0,1",
        )
    if not {len(of_queries), len(of_keys)} <= {1, shape.sequences}:
        raise ShapeError(f"segments has {len(of_queries)} rows, but {there_are(shape.sequences, 'sequence')}",
                         hint="one row for all, or one a sequence")  # fmt: skip
    of_queries = np.broadcast_to(of_queries, (shape.sequences, shape.n))
    of_keys = np.broadcast_to(of_keys, (shape.sequences, shape.m))
    return lambda at: of_queries[at.sequence, at.query] == of_keys[at.sequence, at.key]


@mask(
    "prefix-keys",
    formula="j < N",
    source="the first keys alone, as sinks are kept: Xiao et al. 2023, arXiv:2309.17453",
    takes="numbers",
    parse=whole_numbers,
    spec="prefix-keys:N",
    example="prefix-keys:1",
)
def prefix_keys(shape: ScoreShape, argument: list[int]) -> Predicate:
    """The first N keys, for all queries."""
    count = _one("prefix-keys", argument, shape.m)
    return lambda at: at.key < count


@mask(
    "chunk",
    formula="the same chunk of N: floor(i / N) = floor(j / N)",
    source="Llama 4 2025 (chunked attention)",
    aligned=True,
    counted=True,
    takes="numbers",
    parse=whole_numbers,
    spec="chunk:N",
    example="chunk:2",
)
def chunk(shape: ScoreShape, argument: list[int]) -> Predicate:
    """Keys and queries of one chunk of N see each other; counted from each sequence's first real key."""
    period = _period("chunk", argument)
    return lambda at: (at.position - at.start) // period == (at.key - at.start) // period


def _period(name: str, argument: list[int]) -> int:
    if len(argument) != 1 or argument[0] < 1:
        what = f"{name}:{','.join(map(str, argument))} makes no sense"
        raise UsageError(what, hint=f"one whole number from 1 on, as in {name}:2")
    return argument[0]


def _packed(name: str, argument: Any) -> list[list[int]]:
    if isinstance(argument, str):
        if argument.count("/") > 1:
            raise UsageError("packed takes one `/` at most", hint="packed:3,2 or packed:2,1/3,2")
        return [whole_numbers(name, part) for part in argument.split("/")]
    halves = argument if argument and all(isinstance(part, list | tuple) for part in argument) else [argument]
    return [whole_numbers(name, part) for part in halves]


class Packed:
    """Sequences one after the other: of which each query and key is, and where a query stands among the keys."""

    def __init__(self, queries: list[int], keys: list[int]) -> None:
        self.queries, self.keys = queries, keys
        self.of_query = np.repeat(np.arange(len(queries)), queries)
        self.of_key = np.repeat(np.arange(len(keys)), keys)

    def __call__(self, at: ScoreIndices) -> Array:
        found: Array = self.of_query[at.query] == self.of_key[at.key]
        return found

    def positions(self, alignment: str) -> Array:
        """The place of each query among all keys, aligned inside its sequence, (n,)."""
        queries, keys = np.array(self.queries, dtype=int), np.array(self.keys, dtype=int)
        inside = np.arange(len(self.of_query)) - np.repeat(np.cumsum(queries) - queries, queries)
        offset = keys - queries if alignment == "bottom-right" else np.zeros_like(keys)
        places: Array = inside + (np.cumsum(keys) - keys + offset)[self.of_query]
        return places

    def starts(self) -> Array:
        """The first key of each query's sequence, (n,)."""
        keys = np.array(self.keys, dtype=int)
        first: Array = (np.cumsum(keys) - keys)[self.of_query]
        return first


@mask(
    "packed",
    formula="the same sequence of several that stand one after the other",
    source="Krell et al. 2021, arXiv:2107.02027",
    takes="numbers",
    parse=_packed,
    spec="packed:3,2 | packed:2,1/3,2",
    example="packed:2,1",
    drawn=lambda n, m: f"packed:{n // 2},{n - n // 2}/{m // 2},{m - m // 2}",
)
def packed(shape: ScoreShape, halves: list[list[int]]) -> Predicate:
    """Sequences of these lengths see themselves only, and masks beside it are aligned in each; keys after a `/`."""
    queries, keys = halves[0], halves[-1]
    if sum(queries) != shape.n or sum(keys) != shape.m or len(queries) != len(keys):
        raise ShapeError(
            f"packed has sequences of {sum(queries)} queries and {sum(keys)} keys together, but there are {shape.n} "
            f"and {shape.m}" if len(queries) == len(keys)
            else f"packed has {len(queries)} sequences of queries, but {len(keys)} of keys",
            hint="packed:LENGTHS, or packed:QUERIES/KEYS where they differ",
        )  # fmt: skip
    return Packed(queries, keys)


@mask(
    "dilated",
    formula="i - j is a multiple of S",
    source="Child et al. 2019, arXiv:1904.10509",
    aligned=True,
    takes="numbers",
    parse=whole_numbers,
    by_offset=True,
    spec="dilated:S",
    example="dilated:2",
)
def dilated(shape: ScoreShape, argument: list[int]) -> Predicate:
    """Every S-th key, counted from the query's own position."""
    period = _period("dilated", argument)
    return lambda at: (at.position - at.key) % period == 0


@mask(
    "keep",
    formula="1 or true = visible",
    source="torch scaled_dot_product_attention, jax, onnx",
    takes="array",
    spec="keep:FILE",
)
def keep(shape: ScoreShape, array: Array) -> Predicate:
    """A table of what may be seen; one row of keys serves all queries."""
    return _table("keep", array, shape, lambda table: table)


@mask("block", formula="1 or true = hidden", source="torch MultiheadAttention", takes="array", spec="block:FILE")
def block(shape: ScoreShape, array: Array) -> Predicate:
    """A table of what must not be seen; one row of keys serves all queries."""
    return _table("block", array, shape, np.logical_not)


class TablePredicate:
    """A table of booleans, read at the indices that are asked for; `note` tells what an axis was taken for."""

    def __init__(self, table: Array, shape: ScoreShape, note: str | None) -> None:
        self.table = table
        self.shape = shape
        self.note = note
        self.of_keys, self.count = table.shape[-2] == 1, shape.m  # one row: padding

    def __call__(self, at: ScoreIndices) -> Array:
        rows = slice(None) if self.table.shape[-2] == 1 else _run(at.query[:, 0])
        found: Array = self.table[..., rows, :][..., _run(at.key)]
        if found.ndim > 2 and (at.sequence.size < self.shape.sequences or at.head.size < self.shape.lead[-1]):
            whole = np.broadcast_to(found, (*self.shape.lead, *found.shape[-2:]))
            whole = whole.reshape(self.shape.sequences, *whole.shape[-3:])
            found = whole[at.sequence.ravel()][:, at.head.ravel()].reshape(
                *at.sequence.shape[:-3], -1, *found.shape[-2:]
            )
        return found


def _run(indices: Array) -> Array | slice:
    """Neighbouring indices as a slice, which copies nothing."""
    if indices.size and indices[-1] - indices[0] + 1 == indices.size:
        return slice(int(indices[0]), int(indices[-1]) + 1)
    return indices


def _table(name: str, array: Array, shape: ScoreShape, meaning: Callable[[Array], Array]) -> TablePredicate:
    table, note = score_table(name, np.asarray(array), shape)
    return TablePredicate(meaning(_zero_or_one(name, table)), shape, note)


def _zero_or_one(name: str, array: Array) -> Array:
    if array.dtype != bool and not np.all((array == 0) | (array == 1)):
        odd = array[~((array == 0) | (array == 1))].flat[0]
        raise UsageError(
            f"the mask {name!r} holds {odd}: only 0 and 1, or true and false, have a meaning there",
            hint="numbers to be added to the scores are a --bias",
        )
    return array.astype(bool)


def _within_keys(name: str, numbers: Array, shape: ScoreShape) -> Array:
    for number in numbers.ravel().tolist():
        if not is_whole(number) or not 0 <= number <= shape.m:
            raise UsageError(f"{name}: {number:g} is not among 0..{shape.m}, the number of keys")
    return numbers.astype(np.int64)
