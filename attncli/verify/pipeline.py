"""The steps of a problem as a stack, and what the core makes of them when some are changed.

Everything lies in one form here, so that many mistakes can be tried in one call of the core: a stack axis R in
front, then the sequences, then the heads (1 where there are none). Joined matrices (X, Y, Q, K, V, output) are
(R, ..., n, d), split ones (q, k, v, kernel ... weights, heads) are (R, ..., H, n, d or m).
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Self

from attncli.core.attend import Rules, attend
from attncli.core.masks import mask_spec
from attncli.core.normalizers import find_normalizer
from attncli.core.projections import project
from attncli.core.trace import STEPS
from attncli.lazy import Array, np
from attncli.verify.frame import Frame

# Where the pipeline is entered with changed numbers: the latest of these that a change gives.
_ENTRIES = ("weights", "sum", "exp", "masked", "biased", "capped", "scaled", "scores", "kernel")


class Pipeline:
    """A problem and its `steps`, the right ones at first. target: the step that is asked about."""

    def __init__(self, frame: Frame, target: str) -> None:
        self.frame, self.target, self.exact = frame, target, frame.trace
        self.rules, self.heads, self.scale, self.begin = frame.rules, frame.heads, frame.scale, frame.begin
        self.steps = {name: frame.exact(name)[None] for name in self.exact.steps}

    def __getitem__(self, name: str) -> Array:
        """A step, or q, k, v; KeyError where this problem has no such step."""
        if name in ("q", "k", "v") and name not in self.steps:
            return self.frame.split(name.upper(), self.steps[name.upper()])
        if name in ("exp", "sum", "lse") and name not in self.steps:
            with np.errstate(over="ignore", divide="ignore"):
                exponentials: Array = self.steps["exp"] if "exp" in self.steps else np.exp(self.logits)
                total: Array = exponentials.sum(axis=-1, keepdims=True)
                made: dict[str, Array] = {"exp": exponentials, "sum": total, "lse": np.log(total)}
                return made[name]
        return self.steps[name]

    def __contains__(self, name: str) -> bool:
        return name.upper() in self.steps if name in ("q", "k", "v") else name in self.steps

    @property
    def has_scale(self) -> bool:
        """Whether this problem has a step `scaled`."""
        return "scaled" in self.exact.steps

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
        if self.exact.heads is None and shown.ndim > 2:
            shown = shown[..., None, :, :]
        table: Array = shown.reshape((1,) * (self.frame.sequences + 4 - shown.ndim) + shown.shape)
        return table

    @cached_property
    def visible(self) -> Array:
        """Where a key counts: no mask, bias or kernel hides it; broadcasts to the scores."""
        visible = self.exact.visible
        return np.ones((1,) * (self.frame.sequences + 4), bool) if visible is None else self.table(visible)

    def before(self, step: str) -> Array:
        """The logits as they come to `capped`, `biased`, `masked` or the normalizer ("weights")."""
        chain = ("scores", "scaled", "capped", "biased", "masked", "weights")
        earlier = [name for name in chain[: chain.index(step)] if name in self.steps]
        return self.steps[earlier[-1]]

    @property
    def logits(self) -> Array:
        """The scores as they meet the normalizer, or what e^s says of them; -inf where a key is hidden."""
        if "exp" in self.steps:
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.log(self.steps["exp"])
        logits = self.before("weights")
        if self.exact.visible is None or "masked" in self.steps:
            return logits
        return np.where(self.visible, logits, -np.inf)

    def normalized(self, logits: Array, visible: Array | None = None, normalizer: str = "softmax") -> Array:
        """Weights of other logits; -inf is hidden."""
        shows = ~np.isneginf(logits) if visible is None else visible
        weights: Array = find_normalizer(normalizer).function(logits, np.broadcast_to(shows, logits.shape))
        return weights

    def projected(self, name: str, source: Array, weight: Array | None) -> Array:
        """Q, K or V from other data or another weight matrix; past ones in front. Raises ShapeError."""
        made = project(name, source, weight, self.frame.inputs.get(f"b_{name}"))
        past = self.frame.inputs.get(f"past_{name.lower()}")
        if past is None:
            return made
        return np.concatenate([np.broadcast_to(past, (*made.shape[:-2], *past.shape[-2:])), made], axis=-2)

    # -- from changed steps -------------------------------------------------------------------------------------

    def run(self, arrays: Mapping[str, Array], target: str | None = None) -> Array:
        """The target (or another step), computed by the core from changed steps.

        arrays: as in `Change`; a stack of changes has one more axis in front.
        """
        target = target or self.target
        if target in arrays:
            return arrays[target]
        if "exp" in arrays and target in ("sum", "lse"):
            total = arrays["exp"].sum(axis=-1, keepdims=True)
            result: Array = total if target == "sum" else np.log(total)
            return result
        entry = next((name for name in _ENTRIES if name in arrays), None)
        begun, rules = self._enter(entry, arrays)
        if target in ("heads", "output"):
            begun |= self._values(arrays)
        if target == "output" and "heads" in arrays:
            # W_O and its bias after the heads: weights that pick each head's rows as they are.
            n = arrays["heads"].shape[-2]
            begun |= {"weights": np.broadcast_to(np.eye(n), (*arrays["heads"].shape[:-1], n)), "V": arrays["heads"]}
            rules = Rules()
        return attend(begun, rules).rows(target)

    def after(self, arrays: Mapping[str, Array]) -> Self:
        """The same, once these numbers stand in their places (a stack of them in the stack axis)."""
        later = copy(self)
        later.steps = self.steps | self.following(arrays)
        return later

    def following(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """All steps on the way to the target that follow from these, those themselves included."""
        found = dict(arrays)
        entry = next((name for name in _ENTRIES if name in arrays), None)
        values = self.target in ("heads", "output") and "heads" not in arrays
        if not arrays or not (entry or values or {"Q", "K", "q", "k"} & set(arrays)):
            return found
        begun, rules = self._enter(entry, arrays)
        if values:
            begun |= self._values(arrays)
        trace = attend(begun, rules)
        order = list(STEPS)
        for name in order[order.index(entry or "kernel") :]:
            if name in self.exact.steps and name not in arrays and name in trace.steps:
                found[name] = trace.steps[name]
        return found

    def _split(self, name: str, arrays: Mapping[str, Array]) -> Array:
        if name.lower() in arrays:
            return arrays[name.lower()]
        return self.frame.split(name, arrays[name] if name in arrays else self.steps[name])

    def _values(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """V, and what the heads are multiplied by."""
        inputs = self.frame.inputs
        return {"V": self._split("V", arrays)} | {name: inputs[name] for name in ("W_O", "b_O") if name in inputs}

    def _enter(self, entry: str | None, arrays: Mapping[str, Array]) -> tuple[dict[str, Array], Rules]:
        """Inputs and rules of the core that begin with the changed step."""
        if entry is None and not {"Q", "K", "q", "k"} & set(arrays):
            return {"weights": self.steps["weights"]}, Rules()
        if entry == "weights":
            return {"weights": arrays["weights"]}, Rules()
        if entry == "sum":
            with np.errstate(divide="ignore", invalid="ignore"):
                return {"weights": np.nan_to_num(arrays.get("exp", self["exp"]) / arrays["sum"])}, Rules()
        empty = self.rules.empty_rows
        if entry == "exp":
            return {"masked": arrays["exp"]}, Rules(normalizer="sum", empty_rows=empty)
        rules = Rules(normalizer=self.rules.normalizer, empty_rows=empty, mask_value=self.rules.mask_value)
        if entry == "masked":
            return {"masked": arrays["masked"]}, rules
        if self.shown is not None:
            rules = replace(rules, masks=(mask_spec("keep", self.shown),))
        if entry == "biased":
            return {"scaled": arrays["biased"]}, rules
        begun = {"bias": self.bias} if self.bias is not None else {}
        if entry == "capped":
            return begun | {"scaled": arrays["capped"]}, rules
        rules = replace(rules, softcap=self.rules.softcap)
        if entry == "scaled":
            return begun | {"scaled": arrays["scaled"]}, rules
        rules = replace(rules, scale=self.scale if self.has_scale else None)
        if entry is not None:
            return begun | {entry: arrays[entry]}, rules
        begun |= {"Q": self._split("Q", arrays), "K": self._split("K", arrays)}
        return begun, replace(rules, score=replace(self.frame.score, scaled=False))
