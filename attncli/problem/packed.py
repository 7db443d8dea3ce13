"""Weights as frameworks store them, made into one matrix each: packed projections, and kernels with an axis of heads.

Letters: E features of the data, H query heads, G key heads, d one head's width. Packed are E x 3E, or E x (H + 2G) d:
the queries' outputs, then the keys', then the values'. Kernels are E x H x d, that of the output H x d x E.
Source: in_proj_weight of torch.nn.MultiheadAttention; the kernels of keras.layers.MultiHeadAttention.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from operator import itemgetter

from attncli.errors import AttnError, ShapeError, UsageError
from attncli.problem.matrix import Matrix
from attncli.problem.values import Setting, placed

_PACKED = ("W_QKV", "b_QKV")
_KERNELS = ("W_Q", "W_K", "W_V", "W_O")
_BIASES = ("b_Q", "b_K", "b_V")
_DECIDES = {"heads", "kv_heads", "layout", "weight_layout", "like"}


class Unpacked:
    """Settings with a matrix for each weight and bias, what is broken with those that were not, and what is told.

    layout: how the weights are stored, in-out or out-in. broken: what was said and not understood.
    """

    def __init__(self, settings: Mapping[str, Setting], layout: str, broken: Set[str]) -> None:
        self.settings = dict(settings)
        self.layout = layout
        self.broken = frozenset(broken)
        self.notes: list[str] = []
        self.errors: list[AttnError] = []
        for name in _PACKED:
            parts = tuple(name.replace("QKV", letter) for letter in "QKV")
            said = self.settings.pop(name, None)
            if name in broken or (said is not None and broken & _DECIDES):
                self.broken |= {*parts}
            elif said is not None:
                self._try(name, said, parts)
        for name in (*_KERNELS, *_BIASES):
            said = self.settings.get(name)
            if said is not None and isinstance(said.value, Matrix) and said.value.array.ndim == 2 + (name[0] == "W"):
                self._try(name, said, (name,))

    def _try(self, name: str, said: Setting, parts: tuple[str, ...]) -> None:
        """Unpack or flatten one; nothing more is said of the parts of what cannot be."""
        try:
            with placed(said.place):
                if name in _PACKED:
                    self._unpack(name, said, parts)
                elif name in _KERNELS:
                    self._flatten(name, said)
                else:
                    self._flatten_bias(name, said)
        except AttnError as error:
            self.errors.append(error)
            self.broken |= {*parts}
            for part in parts:
                self.settings.pop(part, None)

    def _unpack(self, name: str, said: Setting, parts: tuple[str, ...]) -> None:
        """The queries' part, the keys' and the values'. Raises UsageError and ShapeError."""
        matrix = said.value
        if not isinstance(matrix, Matrix):
            raise UsageError(f"{name} cannot come from a stage", hint=f"give {', '.join(parts)}")
        twice = next((part for part in parts if part in self.settings or part in self.broken), None)
        if twice is not None:
            raise UsageError(f"{name} and {twice} both say the same", hint="leave one of them out")
        if name == "b_QKV":
            matrix = matrix.rearranged(lambda array: array.reshape(-1))
        elif matrix.array.ndim != 2:
            told = " x ".join(map(str, matrix.array.shape)) or "a single number"
            raise ShapeError(f"{name} is {told}, but packed weights have two axes", place=matrix.place)
        outputs = 0 if name == "b_QKV" or self.layout == "out-in" else 1
        start, widths = 0, self._widths(name, matrix, outputs)
        for part, width in zip(parts, widths, strict=True):
            at = (slice(None),) * outputs + (slice(start, start + width),)
            self.settings[part] = Setting(matrix.rearranged(itemgetter(at)), said.place)
            start += width
        stored = f", stored {self.layout}" if name == "W_QKV" else ""
        self.notes.append(f"{name}: {' + '.join(map(str, widths))} outputs are {', '.join(parts)}{stored}")

    def _widths(self, name: str, matrix: Matrix, outputs: int) -> list[int]:
        """How many outputs each part has: a third, or H, G and G heads. Raises ShapeError where they do not fit."""
        shape = matrix.array.shape
        counts = self._counts()
        inputs = None if name == "b_QKV" else shape[1 - outputs]
        features = self._features()
        misfits = inputs is not None and features not in (None, inputs)
        if misfits or shape[outputs] % sum(counts):
            what = f"it has {shape[outputs]} outputs, which {_shared(counts)}"
            if misfits:
                what = f"it takes {inputs} features, but the data have {features}"
            turned = inputs is not None and inputs % sum(counts) == 0 and features in (None, shape[outputs])
            other = "in-out" if self.layout == "out-in" else "out-in"
            hint = f"transposed it would fit: --weight-layout {other}" if turned else _PARTS
            stored = "" if inputs is None else f" ({' x '.join(map(str, shape))}, stored {self.layout})"
            raise ShapeError(f"{name}{stored}: {what}", place=matrix.place, hint=hint)
        return [count * (shape[outputs] // sum(counts)) for count in counts]

    def _counts(self) -> list[int]:
        """How many heads each part has; 1 where nobody said how many."""
        if "heads" not in self.settings:
            return [1, 1, 1]
        heads = self.settings["heads"].value
        groups = self.settings["kv_heads"].value if "kv_heads" in self.settings else heads
        return [heads, groups, groups]

    def _features(self) -> int | None:
        """How many features the data have, if that is known."""
        data = self.settings.get("X")
        if data is None or not isinstance(data.value, Matrix) or not data.value.array.ndim:
            return None
        columns = "layout" in self.settings and self.settings["layout"].value == "columns"
        return int(data.value.array.shape[-2 if columns and data.value.array.ndim > 1 else -1])

    def _flatten(self, name: str, said: Setting) -> None:
        """A kernel as a matrix, in x out; it says how many heads there are where nobody did. Raises UsageError."""
        shape = said.value.array.shape
        told = " x ".join(map(str, shape))
        if self.layout == "out-in":
            what = f"{name} is {told}: a kernel with an axis of heads is stored in-out"
            raise UsageError(what, place=said.value.place, hint="--weight-layout in-out")
        heads = shape[0 if name == "W_O" else 1]
        before = (shape[0] * shape[1], shape[2]) if name == "W_O" else (shape[0], shape[1] * shape[2])
        flat = said.value.rearranged(lambda array: array.reshape(before))
        self.settings[name] = Setting(flat, said.place)
        if not self.broken & _DECIDES and "X" in self.settings:
            self._heads(name, heads, told, said)

    def _heads(self, name: str, heads: int, told: str, said: Setting) -> None:
        """What a kernel's axis of heads says, beside what was said of them. Raises ShapeError where it is otherwise."""
        ours = "kv_heads" if name in ("W_K", "W_V") else "heads"
        known = self.settings.get(ours) or self.settings.get("heads")
        if known is None:
            self.settings["heads"] = Setting(heads, said.place)
        elif ours == "kv_heads" and ours not in self.settings and known.value != heads:
            self.settings[ours] = Setting(heads, said.place)
        elif known.value != heads:
            what = f"{name} is {told}, with {heads} heads, but {ours.replace('_', ' ')} is {known.value}"
            raise ShapeError(what, place=said.value.place, hint="the axes are features x heads x one head's width")

    def _flatten_bias(self, name: str, said: Setting) -> None:
        """A bias of H x d as one row; any other is none of these."""
        heads = self.settings.get("kv_heads" if name in ("b_K", "b_V") else "heads") or self.settings.get("heads")
        if heads is not None and said.value.array.shape[0] == heads.value:
            self.settings[name] = Setting(said.value.rearranged(lambda array: array.reshape(1, -1)), said.place)


_PARTS = "the outputs of queries, keys and values are packed: 3E of them, or (H + 2G) d with --heads and --kv-heads"


def _shared(counts: list[int]) -> str:
    if counts == [1, 1, 1]:
        return "are not three equal parts"
    return f"{sum(counts)} heads ({' + '.join(map(str, counts))}) cannot share equally"
