"""What masks and biases take as arguments: whole numbers, and arrays whose leading axes have to be understood."""

from __future__ import annotations

from typing import Any

from attncli.errors import ShapeError, UsageError
from attncli.lazy import Array, np
from attncli.pipeline.masking import MASKS, ScoreShape

_LARGEST = 2**53 - 1  # whole numbers up to here are exact in float64


def whole_numbers(name: str, argument: Any, *, negative: bool = False) -> list[int]:
    """`3,2`, [3, 2], 3 or an array as a list of integers. Raises UsageError for anything else."""
    numbers = []
    for number in as_numbers(name, argument).ravel().tolist():
        if not is_whole(number):
            raise UsageError(f"{name}: {number:g} is not a whole number", hint=f"as in {_example(name)}")
        if number < 0 and not negative:
            raise UsageError(f"{name}: {number:g} is negative", hint=f"counting starts at 0, as in {_example(name)}")
        if abs(number) > _LARGEST:
            raise UsageError(
                f"{name}: {number:g} is too large to be told from its neighbours",
                hint=f"whole numbers go up to {_LARGEST}; `*` is no limit of a window",
            )
        numbers.append(int(number))
    return numbers


def is_whole(number: float) -> bool:
    """Neither a fraction nor infinite nor NaN."""
    return bool(np.isfinite(number)) and number == int(number)


def as_numbers(name: str, argument: Any) -> Array:
    """The argument as an array of float64, its axes kept where it has some. Raises UsageError, ShapeError."""
    if isinstance(argument, np.ndarray):
        return np.atleast_1d(argument.astype(np.float64))
    parts = argument.split(",") if isinstance(argument, str) else argument
    rows = list(parts) if isinstance(parts, list | tuple | range) else [parts]
    if rows and all(isinstance(row, list | tuple) for row in rows):
        if len({len(row) for row in rows}) != 1:
            raise ShapeError(f"{name}: rows of unlike length", hint="sequences x queries")
        return np.array([[_number(name, part) for part in row] for row in rows])
    return np.array([_number(name, part) for part in rows], dtype=np.float64)


def _number(name: str, part: Any) -> float:
    try:
        if isinstance(part, str) and ("_" in part or not part.isascii()):
            raise ValueError(part)
        return float(part)
    except (TypeError, ValueError):
        shown = part.strip() if isinstance(part, str) else part
        raise UsageError(f"{name}: {shown!r} is not a number", hint=f"as in {_example(name)}") from None


def _example(name: str) -> str:
    """A way to write the mask that it takes."""
    entry = MASKS.find(name)
    return entry.example or entry.spec


def score_table(name: str, array: Array, shape: ScoreShape) -> tuple[Array, str | None]:
    """A mask or bias as an array that broadcasts to (*batch, H, n, m), and what had to be told of it.

    The last two axes must be n x m or 1 x m (a vector is 1 x m). Of three axes the first counts the sequences where
    there are no heads, the heads where there are no sequences; where there are both, only one may fit.
    Raises ShapeError for a size that does not fit: nothing is cut, padded or stretched.
    """
    batch, heads, n, m = shape.batch, shape.heads, shape.n, shape.m
    table = array[None, :] if array.ndim == 1 else array
    if table.ndim < 2 or table.shape[-1] != m or table.shape[-2] not in (1, n):
        sizes = " x ".join(str(size) for size in array.shape) or "a single number"
        raise ShapeError(
            f"{name} is {sizes}, but the scores are {n} x {m} (queries x keys)",
            hint=padding_hint(array.shape, batch, heads, m)
            or f"it must be {n} x {m}, or one row of {m} keys for all queries",
        )
    if table.ndim == 2:
        return table, None
    if heads is None:
        return _fit_leading(name, table, batch, f"{n} x {m}")[..., None, :, :], None
    if table.ndim == 3 and (table.shape[0] == 1 or all(size == 1 for size in batch)):
        return _fit_leading(name, table, (heads,), f"{n} x {m}"), None
    if table.ndim == 3:
        return _sequences_or_heads(name, table, batch, heads)
    return _fit_leading(name, table, (*batch, heads), f"{n} x {m}"), None


def padding_hint(shape: tuple[int, ...], batch: tuple[int, ...], heads: int | None, m: int) -> str | None:
    """What to do with a table of sequences x keys, as padding masks often are; None for any other."""
    if len(batch) != 1 or batch[0] == 1 or shape != (batch[0], m):
        return None
    own, axes = (f"{batch[0]} x 1 x {m}", "sequences x 1 x keys")
    if heads is not None:
        own, axes = (f"{batch[0]} x 1 x 1 x {m}", "sequences x 1 x 1 x keys")
    return (
        f"sequences x keys? make it {own} ({axes}); or lengths: says how many keys are real in each sequence, "
        "keys: which are, where that is the same in all"
    )


def _sequences_or_heads(name: str, table: Array, batch: tuple[int, ...], heads: int) -> tuple[Array, str]:
    count, sequences = table.shape[0], int(np.prod(batch, dtype=int))
    fits_sequences = len(batch) == 1 and count == sequences
    fits_heads = count == heads
    if fits_sequences and fits_heads:
        raise ShapeError(
            f"{name} has {count} leading entries, but there are {sequences} sequences and {heads} heads: which is it?",
            hint="give it four axes: sequences x heads x queries x keys (1 where all share)",
        )
    if fits_sequences:
        return table[:, None], f"{name}: its first axis, {count}, counts the sequences"
    if fits_heads:
        return table, f"{name}: its first axis, {count}, counts the heads"
    raise ShapeError(f"{name} has {count} leading entries, but there are {sequences} sequences and {heads} heads")


def _fit_leading(name: str, table: Array, leading: tuple[int, ...], tail: str) -> Array:
    given = table.shape[:-2]
    fits = len(given) <= len(leading) and all(
        size in (1, full) for size, full in zip(given[::-1], leading[::-1], strict=False)
    )
    if not fits:
        raise ShapeError(
            f"{name} has leading axes {given}, but the scores have {leading or 'none'} before {tail}",
            hint="leading axes count sequences, then heads; 1 where all share",
        )
    return table
