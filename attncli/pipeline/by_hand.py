"""Each step rounded before the next one is made of it, as somebody does who calculates by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from attncli.errors import InputError, many
from attncli.lazy import Array, np
from attncli.pipeline.steps import STEPS

if TYPE_CHECKING:
    from attncli.pipeline.state import State

NOISE = 64 * 2.0**-52  # a tie that float arithmetic missed by a few round-offs is a tie


def half_up(in_units: Array) -> Array:
    """To whole numbers, a tie away from zero."""
    return np.trunc(in_units * (1 + NOISE) + np.copysign(0.5, in_units))


def rounding(places: int, inputs: Mapping[str, Array]) -> Callable[[str, Any], Any]:
    """What later steps start from, by a step's name and its numbers: those that are calculated, to so many places.

    inputs: they stay as they are, past keys and values too, and so does what is a copy of one.
    """
    unit = 10.0**places

    def rounded(x: Any) -> Any:
        with np.errstate(all="ignore"):
            found = half_up(np.asarray(x, np.float64) * unit) / unit
        return np.where(np.isfinite(found), found, x).astype(x.dtype)

    def between(name: str, x: Any) -> Any:
        entry = STEPS.find(name)
        if not entry.told_as or entry.line == "data" or name in inputs or _is_copy(name, inputs):
            return x
        found = rounded(x)
        past = inputs.get(f"past_{name.lower()}")
        if past is not None and entry.line in ("key", "value"):
            earlier = past.shape[-2] if past.ndim > 1 else 1
            found[..., :earlier, :] = x[..., :earlier, :]
        return found

    return between


def _is_copy(name: str, inputs: Mapping[str, Array]) -> bool:
    """Whether Q, K or V is the data, without a weight matrix."""
    return name in ("Q", "K", "V") and inputs.keys().isdisjoint((f"W_{name}", f"b_{name}"))


def note(places: int) -> str:
    """What is told of numbers that were rounded on the way."""
    return f"each step is rounded to {many(places, 'place')} before the next is made of it, a tie away from zero"


def check_sums(at: State, empty: Array, places: int) -> None:
    """Raise InputError for a query whose exponentials, rounded so, have no sum to divide by. empty: (..., n, 1)."""
    if at.begin == "weights" or not at.has("sum"):
        return
    sums = at["sum"]
    bad = ((sums == 0) | np.isposinf(sums)) & ~empty
    if bad.any():
        query = int(np.argwhere(bad)[0][-2]) + 1
        if np.isposinf(sums[bad][0]):
            raise InputError(
                f"e^s of query {query} is too large to be written down",
                hint="smaller scores: scale them, or calculate without round_steps",
            )
        raise InputError(
            f"rounded to {many(places, 'place')}, e^s of query {query} is 0 for every key",
            hint=f"keep more places than {places}, or scale the scores",
        )
