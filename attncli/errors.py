"""What attncli says when something is wrong: one class of error, and the place it points at."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import NamedTuple

from attncli.escapes import shown

MOST_TOLD = 50  # errors of one kind in one file; those after them say nothing new
_LONGEST_NAME = 60  # characters that messages repeat, and within which a slip is looked for


class Place(NamedTuple):
    """Where something was written: a file (or an option) and, if known, line and column, counted from 1."""

    file: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return ":".join(str(part) for part in (shown(self.file), self.line, self.column) if part is not None)


class AttnError(Exception):
    """Something is wrong with what we were given.

    what: one sentence, with the numbers and names that disagree.
    place: where it was written. hint: what mends it.
    """

    def __init__(self, what: str, *, place: Place | str | None = None, hint: str | None = None) -> None:
        self.what = what
        self.place = place
        self.hint = hint
        super().__init__(str(self))

    def __str__(self) -> str:
        return f"{self.head()}\n{self.hint}" if self.hint else self.head()

    def head(self) -> str:
        """Where, and what is wrong; a sentence that begins with its place is enough: `Q has 3 features`."""
        return f"{self.place}: {self.what}" if self.place and not self.what.startswith(f"{self.place} ") else self.what

    def errors(self) -> list[AttnError]:
        """This error as a list; `Several` gives each of its own."""
        return [self]


class UsageError(AttnError):
    """An option or argument that makes no sense."""


class InputError(AttnError):
    """A file, a number or a key that cannot be read or understood."""


class ShapeError(InputError):
    """Two sizes that disagree."""


class Opaque(AttnError):
    """A function of the user's own that cannot be read in a kind of number that was asked for."""


class MachineError(AttnError):
    """The machine failed us: a full disk, not enough memory."""


class Several(AttnError):
    """All errors of one file or one call, told together."""

    def __init__(self, errors: Iterable[AttnError]) -> None:
        self._errors = [inner for error in errors for inner in error.errors()]
        super().__init__("\n".join(str(error) for error in self._errors))

    def __reduce__(self) -> tuple[type[Several], tuple[list[AttnError]]]:
        """How `pickle` makes it again: errors cross processes."""
        return type(self), (self._errors,)

    def errors(self) -> list[AttnError]:
        return self._errors


def together(errors: list[AttnError]) -> AttnError:
    """The single error, or all of them as one."""
    return errors[0] if len(errors) == 1 else Several(errors)


def raise_all(errors: list[AttnError]) -> None:
    """Raise what was collected: nothing, the single error, or all of them together."""
    if errors:
        raise together(errors)


def many(count: int, noun: str) -> str:
    """The number with its noun: 1 value, 2 values."""
    return f"{count} {noun}{'s' * (count != 1)}"


def there_are(count: int, noun: str) -> str:
    """There is 1 sequence, there are 2 sequences."""
    return f"there {'is' if count == 1 else 'are'} {many(count, noun)}"


# What others call it: the first of the names that is known is meant.
_MEANT = {
    "softmax": ("weights",),
    "attention": ("weights",),
    "attn": ("weights",),
    "attn_weights": ("weights",),
    "is_causal": ("causal",),
    "sdpa": ("scaled-dot", "torch-sdpa"),
    "scaled_dot_product_attention": ("scaled-dot", "torch-sdpa"),
    "--causal": ("--mask causal",),
    "--is-causal": ("--mask causal",),
    "--is_causal": ("--mask causal",),
    "--sdpa": ("--like torch-sdpa",),
}


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like `name`, or None where none is: one that begins so, else one a slip or two away.

    Case is looked past, since `w_q` for `W_Q` is the usual slip, and so are the dashes in front of options.
    """
    if len(name) > _LONGEST_NAME:
        return None
    known = list(known)
    for meant in _MEANT.get(name.casefold(), ()):
        if meant in known or (meant.partition(" ")[0] in known and meant.startswith("--")):
            return meant
    by_fold: dict[str, str] = {}
    for candidate in known:
        by_fold.setdefault(candidate.casefold().lstrip("-"), candidate)
    folded = name.casefold().lstrip("-")
    begun = [candidate for candidate in by_fold if candidate.startswith(folded)] if len(folded) > 1 else []
    close = get_close_matches(folded, begun or by_fold, n=1, cutoff=0 if begun else 0.65)
    return by_fold[close[0]] if close else None


def shortened(text: str) -> str:
    """The text as far as a message repeats it."""
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1] + "…"


def unknown(
    kind: str, name: str, known: Iterable[str], *, of: str = "", place: Place | str | None = None
) -> InputError:
    """An unknown name (of something, if said), with the nearest known one and the whole list as a hint."""
    names = list(known)
    close = nearest(name, names)
    meant = f"did you mean {close!r}? " if close else ""
    what = f"unknown {kind} {shortened(name)!r}" + (f" of {of}" if of else "")
    return InputError(what, place=place, hint=f"{meant}known: {', '.join(names)}")
