"""Named things that can be added in one place: scores, normalizers, masks, biases, steps, formats, mistakes.

An entry takes its name, parameters and help from the function that it decorates; what else it must say is a field of
its class. So help texts, completion, `attncli list`, the schema and the error messages all know of it at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

from attncli.errors import Place, UsageError, unknown
from attncli.extensions import installed


@dataclass(kw_only=True, eq=False, repr=False)
class Setting:
    """What a user can say to an entry: from it come an option, a key of problem files, a Python keyword, the schema.

    kind: number, integer, choice, flag, text, matrix, numbers (a name, one number, or a row or matrix of them) or parts
    (a matrix, or named ones). low, high: an integer's. choices: the names that it may take.
    check: what is wrong with a number, and what mends it; None if nothing is.
    needs: settings of which one must be there for it to have an effect.
    common: whether --help tells it; --help-all tells all.
    """

    name: str
    kind: str
    help: str
    metavar: str = ""
    default: str = "none"
    choices: Callable[[], list[str]] | None = None
    check: Callable[[float], tuple[str, str] | None] | None = None
    low: int | None = None
    high: int | None = None
    panel: str = "Attention"
    needs: tuple[str, ...] = ()
    common: bool = False


# The settings that entries bring along, by name, as they are registered.
SETTINGS: dict[str, Setting] = {}


@dataclass(kw_only=True, eq=False, repr=False)
class Entry:
    """One registered function, with what is told about it. formula: as text; latex: the same drawn."""

    name: str
    function: Callable[..., Any]
    formula: str = ""
    source: str = ""
    latex: str = ""

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """Keyword-only parameters of the function and their defaults (`inspect.Parameter.empty` if there is none)."""
        import inspect

        signature = inspect.signature(self.function)
        return {p.name: p.default for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY}

    @property
    def help(self) -> str:
        """The first line of the docstring."""
        return (self.function.__doc__ or "").strip().partition("\n")[0]


def brought(entry: Entry) -> tuple[Setting, ...]:
    """The settings that an entry brings along: none, one, or several."""
    own: Setting | tuple[Setting, ...] | None = getattr(entry, "setting", None)
    return own if isinstance(own, tuple) else () if own is None else (own,)


E = TypeVar("E", bound=Entry)


class Registry(Generic[E]):
    """A dict from name to entry, that is filled by a decorator and names its neighbours when asked for a stranger."""

    def __init__(self, kind: str, entry: Callable[..., E]) -> None:
        self.kind = kind
        self.entry = entry
        self._entries: dict[str, E] = {}

    def __call__(self, name: str, **facts: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorate a function with the name under which it is found. Raises TypeError for a fact that is missing."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            try:
                entry = self.entry(name=name, function=function, **facts)
            except TypeError as error:
                said = str(error).partition("() ")[2] or str(error)
                raise TypeError(f"the {self.kind} {name!r} cannot be registered: {said}") from None
            self.add(entry)
            return function

        return register

    def add(self, entry: E) -> None:
        """Register what is made already. Raises TypeError where the name is taken."""
        if entry.name in self._entries:
            raise TypeError(f"the {self.kind} {entry.name!r} cannot be registered: there is one of that name")
        self._entries[entry.name] = entry
        SETTINGS.update({own.name: own for own in brought(entry)})

    def find(self, name: str, *, place: Place | str | None = None) -> E:
        """The entry of that name; an unknown one raises InputError with the nearest name."""
        if name not in self._entries and not (installed() and name in self._entries):
            raise unknown(self.kind, name, self._entries, place=place)
        return self._entries[name]

    def get(self, name: str) -> E | None:
        """The entry of that name among those that are here, or None."""
        return self._entries.get(name)

    def remove(self, name: str) -> None:
        """Forget an entry (a test that registered one cleans up after itself)."""
        for own in brought(self._entries.pop(name)):
            del SETTINGS[own.name]

    @property
    def default(self) -> E:
        """What is taken where nothing is said."""
        return next(entry for entry in self if getattr(entry, "default", False))

    def names(self) -> list[str]:
        """All names, in their order."""
        return list(self._entries)

    def __iter__(self) -> Iterator[E]:
        return iter(self._entries.values())

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __len__(self) -> int:
        return len(self._entries)


def check_call(
    function: Callable[..., Any],
    what: str,
    names: Sequence[str],
    hint: str,
    parameters: Mapping[str, Any] | None = None,
) -> None:
    """Raise UsageError where a function of the user's own does not take what it will be given.

    what: what it stands for, a mask, say. names: of its arguments. parameters: those that are given by name.
    """
    parameters = parameters or {}
    import inspect

    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # written in C, it does not tell
    try:
        signature.bind(*names, **parameters)
    except TypeError as error:
        call = f"{what}({', '.join([*names, *(f'{name}=' for name in parameters)])})"
        own = getattr(function, "__name__", "the function")
        raise UsageError(f"{own}{signature} cannot be called as {call}: {error}", hint=hint) from None
