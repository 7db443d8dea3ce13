"""The attention function, from data or matrices to weights and output, as a Trace of named steps.

This is the definition: each step is one formula of the papers, computed plainly.
Letters: n queries, m keys, d_k, d_v widths, H heads; leading axes are sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attncli.core import notes
from attncli.core.backward import backward
from attncli.core.maskargs import decide_array_axes
from attncli.core.masks import Extent, Masks, MaskSpec
from attncli.core.normalizers import exp_shifted, find_normalizer, row_maximum, weigh
from attncli.core.output import weighted_sum
from attncli.core.projections import common_dtype, join_heads, project, together
from attncli.core.qkv import as_matrix, query_key_value
from attncli.core.scores import ScoreSpec, inverse_root, score_spec
from attncli.core.trace import Numbered, Trace, wanted
from attncli.errors import InputError, ShapeError, UsageError
from attncli.lazy import Array, np
from attncli.record import record

EMPTY_ROWS = ("zero", "nan", "uniform", "error")
LATER_STEPS = ("kernel", "scores", "scaled", "masked", "weights")
ENORMOUS_CAP = 1e15  # soft caps beyond are computed in double precision


@record
class Rules:
    """How to compute: everything that is no matrix.

    score None: scaled-dot; but where a problem begins at the scores, only a scale, a temperature or d_k scales them.
    scale multiplies the scores; a temperature t is a scale of 1/t on top of the default one.
    d_k: the key width, where no keys are given to tell it.
    """

    score: ScoreSpec | None = None
    scale: float | None = None
    temperature: float | None = None
    d_k: int | None = None
    softcap: float | None = None
    masks: tuple[MaskSpec, ...] = ()
    mask_value: float = -float("inf")
    empty_rows: str = "zero"
    normalizer: str | Callable[..., Any] = "softmax"
    heads: int | None = None
    kv_heads: int | None = None
    dtype: str | None = None
    alignment: str = "top-left"
    both_ways: bool = False


def attend(
    inputs: Mapping[str, Array],
    rules: Rules,
    steps: Iterable[str] | None = None,
    progress: Callable[[float], None] | None = None,
) -> Trace:
    """Compute every step, or hold only those asked for; a large problem without its weights goes block by block.

    inputs: arrays by the names of `projections.MATRICES`, tokens as rows, weights in x out.
    Raises ShapeError where sizes disagree, UsageError for rules that do not fit each other, InputError for a step
    that the problem does not have.
    """
    if steps is not None:
        from attncli.core.large import is_large

        steps = tuple(steps)
        if is_large(inputs, rules, wanted(steps) or ()):
            from attncli.core.tiled import attend_by_blocks

            return attend_by_blocks(inputs, rules, steps, progress=progress)
    return Attention(inputs, rules).trace(steps)


class Attention:
    """One attention on its way through the pipeline.

    logits (..., n, m): the scores as far as they have come. reach: where a kernel (or a given -inf) lets a key be.
    counted: where a key has a say in the normalizer: the visible ones, and with a finite mask value the hidden too.
    reaching: where a value reaches the output: the counted ones, and all where an empty row says so.
    """

    def __init__(self, inputs: Mapping[str, Array], rules: Rules) -> None:
        if rules.empty_rows not in EMPTY_ROWS:
            raise UsageError(f"unknown rule for empty rows {rules.empty_rows!r}", hint=", ".join(EMPTY_ROWS))
        if rules.scale is not None and rules.temperature is not None:
            raise UsageError("scale and temperature are both given", hint="a temperature t is a scale of 1/t")
        self.rules = rules
        self.begin = next((step for step in LATER_STEPS[::-1] if step in inputs), None)
        self.score = rules.score or (score_spec("scaled-dot") if self.begin is None else None)
        self.parameters = dict(self.score.parameters) if self.score else {}
        arrays = {name: np.asarray(array) for name, array in inputs.items()}
        counting = arrays | {name: value for name, value in self.parameters.items() if isinstance(value, np.ndarray)}
        self.dtype = common_dtype(counting, rules.dtype)
        with np.errstate(over="ignore"):
            self.inputs = {name: array.astype(self.dtype, copy=False) for name, array in arrays.items()}
        self.normalizer = find_normalizer(rules.normalizer)
        self.scale = 1.0
        self.notes = notes.beyond(arrays, self.inputs)

    def trace(self, steps: Iterable[str] | None) -> Trace:
        """Run the pipeline and keep what is wanted."""
        keep = wanted(steps)
        with np.errstate(all="ignore"):  # NaN and infinity are told in notes, with their place
            self.parts = query_key_value(self.inputs, self.begin, self.rules.heads, self.rules.kv_heads)
            self.steps = self.parts.steps
            if self.begin == "weights":
                self.given_weights()
            else:
                self.raw_scores()
                self.scaled()
                self.capped()
                self.biased()
                self.masked()
                self.weights()
            self.output()
            if self.rules.both_ways:
                self.both_ways()
        return self.as_trace(keep)

    def raw_scores(self) -> None:
        """f(q, k); of a kernel both the kernel and its logarithm. Or the step that is given in their place."""
        if self.begin is None:
            assert self.score is not None
            values, name, kernel = self._scored(self.score), "scores", self.score.kernel
        else:
            values = as_matrix(self.begin, self.inputs[self.begin])
            name, kernel = self.begin, "value" if self.begin == "kernel" else None
        if kernel is not None:
            values = self._kernel(values, kernel)
            name = "scores"
        self.reach: Array | None = None
        if kernel is not None or self.begin is not None:
            self.reach = ~np.isneginf(values)  # where scores are handed over, -inf is how a hidden key is written
        self.logits = self.steps[name] = values
        self._measure()

    def _scored(self, score: ScoreSpec) -> Array:
        q, k = self.parts.q, self.parts.k
        assert q is not None
        assert k is not None
        parameters = {
            name: value.astype(self.dtype, copy=False) if isinstance(value, np.ndarray) else value
            for name, value in self.parameters.items()
        }
        values = np.asarray(score.function(q, k, **parameters)).astype(self.dtype, copy=False)
        shape = (*together(q.shape[:-2], k.shape[:-2]), q.shape[-2], k.shape[-2])
        if values.shape != shape:
            raise ShapeError(f"the score {score.name!r} gave {values.shape}, not (..., n, m) = {shape}")
        return values

    def _kernel(self, values: Array, kind: str) -> Array:
        kernel, logarithm = (values, np.log(values)) if kind == "value" else (np.exp(values), values)
        if np.any(kernel < 0):
            raise InputError("a kernel is never negative", hint="scores: takes any number")
        self.steps["kernel"] = kernel
        return logarithm

    def _measure(self) -> None:
        """The sizes of the scores, by which masks and biases are read."""
        shape, heads, v = self.logits.shape, self.parts.heads, self.parts.v
        tail = 2 if heads is None else 3
        batch = shape[:-tail] if v is None else together(shape[:-tail], v.shape[:-tail])
        self.extent = Extent(tuple(batch), heads, shape[-2], shape[-1], self.parts.past)

    def scaled(self) -> None:
        """scores x scale: for scaled-dot, and where a scale was given."""
        if not self.find_scale():
            return
        self.logits = self.steps["scaled"] = self._within_reach(self.logits * self.dtype.type(self.scale))

    def find_scale(self) -> bool:
        """Whether anything is scaled, and by what."""
        if self.begin in ("scaled", "masked"):
            return False
        rules = self.rules
        by_width = self.score.scaled if self.score else self.begin == "scores" and rules.d_k is not None
        if not by_width and rules.scale is None and rules.temperature is None:
            return False
        self.scale = rules.scale if rules.scale is not None else self._default_scale(by_width)
        with np.errstate(over="ignore"):
            now = float(self.dtype.type(self.scale))
        if np.isinf(now) or (now == 0 and self.scale != 0):
            what = f"a scale of {self.scale:g} is {'infinite' if now else 0} in {self.dtype}"
            raise UsageError(what, hint="--dtype float64 computes in double precision")
        return True

    def _default_scale(self, by_width: bool) -> float:
        scale = 1.0
        if by_width:
            d_k = self.parts.k.shape[-1] if self.begin is None and self.parts.k is not None else self.rules.d_k
            if d_k is None:
                raise UsageError("the scale 1/sqrt(d_k) needs d_k", hint="give d_k or scale beside the scores")
            scale = inverse_root(d_k) if d_k else 1.0
        return scale if self.rules.temperature is None else scale / self.rules.temperature

    def capped(self) -> None:
        """c tanh(s / c); a key out of reach stays out of reach."""
        if self.rules.softcap is None or self.begin == "masked":
            return
        cap = self.rules.softcap
        # Of an enormous cap s / c would vanish in float32, or the cap itself be infinite.
        dtype = self.dtype if abs(cap) <= ENORMOUS_CAP else np.dtype(float)
        capped = dtype.type(cap) * np.tanh(self.logits / dtype.type(cap))
        self.logits = self.steps["capped"] = self._within_reach(capped.astype(self.dtype, copy=False))

    def _within_reach(self, values: Array) -> Array:
        """The values, but -inf where a key is out of reach: no scale and no cap brings it back."""
        return values if self.reach is None else np.where(self.reach, values, self.dtype.type(-np.inf))

    def biased(self) -> None:
        """+ bias; -inf there hides a key."""
        self.unbarred: Array | None = None
        if "bias" not in self.inputs or self.begin == "masked":
            return
        bias, e = self.inputs["bias"], self.extent
        table, note = decide_array_axes("bias", bias, e.batch, e.heads, e.n, e.m)
        self.notes += [note] if note else []
        if bias.size and np.all((bias == 0) | (bias == 1)):
            self.notes.append("bias: nothing but 0 and 1, added to the scores; a mask is keep:FILE or block:FILE")
        self.logits = self.steps["biased"] = self.logits + table
        self.unbarred = ~np.isneginf(table)

    def masked(self) -> None:
        """Hidden cells at -inf, or at the mask value in rows that see something; and which rows see nothing."""
        visible: Array = np.ones((1, 1), dtype=bool)
        for shows in (self.reach, self.unbarred):
            visible = visible if shows is None else visible & shows
        counted = visible
        self.masks = self.bind_masks()
        if self.masks and self.rules.masks:
            self.notes += self.masks.notes
            shown = self.masks.visible()
            counted = visible = visible & shown
            value = self.dtype.type(self.rules.mask_value)
            if not np.isneginf(value):
                sees = np.any(visible, axis=-1, keepdims=True)
                counted = visible | (sees & ~shown)
                value = np.where(sees, value, -np.inf)
            self.logits = np.where(shown, self.logits, value).astype(self.dtype, copy=False)
        if not counted.all():
            self.logits = np.where(counted, self.logits, self.dtype.type(-np.inf))
        if self.masks and self.rules.masks:
            self.steps["masked"] = self.logits
        self.visible, self.counted = visible, counted
        self.empty: Array = np.logical_not(visible.any(axis=-1, keepdims=True)) | (self.extent.m == 0)

    def bind_masks(self) -> Masks | None:
        """The masks for these sizes; None where there are none, or the problem begins after them."""
        if self.begin == "masked" or not self.rules.masks:
            return None
        return Masks(self.rules.masks, self.extent, self.rules.alignment)

    def weights(self) -> None:
        """The normalizer over the keys; then the rule for queries that see no key."""
        counted = self.visible if self.normalizer.facts.get("visible_only") else self.counted
        self.counted = np.broadcast_to(counted, self.logits.shape)
        if self.normalizer.facts.get("of_kernel") and "kernel" not in self.steps:
            total = np.where(self.counted, self.logits, 0).sum(axis=-1, keepdims=True)
            self.empty = self.empty | (total == 0)
        self.reaching = self.counted
        weights = weigh(self.normalizer, self.logits, self.counted, kernel="kernel" in self.steps)
        if self.empty.any() and weights.shape[-2]:
            weights = self._empty_rows(weights)
        self.steps["weights"] = weights
        self.tell_scores()

    def _empty_rows(self, weights: Array) -> Array:
        rule, m = self.rules.empty_rows, self.extent.m
        self.tell_empty(np.broadcast_to(self.empty, (*weights.shape[:-1], 1)))
        value = {"zero": 0.0, "nan": np.nan, "uniform": 1 / m if m else 0.0}[rule]
        if rule != "zero":
            self.reaching = self.counted | self.empty
        return np.where(self.empty, self.dtype.type(value), weights)

    def tell_empty(self, empty: Array) -> None:
        """Note the queries that see no key, (..., n, 1), or refuse them."""
        note = notes.empty_queries(empty, self.rules.empty_rows, self.extent)
        if self.rules.empty_rows == "error":
            raise InputError(note, hint="--empty-rows zero, nan or uniform says what such a query gets")
        self.notes.append(note)

    def tell_scores(self) -> None:
        """Note what among the scores spoils a row."""
        self.notes += notes.attended(notes.spoiled_scores(self.logits, self.counted, self.empty), self.extent)

    def tell_values(self, values: Array) -> None:
        """Note what among the values spoils the output."""
        self.notes += notes.attended_values(notes.spoiled_values(values, self.reaching), self.extent)

    def given_weights(self) -> None:
        """A problem that begins at the weights: they are what they are."""
        self.logits = self.steps["weights"] = as_matrix("weights", self.inputs["weights"])
        self._measure()
        self.visible = self.reaching = np.ones((1, 1), dtype=bool)
        self.empty = np.zeros((1, 1), dtype=bool)
        self.masks = None

    def output(self) -> None:
        """The weighted sum of the values, heads joined and through W_O."""
        if self.parts.v is None:
            return
        heads = weighted_sum(self.steps["weights"], self.parts.v, self.reaching)
        self.tell_values(self.parts.v)
        if self.rules.empty_rows == "nan" and self.empty.any():
            heads = np.where(self.empty, self.dtype.type(np.nan), heads)
        if self.parts.heads is not None:
            if self.parts.heads > 1:
                self.steps["heads"] = heads
            heads = join_heads(heads)
        self.steps["output"] = project("W_O", heads, self.inputs.get("W_O"), self.inputs.get("b_O"))

    def both_ways(self) -> None:
        """The same scores, normalized for each key over the queries, and what X gives each key by those weights."""
        if "X" not in self.steps or "Y" not in self.steps or self.begin is not None:
            raise UsageError("both ways needs X and Y", hint="cross X Y --both-ways")
        kernel, weight = "kernel" in self.steps, self.inputs.get("W_V")
        self.steps |= backward(
            self.logits, self.counted, self.normalizer, kernel, self.steps["X"], weight, self.parts.heads
        )

    def as_trace(self, keep: tuple[str, ...] | None) -> Trace:
        masks = self.masks.texts if self.masks else []
        if self.rules.masks and not masks:
            self.notes.append(f"mask: the problem begins at {self.begin}, after the mask, which changes nothing")
        trace = Trace(
            steps=dict(self.steps),
            score={"name": self.score.name, **self.score.parameters} if self.score else {"name": "given"},
            scale=self.scale,
            mask=masks,
            normalizer=self.normalizer.name,
            query_labels=Numbered("q", self.extent.n),
            key_labels=Numbered("k", self.extent.m),
            visible=None if self.visible.all() else self.visible,
            heads=self.parts.heads,
            notes=self.notes,
        )
        if self.normalizer.name == "softmax" and self.begin != "weights":
            # Of these none holds the trace: a ring would keep its arrays until the collector comes by.
            trace.lazy = {"exp": self.exp, "sum": self.sum, "lse": self.lse}
        return trace if keep is None else trace.keep(keep)

    def exp(self) -> Array:
        with np.errstate(over="ignore", under="ignore"):
            exponentials: Array = np.exp(self.logits)
        if np.isposinf(exponentials).any() and notes.OVERFLOW not in self.notes:
            self.notes.append(notes.OVERFLOW)
        return exponentials

    def sum(self) -> Array:
        with np.errstate(over="ignore"):
            total: Array = self.exp().sum(axis=-1, keepdims=True)
        return total

    def lse(self) -> Array:
        with np.errstate(all="ignore"):
            logarithm: Array = np.log(exp_shifted(self.logits, self.counted).sum(axis=-1, keepdims=True))
            return row_maximum(self.logits, self.counted) + logarithm
