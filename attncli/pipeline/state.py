"""A State: the steps of one attention by name, each computed when it is first asked for.

The same definition is read in every kind of number: a State asks nothing of its inputs but what `tight.py` and NumPy's
notation need. What somebody gives for a step (a hand's numbers, a mistake) stands in its place: later steps follow.
Letters: n queries, m keys, d_k, d_v widths, H query heads, G key heads. Tokens are rows; what is per head has an axis
of heads, (..., *batch, H, n, d or m), of one where there are no heads. More axes may stand in front of all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from attncli.errors import ShapeError, UsageError, many, there_are
from attncli.lazy import Array, np
from attncli.pipeline import notes
from attncli.pipeline.by_hand import rounding
from attncli.pipeline.config import AttentionConfig
from attncli.pipeline.dtypes import common_dtype
from attncli.pipeline.heads import as_matrix, common_leading, repeat_heads, split_heads
from attncli.pipeline.masking import Masks, ScoreIndices, ScoreShape
from attncli.pipeline.normalizers import NormalizerEntry, find_normalizer
from attncli.pipeline.scores import SCORES, ScoreSpec, score_spec
from attncli.pipeline.steps import STEPS, Line, Step

_UPSTREAM = ("query", "key", "logits", "shares")


@dataclass(eq=False, repr=False)
class Partly:
    """What somebody wrote of a step: numbers where `written`; elsewhere the step is computed."""

    numbers: Any
    written: Array


@dataclass(eq=False, repr=False)
class HeadLayout:
    """Where the heads lie. joined: in the features of Q, K and V. heads: how many query heads, None without any;
    key_heads: how many key heads.
    """

    joined: bool
    heads: int | None
    key_heads: int


class State:
    """The steps of one attention.

    inputs: what a problem gives, by name. given: what stands in place of steps.
    between(name, x): what later steps start from instead of x, where a step was computed.
    stepwise: whether each step is made from the one before, as a hand does, even where another way keeps more digits.
    like: a State of the same problem, whose sizes are known.
    """

    dtype: Any = None
    # How matrices were written, for the formulas that are told of them; here, tokens are rows and weights in x out.
    in_columns = weights_turned = False
    # Whether only shapes are asked for, and one number may stand for many.
    only_sizes = False

    def __init__(
        self,
        config: AttentionConfig,
        inputs: Mapping[str, Any],
        given: Mapping[str, Any] | None = None,
        *,
        between: Callable[[str, Any], Any] | None = None,
        stepwise: bool = False,
        like: State | None = None,
    ) -> None:
        self.config, self.inputs = config, inputs
        self.given = dict(given or {})
        self.between, self.stepwise = between, stepwise
        self.notes: list[str] = []
        self._steps: dict[str, Any] = {}
        self._computed: dict[str, Any] = {}
        self._has: dict[str, bool] = {}
        self._lines: dict[str, list[str]] = {}
        self._names: list[Step] = []
        if like is not None:
            self._learn(like)

    def _learn(self, like: State) -> None:
        """Take over what does not depend on the numbers."""
        self.dtype, self.layout, self.shape, self.masks = like.dtype, like.layout, like.shape, like.masks
        self.normalizer, self.score = like.normalizer, like.score
        # The steps are the same ones where numbers stand in place of steps that there are.
        if like.given.keys() <= self.given.keys() and all(map(like.has, self.given)):
            self._has, self._lines, self._names = like._has, like._lines, like._names

    def with_given(self, given: Mapping[str, Any], config: AttentionConfig | None = None) -> State:
        """The same problem with other numbers in place of some steps, or under other rules."""
        changed = State(config or self.config, self.inputs, {**self.given, **given}, between=self.between,
                        stepwise=self.stepwise, like=self if config is None else None)  # fmt: skip
        if config is not None:
            changed.dtype, changed.layout, changed.shape = self.dtype, self.layout, self.shape
        changed.notes = self.notes
        # What does not depend on what is given need not be computed again.
        first = min((STEPS.order(name) for name in given), default=len(STEPS))
        if config is None:
            changed._computed = {
                name: x
                for name, x in self._computed.items()
                if STEPS.order(name) < first and STEPS.find(name).line != "fact"
            }
        return changed

    # -- the steps ----------------------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Any:
        """The numbers of a step that later ones start from: given ones, else computed."""
        x = self._steps.get(name)
        if x is None:
            plain = self.between is None and name not in self.given
            x = self._steps[name] = self.computed(name) if plain else self._started(name)
        return x

    def _started(self, name: str) -> Any:
        given = self.given.get(name)
        if given is None:
            x = self.computed(name)
            return x if self.between is None else self.between(name, x)
        if not isinstance(given, Partly):
            return given
        if given.written.all():
            return given.numbers
        x = self.computed(name)
        return np.where(given.written, given.numbers, x if self.between is None else self.between(name, x))

    def know(self, name: str, x: Any) -> None:
        """Take this for what the step gives, so that it need not be computed; States made of this one compute it."""
        self._steps[name] = x

    def computed(self, name: str) -> Any:
        """What a step gives from those before it, whatever stands in its place."""
        x = self._computed.get(name)
        if x is None:
            entry = STEPS.find(name)
            begun = entry.begins and name in self.inputs
            x = self._computed[name] = self.begun(name) if begun else self.compute(entry)
        return x

    def compute(self, entry: Step) -> Any:
        """The function of a step, called."""
        return entry.function(self)

    def has(self, name: str) -> bool:
        """Whether this problem has the step."""
        known = self._has.get(name)
        if known is None:
            entry = STEPS.find(name)
            given = name in self.inputs or name in self.given
            known = given or (not self._is_skipped(entry) and bool(entry.when(self)))
            self._has[name] = known
        return known

    def _is_skipped(self, entry: Step) -> bool:
        """Whether the problem begins at a later step."""
        begin = self.begin
        return begin is not None and entry.line in _UPSTREAM and STEPS.order(entry.name) < STEPS.order(begin)

    def names(self, *, on_request: bool = False) -> list[str]:
        """The named steps that this problem has, in order."""
        if not self._names:
            self._names += [entry for entry in STEPS.named() if self.has(entry.name)]
        return [entry.name for entry in self._names if on_request or not entry.on_request]

    def line(self, line: Line) -> list[str]:
        """The names of a line that the problem has, in order."""
        if line not in self._lines:
            self._lines[line] = [entry.name for entry in STEPS.of_line(line) if self.has(entry.name)]
        return self._lines[line]

    def name_before(self, name: str) -> str | None:
        """The last step of the same line before this one that the problem has."""
        names = self.line(STEPS.find(name).line)
        earlier = names[: names.index(name)] if name in names else []
        return earlier[-1] if earlier else None

    def before(self, name: str) -> Any:
        """The numbers of the step before it in its line."""
        earlier = self.name_before(name)
        assert earlier is not None, name
        return self.as_number(self[earlier])

    def name_latest(self, line: Line) -> str | None:
        """The last step of a line that the problem has."""
        names = self.line(line)
        return names[-1] if names else None

    def latest(self, line: Line) -> Any:
        """The numbers of the last step of a line."""
        name = self.name_latest(line)
        assert name is not None, line
        return self.as_number(self[name])

    def from_steps(self, *names: str) -> bool:
        """Whether what follows is made from these steps as they stand: somebody gave them, or each step is."""
        return self.stepwise or self.is_given(*names)

    def is_given(self, *names: str) -> bool:
        """Whether numbers stand in place of one of these steps."""
        return any(name in self.given for name in names)

    # -- kinds of number ----------------------------------------------------------------------------------------

    def as_number(self, x: Any) -> Any:
        """x in what is computed in."""
        return x if self.dtype is None or x.dtype == self.dtype else x.astype(self.dtype)

    def scalar(self, x: float) -> Any:
        """A number of the formula, so that it does not change what is computed in."""
        return x if self.dtype is None else self.dtype.type(x)

    # -- what does not depend on the numbers --------------------------------------------------------------------

    @cached_property
    def begin(self) -> str | None:
        """The later step that is given in place of Q and K."""
        return next((name for name in reversed(STEPS.beginnings()) if name in self.inputs), None)

    @cached_property
    def score(self) -> ScoreSpec | None:
        """The score function; None where a problem begins later and names none."""
        if self.config.score is not None or self.begin is not None:
            return self.config.score
        return score_spec(SCORES.default.name)

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """The score's parameters, matrices among them in what is computed in."""
        given = self.score.parameters if self.score else {}
        return {name: self.as_number(x) if isinstance(x, np.ndarray) else x for name, x in given.items()}

    @cached_property
    def normalizer(self) -> NormalizerEntry:
        """What turns a row of scores into weights."""
        return find_normalizer(self.config.normalizer)

    @cached_property
    def layout(self) -> HeadLayout:
        """Where the heads lie. Raises UsageError and ShapeError."""
        return head_layout(self)

    @cached_property
    def shape(self) -> ScoreShape:
        """The sizes of the scores. Raises ShapeError where queries, keys and values do not fit each other."""
        return score_shape(self)

    @cached_property
    def masks(self) -> Masks | None:
        """The masks for these sizes; None where there are none, or the problem begins after them."""
        if not self.config.masks or self.begin in ("masked", "weights"):
            return None
        return Masks(self.config.masks, self.shape, self.config.alignment)

    @property
    def whole(self) -> State:
        """What it is a part of: itself, where it is no block of rows."""
        return self

    @property
    def alignment(self) -> str:
        """How queries are aligned with keys: as the masks have it."""
        return self.masks.alignment if self.masks else self.config.alignment

    @property
    def heads(self) -> int:
        """How many heads the numbers per head have: 1 where there are none."""
        return 1 if self.layout.heads is None else self.layout.heads

    def split(self, name: str, x: Any) -> Any:
        """Q, K or V as one matrix a head, (..., H or G, n, d)."""
        if not self.layout.joined:
            return x if x.ndim >= 3 else x[None]
        if self.layout.heads is None:
            return x[..., None, :, :]
        return split_heads(name, x, self.layout.heads if name == "Q" else self.layout.key_heads)

    def begun(self, name: str) -> Any:
        """The step that a problem begins at, with an axis of heads."""
        return self.as_number(self.begun_raw(name))

    def begun_raw(self, name: str) -> Any:
        """The same, as it was given."""
        x = as_matrix(name, self.inputs[name])
        if self.layout.heads is None:
            return x[..., None, :, :]
        return x if x.ndim > 2 else x[None]  # one table for all heads

    def spread(self, name: str, x: Any) -> Any:
        """Keys or values of G heads, one for each query head."""
        return repeat_heads(name, x, self.heads)


def plain_state(arrays: Mapping[str, Array], config: AttentionConfig, keep: frozenset[str] = frozenset()) -> State:
    """A State of plain numbers, in the dtype that the inputs and the config ask for.

    keep: inputs that stay as they are, to be converted block by block. Numbers that the dtype cannot hold are noted.
    """
    arrays = {name: np.asarray(array) for name, array in arrays.items()}
    given = config.score.parameters if config.score else {}
    counting = arrays | {name: x for name, x in given.items() if isinstance(x, np.ndarray)}
    dtype = common_dtype(counting, config.dtype)
    with np.errstate(over="ignore"):
        now = {name: x.astype(dtype, copy=False) for name, x in arrays.items() if name not in keep}
    inputs = {**arrays, **now}
    by_hand = None if config.round_steps is None else rounding(config.round_steps, inputs)
    at = State(config, inputs, between=by_hand, stepwise=by_hand is not None)
    at.dtype = dtype
    at.notes = notes.beyond(arrays, now)
    return at


def head_layout(at: State) -> HeadLayout:
    """Whether the heads lie in the features, how many query heads there are (None: no heads), how many key heads."""
    heads, kv_heads = at.config.heads, at.config.kv_heads
    if kv_heads is not None and heads is None:
        raise UsageError("kv_heads is given without heads", hint="--heads says how many query heads there are")
    if (heads is not None and heads < 1) or (kv_heads is not None and kv_heads < 1):
        raise UsageError("heads are counted from 1")
    begun = as_matrix(at.begin, at.inputs[at.begin]) if at.begin else None
    given = {name: at[name] for name in ("Q", "K", "V") if at.has(name)}
    if begun is not None:
        given["the given step"] = begun
    several = [name for name, array in given.items() if array.ndim >= 4]
    if not several:
        if begun is not None and heads is not None and (begun.ndim < 3 or begun.shape[-3] not in (1, heads)):
            shape = " x ".join(map(str, begun.shape))
            raise ShapeError(f"the given step is {shape}, but there are {heads} heads", hint=f"{heads} x n x m")
        return HeadLayout(True, heads, kv_heads or heads or 1)
    if heads is not None:
        raise UsageError(
            f"{several[0]} has {given[several[0]].ndim} axes, the third from last of which counts the heads: "
            f"heads={heads} cannot split it again",
            hint="leave --heads out, or join the heads in the features",
        )
    counts = {name: array.shape[-3] for name, array in given.items() if array.ndim >= 3}
    most = max(counts.values())
    asking = {name: count for name, count in counts.items() if name not in ("K", "V")}
    for name, count in asking.items():
        if count not in (1, most):
            told = ", ".join(f"{name} {count}" for name, count in counts.items())
            raise ShapeError(f"{name} has {many(count, 'head')}, but there are {most} elsewhere: {told}")
    return HeadLayout(False, most, most)


def score_shape(at: State) -> ScoreShape:
    """The sizes of the scores, from the shapes of queries and keys (or of the step that is given) and of values."""
    parts = {name: at[part] for name, part in (("Q", "q"), ("K", "k"), ("V", "v")) if at.has(name)}
    if at.begin is not None:
        parts = {at.begin: at.begun_raw(at.begin), **({"V": parts["V"]} if "V" in parts else {})}
        n, m = parts[at.begin].shape[-2:]
    else:
        n, m = parts["Q"].shape[-2], parts["K"].shape[-2]
    if "V" in parts and parts["V"].shape[-2] != m:
        raise ShapeError(
            f"V has {many(parts['V'].shape[-2], 'row')}, but {there_are(m, 'key')}",
            hint="each key has one value (past ones count)",
        )
    for name in {"K", "V"} & parts.keys():
        repeat_heads(name, parts[name][..., :0, :], at.heads)  # whether the heads fit, without their tokens
    batch = common_leading(parts, 3)
    pasts = [at.inputs[name] for name in ("past_k", "past_v") if name in at.inputs]
    past = max((x.shape[-2] if x.ndim > 1 else 1 for x in pasts), default=0)
    behind = len(at["behind"]) if at.begin is None or "V" in parts else 0
    return ScoreShape(tuple(batch), at.layout.heads, n, m, past if at.begin is None or "V" in parts else 0, behind)


class RowBlock(State):
    """Some queries of one sequence, of one head or of all, as a State of its own: its scores are (H or 1, r, m).

    What has no query and key is cut out of the whole; the rest is computed. sequence: a place among the batch axes.
    """

    def __init__(self, whole: State, sequence: tuple[int, ...], head: int | None, rows: slice | Array) -> None:
        super().__init__(whole.config, whole.inputs, between=whole.between, stepwise=whole.stepwise)
        self._whole, self.sequence, self.head, self.rows = whole, sequence, head, rows
        self.dtype, self.normalizer, self.score = whole.dtype, whole.normalizer, whole.score
        self.layout = HeadLayout(False, 1 if head is not None else whole.heads, whole.layout.key_heads)
        count = len(range(*rows.indices(whole.shape.n))) if isinstance(rows, slice) else len(rows)
        self.shape = replace(whole.shape, batch=(), heads=self.layout.heads, n=count)

    @property
    def whole(self) -> State:
        return self._whole

    def has(self, name: str) -> bool:
        return self.whole.has(name)

    @property
    def masks(self) -> Masks | None:
        return self.whole.masks

    def begun(self, name: str) -> Any:
        return self._converted(name, self.cut(self.whole.begun_raw(name), rows=True))

    def _converted(self, name: str, x: Any) -> Any:
        """x in what is computed in; numbers that this cannot hold are noted."""
        now = self.as_number(x)
        self.notes += notes.beyond({name: x}, {name: now}) if now is not x else []
        return now

    def indices(self, masks: Masks) -> ScoreIndices:
        """The indices of these rows, as they are in the whole."""
        return self._placed(masks.indices)

    def _placed(self, every: ScoreIndices) -> ScoreIndices:
        """The own part of indices of the whole."""
        at = tuple(slice(i, i + 1) for i in self.sequence)
        sequence = every.sequence[at].reshape(1, 1, 1) if self.whole.shape.batch else every.sequence
        head = every.head if self.head is None else every.head[self.head : self.head + 1]
        position, key = (x if x.ndim <= 2 else self.cut(x, rows=False) for x in (every.position, every.key))
        return replace(every, sequence=sequence, head=head, position=position, key=key).part(self.rows)

    def compute(self, entry: Step) -> Any:
        if entry.line == "place":
            return self._placed(self.whole[entry.name])
        if entry.line == "table":
            return self._converted(entry.settings[0], self.cut(self.whole[entry.name], rows=True))
        if entry.line in ("data", "query", "key", "value"):
            x = self.whole[entry.name]
            if not entry.per_head and self.whole.layout.joined:
                x = self._of_sequence(x, self.sequence)
            else:
                x = self.cut(x, rows=False)
            return self.as_number(x[..., self.rows, :] if entry.axes[0] == "query" or entry.line == "query" else x)
        return entry.function(self)

    def cut(self, x: Any, *, rows: bool) -> Any:
        """The own part of what has leading axes (*batch, H) that broadcast; grouped heads share one."""
        picked = x
        if x.ndim > 2:
            heads = x.shape[-3]
            picked = self._of_sequence(x, self.sequence, 3)
            if self.head is not None:
                at = self.head * heads // self.whole.heads
                picked = picked[at : at + 1]
        return picked[..., self.rows, :] if rows and x.shape[-2] > 1 else picked

    @staticmethod
    def _of_sequence(x: Any, sequence: tuple[int, ...], tail: int = 2) -> Any:
        leading = x.shape[: x.ndim - tail]
        own = sequence[len(sequence) - len(leading) :] if leading else ()
        return x[tuple(i if size > 1 else 0 for i, size in zip(own, leading, strict=True))]
