"""Whether sizes fit together: every mismatch at once, naming both matrices with their numbers and letters.

The core checks what it computes too, one thing at a time; here the user's own layout, files and places are known.
Letters: n queries, m keys, d_x, d_y data widths, d_k, d_v key and value widths.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from attncli.errors import AttnError, ShapeError, UsageError
from attncli.lazy import np
from attncli.pipeline.heads import broadcast_leading
from attncli.pipeline.maskargs import padding_hint
from attncli.pipeline.masks import MASKS, ScoreShape
from attncli.pipeline.scores import SCORES
from attncli.problem.contradictions import parameter_errors
from attncli.problem.known import Known, Shape, times
from attncli.problem.labels import label_errors, past_count
from attncli.problem.matrix import Matrix
from attncli.problem.problem import Problem
from attncli.problem.values import MaskChoice, placed

_MOST_AXES = 24


def size_errors(problem: Problem, unknown: frozenset[str] = frozenset()) -> list[AttnError]:
    """All sizes that disagree. unknown: matrices that were given but could not be read, about which nothing is said."""
    return list(_Sizes(problem, unknown).errors())


class _Sizes(Known):
    def errors(self) -> Iterator[AttnError]:
        """Data against weights, weights against biases, keys against values, and what must fit the scores."""
        many = list(self.many_axes())
        if many:
            yield from many
            return
        yield from self.single_numbers()
        for letter in "QKV":
            yield from self.projection(letter)
        yield from self.output()
        yield from self.values()
        yield from self.sequences()
        yield from self.score()
        n, m = self.count("Q"), self.count("K")
        if n is not None and m is not None:
            odd = list(self.tables(n, m))
            yield from odd
            yield from () if odd else self.masks(n, m)
        yield from self.heads()
        yield from label_errors(self.problem, n, m)

    def many_axes(self) -> Iterator[AttnError]:
        """NumPy broadcasts 32 axes, some of which are those of heads, and of what is tried beside the right numbers."""
        for name, shape in self.shapes.items():
            if len(shape) > _MOST_AXES:
                yield ShapeError(
                    f"{name} has {len(shape)} axes, more than {_MOST_AXES}",
                    place=self.place(name),
                    hint="sequences, heads, tokens and features are four",
                )

    def single_numbers(self) -> Iterator[AttnError]:
        """A number is no matrix, a weight has two axes, a bias one."""
        for name, matrix in self.problem.inputs.items():
            if not isinstance(matrix, Matrix):
                continue
            shape = matrix.array.shape
            if not shape:
                yield ShapeError(f"{name} is a single number, not a matrix", place=self.place(name), hint="as in [[3]]")
            elif name.startswith("W_") and len(shape) != 2:
                hint = f"write it as {shape[0]} x 1 or 1 x {shape[0]}" if len(shape) == 1 else "weights have two axes"
                yield ShapeError(f"{name} is a {_axes(shape)}, not a matrix", place=self.place(name), hint=hint)
            elif name.startswith("b_") and not (len(shape) == 1 or (len(shape) == 2 and 1 in shape)):
                yield ShapeError(
                    f"{name} is {times(shape)}, but the bias of a projection is a vector",
                    place=self.place(name),
                    hint="a bias that is added to the scores is `bias`",
                )

    def projection(self, letter: str) -> Iterator[AttnError]:
        """W_Q takes the features of X, and b_Q has one number for each of its outputs."""
        name, data = f"W_{letter}", self.data(letter)
        weight, shape = self.shapes.get(name), self.shapes.get(data or "")
        if data == letter:
            return  # weights for what is given already: a contradiction, and no matter of size
        if weight is not None and shape and data is not None and len(weight) == 2 and weight[0] != shape[-1]:
            yield ShapeError(
                f"{name} is {self.text(name)}, but {data} has {shape[-1]} features ({self.given(data)})",
                place=self.place(name),
                hint=self.mend(name, weight, data, shape),
            )
        yield from self.projection_bias(letter, self.width(letter))

    advises = True  # False while a hint is tried

    def fits(self, **settings: str) -> bool:
        """Whether all weights fit their data with other settings: a hint is tried before it is given."""
        other = _Sizes(replace(self.problem, **settings), self.unknown)  # type: ignore[arg-type]
        other.advises = False
        return not any(error for letter in "QKV" for error in other.projection(letter))

    def mend(self, name: str, weight: Shape, data: str, shape: Shape) -> str:
        """What would make weight and data fit, if something simple does."""
        if weight[1] == shape[-1]:
            return self.turn(name, weight)
        # In columns the data's rows are the features, and the weights come from the left.
        other = "columns" if self.problem.layout == "rows" else "rows"
        own = "out-in" if other == "columns" else "in-out"
        kept = self.problem.weight_layout if {"weight_layout", "like"} & self.problem.places.keys() else own
        turned = len(shape) > 1 and shape[-2] > 1 and weight[1] == shape[-2]
        if turned and self.advises and self.fits(layout=other, weight_layout=kept):
            way = "features x tokens" if other == "columns" else "tokens x features"
            return f"in {other} they would fit: --layout {other}, where {data} is {way}"
        needs = f"{shape[-1]} x ..." if self.problem.weight_layout == "in-out" else f"... x {shape[-1]}"
        return f"{name} must be {needs}, stored {self.problem.weight_layout}"

    def turn(self, name: str, weight: Shape) -> str:
        """How to say that a weight matrix is stored transposed: of all, or of this one alone."""
        other = "in-out" if self.problem.weight_layout == "out-in" else "out-in"
        if self.advises and self.fits(weight_layout=other):
            others = [each for each in self.shapes if each.startswith("W_") and each != name]
            return f"{name} transposed would fit: --weight-layout {other}" + (
                f", which turns {' and '.join(others)} too" if others else ""
            )
        stored = weight[::-1] if self.problem.weight_layout == "in-out" else weight
        return f"{name} transposed would fit: write it as {times(stored)}"

    def projection_bias(self, letter: str, width: int | None) -> Iterator[AttnError]:
        """A bias has as many numbers as there are features after projection."""
        shape = self.shapes.get(f"b_{letter}")
        if shape is None or width is None or len(shape) not in (1, 2):
            return
        if int(np.prod(shape)) != width:
            what = {"O": "the output"}.get(letter, letter)
            yield ShapeError(
                f"b_{letter} has {int(np.prod(shape))} numbers, but {what} has {width} features",
                place=self.place(f"b_{letter}"),
            )

    def output(self) -> Iterator[AttnError]:
        """W_O takes the joined heads."""
        width, weight = self.width("V"), self.shapes.get("W_O")
        value = self.shapes.get(self.data("V") or "")
        if width is None or value is None or len(value) >= 4 or "W_O" in self.unknown:
            return
        if self.problem.heads and self.problem.kv_heads:
            width = width // self.problem.kv_heads * self.problem.heads
        if weight is not None and len(weight) == 2 and weight[0] != width:
            yield ShapeError(
                f"W_O is {self.text('W_O')}, but there are {width} features before it (the heads joined)",
                place=self.place("W_O"),
                hint=self.turn("W_O", weight) if weight[1] == width else None,
            )
        yield from self.projection_bias("O", weight[1] if weight is not None and len(weight) == 2 else width)

    def values(self) -> Iterator[AttnError]:
        """Each key has one value."""
        value, m = self.shapes.get(self.data("V") or ""), self.count("K")
        if value is None or len(value) < 2 or m is None or self.data("V") == self.data("K"):
            return
        past = past_count(self.problem)
        if value[-2] + past != m:
            keys = self.problem.begins or self.data("K") or "K"
            name, now = self.data("V") or "V", m - past
            yield ShapeError(
                f"{name} is {self.text(name)}, but there {'is' if now == 1 else 'are'} {now} key{'s' * (now != 1)} "
                f"({keys}: {self.given(keys)})",
                place=self.place(name),
                hint="each key has one value",
            )

    def sequences(self) -> Iterator[AttnError]:
        """The axes in front of heads, tokens and features are as long everywhere, or 1."""
        begins, data = self.problem.begins, [self.data(letter) for letter in "QKV"]
        names = [begins, data[2]] if begins else [*data, "past_k", "past_v"]
        later = {"past_k": data[1], "past_v": data[2]}
        shapes = {name: self.shapes[name] for name in dict.fromkeys(names) if name is not None and name in self.shapes}
        several = any(len(shape) >= 4 for shape in shapes.values())
        leading: list[Shape] = []
        for number, (name, shape) in enumerate(shapes.items(), 1):
            apart = len(shape) > len(shapes.get(later.get(name) or name, shape))  # past keys, split into heads
            split = several or apart or (name == begins and self.problem.heads)
            leading.append(shape[: -3 if split else -2])
            try:
                broadcast_leading(*leading)
            except ValueError:
                told = ", ".join(f"{other} {self.given(other)}" for other in list(shapes)[:number])
                yield ShapeError(
                    f"the leading axes do not match: {told}",
                    place=self.place(name),
                    hint="sequences must be as many, or 1",
                )
                return

    def score(self) -> Iterator[AttnError]:
        """Whether the score takes queries and keys of these widths: it is asked with one zero query and key."""
        d_q, d_k, score = self.width("Q"), self.width("K"), self.problem.score
        if d_q is None or d_k is None or score is None or not isinstance(score.score, str) or self.problem.begins:
            return
        shapes = [self.shapes.get(self.data(letter) or "", ()) for letter in "QK"]
        if "score" in self.unknown or any(parameter_errors(self.problem)) or any(len(shape) >= 4 for shape in shapes):
            return
        heads = self.problem.heads or 1
        key_heads = self.problem.kv_heads or heads
        if d_q % heads or d_k % key_heads:
            return  # the core says so
        if d_q // heads == d_k // key_heads and not SCORES.find(score.score).parameters:
            return  # vectors of one size, and nothing else that could not fit
        try:
            spec = self.problem.score_spec()
            if spec is not None:
                with np.errstate(all="ignore"):  # 0 times a parameter that is not finite
                    spec.function(np.zeros((1, d_q // heads)), np.zeros((1, d_k // key_heads)), **spec.parameters)
        except AttnError as error:
            if heads > 1:
                error.what += f"; this is one head: Q has {d_q} for {heads} heads, K has {d_k} for {key_heads}"
            yield self.problem.placed(error, score.place or self.problem.places.get("kv_heads"))

    def heads(self) -> Iterator[AttnError]:
        """Heads divide the widths, and key heads the heads."""
        heads, places = self.problem.heads, self.problem.places
        if not heads:
            return
        key_heads = self.problem.kv_heads or heads
        if heads % key_heads:
            yield UsageError(
                f"{heads} heads cannot share {key_heads} key heads equally",
                place=places.get("kv_heads"),
                hint="kv_heads divides heads",
            )
        if any(len(shape) >= 4 for shape in self.shapes.values()):
            return  # there is an axis of heads already: the core refuses others
        letters = (("V", key_heads),) if self.problem.begins else (("Q", heads), ("K", key_heads), ("V", key_heads))
        for letter, count in letters:
            width = self.width(letter)
            if width and width % count:
                yield ShapeError(
                    f"{letter} has {width} features, which {count} heads cannot share equally",
                    place=places.get("kv_heads" if letter != "Q" and self.problem.kv_heads else "heads"),
                    hint="the number of heads divides the features",
                )
                return

    def tables(self, n: int, m: int) -> Iterator[AttnError]:
        """Masks and biases are as large as the scores, or one row of keys."""
        tables = {"bias": self.problem.inputs.get("bias")}
        for choice in (single for joined in self.problem.masks for single in joined.single()):
            if isinstance(choice.mask, str) and MASKS.find(choice.mask).takes == "array":
                tables[choice.mask] = choice.argument if isinstance(choice.argument, Matrix) else None
        columns = self.problem.layout == "columns"
        for name, matrix in tables.items():
            if not isinstance(matrix, Matrix) or matrix.array.ndim == 0:
                continue
            shape = self.as_rows(name, matrix.array.shape)
            if shape[-1] == m and shape[-2] in (1, n):
                continue
            sizes, letters = (f"{m} x {n}", "keys x queries") if columns else (f"{n} x {m}", "queries x keys")
            row = f"one column of {m} keys" if columns else f"one row of {m} keys"
            leading = self.leading()
            padding = padding_hint(shape, *leading, m) if leading is not None and not columns else None
            yield ShapeError(
                f"{name} is {times(matrix.array.shape)}, but the scores are {sizes} ({letters})",
                place=matrix.place or self.problem.places.get("mask" if name != "bias" else name),
                hint=padding or f"it must be {sizes}, or {row} for all queries; nothing is cut, padded or stretched",
            )

    def leading(self) -> tuple[Shape, int | None] | None:
        """The axes of sequences, and how many heads there are, with an axis of their own or not; None: it cannot be."""
        begins, heads = self.problem.begins, self.problem.heads
        names = [begins] if begins else [self.data("Q"), self.data("K")]
        leading = [self.shapes.get(name or "", ())[:-2] for name in names]
        if begins and heads:
            leading = [axes[:-1] for axes in leading]
        leading.append(self.shapes.get(self.data("V") or "", ())[:-2])
        try:
            batch = broadcast_leading(*leading)
        except ValueError:
            return None
        return (batch[:-1], batch[-1]) if len(batch) > 1 else (batch, heads)

    def masks(self, n: int, m: int) -> Iterator[AttnError]:
        """Lengths within the keys, as many numbers as queries or keys ...: each mask is made for the sizes, unused."""
        if not self.problem.masks:
            return
        leading = self.leading()
        if leading is None or leading[1] != self.problem.heads:
            return  # the core tells sequences from heads
        extent = ScoreShape(*leading, n, m, past_count(self.problem))
        for choice in (single for joined in self.problem.masks for single in joined.single()):
            try:
                spec = self.problem.mask_spec(choice)
                if isinstance(choice.mask, str):
                    with placed(choice.place):
                        spec.function(extent, spec.argument)
            except AttnError as error:
                yield _at_cell(error, choice)


def _at_cell(error: AttnError, choice: MaskChoice) -> AttnError:
    """The error of a table, pointing at the first cell that is neither 0 nor 1 where there is one."""
    table = choice.argument
    if isinstance(table, Matrix) and MASKS.find(str(choice.mask)).takes == "array":
        odd = np.argwhere((table.array != 0) & (table.array != 1))
        if len(odd):
            error.place = table.at(tuple(odd[0].tolist())) or error.place
    return error


def _axes(shape: Shape) -> str:
    return f"vector of {shape[0]}" if len(shape) == 1 else f"{times(shape)} array"
