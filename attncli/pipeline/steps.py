"""The registry of steps: what each one is called, what it counts, when it exists, and the function that computes it.

A step stands in a *line*, such as that of the queries or of the logits, and begins at the step before it there. So one
that is added in one place is used by what comes after it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from attncli.errors import InputError, shortened, unknown
from attncli.registry import Entry, Registry, Setting, brought

if TYPE_CHECKING:
    from attncli.pipeline.state import State

Axis = Literal["query", "key", "feature", ""]
Line = Literal["data", "query", "key", "value", "logits", "shares", "output", "back", "fact", "table", "place"]

QUERY_FEATURE: tuple[Axis, Axis] = ("query", "feature")
KEY_FEATURE: tuple[Axis, Axis] = ("key", "feature")
QUERY_KEY: tuple[Axis, Axis] = ("query", "key")
KEY_QUERY: tuple[Axis, Axis] = ("key", "query")
NO_AXES: tuple[Axis, Axis] = ("", "")


def always(at: State) -> bool:
    """When a step that every problem has exists."""
    return True


@dataclass(kw_only=True, eq=False, repr=False)
class Step(Entry):
    """One step of the pipeline: function(at) gives its numbers from those of a `State`.

    axes: what its rows and columns count, tokens as rows. when: whether a problem has it. about, shape: for `list`.
    told: its formula in text and in LaTeX, where these depend on the problem.
    shown: whether it is one of the named steps; else a value inside. on_request: shown only when asked for.
    tells: the name under which an explanation tells a value inside; else it stands in the terms of what uses it.
    fast: whether the compiled kernel knows it. truth: whether it is booleans.
    moments: whether --stats tells its mean and variance.
    per_head: whether it has an axis of heads. hides: whether its hidden cells are drawn as such.
    settings: the names of those settings that it is made by; setting: one, or several, that it brings along itself.
    made_from: the steps, or lines, that it is made from, where that is not the step before it in its line.
    begins: whether a problem may begin there. comes_of: what brings it about.
    expected_as: the step whose expected numbers are meant for this one, where its setting is given.
    """

    line: Line
    axes: tuple[Axis, Axis]
    when: Callable[[State], bool]
    about: str = ""
    shape: str = ""
    told: Callable[[State], tuple[str, str]] | None = None
    shown: bool = True
    on_request: bool = False
    tells: str = ""
    fast: bool = False
    truth: bool = False
    moments: bool = False
    per_head: bool = False
    hides: bool = False
    begins: bool = False
    expected_as: str = ""
    comes_of: str = ""
    settings: tuple[str, ...] = ()
    setting: Setting | tuple[Setting, ...] | None = None
    made_from: tuple[str, ...] = ()

    @property
    def rows(self) -> Axis:
        """What its rows count, tokens as rows."""
        return self.axes[0]

    @property
    def columns(self) -> Axis:
        """What its columns count, tokens as rows."""
        return self.axes[1]

    @property
    def told_as(self) -> str:
        """The name under which an explanation tells it; "" where it does not."""
        return self.name if self.shown else self.tells

    def formulas(self, at: State) -> tuple[str, str]:
        """Its formula in text and in LaTeX ("" where nobody wrote it so), for this problem."""
        return self.told(at) if self.told else (self.formula or self.name, self.latex)

    @property
    def is_pairs(self) -> bool:
        """Whether it is a table of queries and keys."""
        return self.axes == QUERY_KEY


# What the first step of a line is made from: the last ones of these.
_BEFORE_LINE: dict[str, tuple[str, ...]] = {
    "logits": ("query", "key"),
    "shares": ("logits",),
    "output": ("shares", "value"),
}


class StepRegistry(Registry[Step]):
    """The steps in the order of the pipeline, in which they are computed, shown and marked."""

    def __init__(self) -> None:
        super().__init__("step", Step)
        self._forget()

    def __call__(self, name: str, *, after: str | None = None, **facts: Any) -> Callable[..., Any]:
        """Register a step; after: the one that it follows, else it is the last so far."""
        register = super().__call__(name, **facts)

        def placed(function: Callable[..., Any]) -> Callable[..., Any]:
            register(function)
            if after is not None:
                self._move(name, after)
            return function

        return placed

    def _move(self, name: str, after: str) -> None:
        entry = self._entries.pop(name)
        names = list(self._entries)
        self.find(after)
        names.insert(names.index(after) + 1, name)
        self._entries = {each: entry if each == name else self._entries[each] for each in names}
        self._forget()

    def add(self, entry: Step) -> None:
        super().add(entry)
        self._forget()

    def remove(self, name: str) -> None:
        super().remove(name)
        self._forget()

    def _forget(self) -> None:
        self._order: dict[str, int] = {}
        self._lines: dict[str, list[Step]] = {}
        self._named: list[Step] = []

    def order(self, name: str) -> int:
        """The place of a step in the pipeline."""
        if not self._order:
            self._order = {each: place for place, each in enumerate(self._entries)}
        return self._order[name]

    def of_line(self, line: Line) -> list[Step]:
        """The entries of a line, in order."""
        if line not in self._lines:
            self._lines[line] = [entry for entry in self if entry.line == line]
        return self._lines[line]

    def named(self) -> list[Step]:
        """The named steps, in order."""
        if not self._named:
            self._named += [entry for entry in self if entry.shown]
        return self._named

    def sources(self, name: str) -> list[str]:
        """The named steps that a step is made from, whether or not a problem has them."""
        entry = self.find(name)
        line = [each.name for each in self.of_line(entry.line) if each.shown]
        if not entry.made_from and name in line[1:]:
            return [line[line.index(name) - 1]]
        found = []
        for source in entry.made_from or _BEFORE_LINE.get(entry.line, ()):
            of_line = [each.name for each in self.of_line(source) if each.shown]  # type: ignore[arg-type]
            found += of_line[-1:] if of_line else [source]
        return found

    def follows(self, name: str, others: Collection[str]) -> bool:
        """Whether a step is one of the others, or made from one of them, whatever lies between."""
        return name in others or any(self.follows(source, others) for source in self.sources(name) if source in self)

    def made_by(self, begin: str) -> list[str]:
        """The settings that have no effect on a problem that begins at that step."""
        upto = [entry for entry in self if self.order(entry.name) <= self.order(begin) and entry.line != "value"]
        return [name for entry in upto for name in (*entry.settings, *(own.name for own in brought(entry)))]

    def beginnings(self) -> list[str]:
        """The steps that a problem may begin at, in order."""
        return [entry.name for entry in self if entry.begins]


STEPS = StepRegistry()
step = STEPS


class NamedSteps(Mapping[str, Step]):
    """The named steps by name, in the order of the pipeline, as the registry has them at the time."""

    def __getitem__(self, name: str) -> Step:
        entry = STEPS.get(name)
        if entry is None or not entry.shown:
            raise KeyError(name)
        return entry

    def __iter__(self) -> Iterator[str]:
        return (entry.name for entry in STEPS if entry.shown)

    def __len__(self) -> int:
        return sum(entry.shown for entry in STEPS)


NAMED_STEPS = NamedSteps()


def value(name: str, line: Line, *, per_head: bool = True, **facts: Any) -> Callable[..., Any]:
    """Register a value inside: as a step, but not shown."""
    facts = {"axes": NO_AXES, "when": always, **facts}
    return STEPS(name, after=None, line=line, shown=False, per_head=per_head, **facts)


def parse_address(address: str) -> tuple[str, tuple[int, ...]]:
    """`weights[1,2]` as ("weights", (1, 2)); counting starts at 1. An unknown step raises InputError."""
    if address in STEPS and STEPS.find(address).shown:
        return address, ()
    text = address.strip()
    name, bracket, rest = text.partition("[")
    name = name.rstrip()
    numbers = rest[:-1].split(",") if bracket else []
    fine = name.isidentifier() and name.isascii() and (not bracket or rest.endswith("]"))
    if not fine or not all(_is_place(part.strip()) for part in numbers):
        hint = "write a step's name, such as weights or weights[2]"
        raise InputError(f"{shortened(address)!r} is not a step", hint=hint)
    if name not in NAMED_STEPS:
        raise unknown("step", name, NAMED_STEPS)
    return name, tuple(int(part) for part in numbers)


def _is_place(text: str) -> bool:
    return text.isdecimal() and text.isascii() and len(text) <= 18
