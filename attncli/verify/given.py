"""What a mistake starts from: the steps that follow from the hand's own numbers, and the rest of the pipeline.

Everything lies in one form here, so that many mistakes can be tried in one call of the core: a stack axis R in
front, then the sequences, then the heads (1 where there are none). Joined matrices (X, Y, Q, K, V, output) are
(R, ..., n, d), split ones (q, k, v, kernel ... weights, heads) are (R, ..., H, n, d or m).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from functools import cached_property

from attncli.core.attend import Rules, attend
from attncli.core.masks import Extent, Masks, mask_spec
from attncli.core.normalizers import find_normalizer
from attncli.core.projections import project
from attncli.core.trace import STEPS
from attncli.lazy import Array, np
from attncli.verify.frame import Frame
from attncli.verify.written import Written

# What a step is made from. Steps that a problem does not have are passed through: a mask that nobody asked for
# happens there, too.
BEFORE: dict[str, tuple[str, ...]] = {
    "output": ("heads",),
    "heads": ("weights", "V"),
    "weights": ("sum", "exp"),
    "sum": ("exp",),
    "lse": ("masked",),
    "exp": ("masked",),
    "masked": ("biased",),
    "biased": ("capped",),
    "capped": ("scaled",),
    "scaled": ("scores",),
    "scores": ("kernel",),
    "kernel": ("Q", "K"),
}
# Where the pipeline is entered with changed numbers: the latest of these that a change gives.
_ENTRIES = ("weights", "sum", "exp", "masked", "biased", "capped", "scaled", "scores", "kernel")


class Given:
    """The right numbers as they follow from what the hand wrote before the first wrong step (`target`).

    hand: the numbers of the written steps, in the form of `Frame`. wrong: the wrong cells of the target, if known.
    steps: from the numbers as written, and (R = 2) from the right ones, where those are not the same.
    """

    def __init__(self, frame: Frame, hand: Mapping[str, Written], target: str, wrong: Array | None = None) -> None:
        self.frame, self.target, self.exact = frame, target, frame.trace
        self.rules, self.heads, self.scale, self.begin = frame.rules, frame.heads, frame.scale, frame.begin
        order = list(STEPS)
        self.written = [name for name in order[: order.index(target)] if name in hand and frame.has(name)]
        self.steps = {name: frame.exact(name)[None] for name in self.exact.steps}
        self.factors: dict[str, list[float]] = {}
        self.deep = False  # whether slips in single cells of unwritten steps are tried, too
        self.numbers = hand[target]
        self._start_from_hand(hand)
        if wrong is None:
            wrong = ~self.numbers.reproduced(self.as_exact(self[target])[0])
        self.wrong = wrong & ~self.numbers.blank

    # -- form ---------------------------------------------------------------------------------------------------

    def as_exact(self, array: Array) -> Array:
        """The target in full, (..., R, *its shape in the form of `Frame`): axes of 1 are spread."""
        shape = self.numbers.value.shape
        return np.broadcast_to(array, (*array.shape[: array.ndim - len(shape)], *shape))

    def as_input(self, name: str) -> Array:
        """W_Q, b_O and the like, as doubles; KeyError where there is none."""
        return self.frame.inputs[name]

    def has_input(self, name: str) -> bool:
        """Whether the problem gives this matrix."""
        return name in self.frame.inputs

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

    # -- facts --------------------------------------------------------------------------------------------------

    @cached_property
    def open(self) -> frozenset[str]:
        """The steps in which the mistake may have happened: the wrong one, and unwritten ones on the way to it."""
        found: set[str] = set()
        waiting = [self.target]
        while waiting:
            name = waiting.pop()
            absent = name in ("Q", "K", "V") and not self.frame.has(name)
            closed = name in self.written or self.has_input(name) or absent
            if name in found or (closed and name != self.target):
                continue
            found.add(name)
            waiting += BEFORE.get(name, ())
        return frozenset(found)

    @property
    def has_scale(self) -> bool:
        """Whether this problem has a step `scaled`."""
        return "scaled" in self.exact.steps

    @cached_property
    def widths(self) -> dict[str, int]:
        """n, m, and where they are known d_k, d_v (of one head) and d_model (of the data)."""
        sizes = {"n": self.frame.n, "m": self.frame.m}
        if self.rules.d_k is not None:
            sizes["d_k"] = self.rules.d_k
        for name, letter in (("d_k", "k"), ("d_v", "v"), ("d_model", "X")):
            if letter in self:
                sizes[name] = self[letter].shape[-1]
        return sizes

    @cached_property
    def masks(self) -> Masks | None:
        """The masks of this problem, bound to its sizes; None without a mask."""
        if not self.rules.masks or self.begin in ("masked", "weights"):
            return None
        return Masks(self.rules.masks, self.extent, self.rules.alignment)

    @cached_property
    def extent(self) -> Extent:
        """The sizes that masks are read by."""
        shape = self.exact.steps["weights"].shape
        batch = shape[:-2] if self.exact.heads is None else shape[:-3]
        past = self.as_input("past_k").shape[-2] if self.has_input("past_k") else 0
        return Extent(tuple(batch), self.exact.heads, self.frame.n, self.frame.m, past)

    @property
    def shown(self) -> Array | None:
        """Where the masks (not the bias) let a key be seen: broadcasts to the scores; None without a mask."""
        return None if self.masks is None else self.frame.shown[None]

    def table(self, shown: Array) -> Array:
        """A mask's answer, with all the axes of the scores."""
        if self.exact.heads is None and shown.ndim > 2:
            shown = shown[..., None, :, :]
        table: Array = shown.reshape((1,) * (self.frame.sequences + 4 - shown.ndim) + shown.shape)
        return table

    @property
    def bias(self) -> Array | None:
        """The bias as a table that broadcasts to the scores; None without one."""
        return None if self.frame.bias is None else self.frame.bias[None]

    @property
    def unmasked(self) -> Array:
        """The scores as they meet the mask."""
        return self.before("masked")

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

    @cached_property
    def visible(self) -> Array:
        """Where a key counts: no mask, bias or kernel hides it; broadcasts to the scores."""
        visible = self.exact.visible
        return np.ones((1,) * (self.frame.sequences + 4), bool) if visible is None else self.table(visible)

    def labels(self, step: str) -> tuple[list[str], list[str]]:
        """The names of a step's rows and columns, tokens as rows."""
        rows, columns = self.exact.labels(step)
        return (columns, rows) if self.exact.layout == "columns" else (rows, columns)

    def displayed(self, text: str) -> str:
        """A sentence of rows and columns, as it is said of what is displayed: in columns the other way round."""
        if self.exact.layout != "columns":
            return text
        other = {"row": "column", "column": "row"}
        return re.sub(r"\b(row|column)", lambda match: other[match[0]], text)

    def product(self, left: str, right: str) -> str:
        """`Q K^T`, or in columns the same product as it is written there: `K^T Q`."""
        return f"{right} {left}" if self.exact.layout == "columns" else f"{left} {right}"

    def projected(self, name: str, source: Array, weight: Array | None) -> Array:
        """Q, K or V from other data or another weight matrix; past ones in front. Raises ShapeError."""
        made = project(name, source, weight, self.frame.inputs.get(f"b_{name}"))
        past = self.frame.inputs.get(f"past_{name.lower()}")
        if past is None:
            return made
        return np.concatenate([np.broadcast_to(past, (*made.shape[:-2], *past.shape[-2:])), made], axis=-2)

    # -- computing ----------------------------------------------------------------------------------------------

    def normalized(self, logits: Array, visible: Array | None = None, normalizer: str = "softmax") -> Array:
        """Weights of other logits; -inf is hidden."""
        shows = ~np.isneginf(logits) if visible is None else visible
        weights: Array = find_normalizer(normalizer).function(logits, np.broadcast_to(shows, logits.shape))
        return weights

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
            begun["V"] = self._split("V", arrays)
            begun |= {name: self.as_input(name) for name in ("W_O", "b_O") if self.has_input(name)}
        if target == "output" and "heads" in arrays:
            # W_O and its bias after the heads: weights that pick each head's rows as they are.
            n = arrays["heads"].shape[-2]
            begun |= {"weights": np.broadcast_to(np.eye(n), (*arrays["heads"].shape[:-1], n)), "V": arrays["heads"]}
            rules = Rules()
        return attend(begun, rules).rows(target)

    def _split(self, name: str, arrays: Mapping[str, Array]) -> Array:
        if name.lower() in arrays:
            return arrays[name.lower()]
        return self.frame.split(name, arrays[name] if name in arrays else self.steps[name])

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

    # -- the hand's numbers
    def _start_from_hand(self, hand: Mapping[str, Written]) -> None:
        """Begin at what was written: the latest step on the way to the target, or the latest of each branch."""
        self.hand: dict[str, Array] = {}
        for name in self.written:
            numbers = hand[name].value[None]
            if hand[name].blank.any():
                self.steps |= self.following(self.hand)
                numbers = np.where(hand[name].blank, self[name], numbers)
            self.hand[name] = numbers
        self.steps |= self.following(self.hand)
        self.halves = {
            name: self._half_units(name, hand[name])
            for name in self._starting()
            if not hand[name].fits(self.frame.exact(name))
        }
        if self.halves:
            # A hand that kept all its digits, or cut them, went on from the right numbers: the second of the stack.
            right = {name: self.frame.exact(name)[None] for name in self.exact.steps}
            self.steps |= {name: _two(self.steps[name], right[name]) for name in right}

    def _half_units(self, name: str, written: Written) -> Array:
        """Half a unit of each number; 0 where a cell is hidden or blank."""
        hidden = self.frame.is_hidden(name)
        fixed = written.blank if hidden is None else written.blank | hidden
        return np.where(fixed, 0, written.unit / 2)[None]

    def shifted(self, signs: Mapping[str, Array]) -> Given:
        """The same from the hand's numbers, moved by half a unit as the signs (R, ...) say."""
        moved = {name: self.hand[name] + self.halves[name] * sign for name, sign in signs.items()}
        for name in {"kernel", "exp", "sum", "weights"} & set(moved):
            if name != "weights" or self.frame.sums_to_one:
                moved[name] = np.maximum(moved[name], 0)  # no number within half a unit is one that cannot be
        base = copy(self)
        base.steps = {name: array[:1] for name, array in self.steps.items()}
        return base.after(moved)

    def _starting(self) -> list[str]:
        """The written steps from whose numbers the target follows."""
        found, waiting = [], list(BEFORE.get(self.target, ()))
        while waiting:
            name = waiting.pop()
            if name in found:
                continue
            if name in self.hand:
                found.append(name)
            elif name not in self.frame.inputs:
                waiting += BEFORE.get(name, ())
        return found

    def after(self, arrays: Mapping[str, Array]) -> Given:
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
            begun["V"] = self._split("V", arrays)
            begun |= {name: self.as_input(name) for name in ("W_O", "b_O") if self.has_input(name)}
        trace = attend(begun, rules)
        order = list(STEPS)
        for name in order[order.index(entry or "kernel") :]:
            if name in self.exact.steps and name not in arrays and name in trace.steps:
                found[name] = trace.steps[name]
        return found


def _two(one: Array, other: Array) -> Array:
    return np.concatenate(np.broadcast_arrays(one, other))
