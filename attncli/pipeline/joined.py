"""Masks that are joined: `and`, `or` and `not` of others, each read as a mask of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from attncli.errors import UsageError
from attncli.lazy import Array, np
from attncli.pipeline.masking import MaskSpec, ScoreIndices, ScoreShape
from attncli.pipeline.together import bound_together

SIGNS = {"and": " & ", "or": " | "}


@dataclass(eq=False, repr=False)
class JoinedSpec(MaskSpec):
    """Masks joined by and, or, not (its name); one alignment for all of them."""

    parts: tuple[MaskSpec, ...] = ()

    @property
    def aligned(self) -> bool:
        """Whether one of them asks for a query's position."""
        return any(part.aligned for part in self.parts)

    @property
    def by_offset(self) -> bool:
        """Whether all look only at position - key."""
        return all(part.by_offset for part in self.parts)

    @property
    def causal(self) -> bool:
        """Whether no key is visible that comes after the query, whatever the sizes are."""
        of_parts = [part.causal for part in self.parts]
        return any(of_parts) if self.name == "and" else self.name == "or" and all(of_parts)

    @property
    def counted(self) -> bool:
        """Whether one of them counts from the first real key of a sequence."""
        return any(part.counted for part in self.parts)

    @property
    def unplaced(self) -> bool:
        """Whether one of them asks for the last real key of a sequence, and nothing here says which that is."""
        told = self.name == "and" and any(part.ends for part in self.parts)
        return not told and any(part.unplaced for part in self.parts)

    @property
    def text(self) -> str:
        """As it is written, with the parentheses that it needs."""
        told = [f"({part.text})" if isinstance(part, JoinedSpec) and part.name != "not" and self.name != part.name
                else part.text for part in self.parts]  # fmt: skip
        return f"!{told[0]}" if self.name == "not" else SIGNS[self.name].join(told)

    def with_alignment(self, alignment: str | None) -> JoinedSpec:
        """The same, all of it aligned so."""
        return replace(self, parts=tuple(part.with_alignment(alignment) for part in self.parts), alignment=alignment)

    def bind(self, shape: ScoreShape, alignment: str) -> Callable[[ScoreIndices], Array]:
        """The predicate for these sizes."""
        if self.name == "and":
            bound = [predicate for predicate, _ in bound_together(self.parts, shape, alignment)]
            return lambda at: _all(predicate(at) for predicate in bound)
        bound = [part.bind(shape, alignment) for part in self.parts]
        if self.name == "not":
            return lambda at: ~np.asarray(bound[0](at), dtype=bool)
        return lambda at: reduce(np.logical_or, (np.asarray(predicate(at), dtype=bool) for predicate in bound))


def _all(tables: Any) -> Array:
    found: Array = reduce(np.logical_and, (np.asarray(table, dtype=bool) for table in tables))
    return found


def joined_spec(name: str, parts: Sequence[MaskSpec]) -> JoinedSpec:
    """Masks joined by `and`, `or` or `not`. Raises UsageError where they name different alignments."""
    named = {part.alignment for part in parts if part.alignment is not None}
    if len(named) > 1:
        raise UsageError("two masks name different alignments", hint="name one; the others follow it")
    return JoinedSpec(name, lambda shape, _: None, alignment=named.pop() if named else None, parts=tuple(parts))
