"""Some rows of one sequence of a problem, with all its heads: what a mistake is tried on where all rows are too many.

Letters: r rows, n queries, m keys, H heads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from attncli.errors import ShapeError
from attncli.lazy import Array, np
from attncli.pipeline.config import AttentionConfig
from attncli.pipeline.heads import as_matrix, split_heads
from attncli.pipeline.maskargs import score_table
from attncli.pipeline.masks import Masks, ScoreIndices, ScoreShape
from attncli.pipeline.positions import PLACED, stand
from attncli.pipeline.state import State, plain_state
from attncli.pipeline.steps import STEPS
from attncli.problem.problem import Problem
from attncli.verify.frame import Frame
from attncli.verify.given import Given
from attncli.verify.written import Written

Index = tuple[int, ...]


@dataclass
class RowsExtent(ScoreShape):
    """The sizes of the whole problem, and which rows of which sequence (a place in `batch`) are looked at."""

    sequence: Index = ()
    rows: Array | None = None

    def indices(self, alignment: str) -> ScoreIndices:
        """The indices of these rows, as they are in the whole."""
        whole = ScoreShape(self.batch, self.heads, self.n, self.m, self.past, self.behind).indices(alignment)
        sequence = whole.sequence[tuple(slice(i, i + 1) for i in self.sequence)] if self.batch else whole.sequence
        assert self.rows is not None
        return replace(whole, sequence=sequence).part(self.rows)


def rows_state(inputs: Mapping[str, Array], rules: AttentionConfig, of: RowsExtent, target: str, known: Array) -> State:
    """A State of some rows, whose masks know where in the whole they lie.

    target: the step that is asked about, known: its right numbers, which need not be computed once more.
    """
    keys = STEPS.find(target).rows == "key"
    at = plain_state(_inputs_of_rows(inputs, of, keys), _rules_of_rows(rules, of, keys))
    if rules.masks and at.begin not in ("masked", "weights"):
        at.masks = Masks(rules.masks, of, rules.alignment)
    if target == "output" and not {"W_O", "b_O"} & set(inputs):
        output = known.astype(at.dtype, copy=False)
        at.know("output", output)
        if at.heads > 1:
            at.know("heads", split_heads("output", output, at.heads))
    return at


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
    problem: Problem, inputs: Mapping[str, Array], rules: AttentionConfig, of: RowsExtent, target: str, numbers: Array,
    known: Array,
) -> RowsGiven:  # fmt: skip
    """The `Given` of some rows.

    inputs, rules: of the whole problem. numbers: the array's rows of the target, tokens as rows, with the leading axes
    that the target has (1 for the sequences). known: the right ones.
    """
    at = rows_state(inputs, rules, of, target, known)
    return RowsGiven(Frame(problem, at), target, numbers, of)


def _rules_of_rows(rules: AttentionConfig, of: RowsExtent, keys: bool) -> AttentionConfig:
    """The rules, with the positions that these rows have in the whole."""
    if not any(rules.more.get(name) is not None for name in PLACED):
        return rules
    whole = ScoreShape(of.batch, of.heads, of.n, of.m, of.past)
    queries_at, keys_at = (_own(table, of, False) if table.ndim > 1 else table for table in
                           stand(rules, whole, rules.alignment))  # fmt: skip
    if keys:
        keys_at = keys_at[..., of.rows]
    else:
        queries_at = queries_at[..., of.rows]
    return replace(rules, more={**rules.more, "positions": queries_at, "key_positions": keys_at})


def _inputs_of_rows(inputs: Mapping[str, Array], of: RowsExtent, keys: bool) -> dict[str, Array]:
    """The inputs of these rows: all keys, and of the queries only theirs; for a step of keys the other way round.

    Raises ShapeError where past keys come before the rows.
    """
    if keys and of.past:
        raise ShapeError("rows of keys are not taken apart from past ones", hint="give the whole sequence")
    found = {}
    cut = ("Y", "K", "V") if keys else ("X", "Q", *STEPS.beginnings())
    deep = any(array.ndim >= 4 for name, array in inputs.items() if name in ("Q", "K", "V", *STEPS.beginnings()))
    for name, array in inputs.items():
        if name.startswith(("W_", "b_")):
            found[name] = array
            continue
        if name == "bias":
            table = score_table(name, array, of)[0]
            own = _own(table[..., 0, :, :] if of.heads is None and table.ndim > 2 else table, of, of.heads is not None)
            found[name] = own if own.shape[-2] == 1 else own[..., of.rows, :]
            continue
        array = as_matrix(name, array)
        split = of.heads is not None and (deep or name in STEPS.beginnings() or _is_split_past(name, array, inputs))
        own = _own(array, of, split)
        found[name] = own[..., of.rows, :] if name in cut else own
        if name == "X" and "Y" not in inputs:
            found["Y"] = own[..., of.rows, :] if keys else own
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
