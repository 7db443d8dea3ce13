"""What a step gives from the hand's own numbers: read from the definition, with what the hand wrote in place of steps.

In points where the hand's numbers are points, in intervals behind a wrong step, and in numbers rounded on the way for
whoever looks for a habit. Everything is in the form of `Frame`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from attncli.arithmetic import forms
from attncli.arithmetic.habits import Habit, Habits, habits_of, rounded
from attncli.arithmetic.intervals import Box
from attncli.arithmetic.rounded import Rounded
from attncli.errors import AttnError
from attncli.lazy import Array, np
from attncli.pipeline.state import Partly, State
from attncli.pipeline.steps import STEPS
from attncli.verify.frame import Frame

_SITES = {"exp": "exponentials", "sum": "sum"}
Start = Literal["as written", "before rounding", "in full"]
AS_WRITTEN: Start = "as written"
BEFORE: Start = "before rounding"
IN_FULL: Start = "in full"


@dataclass(frozen=True)
class Numbers:
    """The hand's numbers of one step, its blank cells filled in. half: how far they are known; None: as written.

    kept: as they stood before they were rounded, where that is not what the inputs give. blank: where nothing was
    written, and to how many places it would have been.
    """

    value: Array
    half: Array | None = None
    kept: Array | None = None
    blank: Array | None = None
    places: int = 0


@dataclass(frozen=True)
class Base:
    """What a step gives from some start, (..., its shape); in points low is high. habit: by which it was rounded."""

    low: Array
    high: Array
    habit: Habit | None = None

    @property
    def is_point(self) -> bool:
        return self.low is self.high


@dataclass
class Carried:
    """What the hand wrote so far, and what follows from it.

    uncertain: half a unit of each input that is known to its places only. shifted: whether its exponentials are those
    of s minus the row's largest.
    """

    frame: Frame
    uncertain: Mapping[str, Array]
    hand: dict[str, Numbers] = field(default_factory=dict)
    shifted: bool = False
    _states: dict[tuple[Start, bool], State] = field(default_factory=dict)
    _bases: dict[tuple[str, Start, bool], Base | None] = field(default_factory=dict)

    def take(self, step: str, numbers: Numbers) -> None:
        """These are what later steps start from."""
        self.hand[step] = numbers
        self._states.clear()
        self._bases.clear()

    def base(self, step: str, start: Start) -> Base | None:
        """What the step gives; None where that cannot be computed."""
        key = (step, start, self.shifted)
        if key not in self._bases:
            try:
                self._bases[key] = self._based(step, self._target(self._state(start), step))
            except AttnError:  # numbers that make no attention, or a function that reads no intervals
                self._bases[key] = None
        return self._bases[key]

    def room(self, step: str) -> Array:
        """What float arithmetic may be off the right numbers."""
        exact = self.frame.exact(step)
        try:
            base = self._based(step, self._target(self._bounded, step))
        except AttnError:
            return np.zeros(exact.shape)
        room: Array = np.maximum(base.high - exact, exact - base.low)
        return room

    def by_habits(self, step: str, habits: Habits, start: Start, others: Sequence[str]) -> dict[str, Array]:
        """What the step (and others before it) give by each habit, (habits, ...). start: as written, or in full."""
        in_full = start == IN_FULL
        given: dict[str, Any] = {}
        for name, numbers in self.hand.items():
            if not in_full or numbers.half is not None:
                value = Rounded.given(numbers.value, habits)
                # What was left blank follows from the habit, too.
                given[name] = value if numbers.blank is None else Partly(value, ~numbers.blank)
        inputs = {name: Rounded.given(x, habits) for name, x in self.frame.at.inputs.items()}
        # Where somebody wrote e^s or its sum, the weights come of these, kept in full or not.
        stepwise = any(STEPS.find(name).on_request for name in self.hand)
        at = self._read(inputs, given, self._between(habits, in_full), stepwise=stepwise)
        return {name: self._lines(name, self._target(at, name), len(habits)) for name in (step, *others)}

    # -- states -------------------------------------------------------------------------------------------------

    @cached_property
    def _bounded(self) -> State:
        """The right numbers, each with what float arithmetic may be off."""
        return self._box_state({}, {})

    def _state(self, start: Start) -> State:
        key = (start, self.shifted)
        if key not in self._states:
            given, half = self._given(start)
            if half or self.uncertain:
                self._states[key] = self._box_state(given, half, self.uncertain)
            else:
                self._states[key] = self.frame.at.with_given(given)
        return self._states[key]

    def _given(self, start: Start) -> tuple[dict[str, Array], dict[str, Array]]:
        """What stands in place of steps, and how far it is known where that is not to all digits."""
        given, half = {}, {}
        for name, numbers in self.hand.items():
            value: Array | None = numbers.value
            if numbers.half is None and start == IN_FULL:
                value = numbers.kept
            elif numbers.half is None and start == BEFORE:
                before = self.base(name, AS_WRITTEN)
                value = before.low if before is not None and before.is_point else value
            if value is not None:
                given[name] = value
            if numbers.half is not None:
                half[name] = numbers.half
        return given, half

    def _box_state(
        self, given: Mapping[str, Array], half: Mapping[str, Array], uncertain: Mapping[str, Array] | None = None
    ) -> State:
        boxes = {name: Box.around(x, half[name]) if name in half else Box.of(x) for name, x in given.items()}
        inputs = {}
        for name, x in self.frame.at.inputs.items():
            known = (uncertain or {}).get(name)
            inputs[name] = Box.of(x) if known is None else Box.around(x, known.reshape(x.shape))
        return self._read(inputs, boxes, None)

    def _read(
        self,
        inputs: dict[str, Any],
        given: dict[str, Any],
        between: Callable[[str, Any], Any] | None,
        *,
        stepwise: bool = False,
    ) -> State:
        """The definition in another kind of number."""
        plain = self.frame.at
        if self.frame.bias is not None:
            given = {**given, "bias_table": plain["bias_table"]}
        at = State(plain.config, inputs, given, between=between, stepwise=stepwise, like=plain)
        at.dtype = None
        return at

    def _target(self, at: State, step: str) -> Any:
        """A step of a State, whatever stands in its place."""
        entry = STEPS.find(step)
        if not (self.shifted and entry.on_request and entry.line == "shares"):
            return at.computed(step)
        logits = at["logits"]
        return at.with_given({"logits": logits - _top(logits, at["normalized_over"])}).computed(step)

    # -- rounded on the way --------------------------------------------------------------------------------------

    def _between(self, habits: Habits, in_full: bool) -> Callable[[str, Any], Any]:
        kept = self.hand.keys() if in_full else ()

        def between(name: str, x: Any) -> Any:
            entry = STEPS.find(name)
            if name == "scale":
                return self._scale(habits, x)
            blank = self.hand.get(name)
            if blank is not None and blank.blank is not None and isinstance(x, Rounded) and not in_full:
                return Rounded(rounded(x.value, np.array(10.0**blank.places), "half-even"), habits)
            fixed = not entry.shown or entry.line == "data" or name in kept or self._is_copy(name)
            return x.at(_SITES.get(name, "steps")) if isinstance(x, Rounded) and not fixed else x

        return between

    def _is_copy(self, name: str) -> bool:
        inputs = self.frame.inputs
        return name in inputs or (name in ("Q", "K", "V") and not {f"W_{name}", f"b_{name}"} & set(inputs))

    def _scale(self, habits: Habits, scale: float) -> Any:
        """The scale by each habit: rounded itself, or made of a rounded root of d_k."""
        root, temperature = self.frame.root, self.frame.rules.temperature or 1
        by_root, itself = habits.lines("root"), habits.lines("scale")
        if root is None or not (by_root.size or itself.size):
            return scale
        scales = np.full(len(habits), float(scale))
        scales[itself] = habits.rounded(np.full(1, scale), "scale")
        # The temperature is a number of the problem: only the root of d_k is the hand's own.
        scales[by_root] = 1 / (habits.rounded(np.full(1, root), "root") * temperature)
        return Rounded(scales, habits)

    # -- the form of Frame -----------------------------------------------------------------------------------------

    def _based(self, step: str, x: Any) -> Base:
        shape = self.frame.exact(step).shape
        if isinstance(x, Box):
            low, high = (_spread(end, shape) for end in x.parts)
            return Base(low, low if x.is_point else high)
        low = _spread(x, shape)
        return Base(low, low)

    def _lines(self, step: str, x: Any, count: int) -> Array:
        shape = self.frame.exact(step).shape
        value = x.padded(len(shape)).value if isinstance(x, Rounded) else _spread(x, shape)[None]
        return np.broadcast_to(value, (count, *shape))


def _top(logits: Any, over: Array) -> Any:
    """What exponentials are shifted by: the row's largest."""
    if isinstance(logits, Rounded):
        shifted = logits.habits
        everywhere = habits_of([Habit(shifted=True)] * len(shifted))
        top = forms.shift(Rounded(logits.value, everywhere), over)
        return Rounded(top.value, shifted)
    if isinstance(logits, Box):
        return forms.shift(logits, over)
    top = np.max(np.where(over, logits, -np.inf), axis=-1, keepdims=True, initial=-np.inf)
    return np.where(np.isfinite(top), top, 0)


def _spread(x: Array, shape: tuple[int, ...]) -> Array:
    """In the form of `Frame`: with the axes of sequences in front."""
    if x.shape == shape:
        return x
    x = x.reshape((1,) * (len(shape) - x.ndim) + x.shape)
    return np.broadcast_to(x, shape)
