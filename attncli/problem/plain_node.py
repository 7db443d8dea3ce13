"""From YAML nodes to the normal forms: single values, words, steps and matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attncli.errors import AttnError, InputError, Place, raise_all, unknown
from attncli.lazy import np
from attncli.pipeline.scores import words_of
from attncli.pipeline.trace import parse_address
from attncli.problem.convert_text import numbers_from_text, word_of
from attncli.problem.formats.base import check_room
from attncli.problem.joining import JOINS
from attncli.problem.matrix import Matrix
from attncli.problem.numbers import looks_like_number, parse_number, quote
from attncli.problem.reading import Reading, check_step, split_steps, split_words
from attncli.problem.settings import Field, check_choice, check_integer, check_number
from attncli.problem.values import StageRef, placed
from attncli.problem.yamlmatrix import matrix_from_node
from attncli.problem.yamltree import Node, is_null, is_plain, pairs_of, place_of, scalar_value
from attncli.registry import SETTINGS

_MATRIX_FORMS = ({"file", "name"}, {"identity"}, {"stage", "step"}, *({how, "times"} for how in JOINS))
_MATRIX_KEYS = set[str]().union(*_MATRIX_FORMS)
_LARGEST = 2**24  # rows of an identity


class PlainNodes:
    """The converters of one file: its name for places, and how files that it names are read."""

    def __init__(self, file: str, reading: Reading) -> None:
        self.file = file
        self.reading = reading
        self.kinds: dict[str, Callable[[Field, Node], Any]] = {
            "matrix": self.matrix, "number": self.number, "integer": self.integer, "choice": self.choice,
            "flag": self.flag, "text": self.text, "tokens": self.tokens, "steps": self.steps,
            "numbers": self.numbers, "parts": self.parts,
        }  # fmt: skip

    def value(self, field: Field, node: Node) -> Any:
        """The normal form of what stands at a key. Raises AttnError, with places, for everything that is wrong."""
        if is_null(node):
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
            raise InputError(
                f"{field.name} must be true or false, not {quote(text)}",
                place=self.place(node),
                hint="yes, no, on and off are words in YAML 1.2",
            )
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
                errors.append(
                    InputError(
                        f"{field.name}: token {number} is {kind}: write {_as_word(item)} in quotes",
                        place=self.place(item),
                    )
                )
            elif is_plain(item) and not item.value:
                errors.append(
                    InputError(
                        f"{field.name}: token {number} is empty",
                        place=self.place(item),
                        hint="write '' for an empty label",
                    )
                )
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
        return self.only_matrix(field.name, node) if field.name in SETTINGS else self.matrix_or_stage(field.name, node)

    def numbers(self, field: Field, node: Node) -> float | Matrix | str:
        """One of the field's names, a number, or a matrix."""
        if node.id != "scalar":
            return self.only_matrix(field.name, node)
        place = self.place(node)
        with placed(place):
            return numbers_from_text(field, str(node.value), self.reading, place)

    def parts(self, field: Field, node: Node) -> Matrix | dict[str, float | Matrix | str]:
        """A matrix, or {NAME: number or matrix} of the field's names."""
        names = field.choices() if field.choices else []
        if node.id != "mapping" or {key for key, _, _ in pairs_of(node)} <= _MATRIX_KEYS:
            return self.only_matrix(field.name, node)
        for key, at, _ in pairs_of(node):
            if key not in names:
                raise unknown(field.name, key, names, place=self.place(at))
        return self.parameter_values({key: value for key, _, value in pairs_of(node)})

    def parameter_values(self, parts: dict[str, Node]) -> dict[str, float | Matrix | str]:
        """Each a number, a matrix or a word; all errors at once."""
        values: dict[str, float | Matrix | str] = {}
        errors: list[AttnError] = []
        for name, node in parts.items():
            try:
                if words := words_of(name):
                    values[name] = word_of(name, self.word(name, node, next(iter(words))), words, self.place(node))
                elif node.id == "scalar" and looks_like_number(node.value):
                    values[name] = parse_number(node.value, place=self.place(node))
                else:
                    values[name] = self.only_matrix(name, node)
            except AttnError as error:
                errors += error.errors()
        raise_all(errors)
        return values

    def matrix_or_stage(self, name: str, node: Node, *, blanks: bool = False) -> Matrix | StageRef:
        """The same, for what is not a field: a score's parameter, a mask's table, a step's hand numbers."""
        if node.id == "sequence":
            return matrix_from_node(node, self.file, blanks=blanks)
        if node.id == "mapping":
            return self.matrix_mapping(name, node, blanks=blanks)
        value, place = scalar_value(node), self.place(node)
        if is_null(node):
            raise InputError(
                f"{name} has no value",
                place=place,
                hint=f"write its numbers, as in {name}: [[1, 0]], or leave {name} out",
            )
        if not isinstance(value, str) or looks_like_number(value):
            raise InputError(
                f"{name} is the single value {quote(node.value)}, not a matrix",
                place=place,
                hint=f"write {name}: [[{node.value}]], or the name of a file",
            )
        return self.reading.matrix(value, place, blanks=blanks)

    def matrix_mapping(self, name: str, node: Node, *, blanks: bool = False) -> Matrix | StageRef:
        """{file: F}, {file: F, name: N}, {identity: N} or {stage: S, step: T}."""
        parts = {key: value for key, _, value in pairs_of(node)}
        place = self.place(node)
        known = _MATRIX_FORMS
        if not parts or not any(set(parts) <= form for form in known) or set(parts) in ({"name"}, {"times"}):
            odd = next((key for key in parts if not any(key in form for form in known)), None)
            what = f"{name}: unknown key {odd!r}" if odd else f"{name} is neither a file nor an identity nor a stage"
            raise InputError(
                what, place=place, hint="{file: w.npz, name: W_K}, {identity: 4} or {stage: encoder, step: output}"
            )
        how = next((key for key in parts if key in JOINS), None)
        if how is not None:
            return self.joined_stages(name, how, parts, place)
        words = {key: self.word(f"{name}: {key}", value, "{file: w.npz, name: W_K}") for key, value in parts.items()}
        if "identity" in words:
            field = Field("identity", "integer", "", "", low=1, high=_LARGEST)
            size = check_integer(field, parse_number(words["identity"], place=place), words["identity"], place)
            return _identity(size, place)
        if "stage" in words or "step" in words:
            if set(words) != {"stage", "step"}:
                raise InputError(
                    f"{name}: stage and step go together", place=place, hint="{stage: encoder, step: output}"
                )
            with placed(self.place(parts["step"])):
                parse_address(words["step"])
            return StageRef(words["stage"], words["step"], place)
        spec = words["file"] + (f"::{words['name']}" if "name" in words else "")
        return self.reading.matrix(spec, place, blanks=blanks)

    def joined_stages(self, name: str, how: str, parts: dict[str, Node], place: Place) -> StageRef:
        """{minus: [STAGE, STAGE], times: NUMBER} and the like: steps of earlier stages in one matrix."""
        join, node = JOINS[how], parts[how]
        steps = join.steps_of(name)
        if steps is None:
            raise InputError(f"{name} cannot be a {how} of stages", place=place, hint=join.example)
        items = node.value if node.id == "sequence" else []
        if len(items) < 2 or (join.count is not None and len(items) != join.count):
            told = "two" if join.count else "two or more"
            raise InputError(f"{how} takes {told} stages", place=self.place(node), hint=join.example)
        if "times" in parts and not join.factor:
            raise InputError(f"{how} takes no times", place=self.place(parts["times"]), hint=join.example)
        times = 1.0
        if "times" in parts:
            where = self.place(parts["times"])
            times = parse_number(self.word("times", parts["times"], join.example), place=where)
            if not np.isfinite(times):
                raise InputError("times is not finite", place=where, hint=join.example)
        used = []
        for item in items:
            stage = self.word(f"{name}: {how}", item, join.example)
            used += [StageRef(stage, step, self.place(item)) for step in steps]
        return StageRef(used[-1].stage, used[-1].step, place, how, times, tuple(used))

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
            raise InputError(
                f"{name} is a mapping without `file` alone",
                place=self.place(node),
                hint=f"{name}: {{file: tokens.txt}}",
            )
        return self.word(f"{name}: file", parts["file"], "{file: tokens.txt}")


def _identity(size: int, place: Place) -> Matrix:
    """The rows of an identity overlap in one row of zeros around a 1, so that it takes no more memory than that."""
    check_room(16 * size, place)
    row = np.zeros(2 * size - 1)
    row[size - 1] = 1
    array = np.lib.stride_tricks.sliding_window_view(row, size)[::-1]
    return Matrix(array, place=place, spelling=lambda: [["1" if cell else "0" for cell in row] for row in array])


def _as_word(node: Node) -> str:
    """What was probably meant by an unquoted special token: [CLS] is a list in YAML."""
    if node.id == "sequence" and all(item.id == "scalar" for item in node.value):
        return f"'[{', '.join(item.value for item in node.value)}]'"
    if node.id == "mapping" and len(node.value) == 1 and node.value[0][1].id == "scalar":
        return f"'{node.value[0][0].value}: {node.value[0][1].value}'"
    return "it"
