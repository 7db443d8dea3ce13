"""Masks that must all let a key be seen: some say where the sequences lie, in which the others place their queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from attncli.errors import UsageError
from attncli.lazy import Array, np

if TYPE_CHECKING:
    from attncli.pipeline.masking import MaskSpec, ScoreIndices, ScoreShape

Predicate = Callable[["ScoreIndices"], Any]


def bound_together(specs: Sequence[MaskSpec], shape: ScoreShape, alignment: str) -> list[tuple[Predicate, bool]]:
    """The predicates of masks that all must let a key be seen, and whether each looks only at position - key.

    One that lays sequences out has `positions(alignment)`: where each query stands among the keys, for the others, and
    perhaps `starts()`, where its sequence begins. Else a sequence begins at the first key that is no padding.
    """
    bound = [(spec.bind(shape, alignment), spec.by_offset) for spec in specs]
    padding = [predicate for predicate, _ in bound if getattr(predicate, "of_keys", False)]
    if padding and any(spec.counted for spec in specs):
        bound = [(_begun(each, padding) if spec.counted else each, by_offset)
                 for spec, (each, by_offset) in zip(specs, bound, strict=True)]  # fmt: skip
    for predicate, _ in bound:
        places = predicate.positions(alignment) if hasattr(predicate, "positions") else None
        if places is not None:
            starts = predicate.starts() if hasattr(predicate, "starts") else None
            return [(each if each is predicate else _standing(each, places, starts), False) for each, _ in bound]
    return bound


def beside(specs: Sequence[MaskSpec]) -> list[MaskSpec]:
    """Masks that all must let a key be seen, those that were joined so apart again."""
    return [part for spec in specs for part in (beside(getattr(spec, "parts", ())) if spec.name == "and" else [spec])]


def check_lengths(specs: Sequence[MaskSpec]) -> None:
    """Raises UsageError where a mask is aligned to the last real key, and none beside it says which that is."""
    if any(spec.ends for spec in beside(specs)):
        return
    alone = next((spec for spec in specs if spec.unplaced), None)
    if alone is not None:
        raise UsageError(
            f"{alone.text} is aligned to the last real key of each sequence, but no lengths say which that is",
            hint="put lengths beside it: causal:lengths & lengths:3,2",
        )


def places_of(specs: Sequence[MaskSpec], at: ScoreIndices, shape: ScoreShape) -> Array:
    """Where queries stand that are aligned to the last real key of their sequences, as `position` has it."""
    ends = next((spec for spec in beside(specs) if spec.ends), None)
    if ends is None:  # lengths stand deeper within a joined mask, which places its own
        return at.position
    lengths: Any = ends.bind(shape, "lengths")
    return at_places(lengths.positions("lengths"), at)


def at_places(places: Array, at: ScoreIndices) -> Array:
    """Of places (n,) or (sequences, n), those of the queries asked about."""
    found: Array = places[at.query] if places.ndim == 1 else places[at.sequence, at.query]
    return found


def _standing(predicate: Predicate, places: Array, starts: Array | None) -> Predicate:
    """The same, of queries that stand elsewhere. places: of each query, among all keys; starts: of its sequence."""
    if starts is None:
        return lambda at: predicate(replace(at, position=at_places(places, at)))
    return lambda at: predicate(replace(at, position=at_places(places, at), start=starts[at.query]))


def _begun(predicate: Predicate, padding: Sequence[Any]) -> Predicate:
    """The same, with each sequence begun at the first key that the padding shows."""

    def shown(at: ScoreIndices) -> Any:
        every = replace(at, key=np.arange(padding[0].count), query=at.query[:1])
        real = np.ones((1, 1), dtype=bool)
        for each in padding:
            real = real & each(every)
        return predicate(replace(at, start=real.argmax(axis=-1)[..., None]))

    return shown


def all_of(predicates: Sequence[tuple[Predicate, bool]], at: ScoreIndices) -> Array:
    """Where every predicate lets a key be seen."""
    visible: Array = np.ones((at.query.shape[0], at.key.size), dtype=bool)
    for predicate, _ in predicates:
        visible = visible & np.asarray(predicate(at), dtype=bool)
    return visible
