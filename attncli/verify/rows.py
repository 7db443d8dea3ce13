"""Some rows of one sequence of a problem, with all its heads: what a mistake is tried on where all rows are too many.

Letters: r rows, n queries, m keys, H heads.
"""

from __future__ import annotations

from collections.abc import Mapping

from attncli.core.attend import LATER_STEPS, Attention, Rules
from attncli.core.maskargs import decide_array_axes
from attncli.core.masks import At, Extent, Masks
from attncli.core.projections import split_heads
from attncli.core.qkv import as_matrix
from attncli.lazy import Array, np
from attncli.problem.problem import Problem
from attncli.record import record
from attncli.verify.frame import Frame
from attncli.verify.given import Given
from attncli.verify.written import Written

Index = tuple[int, ...]


@record
class RowsExtent(Extent):
    """The sizes of the whole problem, and which rows of which sequence (a place in `batch`) are looked at."""

    sequence: Index = ()
    rows: Array | None = None

    def at(self, alignment: str) -> At:
        """The indices of these rows, as they are in the whole."""
        whole = Extent(self.batch, self.heads, self.n, self.m, self.past).at(alignment)
        sequence = whole.sequence[tuple(slice(i, i + 1) for i in self.sequence)] if self.batch else whole.sequence
        return At(sequence, whole.head, whole.query[self.rows], whole.key, whole.position[self.rows])


class RowsAttention(Attention):
    """An attention of some rows, whose masks know where in the whole they lie.

    target: the step that is asked about, known: its right numbers, which need not be computed once more.
    """

    def __init__(self, inputs: Mapping[str, Array], rules: Rules, of: RowsExtent, target: str, known: Array) -> None:
        super().__init__(inputs, rules)
        self.of, self.target, self.known = of, target, known

    def bind_masks(self) -> Masks | None:
        if self.begin == "masked" or not self.rules.masks:
            return None
        return Masks(self.rules.masks, self.of, self.rules.alignment)

    def tell_scores(self) -> None:
        """Nothing: the notes of the whole were told."""

    def output(self) -> None:
        if self.target != "output" or {"W_O", "b_O"} & set(self.inputs):
            super().output()
            return
        self.steps["output"] = self.known.astype(self.dtype, copy=False)
        heads = self.parts.heads or 1
        if heads > 1:
            self.steps["heads"] = split_heads("output", self.steps["output"], heads)


class RowsGiven(Given):
    """What a mistake starts from, for an array: the right numbers of some rows. numbers: the array's own rows."""

    def __init__(self, frame: Frame, target: str, numbers: Array, of: RowsExtent) -> None:
        exact = frame.exact(target)
        nothing = np.zeros(exact.shape, dtype=bool)
        hand = Written(frame.uniform(target, numbers), np.zeros(exact.shape), nothing, False)
        super().__init__(frame, {target: hand}, target, nothing)
        self.extent = of
        self.widths = self.widths | {"n": of.n}


def rows_given(
    problem: Problem, inputs: Mapping[str, Array], rules: Rules, of: RowsExtent, target: str, numbers: Array,
    known: Array,
) -> RowsGiven:  # fmt: skip
    """The `Given` of some rows.

    inputs, rules: of the whole problem. numbers: the array's rows of the target, tokens as rows, with the leading axes
    that the target has (1 for the sequences). known: the right ones.
    """
    core = RowsAttention(_inputs_of_rows(inputs, of), rules, of, target, known)
    return RowsGiven(Frame(problem, core), target, numbers, of)


def _inputs_of_rows(inputs: Mapping[str, Array], of: RowsExtent) -> dict[str, Array]:
    """The inputs of these rows: all keys, and of the queries only theirs."""
    found = {}
    deep = any(array.ndim >= 4 for name, array in inputs.items() if name in ("Q", "K", "V", *LATER_STEPS))
    for name, array in inputs.items():
        if name.startswith(("W_", "b_")):
            found[name] = array
            continue
        if name == "bias":
            table = decide_array_axes(name, array, of.batch, of.heads, of.n, of.m)[0]
            own = _own(table, of, of.heads is not None)
            found[name] = own if own.shape[-2] == 1 else own[..., of.rows, :]
            continue
        array = as_matrix(name, array)
        split = of.heads is not None and (deep or name in LATER_STEPS or _is_split_past(name, array, inputs))
        own = _own(array, of, split)
        if name in ("X", "Q", *LATER_STEPS):
            if name == "X" and "Y" not in inputs:
                found["Y"] = own
            own = own[..., of.rows, :]
        found[name] = own
    return found


def _is_split_past(name: str, array: Array, inputs: Mapping[str, Array]) -> bool:
    """Whether past keys or values have their heads apart, where the present ones have them joined."""
    now = next((inputs[each] for each in (name[-1].upper(), "Y", "X") if each in inputs), array)
    return name.startswith("past_") and array.ndim > max(now.ndim, 2)


def _own(array: Array, of: RowsExtent, split: bool) -> Array:
    """The part of one sequence: an axis of 1 stays for each axis of sequences."""
    leading = array.shape[: max(0, array.ndim - (3 if split else 2))]
    own = of.sequence[len(of.sequence) - len(leading) :] if leading else ()
    own_part: Array = array[tuple(slice(i, i + 1) if size > 1 else slice(None)
                                  for i, size in zip(own, leading, strict=True))]  # fmt: skip
    return own_part
