"""From YAML nodes to the normal forms: scores, masks and the numbers of a hand calculation, and all that is plainer."""

from __future__ import annotations

from typing import Any

from attncli.errors import AttnError, InputError, Place, UsageError, nearest, raise_all
from attncli.pipeline.masks import MASKS, mask_spec
from attncli.pipeline.scores import SCORES
from attncli.pipeline.trace import parse_address
from attncli.problem.convert_text import masks_from_text
from attncli.problem.matrix import Matrix
from attncli.problem.numbers import is_number, quote
from attncli.problem.plain_node import PlainNodes
from attncli.problem.reading import Reading, split_stage
from attncli.problem.settings import Field
from attncli.problem.values import JOINING, Hand, MaskChoice, ScoreChoice, placed
from attncli.problem.yamltree import Node, pairs_of, scalar_value


class Nodes(PlainNodes):
    """The converters of one file, one for each kind of setting."""

    def __init__(self, file: str, reading: Reading) -> None:
        super().__init__(file, reading)
        self.kinds |= {
            "score": self.score, "parameters": self.parameters, "masks": self.masks, "expect": self.expect,
        }  # fmt: skip

    def score(self, field: Field, node: Node) -> ScoreChoice:
        """A name, or {name: ..., PARAMETER: ...}."""
        if node.id == "sequence":
            raise InputError("score is a list", place=self.place(node), hint="score: {name: gaussian, sigma: 2}")
        if node.id == "scalar":
            return ScoreChoice(SCORES.find(str(node.value), place=self.place(node)).name, {}, self.place(node))
        parts = {key: value for key, _, value in pairs_of(node)}
        if "name" not in parts:
            raise InputError("score has no name", place=self.place(node), hint="score: {name: gaussian, sigma: 2}")
        name_node = parts.pop("name")
        name = self.word("score: name", name_node, "{name: gaussian}")
        SCORES.find(name, place=self.place(name_node))
        return ScoreChoice(name, self.parameter_values(parts), self.place(node))

    def parameters(self, field: Field, node: Node) -> dict[str, float | Matrix | str]:
        """{NAME: number or matrix}."""
        if node.id != "mapping":
            raise InputError("param is not a mapping", place=self.place(node), hint="param: {sigma: 2}")
        return self.parameter_values({key: value for key, _, value in pairs_of(node)})

    def masks(self, field: Field, node: Node) -> list[MaskChoice]:
        """One mask, or a list of them."""
        if node.id != "sequence":
            return self.mask(node)
        choices: list[MaskChoice] = []
        errors: list[AttnError] = []
        if len(node.value) > _MOST_MASKS:
            raise InputError(
                f"{len(node.value):,} masks are more than {_MOST_MASKS}",
                place=self.place(node),
                hint="a table says it all: {keep: FILE}",
            )
        for item in node.value:
            try:
                choices += self.mask(item)
            except AttnError as error:
                errors += error.errors()
        raise_all(errors)
        return choices

    def mask(self, node: Node) -> list[MaskChoice]:
        """`causal`, `window:2,0`, {window: [2, 0]}, {keep: [[...]]}, {lengths: FILE} ..."""
        place = self.place(node)
        if node.id == "sequence":
            raise InputError("a list stands where a mask is expected", place=place, hint=_MASK_HINT)
        if node.id == "scalar":
            if scalar_value(node) is None or is_number(node.value):
                raise InputError(f"{quote(node.value)} is not a mask", place=place, hint=_MASK_HINT)
            return masks_from_text([str(node.value)], self.reading, place)
        if len(node.value) != 1:
            raise InputError(
                "a mask is a mapping of one name",
                place=place,
                hint="several masks are a list: [causal, {keep: keep.csv}]",
            )
        ((name, _, argument),) = pairs_of(node)
        if name in JOINING:
            return [self.joined(name, argument, place)]
        entry = MASKS.find(name, place=place)
        takes = entry.takes
        if argument.id == "mapping" or (argument.id == "sequence" and takes == "array"):
            if takes is None or "array" not in takes:
                raise UsageError(f"the mask {name!r} takes no file", place=self.place(argument), hint=entry.formula)
            return [MaskChoice(name, self.only_matrix(name, argument), None, place)]
        if argument.id == "sequence":
            numbers = self.mask_numbers(name, argument)
            with placed(place):
                mask_spec(name, numbers)
            return [MaskChoice(name, numbers, None, place)]
        if scalar_value(argument) is None:
            return masks_from_text([name], self.reading, place)
        return masks_from_text([f"{name}:{argument.value}"], self.reading, self.place(argument))

    def joined(self, name: str, node: Node, place: Place | None) -> MaskChoice:
        """{and: [...]}, {or: [...]}, {not: MASK}."""
        items = node.value if node.id == "sequence" else [node]
        parts = tuple(part for item in items for part in self.mask(item))
        if len(parts) < 1 or (name == "not" and len(parts) != 1):
            raise InputError(f"{name} joins masks", place=self.place(node), hint="{or: [causal, {prefix-keys: 1}]}, "
                             "{not: causal}")  # fmt: skip
        return MaskChoice(name, place=place, parts=parts)

    def mask_numbers(self, name: str, node: Node) -> list[Any]:
        """A list of words or numbers as written, or a list of such lists."""
        if all(item.id == "sequence" for item in node.value) and node.value:
            return [self.mask_numbers(name, item) for item in node.value]
        return [self.word(name, item, f"{{{name}: [2, 0]}}") for item in node.value]

    # --- the hand's numbers -------------------------------------------------------------------------------------

    def expect(self, field: Field, node: Node) -> dict[str, Hand]:
        """{STEP: numbers, a file, or {values, decimals, significant}}."""
        if node.id != "mapping":
            from attncli.problem.yamlerrors import missing_blank

            raise_all(missing_blank(node, self.file))
            raise InputError(
                "expect is not a mapping of steps", place=self.place(node), hint="expect: {weights: [[0.5, 0.5]]}"
            )
        hands: dict[str, Hand] = {}
        errors: list[AttnError] = []
        for address, key, value in pairs_of(node):
            try:
                with placed(self.place(key)):
                    parse_address(split_stage(address)[1])
                hands[address] = self.hand(address, value)
            except AttnError as error:
                errors += error.errors()
        raise_all(errors)
        return hands

    def hand(self, address: str, node: Node) -> Hand:
        """One step's numbers, with blanks where nothing is to be marked."""
        parts = {key: value for key, _, value in pairs_of(node)} if node.id == "mapping" else {}
        if not parts or "file" in parts:
            return Hand(self.only_matrix(address, node, blanks=True), place=self.place(node))
        odd = next((key for key in parts if key not in ("values", "decimals", "significant")), None)
        if odd is not None or "values" not in parts:
            close = nearest(odd, ("values", "decimals", "significant")) if odd else None
            what = f"{address}: unknown key {odd!r}" if odd else f"{address} has no values"
            meant = f"did you mean {close!r}? " if close else ""
            raise InputError(what, place=self.place(node), hint=meant + "{values: [[0.5, 0.5]], decimals: 2}")
        if {"decimals", "significant"} <= set(parts):
            raise InputError(
                f"{address}: decimals and significant are both given",
                place=self.place(node),
                hint="one of them says how many places are meant",
            )
        places = {
            key: self.integer(Field(key, "integer", "", "", low=int(key == "significant"), high=400), value)
            for key, value in parts.items() if key != "values"
        }  # fmt: skip
        return Hand(self.only_matrix(address, parts["values"], blanks=True), **places, place=self.place(node))


_MOST_MASKS = 1000
_MASK_HINT = "a mask is written causal, window:2,0, {window: [2, 0]}, {lengths: [3, 2]} or {keep: [[1, 0], [1, 1]]}"
