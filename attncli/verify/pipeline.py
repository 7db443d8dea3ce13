"""The steps of a problem as a stack, and what the core makes of them when some are changed.

Everything lies in one form here, so that many mistakes can be tried in one call of the core: a stack axis R in
front, then the sequences, then the heads (1 where there are none). Joined matrices (X, Y, Q, K, V, output) are
(R, ..., n, d), split ones (q, k, v, kernel ... weights, heads) are (R, ..., H, n, d or m).
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from functools import cached_property
from types import MappingProxyType
from typing import Self

from attncli.lazy import Array, np
from attncli.pipeline.heads import project
from attncli.pipeline.logits import is_scaled
from attncli.pipeline.normalizers import find_normalizer
from attncli.pipeline.projections import with_earlier
from attncli.pipeline.sinks import beside_sink, has_sink
from attncli.pipeline.steps import STEPS
from attncli.verify.frame import Frame


class Pipeline:
    """A problem and its `steps`, the right ones at first. target: the step that is asked about."""

    # What earlier mistakes made of the steps, a stack of them; what a change does not reach is taken from here.
    mistaken: Mapping[str, Array] = MappingProxyType({})

    def __init__(self, frame: Frame, target: str) -> None:
        self.frame, self.target, self.exact = frame, target, frame.trace
        self.rules, self.heads, self.scale, self.begin = frame.rules, frame.heads, frame.scale, frame.begin
        self.at = frame.at
        self.steps = {name: frame.exact(name)[None] for name in self.exact.steps}

    def __getitem__(self, name: str) -> Array:
        """A step, or q, k, v; KeyError where this problem has no such step."""
        if name in ("q", "k", "v") and name not in self.steps:
            return self.frame.split(name.upper(), self.steps[name.upper()])
        if name not in self.steps and STEPS.find(name).on_request and self.at.has(name):
            kept = {each: x for each, x in self.steps.items() if STEPS.find(each).on_request}
            return self._stacked(name, self.at.with_given({"logits": self.logits, **kept})[name])
        return self.steps[name]

    def __contains__(self, name: str) -> bool:
        return name.upper() in self.steps if name in ("q", "k", "v") else name in self.steps

    @property
    def has_scale(self) -> bool:
        """Whether this problem has a step `scaled`."""
        return is_scaled(self.at) and self.at.begin not in ("masked", "weights")

    @property
    def exponentials(self) -> bool:
        """Whether the weights are shares of e^s."""
        return self.frame.normalizer.exponentials

    @property
    def shown(self) -> Array | None:
        """Where the masks (not the bias) let a key be seen: broadcasts to the scores; None without a mask."""
        unmasked = not self.rules.masks or self.begin in ("masked", "weights")
        return None if unmasked else self.frame.shown[None]

    @property
    def bias(self) -> Array | None:
        """The bias as a table that broadcasts to the scores; None without one."""
        return None if self.frame.bias is None else self.frame.bias[None]

    def table(self, shown: Array) -> Array:
        """A mask's answer, with all the axes of the scores."""
        table: Array = shown.reshape((1,) * (self.frame.sequences + 4 - shown.ndim) + shown.shape)
        return table

    @cached_property
    def visible(self) -> Array:
        """Where a key counts: no mask, bias or kernel hides it; broadcasts to the scores."""
        visible = self.exact.visible
        return (
            np.ones((1,) * (self.frame.sequences + 4), bool)
            if visible is None
            else self.table(self.frame.at["visible"])
        )

    def before(self, step: str) -> Array:
        """The logits as they come to a later step of theirs, or to the normalizer ("weights")."""
        line = [each.name for each in STEPS.of_line("logits") if STEPS.order(each.name) < STEPS.order(step)]
        return self.steps[next(name for name in reversed(line) if name in self.steps)]

    @property
    def logits(self) -> Array:
        """The scores as they meet the normalizer, or what e^s says of them; -inf where a key is hidden."""
        if "exp" in self.steps:
            return np.log(self.steps["exp"])
        logits = self.before("weights")
        if self.exact.visible is None or "masked" in self.steps:
            return logits
        return np.where(self.visible, logits, -np.inf)

    def normalized(
        self, logits: Array, visible: Array | None = None, normalizer: str | None = None, *, sink: bool = True
    ) -> Array:
        """Weights of other logits; -inf is hidden. sink: whether the rows keep theirs, if they have one."""
        shows = np.broadcast_to(~np.isneginf(logits) if visible is None else visible, logits.shape)
        function = find_normalizer(normalizer).function
        if not sink or not has_sink(self.at):
            return np.asarray(function(logits, shows))
        return np.asarray(function(*beside_sink(self.at, logits, shows))[..., :-1])

    def projected(self, name: str, source: Array, weight: Array | None) -> Array:
        """Q, K or V from other data or another weight matrix; past ones in front. Raises ShapeError."""
        made: Array = project(name, source, weight, self.frame.inputs.get(f"b_{name}"))
        return np.stack([with_earlier(self.at, name, each) for each in made])

    # -- from changed steps -------------------------------------------------------------------------------------

    def run(self, arrays: Mapping[str, Array], target: str | None = None) -> Array:
        """The target (or another step), as the definition gives it from changed steps.

        arrays: as in `Change`; a stack of changes has one more axis in front.
        """
        target = target or self.target
        beside = {
            name: x for name, x in self.mistaken.items() if name in self.at.given or not STEPS.follows(name, arrays)
        }
        return self._stacked(target, self.at.with_given({**beside, **arrays})[target])

    def after(self, arrays: Mapping[str, Array]) -> Self:
        """The same, once these numbers stand in their places (a stack of them in the stack axis)."""
        later = copy(self)
        later.at = self.at.with_given(arrays)
        later.steps = self.steps | self.following(arrays)
        return later

    def following(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """All steps that follow from these, those themselves included."""
        at, found = self.at.with_given(arrays), dict(arrays)
        first = min((STEPS.order(name) for name in arrays), default=len(STEPS))
        for name in self.exact.steps:
            if STEPS.order(name) > first and name not in arrays:
                found[name] = self._stacked(name, at[name])
        return found

    def _stacked(self, name: str, x: Array) -> Array:
        """With the stack axis in front."""
        missing = self.frame.axes(name) + 1 - x.ndim
        return x.reshape((1,) * missing + x.shape) if missing > 0 else x
