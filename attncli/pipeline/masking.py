"""How masks work: the indices they are asked about, their arguments, and several combined with &.

A predicate takes `ScoreIndices` and returns booleans that broadcast to (*batch, H, n, m), H = 1 where there are no
heads. Masks are asked for any part of the scores, so that a block can be masked, or skipped, without the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from attncli.errors import ShapeError, UsageError
from attncli.lazy import Array, np
from attncli.pipeline.together import all_of, bound_together, check_lengths, places_of
from attncli.registry import Entry, Registry, check_call


@dataclass(kw_only=True, eq=False, repr=False)
class MaskEntry(Entry):
    """A mask as it is registered: function(shape, argument) -> predicate on `ScoreIndices`.

    spec: how it is written; example: so that it is taken as it stands, for three keys or more.
    drawn: the example for n queries and m keys, where it depends on them.
    takes: what its argument is, "" for none. parse: the argument in its one form.
    aligned: whether it asks for a query's position. by_offset: whether it looks only at position - key.
    causal: whether no key is visible that comes after the query. counted: whether it counts from the first real key.
    ends: whether it says which is the last real key of each sequence.
    """

    spec: str
    example: str = ""
    drawn: Callable[[int, int], str] | None = None
    takes: Literal["", "numbers", "array", "numbers or array"] = ""
    parse: Callable[[str, Any], Any] | None = None
    aligned: bool = False
    by_offset: bool = False
    causal: bool = False
    counted: bool = False
    ends: bool = False


MASKS: Registry[MaskEntry] = Registry("mask", MaskEntry)
mask = MASKS

# The first query at the first key, the last at the last key, or the last at the last real key of its sequence.
ALIGNMENTS = ("top-left", "bottom-right", "lengths")


@dataclass(eq=False, repr=False)
class ScoreIndices:
    """Where scores lie: index arrays that broadcast to the part of (*batch, H, n, m) that is asked for.

    query and key count from 0; position is the place of a query among the keys, as the alignment puts it; start is
    the first real key of its sequence.
    Where tokens were given places, a bias finds those in position and key.
    """

    sequence: Array
    head: Array
    query: Array
    key: Array
    position: Array
    start: Array | int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """What they broadcast to."""
        return np.broadcast_shapes(
            self.sequence.shape, self.head.shape, self.query.shape, self.position.shape, self.key.shape
        )

    def part(self, queries: slice | Array, keys: slice = slice(None)) -> ScoreIndices:
        """The part of the given rows and columns."""
        return replace(
            self, query=self.query[queries, :], position=self.position[..., queries, :], key=self.key[..., keys]
        )


@dataclass(eq=False, repr=False)
class ScoreShape:
    """The sizes of the scores: batch axes, H heads (None without), n queries, m keys.

    Of these `past` stand in front, and `behind` come last, in no sequence.
    """

    batch: tuple[int, ...]
    heads: int | None
    n: int
    m: int
    past: int = 0
    behind: int = 0

    @property
    def before_behind(self) -> ScoreShape:
        """The same without the keys that come last."""
        return replace(self, m=self.m - self.behind, behind=0)

    @property
    def sequences(self) -> int:
        """How many sequences the batch axes count together."""
        return int(np.prod(self.batch, dtype=int))

    @property
    def lead(self) -> tuple[int, ...]:
        """(*batch, H): the axes before queries and keys."""
        return (*self.batch, 1 if self.heads is None else self.heads)

    @property
    def shape(self) -> tuple[int, ...]:
        """(*batch, H, n, m)."""
        return (*self.lead, self.n, self.m)

    def indices(self, alignment: str) -> ScoreIndices:
        """The indices of all scores; the query's position follows the alignment (and past keys, in top-left)."""
        sequence = np.arange(self.sequences).reshape((*self.batch, 1, 1, 1))
        head = np.arange(self.lead[-1]).reshape(-1, 1, 1)
        query = np.arange(self.n)[:, None]
        offset = self.past if alignment == "top-left" else self.m - self.behind - self.n
        return ScoreIndices(sequence, head, query, np.arange(self.m), query + offset)


@dataclass(eq=False, repr=False)
class MaskSpec:
    """A mask with its arguments, as it was asked for; `bind` makes it for given sizes."""

    name: str
    function: Callable[..., Any]
    argument: Any = None
    alignment: str | None = None
    entry: MaskEntry | None = None

    @property
    def aligned(self) -> bool:
        """Whether it asks for a query's position."""
        return self.entry is not None and self.entry.aligned

    @property
    def by_offset(self) -> bool:
        """Whether it looks only at position - key."""
        return self.entry is not None and self.entry.by_offset

    @property
    def causal(self) -> bool:
        """Whether no key is visible that comes after the query."""
        return self.entry is not None and self.entry.causal

    @property
    def counted(self) -> bool:
        """Whether it counts from the first real key of a sequence."""
        return self.entry is not None and self.entry.counted

    @property
    def ends(self) -> bool:
        """Whether it says which is the last real key of each sequence."""
        return self.entry is not None and self.entry.ends

    @property
    def unplaced(self) -> bool:
        """Whether it asks for the last real key of a sequence, and nothing says which that is."""
        return self.aligned

    def with_alignment(self, alignment: str | None) -> MaskSpec:
        """The same, aligned so if it asks for a position."""
        return replace(self, alignment=alignment) if self.aligned else self

    def bind(self, shape: ScoreShape, alignment: str) -> Callable[[ScoreIndices], Any]:
        """The predicate for these sizes. Raises ShapeError where they do not fit."""
        predicate: Callable[[ScoreIndices], Any] = self.function(shape, self.argument)
        return predicate

    @property
    def text(self) -> str:
        """The mask as it is written in an option, an array left out: `window:2,0`, `causal:bottom-right`, `keep`."""
        parts = [self.name]
        argument = self.argument
        if isinstance(argument, tuple):  # tables
            argument = None
        if isinstance(argument, np.ndarray):
            argument = argument.tolist() if argument.ndim == 1 and self.entry and self.entry.parse else None
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
    if not entry.aligned:
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
    """A registered mask with its argument (text, numbers or an array), or any predicate on `ScoreIndices`.

    Raises UsageError where the argument makes no sense for that mask.
    """
    if callable(name):
        check_call(name, "mask", ["at"], _PREDICATE)
        called = getattr(name, "__name__", "callable")
        return MaskSpec(called, lambda shape, _: lambda at: _booleans(called, name(at), at, shape))
    entry = MASKS.find(name)
    if alignment is not None and not entry.aligned:
        raise UsageError(f"the mask {name!r} has no alignment", hint=f"it is {entry.formula}")
    if alignment is not None and alignment not in ALIGNMENTS:
        raise UsageError(f"unknown alignment {alignment!r} of the mask {name!r}", hint=" or ".join(ALIGNMENTS))
    if not entry.takes and argument is not None:
        hint = entry.spec.replace(" |", ",") if entry.aligned else None
        raise UsageError(f"the mask {name!r} takes no argument, but got {argument!r}", hint=hint)
    if entry.takes and argument is None:
        example = f", as in {entry.example}" if entry.example else ""
        raise UsageError(f"the mask {name!r} needs an argument", hint=f"{entry.spec}: {entry.formula}{example}")
    if entry.parse is not None:
        argument = entry.parse(name, argument)
    return MaskSpec(name, entry.function, argument, alignment, entry)


def _booleans(name: str, given: Any, at: ScoreIndices, shape: ScoreShape) -> Array:
    """What a predicate of the user's own gave, once it is sure that it says something of each score."""
    shown = np.asarray(given)
    if shown.dtype.kind not in "biuf":
        raise UsageError(f"the mask {name!r} gave {given!r:.40}, not booleans", hint="as in at.key <= at.position")
    if shape.heads is None and 2 < shown.ndim < len(shape.shape):
        shown = shown[..., None, :, :]  # one table a sequence
    try:
        np.broadcast_to(shown, at.shape)
    except ValueError:
        sizes = at.shape if shape.heads is not None else (*at.shape[:-3], *at.shape[-2:])
        what = f"the mask {name!r} gave {shown.shape}, which does not broadcast to {sizes}"
        raise ShapeError(what, hint="(..., queries, keys), as at.key <= at.position is") from None
    return shown


class Masks:
    """All masks of a problem, bound to its sizes: a key is visible where every mask lets it be."""

    def __init__(self, specs: Sequence[MaskSpec], shape: ScoreShape, default: str = "top-left") -> None:
        named = {spec.alignment for spec in specs if spec.alignment is not None}
        if len(named) > 1:
            raise UsageError("two masks name different alignments", hint="name one; the others follow it")
        self.specs = specs
        self.alignment = named.pop() if named else default
        if self.alignment == "lengths":
            check_lengths(specs)
        self.notes: list[str] = []
        inner = shape.before_behind
        silent = [spec for spec in specs if spec.aligned and spec.alignment is None]
        if silent and inner.n != inner.m:
            self._note_alignment(silent, inner, next((spec.name for spec in specs if spec.alignment), None))
        self.indices = shape.indices(self.alignment)
        if self.alignment == "lengths":
            self.indices = replace(self.indices, position=places_of(specs, self.indices, shape))
        self.texts = [spec.with_alignment(self.alignment).text for spec in specs]
        # Each with whether it looks only at i - j, so that a tile can ask once for a whole diagonal.
        self.predicates = bound_together(specs, inner, self.alignment)
        for predicate, _ in self.predicates:
            note = getattr(predicate, "note", None)
            if note:
                self.notes.append(note)
        if shape.behind:
            self.predicates = [(_seen_behind(predicate, inner.m), False) for predicate, _ in self.predicates]

    @property
    def causal(self) -> bool:
        """Whether no query sees a key that comes after it."""
        return any(spec.causal for spec in self.specs)

    def visible(self, queries: slice = slice(None), keys: slice = slice(None)) -> Array:
        """Booleans that broadcast to that part of (*batch, H, n, m)."""
        return all_of(self.predicates, self.indices.part(queries, keys))

    def _note_alignment(self, silent: list[MaskSpec], shape: ScoreShape, by: str | None) -> None:
        """Tell which alignment masks get that name none. by: the mask that names one for all."""
        names = " and ".join(dict.fromkeys(spec.name for spec in silent))
        if by is not None:
            self.notes.append(f"{names}: aligned {self.alignment}, as {by} says")
            return
        if shape.past and self.alignment == "top-left":
            self.notes.append(
                f"{names}: {shape.n} queries right after {shape.past} past keys (top-left); "
                "name :bottom-right for the other alignment"
            )
            return
        self.notes.append(
            f"{names}: the scores are {shape.n} x {shape.m}, not square; aligned {self.alignment} "
            f"(name :top-left or :bottom-right to say which)"
        )


def _seen_behind(predicate: Callable[[ScoreIndices], Any], count: int) -> Callable[[ScoreIndices], Any]:
    """The same of the first `count` keys; those behind them are always seen."""
    return lambda at: np.where(at.key < count, predicate(replace(at, key=np.minimum(at.key, count - 1))), True)
