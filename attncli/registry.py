"""Named things that can be added in one place: scores, normalizers, masks, formats, renderers, mistakes.

An entry takes its name, parameters, formula, source and help from the function that it decorates, so that
help texts, completion, `attncli list`, the schema and the error messages all know of it at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any

from attncli.errors import Place, UsageError, unknown
from attncli.record import record


@record
class Entry:
    """One registered function, with what is told about it."""

    name: str
    function: Callable[..., Any]
    formula: str = ""
    source: str = ""
    facts: dict[str, Any] = field(default_factory=dict)

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


class Registry:
    """A dict from name to `Entry`, that is filled by a decorator and names its neighbours when asked for a stranger."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, Entry] = {}

    def __call__(
        self, name: str, *, formula: str = "", source: str = "", **facts: Any
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorate a function with the name under which it is found."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self._entries[name] = Entry(name, function, formula, source, facts)
            return function

        return register

    def find(self, name: str, *, place: Place | str | None = None) -> Entry:
        """The entry of that name; an unknown one raises InputError with the nearest name."""
        if name not in self._entries:
            raise unknown(self.kind, name, self._entries, place=place)
        return self._entries[name]

    def remove(self, name: str) -> None:
        """Forget an entry (a test that registered one cleans up after itself)."""
        del self._entries[name]

    def names(self) -> list[str]:
        """All names, in the order of registration."""
        return list(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def __contains__(self, name: object) -> bool:
        return name in self._entries
