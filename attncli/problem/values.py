"""The normal forms: what a setting is, once it is no longer YAML, flag text or a Python object."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from attncli.errors import AttnError, Place
from attncli.problem.matrix import Matrix


class Setting(NamedTuple):
    """A value in its normal form, and where it was said (a place in a file, or an option)."""

    value: Any
    place: Place | str | None = None


@dataclass(eq=False, repr=False)
class StageRef:
    """`{stage: encoder, step: output}`: a step of an earlier stage, in place of a matrix until that stage is solved.

    how, times, parts: of several steps in one matrix, how they are joined, and each of them; stage and step are then
    those of the last.
    """

    stage: str
    step: str
    place: Place | None = None
    how: str = ""
    times: float = 1.0
    parts: tuple[StageRef, ...] = ()

    def single(self) -> tuple[StageRef, ...]:
        """The steps themselves, those that are joined one by one."""
        return self.parts or (self,)


@dataclass(eq=False, repr=False)
class ScoreChoice:
    """A score by name, or a callable f(q, k, *, ...), with the parameters that stand beside it."""

    score: str | Callable[..., Any]
    parameters: dict[str, float | Matrix | str] = field(default_factory=dict)
    place: Place | str | None = None


JOINING = ("and", "or", "not")  # what masks are joined by


@dataclass(eq=False, repr=False)
class MaskChoice:
    """A mask by name, or a predicate; its argument is text or numbers as written, or a matrix that was read.

    parts: the masks that are joined, where its name is and, or, not.
    """

    mask: str | Callable[..., Any]
    argument: str | list[Any] | Matrix | None = None
    alignment: str | None = None
    place: Place | str | None = None
    parts: tuple[MaskChoice, ...] = ()

    def single(self) -> Iterator[MaskChoice]:
        """The masks themselves, those that are joined one by one."""
        if not self.parts:
            yield self
        for part in self.parts:
            yield from part.single()

    def changed(self, change: Callable[[MaskChoice], MaskChoice]) -> MaskChoice:
        """The same of masks that are changed one by one."""
        if not self.parts:
            return change(self)
        return replace(self, parts=tuple(part.changed(change) for part in self.parts))


@dataclass(eq=False, repr=False)
class Hand:
    """The numbers that somebody calculated by hand for one step.

    matrix: the numbers with their spelling and places; a cell that is not to be marked is NaN, its spelling None.
    decimals, significant: the places that were meant, where the file has lost them.
    """

    matrix: Matrix
    decimals: int | None = None
    significant: int | None = None
    place: Place | str | None = None


@contextmanager
def placed(place: Place | str | None) -> Iterator[None]:
    """Say where it was written of every error that does not know it yet."""
    try:
        yield
    except AttnError as error:
        for inner in error.errors():
            if inner.place is None:
                inner.place = place
        raise
