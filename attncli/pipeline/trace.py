"""The Trace: every named step of one attention, with its labels, for tables, files, JSON and the checker to read.

Letters: n queries, m keys, d_k key width, d_v value width, H heads, B sequences (leading batch axes).
Inside, tokens are rows; `Trace` redoes the layout that was asked for when a step is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, overload

from attncli.errors import InputError
from attncli.lazy import Array, np
from attncli.pipeline import definition  # noqa: F401  (it registers the steps)
from attncli.pipeline.normalizers import NORMALIZERS
from attncli.pipeline.scores import SCORES
from attncli.pipeline.steps import NAMED_STEPS, STEPS, parse_address


class Numbered(Sequence[str]):
    """The labels q1, q2 ... of many tokens, each spelled when it is asked for; equal to a list of the same labels."""

    def __init__(self, letter: str, size: int) -> None:
        self.letter, self.size = letter, size

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        where = range(1, self.size + 1)[at]
        return f"{self.letter}{where}" if isinstance(where, int) else [f"{self.letter}{i}" for i in where]

    def __iter__(self) -> Iterator[str]:
        return (f"{self.letter}{i}" for i in range(1, self.size + 1))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


class Held(NamedTuple):
    """Which queries a Trace holds, where it does not hold all: positions from 0, and how many there are."""

    positions: list[int]
    of: int


@dataclass(eq=False, repr=False)
class Trace:
    """The steps of one attention and what was assumed.

    steps: the arrays that are held, by name, tokens as rows. lazy: steps that are computed when first read.
    visible: broadcasts to (..., n, m); False where a key is hidden from a query; None where nothing is hidden.
    heads: how many heads the leading axes of scores hold: (*batch, H, n, m); None where there is no such axis.
    sums_to_one: whether each row of weights does, as far as the rules go.
    held: where steps hold the rows of some queries only; the labels are those of all.
    stored: the letters of the axes that Q, K, V, data and output have when they are read whole; None: those of `rows`.
    apart: whether the heads of Q, K, V and output have an axis of their own.
    problem: what it is the Trace of, where a Problem was solved.
    Each step is an attribute too: `trace.output` is `trace["output"]` (but `trace.heads` is a number).
    """

    # How a notebook shows one, by the name of a format: the core draws nothing itself.
    drawn: ClassVar[Callable[..., str] | None] = None
    plotted: ClassVar[Callable[..., Any] | None] = None

    steps: dict[str, Array]
    attention: str = "attend"
    layout: str = "rows"
    score: dict[str, Any] = field(default_factory=lambda: {"name": SCORES.default.name})
    scale: float | Array = 1.0
    mask: list[str] = field(default_factory=list)
    normalizer: str = field(default_factory=lambda: NORMALIZERS.default.name)
    sums_to_one: bool = True
    query_labels: Sequence[str] = field(default_factory=list)
    key_labels: Sequence[str] = field(default_factory=list)
    labelled: bool = False
    visible: Array | None = None
    heads: int | None = None
    notes: list[str] = field(default_factory=list)
    lazy: dict[str, Callable[[], Array]] = field(default_factory=dict)
    kept: tuple[str, ...] | None = None
    held: Held | None = None
    stored: str | None = None
    apart: bool = False
    problem: Any = None

    def __getattr__(self, name: str) -> Array:
        """A step, as `self[name]` gives it. Raises AttributeError with its reason for one that is not there."""
        if name not in NAMED_STEPS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        try:
            return self[name]
        except InputError as error:
            raise AttributeError(str(error)) from None

    def __dir__(self) -> list[str]:
        """What a person may want of it: its steps, what was assumed, and how to ask for more."""
        return sorted({*self.names(on_request=True), *_TOLD})

    def _repr_html_(self) -> str | None:
        """What a notebook shows: the tables, and below them what was told."""
        return None if Trace.drawn is None else Trace.drawn(self, "html")

    def _repr_markdown_(self) -> str | None:
        """The same where Markdown is shown."""
        return None if Trace.drawn is None else Trace.drawn(self, "markdown")

    def plot(
        self,
        step: str = "weights",
        *,
        title: str | None = None,
        cmap: str | None = None,
        range: tuple[float, float] | None = None,
        size: tuple[float, float] | None = None,
        precision: int = 4,
    ) -> Any:
        """A step as a heat map, a Figure of matplotlib: a panel for each head, numbers in the cells where they fit.

        range: the numbers at the ends of the colours. size: width and height in inches. Raises UsageError where
        matplotlib is missing, InputError for a step that this problem does not have.
        """
        assert Trace.plotted is not None, "attncli.api is not loaded"
        return Trace.plotted(self, step, title, cmap, range, size, precision)

    def show(self, *steps: str, format: str = "table") -> None:
        """Print steps, or weights and output, in a format of `attncli run`."""
        assert Trace.drawn is not None, "attncli.api is not loaded"
        print(Trace.drawn(self, format, steps), end="")

    def __repr__(self) -> str:
        """`Trace(attend; Q: 2 x 2, K: 3 x 2, scores: 2 x 3)`: the steps with their shapes, as displayed."""
        told = [f"{name}: {' x '.join(map(str, self[name].shape))}" for name in self.names() if name in self.steps]
        return f"Trace({self.attention}; {', '.join(told)})"

    def __getstate__(self) -> dict[str, Any]:
        """What `pickle` keeps: all steps, computed, without the problem, which may hold functions."""
        for name in self.lazy:
            self.rows(name)
        return {**vars(self), "lazy": {}, "problem": None}

    def names(self, *, on_request: bool = False) -> list[str]:
        """The steps that this problem has, in pipeline order; exp, sum and lse only if on_request."""
        return [
            name
            for name in STEPS.names()
            if (name in self.steps or name in self.lazy) and (on_request or not STEPS.find(name).on_request)
        ]

    def rows(self, name: str) -> Array:
        """A whole step with tokens as rows, whatever the layout."""
        if name not in self.steps and name in self.lazy:
            self.steps[name] = self.lazy[name]()
        if name not in self.steps:
            raise self._missing(name)
        return self.steps[name]

    def part(self, address: str) -> tuple[str, tuple[int, ...] | None]:
        """The step of an address, and the index (*batch, H) from 0 where it names one matrix of the step."""
        name, indices = parse_address(address)
        array = self.rows(name)
        return name, self._leading(name, array, indices) if indices else None

    def __getitem__(self, address: str) -> Array:
        """A step, or a part such as `weights[2]`, in the layout that was asked for."""
        name, indices = parse_address(address)
        array = self.rows(name)
        if indices:
            array = array[self._leading(name, array, indices)]
        elif self.stored is not None:
            return self._as_stored(name, array, self.stored)
        return array.mT if self.layout == "columns" and array.ndim >= 2 else array

    def __iter__(self) -> Iterator[str]:
        """The names of the steps that this problem has, in pipeline order, without exp, sum and lse."""
        return iter(self.names())

    def __contains__(self, address: object) -> bool:
        try:
            name, _ = parse_address(str(address))
        except InputError:
            return False
        return name in self.steps or name in self.lazy

    def hidden(self, address: str) -> Array | None:
        """Where a step of scores or weights has hidden cells: a bool array like `self[address]`, or None."""
        name, indices = parse_address(address)
        if self.visible is None or not STEPS.find(name).hides:
            return None
        array = self.rows(name)
        visible = self.visible.mT if STEPS.find(name).rows == "key" else self.visible
        hidden = np.broadcast_to(~visible, array.shape)
        if indices:
            hidden = hidden[self._leading(name, array, indices)]
        return hidden.mT if self.layout == "columns" else hidden

    def axes(self, address: str) -> tuple[str, str]:
        """What the rows and columns of a step count, as displayed: "query", "key" or "feature"."""
        step = STEPS.find(parse_address(address)[0])
        return (step.columns, step.rows) if self.layout == "columns" else (step.rows, step.columns)

    def labels(self, address: str) -> tuple[list[str], list[str]]:
        """The labels of a step's rows and columns, as displayed; features are "1", "2" ..."""
        name, _ = parse_address(address)
        step = STEPS.find(name)
        count_rows, count_columns = self.rows(name).shape[-2:]
        rows = self._labels_of(step.rows, count_rows)
        columns = self._labels_of(step.columns, count_columns)
        return (columns, rows) if self.layout == "columns" else (rows, columns)

    def parts(self, name: str) -> list[str]:
        """The addresses of a step's matrices: [`weights`], or `weights[1]`, `weights[2]` ... one a head or sequence."""
        leading = self.rows(name).shape[:-2]
        return (
            [name]
            if not leading
            else [f"{name}[{','.join(str(i + 1) for i in index)}]" for index in np.ndindex(*leading)]
        )

    def leading_names(self, name: str) -> list[str]:
        """What the leading axes of a step count, outermost first: "sequence" and, last, "head" where there are any."""
        leading = self.rows(name).ndim - 2
        split = STEPS.find(name).per_head or (self.apart and name in SPLIT and leading > 0)
        has_heads = self.heads is not None and split
        return ["sequence"] * (leading - has_heads) + ["head"] * has_heads

    def keep(self, names: tuple[str, ...]) -> Trace:
        """Hold these steps and nothing else. Raises InputError where the problem does not have one."""
        self.steps = {name: self.rows(name) for name in names}
        self.lazy = {}
        self.kept = names
        return self

    def _labels_of(self, kind: str, count: int) -> list[str]:
        known = {"query": self.query_labels, "key": self.key_labels}.get(kind, ())
        if kind == "query" and self.held is not None:
            known = [known[i] for i in self.held.positions]
        if len(known) == count:
            return list(known)
        return list(Numbered({"query": "q", "key": "k"}.get(kind, ""), count))

    def _leading(self, name: str, array: Array, indices: tuple[int, ...]) -> tuple[int, ...]:
        leading = array.shape[:-2]
        if len(indices) < len(leading) and set(leading[: len(leading) - len(indices)]) == {1}:
            indices = (1,) * (len(leading) - len(indices)) + indices  # weights[2] is head 2 of the only sequence
        if len(indices) != len(leading):
            raise InputError(
                f"{name} has {len(leading)} leading axes {leading}, not {len(indices)}",
                hint=f"counted from 1, as in {name}[{','.join('1' for _ in leading)}]" if leading else f"write {name}",
            )
        for index, size in zip(indices, leading, strict=True):
            if not 1 <= index <= size:
                raise InputError(f"{name}[{index}] does not exist: counting goes from 1 to {size}")
        return tuple(index - 1 for index in indices)

    @staticmethod
    def _as_stored(name: str, array: Array, letters: str) -> Array:
        """A whole step in the order of the inputs; without the axis of sequences where they have none."""
        if "b" not in letters and "h" in letters and array.ndim == len(ORDER):
            array, kept = array[0], ORDER[1:]
        else:
            kept = ORDER if array.ndim == len(ORDER) else ORDER.replace("h", "")[-array.ndim :]
        if name not in (*SPLIT, "X", "Y"):
            return array
        return array.transpose([kept.index(letter) for letter in letters if letter in kept])

    def _missing(self, name: str) -> InputError:
        if self.kept is not None:
            return InputError(
                f"the step {name!r} was not kept", hint=f"kept: {', '.join(self.names(on_request=True)) or 'nothing'}"
            )
        return InputError(
            f"this problem has no step {name!r}", hint=f"it has: {', '.join(self.names(on_request=True))}"
        )


ORDER = "bhtd"  # of the axes: sequence, head, token, feature
SPLIT = ("Q", "K", "V", "output")  # steps with the axes of the inputs

_TOLD = (
    "attention", "layout", "score", "scale", "mask", "normalizer", "query_labels", "key_labels", "notes", "problem",
    "names", "axes", "labels", "hidden", "parts", "plot", "show",
)  # fmt: skip


def wanted(steps: Iterable[str] | None) -> tuple[str, ...] | None:
    """The names of the steps asked for, addresses resolved to their steps; None means all."""
    return None if steps is None else tuple(dict.fromkeys(parse_address(step)[0] for step in steps))


__all__ = ["NAMED_STEPS", "Held", "Numbered", "Trace", "parse_address", "wanted"]
