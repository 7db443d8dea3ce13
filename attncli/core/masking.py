"""How masks work: the indices they are asked about, their arguments, and several combined with &.

A predicate takes an `At` and returns booleans that broadcast to (*batch, H, n, m). Masks are asked for any part of
the scores, so that a tile can be masked, or skipped, without the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any

from attncli.errors import ShapeError, UsageError
from attncli.lazy import Array, np
from attncli.record import record
from attncli.registry import Registry, check_call

MASKS = Registry("mask")
mask = MASKS

ALIGNMENTS = ("top-left", "bottom-right")


@record
class At:
    """Where scores lie: index arrays that broadcast to the part of (*batch, H, n, m) that is asked for.

    query and key count from 0; position is the place of a query among the keys, as the alignment puts it.
    """

    sequence: Array
    head: Array
    query: Array
    key: Array
    position: Array

    def part(self, queries: slice, keys: slice) -> At:
        """The part of the given rows and columns."""
        return replace(self, query=self.query[queries], position=self.position[queries], key=self.key[keys])


@record
class Extent:
    """The sizes that masks are made for: batch axes, H heads (None without), n queries, m keys, of them `past`."""

    batch: tuple[int, ...]
    heads: int | None
    n: int
    m: int
    past: int = 0

    @property
    def sequences(self) -> int:
        """How many sequences the batch axes count together."""
        return int(np.prod(self.batch, dtype=int))

    def at(self, alignment: str) -> At:
        """The indices of all scores; the query's position follows the alignment (and past keys, in top-left)."""
        tail = (1, 1) if self.heads is None else (1, 1, 1)
        sequence = np.arange(self.sequences).reshape(self.batch + tail)
        head = np.arange(self.heads or 1).reshape((-1, 1, 1) if self.heads is not None else (1, 1))
        query = np.arange(self.n)[:, None]
        offset = self.past if alignment == "top-left" else self.m - self.n
        return At(sequence, head, query, np.arange(self.m), query + offset)


@record
class MaskSpec:
    """A mask with its arguments, as it was asked for; `bind` makes it for given sizes."""

    name: str
    function: Callable[..., Any]
    argument: Any = None
    alignment: str | None = None
    aligned: bool = False
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The mask as it is written in an option, an array left out: `window:2,0`, `causal:bottom-right`, `keep`."""
        parts = [self.name]
        argument = self.argument
        if isinstance(argument, np.ndarray):
            argument = argument.tolist() if argument.ndim == 1 and "parse" in self.facts else None
        if argument is not None:
            halves = argument if argument and isinstance(argument[0], list) else [argument]
            parts.append("/".join(",".join(_spelled(part) for part in half) for half in halves))
        if self.alignment is not None:
            parts.append(self.alignment)
        return ":".join(parts)


def _spelled(part: Any) -> str:
    return f"{part:.17g}" if isinstance(part, float) else str(part)


def split_spec(text: str) -> tuple[str, str | None, str | None]:
    """`window:2,0:bottom-right` as ("window", "2,0", "bottom-right"). Raises InputError for an unknown name."""
    name, _, rest = text.strip().partition(":")
    entry = MASKS.find(name)
    if not entry.facts.get("aligned"):
        return name, rest or None, None
    head, _, last = rest.rpartition(":")
    if last in ALIGNMENTS:
        return name, head or None, last
    return name, rest or None, None


_PREDICATE = (
    "mask(at) gives booleans (..., n, m); at.query, at.key, at.position, at.head and at.sequence are arrays of indices "
    "from 0, as in at.key <= at.position"
)


def mask_spec(name: str | Callable[..., Any], argument: Any = None, alignment: str | None = None) -> MaskSpec:
    """A registered mask with its argument (text, numbers or an array), or any predicate on an `At`.

    Raises UsageError where the argument makes no sense for that mask.
    """
    if callable(name):
        check_call(name, "mask", ["at"], _PREDICATE)
        called = getattr(name, "__name__", "callable")
        return MaskSpec(called, lambda extent, _: lambda at: _booleans(called, name(at), at))
    entry = MASKS.find(name)
    facts = entry.facts
    if alignment is not None and not facts.get("aligned"):
        raise UsageError(f"the mask {name!r} has no alignment", hint=f"it is {entry.formula}")
    if alignment is not None and alignment not in ALIGNMENTS:
        raise UsageError(f"unknown alignment {alignment!r} of the mask {name!r}", hint="top-left or bottom-right")
    takes = facts.get("takes")
    if takes is None and argument is not None:
        hint = "causal, causal:top-left or causal:bottom-right" if name == "causal" else None
        raise UsageError(f"the mask {name!r} takes no argument, but got {argument!r}", hint=hint)
    if takes is not None and argument is None:
        raise UsageError(f"the mask {name!r} needs an argument", hint=f"{facts['spec']}: {entry.formula}")
    if "parse" in facts:
        argument = facts["parse"](name, argument)
    return MaskSpec(name, entry.function, argument, alignment, bool(facts.get("aligned")), facts)


def _booleans(name: str, given: Any, at: At) -> Array:
    """What a predicate of the user's own gave, once it is sure that it says something of each score."""
    shown = np.asarray(given)
    if shown.dtype.kind not in "biuf":
        raise UsageError(f"the mask {name!r} gave {given!r:.40}, not booleans", hint="as in at.key <= at.position")
    scores = np.broadcast_shapes(at.sequence.shape, at.head.shape, at.query.shape, at.key.shape)
    try:
        np.broadcast_to(shown, scores)
    except ValueError:
        what = f"the mask {name!r} gave {shown.shape}, which does not broadcast to {scores}"
        raise ShapeError(what, hint="(..., queries, keys), as at.key <= at.position is") from None
    return shown


class Masks:
    """All masks of a problem, bound to its sizes: a key is visible where every mask lets it be."""

    def __init__(self, specs: Sequence[MaskSpec], extent: Extent, default: str = "top-left") -> None:
        named = {spec.alignment for spec in specs if spec.alignment is not None}
        if len(named) > 1:
            raise UsageError("two masks name different alignments", hint="name one; the others follow it")
        self.alignment = named.pop() if named else default
        self.notes: list[str] = []
        silent = [spec for spec in specs if spec.aligned and spec.alignment is None]
        if silent and extent.n != extent.m:
            self._note_alignment(silent, extent, next((spec.name for spec in specs if spec.alignment), None))
        self.at = extent.at(self.alignment)
        self.texts = [spec.text if not spec.aligned else replace(spec, alignment=self.alignment).text for spec in specs]
        # Each with whether it looks only at i - j, so that a tile can ask once for a whole diagonal.
        self.predicates = [(spec.function(extent, spec.argument), bool(spec.facts.get("by_offset"))) for spec in specs]
        for predicate, _ in self.predicates:
            note = getattr(predicate, "note", None)
            if note:
                self.notes.append(note)

    def visible(self, queries: slice = slice(None), keys: slice = slice(None)) -> Array:
        """Booleans that broadcast to that part of (*batch, H, n, m)."""
        part = self.at.part(queries, keys)
        visible: Array = np.ones((part.query.size, part.key.size), dtype=bool)
        for predicate, _ in self.predicates:
            visible = visible & np.asarray(predicate(part), dtype=bool)
        return visible

    def _note_alignment(self, silent: list[MaskSpec], extent: Extent, by: str | None) -> None:
        """Tell which alignment masks get that name none. by: the mask that names one for all."""
        names = " and ".join(dict.fromkeys(spec.name for spec in silent))
        if by is not None:
            self.notes.append(f"{names}: aligned {self.alignment}, as {by} says")
            return
        if extent.past and self.alignment == "top-left":
            self.notes.append(
                f"{names}: {extent.n} queries right after {extent.past} past keys (top-left); "
                "name :bottom-right for the other alignment"
            )
            return
        self.notes.append(
            f"{names}: the scores are {extent.n} x {extent.m}, not square; aligned {self.alignment} "
            f"(name :top-left or :bottom-right to say which)"
        )
