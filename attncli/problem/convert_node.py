"""From YAML nodes to the normal forms: one function for each kind of setting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attncli.core.masks import MASKS, mask_spec
from attncli.core.scores import SCORES
from attncli.core.trace import parse_address
from attncli.errors import AttnError, InputError, Place, UsageError, nearest, raise_all
from attncli.lazy import np
from attncli.problem.convert_text import masks_from_text
from attncli.problem.matrix import Matrix
from attncli.problem.numbers import is_number, looks_like_number, parse_number, quote
from attncli.problem.reading import Reading, check_step, split_stage, split_steps, split_words
from attncli.problem.settings import Field, check_choice, check_integer, check_number
from attncli.problem.values import Hand, MaskChoice, ScoreChoice, StageRef, placed
from attncli.problem.yamlmatrix import matrix_from_node
from attncli.problem.yamltree import Node, is_plain, pairs_of, place_of, scalar_value


class Nodes:
    """The converters of one file: its name for places, and how files that it names are read."""

    def __init__(self, file: str, reading: Reading) -> None:
        self.file = file
        self.reading = reading
        self.kinds: dict[str, Callable[[Field, Node], Any]] = {
            "matrix": self.matrix, "number": self.number, "integer": self.integer, "choice": self.choice,
            "flag": self.flag, "text": self.text, "score": self.score, "parameters": self.parameters,
            "masks": self.masks, "tokens": self.tokens, "steps": self.steps, "expect": self.expect,
        }  # fmt: skip

    def value(self, field: Field, node: Node) -> Any:
        """The normal form of what stands at a key. Raises AttnError, with places, for everything that is wrong."""
        if node.id == "scalar" and scalar_value(node) is None:
            raise InputError(f"{field.name} has no value", place=self.place(node), hint="leave the key out")
        return self.kinds[field.kind](field, node)

    def place(self, node: Node) -> Place:
        """Where a node begins."""
        return place_of(node, self.file)

    # --- plain values -------------------------------------------------------------------------------------------

    def word(self, name: str, node: Node, example: str) -> str:
        """The text of a scalar as written."""
        if node.id != "scalar":
            kind = "a list" if node.id == "sequence" else "a mapping"
            raise InputError(f"{name} is {kind}, not a single value", place=self.place(node), hint=f"as in {example}")
        return str(node.value)

    def number(self, field: Field, node: Node) -> float:
        """A number by its field's rule."""
        text, place = self.word(field.name, node, f"{field.name}: 0.5"), self.place(node)
        return check_number(field, parse_number(text, place=place), text, place)

    def integer(self, field: Field, node: Node) -> int:
        """A whole number within its field's limits."""
        text, place = self.word(field.name, node, f"{field.name}: 2"), self.place(node)
        return check_integer(field, parse_number(text, place=place), text, place)

    def choice(self, field: Field, node: Node) -> str:
        """One of the field's names."""
        names = field.choices() if field.choices else []
        text = self.word(field.name, node, f"{field.name}: {names[0] if names else 'table'}")
        return check_choice(field, text, self.place(node))

    def flag(self, field: Field, node: Node) -> bool:
        """true or false."""
        text = self.word(field.name, node, f"{field.name}: true")
        value = scalar_value(node)
        if not isinstance(value, bool):
            raise InputError(f"{field.name} must be true or false, not {quote(text)}", place=self.place(node),
                             hint="yes, no, on and off are words in YAML 1.2")
        return value

    def text(self, field: Field, node: Node) -> str:
        """Any text."""
        return self.word(field.name, node, f"{field.name}: words")

    def tokens(self, field: Field, node: Node) -> list[str]:
        """A list of words, a text as in the option, or {file: ...}."""
        if node.id == "scalar":
            text = str(node.value)
            if text.startswith("@"):
                return self.reading.lines(text[1:], self.place(node))
            return split_words(text)
        if node.id == "mapping":
            return self.reading.lines(self.only_file(field.name, node), self.place(node))
        errors: list[AttnError] = []
        for number, item in enumerate(node.value, 1):
            if item.id != "scalar":
                kind = "a list" if item.id == "sequence" else "a mapping"
                errors.append(InputError(f"{field.name}: token {number} is {kind}: write {_as_word(item)} in quotes",
                                         place=self.place(item)))
            elif is_plain(item) and not item.value:
                errors.append(InputError(f"{field.name}: token {number} is empty", place=self.place(item),
                                         hint="write '' for an empty label"))
        raise_all(errors)
        return [str(item.value) for item in node.value]

    def steps(self, field: Field, node: Node) -> list[str]:
        """A comma list or a list of steps, or all."""
        if node.id == "scalar":
            return split_steps(str(node.value), self.place(node))
        if node.id == "mapping":
            raise InputError(f"{field.name} is a mapping", place=self.place(node), hint="show: [weights, output]")
        return [check_step(self.word("a step", item, "weights"), self.place(item)) for item in node.value]

    # --- matrices -----------------------------------------------------------------------------------------------

    def matrix(self, field: Field, node: Node) -> Matrix | StageRef:
        """Nested lists, a file, {file, name}, {identity: N} or {stage, step}."""
        return self.matrix_or_stage(field.name, node)

    def matrix_or_stage(self, name: str, node: Node, *, blanks: bool = False) -> Matrix | StageRef:
        """The same, for what is not a field: a score's parameter, a mask's table, a step's hand numbers."""
        if node.id == "sequence":
            return matrix_from_node(node, self.file, blanks=blanks)
        if node.id == "mapping":
            return self.matrix_mapping(name, node, blanks=blanks)
        value, place = scalar_value(node), self.place(node)
        if not isinstance(value, str) or looks_like_number(value):
            raise InputError(f"{name} is the single value {quote(node.value)}, not a matrix", place=place,
                             hint=f"write {name}: [[{node.value}]], or the name of a file")
        return self.reading.matrix(value, place, blanks=blanks)

    def matrix_mapping(self, name: str, node: Node, *, blanks: bool = False) -> Matrix | StageRef:
        """{file: F}, {file: F, name: N}, {identity: N} or {stage: S, step: T}."""
        parts = {key: value for key, _, value in pairs_of(node)}
        place = self.place(node)
        known = ({"file", "name"}, {"identity"}, {"stage", "step"})
        if not parts or not any(set(parts) <= form for form in known) or set(parts) == {"name"}:
            odd = next((key for key in parts if not any(key in form for form in known)), None)
            what = f"{name}: unknown key {odd!r}" if odd else f"{name} is neither a file nor an identity nor a stage"
            raise InputError(what, place=place,
                             hint="{file: w.npz, name: W_K}, {identity: 4} or {stage: encoder, step: output}")
        words = {key: self.word(f"{name}: {key}", value, "{file: w.npz, name: W_K}") for key, value in parts.items()}
        if "identity" in words:
            field = Field("identity", "integer", "", "", low=1)
            size = check_integer(field, parse_number(words["identity"], place=place), words["identity"], place)
            spelled = [["1" if i == j else "0" for j in range(size)] for i in range(size)]
            return Matrix(np.eye(size), place=place, spelling=lambda: spelled)
        if "stage" in words or "step" in words:
            if set(words) != {"stage", "step"}:
                raise InputError(f"{name}: stage and step go together", place=place,
                                 hint="{stage: encoder, step: output}")
            with placed(self.place(parts["step"])):
                parse_address(words["step"])
            return StageRef(words["stage"], words["step"], place)
        spec = words["file"] + (f"::{words['name']}" if "name" in words else "")
        return self.reading.matrix(spec, place, blanks=blanks)

    def only_matrix(self, name: str, node: Node, *, blanks: bool = False) -> Matrix:
        """A matrix where no stage may stand."""
        matrix = self.matrix_or_stage(name, node, blanks=blanks)
        if isinstance(matrix, StageRef):
            raise InputError(f"{name} cannot come from a stage", place=matrix.place)
        return matrix

    def only_file(self, name: str, node: Node) -> str:
        """The F of {file: F}."""
        parts = {key: value for key, _, value in pairs_of(node)}
        if set(parts) != {"file"}:
            raise InputError(f"{name} is a mapping without `file` alone", place=self.place(node),
                             hint=f"{name}: {{file: tokens.txt}}")
        return self.word(f"{name}: file", parts["file"], "{file: tokens.txt}")

    # --- scores and masks ---------------------------------------------------------------------------------------

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

    def parameters(self, field: Field, node: Node) -> dict[str, float | Matrix]:
        """{NAME: number or matrix}."""
        if node.id != "mapping":
            raise InputError("param is not a mapping", place=self.place(node), hint="param: {sigma: 2}")
        return self.parameter_values({key: value for key, _, value in pairs_of(node)})

    def parameter_values(self, parts: dict[str, Node]) -> dict[str, float | Matrix]:
        """Each a number or a matrix; all errors at once."""
        values: dict[str, float | Matrix] = {}
        errors: list[AttnError] = []
        for name, node in parts.items():
            try:
                if node.id == "scalar" and looks_like_number(node.value):
                    values[name] = parse_number(node.value, place=self.place(node))
                else:
                    values[name] = self.only_matrix(name, node)
            except AttnError as error:
                errors += error.errors()
        raise_all(errors)
        return values

    def masks(self, field: Field, node: Node) -> list[MaskChoice]:
        """One mask, or a list of them."""
        if node.id != "sequence":
            return self.mask(node)
        choices: list[MaskChoice] = []
        errors: list[AttnError] = []
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
            raise InputError("a mask is a mapping of one name", place=place,
                             hint="several masks are a list: [causal, {keep: keep.csv}]")
        ((name, _, argument),) = pairs_of(node)
        entry = MASKS.find(name, place=place)
        takes = entry.facts.get("takes")
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

    def mask_numbers(self, name: str, node: Node) -> list[Any]:
        """A list of words or numbers as written, or a list of such lists."""
        if all(item.id == "sequence" for item in node.value) and node.value:
            return [self.mask_numbers(name, item) for item in node.value]
        return [self.word(name, item, f"{{{name}: [2, 0]}}") for item in node.value]

    # --- the hand's numbers -------------------------------------------------------------------------------------

    def expect(self, field: Field, node: Node) -> dict[str, Hand]:
        """{STEP: numbers, a file, or {values, decimals, significant}}."""
        if node.id != "mapping":
            raise InputError("expect is not a mapping of steps", place=self.place(node),
                             hint="expect: {weights: [[0.5, 0.5]]}")
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
            raise InputError(f"{address}: decimals and significant are both given", place=self.place(node),
                             hint="one of them says how many places are meant")
        places = {
            key: self.integer(Field(key, "integer", "", "", low=int(key == "significant"), high=400), value)
            for key, value in parts.items() if key != "values"
        }  # fmt: skip
        return Hand(self.only_matrix(address, parts["values"], blanks=True), **places, place=self.place(node))


_MASK_HINT = "a mask is written causal, window:2,0, {window: [2, 0]}, {lengths: [3, 2]} or {keep: [[1, 0], [1, 1]]}"


def _as_word(node: Node) -> str:
    """What was probably meant by an unquoted special token: [CLS] is a list in YAML."""
    if node.id == "sequence" and all(item.id == "scalar" for item in node.value):
        return f"'[{', '.join(item.value for item in node.value)}]'"
    if node.id == "mapping" and len(node.value) == 1 and node.value[0][1].id == "scalar":
        return f"'{node.value[0][0].value}: {node.value[0][1].value}'"
    return "it"
