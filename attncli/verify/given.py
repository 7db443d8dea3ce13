"""What a mistake starts from: the steps that follow from the hand's own numbers, and the rest of the pipeline.

Everything lies in one form here, so that many mistakes can be tried in one call of the core: a stack axis R in
front, then the sequences, then the heads (1 where there are none). Joined matrices (X, Y, Q, K, V, output) are
(R, ..., n, d), split ones (q, k, v, kernel ... weights, heads) are (R, ..., H, n, d or m).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

from attncli.core.attend import LATER_STEPS, Rules, attend
from attncli.core.maskargs import decide_array_axes
from attncli.core.masks import Extent, Masks
from attncli.core.normalizers import find_normalizer
from attncli.core.projections import project, repeat_heads, split_heads, with_past
from attncli.core.scores import ScoreSpec, score_spec
from attncli.core.trace import STEPS, Trace
from attncli.lazy import Array, np
from attncli.registry import Registry
from attncli.verify.written import Written

MISTAKES = Registry("mistake")
mistake = MISTAKES

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
_JOINED = ("X", "Y", "Q", "K", "V", "output")
# Where the pipeline is entered with changed numbers: the latest of these that a change gives.
_ENTRIES = ("weights", "sum", "exp", "masked", "biased", "capped", "scaled", "scores", "kernel")


@dataclass(frozen=True)
class Change:
    """One way to make a mistake: what some steps become instead, and the sentence for the person.

    arrays: changed steps in the form of `Given.steps`; q, k, v are Q, K, V split into heads.
    step: where it happened, if not at the mistake's own step.
    text: or, where the arrays are a stack of many such changes, a function that tells of the one at an index.
    local: only what was wrong is changed, so that only the wrong cells have to be explained.
    """

    arrays: dict[str, Array]
    text: str | Callable[[int], str]
    step: str | None = None
    local: bool = False

    @property
    def count(self) -> int:
        """How many changes the arrays hold."""
        return 1 if isinstance(self.text, str) else len(next(iter(self.arrays.values())))

    def tell(self, index: int) -> str:
        """The sentence of one of them."""
        return self.text if isinstance(self.text, str) else self.text(index)


Changes = Iterator[Change]


class Given:
    """The right numbers as they follow from what the hand wrote before the first wrong step (`target`).

    inputs, rules: the problem as the core takes it. exact: its Trace. hand: the numbers of the written steps in rows
    layout, shaped as in exact. wrong: the wrong cells of the target, if it is known which.
    """

    def __init__(
        self,
        inputs: Mapping[str, Array],
        rules: Rules,
        exact: Trace,
        hand: Mapping[str, Written],
        target: str,
        wrong: Array | None = None,
    ) -> None:
        self.inputs, self.rules, self.exact, self.target = inputs, rules, exact, target
        self.begin = next((step for step in LATER_STEPS[::-1] if step in inputs), None)
        order = list(STEPS)
        self.written = [name for name in order[: order.index(target)] if name in hand and name in exact]
        self.heads = exact.heads or 1
        self.joined = exact.heads is None or rules.heads is not None
        self.key_heads = (rules.kv_heads or rules.heads or 1) if self.joined else 1
        self.lead = 1 + max(
            exact.steps[name].ndim - (2 if name in _JOINED and self.joined else 2 + (exact.heads is not None))
            for name in exact.steps
        )
        self.steps = {name: self.uniform(name, array) for name, array in exact.steps.items()}
        self.factors: dict[str, float] = {}
        self.deep = False  # whether slips in single cells of unwritten steps are tried, too
        self.numbers = hand[target]
        self._start_from_hand(hand)
        if wrong is None:
            wrong = ~self.numbers.reproduced(self.as_exact(self[target])[0])
        self.wrong = wrong & ~self.numbers.blank

    # -- form ---------------------------------------------------------------------------------------------------

    def uniform(self, name: str, array: Array) -> Array:
        """A step of the exact trace (or of the hand) with a stack axis of 1, all sequence axes and a head axis."""
        if not self._is_joined(name):
            if self.exact.heads is None:
                array = array[..., None, :, :]
            rank = self.lead + 3
        else:
            rank = self.lead + 2
        return array.reshape((1,) * (rank - array.ndim) + array.shape)

    def as_exact(self, array: Array) -> Array:
        """The target as the hand wrote it, (..., R, *shape in exact): the stack axes stay."""
        shape = self.exact.rows(self.target).shape
        rank = self.lead - 1 + (2 if self._is_joined(self.target) else 3)
        stacks = array.shape[: array.ndim - rank]
        full = (1,) * (rank - len(shape)) + shape
        if len(full) == rank:
            array = np.broadcast_to(array, (*stacks, *full))
        return array.reshape(stacks + shape)

    def _is_joined(self, name: str) -> bool:
        return name in _JOINED and (self.joined or name not in ("Q", "K", "V"))

    def split(self, name: str, array: Array) -> Array:
        """Q, K or V as it enters the scores or the output: a matrix of its own for each query head."""
        if self.joined:
            array = split_heads(name, array, self.heads if name == "Q" else self.key_heads)
        return repeat_heads(name, array, self.heads)

    def __getitem__(self, name: str) -> Array:
        """A step, or q, k, v; KeyError where this problem has no such step."""
        if name in ("q", "k", "v") and name not in self.steps:
            return self.split(name.upper(), self.steps[name.upper()])
        if name in ("exp", "sum", "lse") and name not in self.steps:
            with np.errstate(over="ignore", divide="ignore"):
                exponentials = self.steps["exp"] if "exp" in self.steps else np.exp(self.logits)
                total = exponentials.sum(axis=-1, keepdims=True)
                return {"exp": exponentials, "sum": total, "lse": np.log(total)}[name]
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
            closed = name in self.written or name in self.inputs or (name in ("Q", "K", "V") and name not in self.exact)
            if name in found or (closed and name != self.target):
                continue
            found.add(name)
            waiting += BEFORE.get(name, ())
        return frozenset(found)

    @property
    def scale(self) -> float:
        """What the scores are multiplied by; 1 without a scale."""
        return self.exact.scale

    @property
    def has_scale(self) -> bool:
        """Whether this problem has a step `scaled`."""
        return "scaled" in self.exact.steps

    @cached_property
    def widths(self) -> dict[str, int]:
        """n, m, and where they are known d_k, d_v (of one head) and d_model (of the data)."""
        last = self.exact.steps.get("weights")
        sizes = {"n": last.shape[-2], "m": last.shape[-1]} if last is not None else {}
        if "K" in self.exact.steps:
            sizes["d_k"] = self["k"].shape[-1]
        elif self.rules.d_k is not None:
            sizes["d_k"] = self.rules.d_k
        if "V" in self.exact.steps:
            sizes["d_v"] = self["v"].shape[-1]
        if "X" in self.exact.steps:
            sizes["d_model"] = self.exact.steps["X"].shape[-1]
        return sizes

    @cached_property
    def extent(self) -> Extent:
        """The sizes that masks and biases are read by."""
        shape = self.exact.steps["weights"].shape
        batch = shape[:-2] if self.exact.heads is None else shape[:-3]
        past = self.inputs["past_k"].shape[-2] if "past_k" in self.inputs else 0
        return Extent(tuple(batch), self.exact.heads, shape[-2], shape[-1], past)

    @cached_property
    def shown(self) -> Array | None:
        """Where the masks (not the bias) let a key be seen: broadcasts to the scores; None without a mask."""
        if not self.rules.masks or self.begin in ("masked", "weights"):
            return None
        return self._table(Masks(self.rules.masks, self.extent, self.rules.alignment).visible())

    @cached_property
    def bias(self) -> Array | None:
        """The bias as a table that broadcasts to the scores; None without one."""
        if "bias" not in self.inputs or self.begin in ("masked", "weights"):
            return None
        e = self.extent
        return self._table(decide_array_axes("bias", np.asarray(self.inputs["bias"]), e.batch, e.heads, e.n, e.m)[0])

    def _table(self, table: Array) -> Array:
        if self.exact.heads is None and table.ndim > 2:
            table = table[..., None, :, :]
        return table.reshape((1,) * (max(self.lead, 1) + 3 - table.ndim) + table.shape)

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
        return (
            logits if self.exact.visible is None or "masked" in self.steps else np.where(self.visible, logits, -np.inf)
        )

    @cached_property
    def visible(self) -> Array:
        """Where a key counts: no mask, bias or kernel hides it; broadcasts to the scores."""
        visible = self.exact.visible
        return np.ones((1,) * (self.lead + 3), bool) if visible is None else self._table(visible)

    def labels(self, step: str) -> tuple[list[str], list[str]]:
        """The names of a step's rows and columns, tokens as rows."""
        rows, columns = self.exact.labels(step)
        return (columns, rows) if self.exact.layout == "columns" else (rows, columns)

    def source(self, name: str) -> str:
        """Which data Q, K or V is projected from: "X" or "Y"."""
        return "Y" if name != "Q" and "Y" in self.steps else "X"

    def projected(self, name: str, source: Array, weight: Array | None) -> Array:
        """Q, K or V from other data or another weight matrix; past ones in front. Raises ShapeError."""
        made = project(name, source, weight, self.inputs.get(f"b_{name}"))
        past = self.inputs.get(f"past_{name.lower()}")
        return made if past is None else with_past(name, np.asarray(past), made)

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
            return total if target == "sum" else np.log(total)
        entry = next((name for name in _ENTRIES if name in arrays), None)
        begun, rules = self._enter(entry, arrays)
        if target in ("heads", "output"):
            begun["V"] = self._split_of("V", arrays)
            begun |= {name: self.inputs[name] for name in ("W_O", "b_O") if name in self.inputs}
        if target == "output" and "heads" in arrays:
            # W_O and its bias after the heads: weights that pick each head's rows as they are.
            n = arrays["heads"].shape[-2]
            begun |= {"weights": np.broadcast_to(np.eye(n), (*arrays["heads"].shape[:-1], n)), "V": arrays["heads"]}
            rules = Rules()
        return attend(begun, rules).rows(target)

    def _split_of(self, name: str, arrays: Mapping[str, Array]) -> Array:
        if name.lower() in arrays:
            return arrays[name.lower()]
        return self.split(name, arrays[name] if name in arrays else self.steps[name])

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
            rules = replace(rules, masks=(self.keep(self.shown),))
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
        begun |= {"Q": self._split_of("Q", arrays), "K": self._split_of("K", arrays)}
        return begun, replace(rules, score=self.score)

    def keep(self, shown: Array) -> object:
        """The mask that shows just this."""
        from attncli.core.masks import mask_spec

        return mask_spec("keep", shown)

    @cached_property
    def score(self) -> ScoreSpec:
        """The score function; its scale is given beside it."""
        score = self.rules.score or score_spec("scaled-dot")
        return replace(score, scaled=False)

    # -- the hand's numbers
    def _start_from_hand(self, hand: Mapping[str, Written]) -> None:
        """Begin at what was written: the latest step on the way to the target, or the latest of each branch."""
        self.hand: dict[str, Array] = {}
        for name in self.written:
            numbers = self.uniform(name, hand[name].value)
            if hand[name].blank.any():
                self.steps |= self.following(self.hand)
                numbers = np.where(self.uniform(name, hand[name].blank), self[name], numbers)
            self.hand[name] = numbers
        self.steps |= self.following(self.hand)
        self.halves = {
            name: self.uniform(name, hand[name].unit / 2) * ~self.uniform(name, hand[name].blank)
            for name in self._starting()
            if not hand[name].fits(self.exact.rows(name))
        }

    def _starting(self) -> list[str]:
        """The written steps from whose numbers the target follows."""
        found, waiting = [], list(BEFORE.get(self.target, ()))
        while waiting:
            name = waiting.pop()
            if name in found:
                continue
            if name in self.hand:
                found.append(name)
            elif name not in self.inputs:
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
            begun["V"] = self._split_of("V", arrays)
            begun |= {name: self.inputs[name] for name in ("W_O", "b_O") if name in self.inputs}
        trace = attend(begun, rules)
        order = list(STEPS)
        for name in order[order.index(entry or "kernel") :]:
            if name in self.exact.steps and name not in arrays and name in trace.steps:
                found[name] = trace.steps[name]
        return found
