"""What each step gives from the numbers before it: the hand's own where it wrote some, computed ones elsewhere.

The pipeline of section 2 once more, in whatever numbers are asked for: intervals (`Boxes`) or points that are rounded
on the way (`Habits`). Only what does not depend on the kind of number stands here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from attncli.lazy import Array, np
from attncli.pipeline.heads import join_heads, split_heads, with_past
from attncli.pipeline.normalizers import NormalizerEntry
from attncli.pipeline.scores import ScoreSpec
from attncli.verify.frame import Frame

V = TypeVar("V")


class Numbers(Protocol[V]):
    """A kind of number, and what the pipeline does with it. Shapes as in `Frame`; `axes` is how many a value has."""

    def given(self, name: str, array: Array) -> V: ...
    def shaped(self, change: Callable[[Array], Array], x: V) -> V: ...
    def joined(self, mask: Array, where: V, elsewhere: V) -> V: ...
    def between(self, x: V, axes: int, direct: bool) -> V: ...
    def product(self, a: V, b: V, axes: int, last: bool) -> V: ...
    def added(self, a: V, b: V) -> V: ...
    def through(self, increasing: Callable[[Array], Array], x: V) -> V: ...
    def scored(self, score: ScoreSpec, q: V, k: V, axes: int, last: bool) -> V: ...
    def scaled(self, x: V, frame: Frame, axes: int) -> V: ...
    def total(self, x: V) -> V: ...
    def logsum(self, x: V) -> V: ...
    def shares(self, normalizer: NormalizerEntry, x: V, visible: Array, axes: int) -> V: ...
    def quotient(self, x: V, total: V) -> V: ...
    def average(self, logits: V, visible: Array, v: V, axes: int) -> V | None: ...
    def hidden(self, x: V) -> Array: ...


@dataclass(frozen=True)
class Hand(Generic[V]):
    """The hand's numbers of one step in the one form, and where it wrote any."""

    numbers: V
    written: Array


class Flow(Generic[V]):
    """The steps that follow from the hand's numbers in `hand`, computed when asked for.

    row: of the steps with a row for each query, only this one. kept: steps that the hand wrote, but went on from with
    all their digits.
    """

    def __init__(
        self,
        frame: Frame,
        numbers: Numbers[V],
        hand: dict[str, Hand[V]],
        row: int | None = None,
        kept: frozenset[str] = frozenset(),
    ) -> None:
        self.frame, self.numbers, self.hand, self.row, self.kept = frame, numbers, hand, row, kept
        self.raw: dict[str, V] = {}
        self._steps: dict[str, V] = {}
        self._depth = 0

    def target(self, name: str) -> V:
        """What this step gives, whatever the hand wrote there."""
        if name not in self.raw:
            self.raw[name] = self._compute(name)
        return self.raw[name]

    def step(self, name: str) -> V:
        """The numbers that later steps start from: the hand's, and computed ones in their gaps."""
        if name not in self._steps:
            self._steps[name] = self._started(name)
        return self._steps[name]

    def _started(self, name: str) -> V:
        hand = self.hand.get(name)
        if hand is not None and hand.written.all():
            return self._picked(name, hand.numbers)
        self._depth += 1
        raw = self.target(name)
        self._depth -= 1
        value = raw
        if name not in self.frame.inputs and name not in self.kept and not self._is_copy(name):
            value = self.numbers.between(raw, self.frame.axes(name), self._depth == 0)
            past = self._past(name)
            if past is not None:
                value = self.numbers.joined(np.arange(self.frame.m)[:, None] < past.shape[-2], raw, value)
        if hand is None:
            return value
        return self.numbers.joined(self._rows(name, hand.written), self._picked(name, hand.numbers), value)

    def _is_copy(self, name: str) -> bool:
        return name in ("Q", "K", "V") and not {f"W_{name}", f"b_{name}"} & set(self.frame.inputs)

    def _past(self, name: str) -> Array | None:
        return self.frame.inputs.get(f"past_{name.lower()}") if name in ("K", "V") else None

    def _picked(self, name: str, x: V) -> V:
        return x if self.row is None else self.numbers.shaped(lambda array: self._rows(name, array), x)

    def _rows(self, name: str, array: Array) -> Array:
        """The row that is asked for, of a step with a row for each query."""
        if self.row is None or name in ("X", "Y", "K", "V") or array.shape[-2] == 1:
            return array
        return array[..., self.row : self.row + 1, :]

    def _compute(self, name: str) -> V:
        if name in self.frame.inputs:
            found = self._picked(name, self.numbers.given(name, self.frame.inputs[name]))
        elif name in ("Q", "K", "V"):
            found = self._projected(name)
        else:
            found = getattr(self, f"_{name}", lambda: self.numbers.given(name, self.frame.exact(name)))()
        past = self._past(name)
        return found if past is None else self.numbers.shaped(lambda now: with_past(name, past, now, None), found)

    # -- the steps ----------------------------------------------------------------------------------------------

    def _projected(self, name: str) -> V:
        frame, numbers, inputs = self.frame, self.numbers, self.frame.inputs
        now = self.step(frame.source(name))
        if name == "Q":
            now = self._picked("Q", now)
        if f"W_{name}" in inputs:
            weight = numbers.given(f"W_{name}", inputs[f"W_{name}"])
            now = numbers.product(now, weight, frame.axes(name), self._is_last)
        if f"b_{name}" in inputs:
            now = numbers.added(now, numbers.given(f"b_{name}", inputs[f"b_{name}"].reshape(-1)))
        return now

    def _heads_of(self, name: str) -> V:
        """Q, K or V as it enters the scores or the output."""
        return self.numbers.shaped(lambda array: self.frame.split(name, array), self.step(name))

    def _function(self) -> V:
        """The score function's own result."""
        axes = self.frame.sequences + 3
        return self.numbers.scored(self.frame.score, self._heads_of("Q"), self._heads_of("K"), axes, self._is_last)

    def _kernel(self) -> V:
        function = self._function()
        return self.numbers.through(np.exp, function) if self.frame.score.kernel == "log" else function

    def _scores(self) -> V:
        if not self.frame.has("kernel"):
            return self._function()
        if self.frame.score.kernel == "log" and "kernel" not in self.hand and self.frame.begin is None:
            return self._function()
        return self.numbers.through(lambda x: np.log(np.maximum(x, 0)), self.step("kernel"))

    def _scaled(self) -> V:
        return self.numbers.scaled(self.step(self.frame.before("scaled")), self.frame, self.frame.sequences + 3)

    def _capped(self) -> V:
        c = self.frame.rules.softcap
        # A key out of reach (-inf) stays so under the cap.
        return self.numbers.through(
            lambda x: np.where(np.isneginf(x), x, c * np.tanh(x / c)), self.step(self.frame.before("capped"))
        )

    def _biased(self) -> V:
        bias = self.frame.bias
        assert bias is not None
        table = self._rows("biased", bias)
        return self.numbers.added(self.step(self.frame.before("biased")), self.numbers.given("bias", table))

    def _masked(self) -> V:
        frame = self.frame
        value = self.numbers.given("masked", self._rows("masked", frame.exact("masked")))
        return self.numbers.joined(self._rows("masked", frame.shown), self.step(frame.before("masked")), value)

    def _logits(self) -> V:
        return self.step(self.frame.before("weights"))

    def _counts(self, x: V) -> Array:
        """Where a key has a say: no mask or bias hides it, and it is in reach."""
        return self._rows("masked", self.frame.counts) & ~self.numbers.hidden(x)

    def _exp(self) -> V:
        logits = self._logits()
        exponentials = self.numbers.through(np.exp, logits)
        return self.numbers.joined(self._counts(logits), exponentials, self.numbers.given("exp", np.zeros(1)))

    def _sum(self) -> V:
        return self.numbers.total(self.step("exp"))

    def _lse(self) -> V:
        logits = self._logits()
        hidden = self.numbers.given("lse", np.full(1, -np.inf))
        return self.numbers.logsum(self.numbers.joined(self._counts(logits), logits, hidden))

    def _weights(self) -> V:
        frame, numbers = self.frame, self.numbers
        axes = frame.sequences + 3
        if frame.normalizer.name == "softmax" and ("exp" in self.hand or "sum" in self.hand):
            shares = self._shared_exponentials(axes)
            counts = self._counts(self.step("exp"))
        else:
            start = self._to_share()
            counts = self._counts(start)
            shares = numbers.shares(frame.normalizer, start, counts, axes)
        rule = {"nan": np.nan, "uniform": 1 / max(1, frame.m)}.get(frame.rules.empty_rows, 0.0)
        return self._unless_empty(shares, np.broadcast_to(counts, (*counts.shape[:-1], frame.m)), rule)

    def _weights_back(self) -> V:
        frame, numbers = self.frame, self.numbers
        start = self._to_share()
        counts = self._counts(start)
        counts = np.broadcast_to(counts, (*counts.shape[:-2], frame.n, frame.m)).mT
        turned = numbers.shaped(_turned, start)
        shares = numbers.shares(frame.normalizer, turned, counts, frame.sequences + 3)
        return self._unless_empty(shares, counts, 0.0)

    def _unless_empty(self, shares: V, counts: Array, rule: float) -> V:
        """The shares; in rows that see nothing what the rule says."""
        empty = np.asarray(~counts.any(axis=-1, keepdims=True))
        if not empty.any():
            return shares
        return self.numbers.joined(empty, self.numbers.given("weights", np.full(1, rule)), shares)

    def _to_share(self) -> V:
        """What the normalizer takes: the scores as they have come, or kernel values."""
        return self._kernel_values() if self.frame.normalizer.of_kernel else self._logits()

    def _shared_exponentials(self, axes: int) -> V:
        from attncli.pipeline.normalizers import find_normalizer

        exponentials = self.step("exp")
        if "sum" in self.hand:
            return self.numbers.quotient(exponentials, self.step("sum"))
        return self.numbers.shares(find_normalizer("sum"), exponentials, self._counts(exponentials), axes)

    def _kernel_values(self) -> V:
        if not self.frame.has("kernel"):
            return self._logits()
        transformed = any(self.frame.has(step) for step in ("scaled", "capped", "biased"))
        if transformed or ("scores" in self.hand or "masked" in self.hand):
            return self.numbers.through(np.exp, self._logits())
        return self.step("kernel")

    def _heads(self) -> V:
        frame, numbers = self.frame, self.numbers
        axes = frame.sequences + 3
        v = self._heads_of("V")
        if (
            frame.normalizer.name == "softmax"
            and frame.begin != "weights"
            and not {"weights", "exp", "sum"} & set(self.hand)
        ):
            logits = self._logits()
            average = numbers.average(logits, self._counts(logits), v, axes)
            if average is not None:
                return average
        return numbers.product(self.step("weights"), v, axes, self._is_last)

    def _output(self) -> V:
        frame, numbers, inputs = self.frame, self.numbers, self.frame.inputs
        heads = self.step("heads") if frame.has("heads") else self._heads()
        joined = numbers.shaped(join_heads, heads)
        if "W_O" in inputs:
            weight = numbers.given("W_O", inputs["W_O"])
            joined = numbers.product(joined, weight, frame.axes("output"), self._is_last)
        if "b_O" in inputs:
            joined = numbers.added(joined, numbers.given("b_O", inputs["b_O"].reshape(-1)))
        return joined

    def _output_back(self) -> V:
        frame, numbers = self.frame, self.numbers
        values = self.step("X")
        if "W_V" in frame.inputs:
            weight = numbers.given("W_V", frame.inputs["W_V"])
            values = numbers.product(values, weight, frame.axes("X"), self._is_last)
        split = numbers.shaped(lambda array: split_heads("X", array, frame.heads), values)
        back = numbers.product(self.step("weights_back"), split, frame.sequences + 3, self._is_last)
        return numbers.shaped(join_heads, back)

    @property
    def _is_last(self) -> bool:
        """Whether it is the target itself that is computed, and no step on the way to it."""
        return self._depth == 0


def _turned(array: Array) -> Array:
    return array.mT
