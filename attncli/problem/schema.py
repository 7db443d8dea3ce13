"""JSON Schema (2020-12) of problem files, made from the table of settings and the registries at the time of asking."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from attncli.pipeline.masking import ALIGNMENTS, MaskEntry
from attncli.pipeline.masks import MASKS
from attncli.pipeline.scores import SCORES, ScoreEntry
from attncli.pipeline.trace import NAMED_STEPS
from attncli.problem.joining import JOINS
from attncli.problem.settings import FIELDS, LATER_STEPS, Field, hidden_value, nonzero, positive
from attncli.problem.values import JOINING

Schema = dict[str, Any]

_ARITHMETIC = r"^\s*(?=.*[0-9])(?:[-+−.0-9eE()*/^ √]|sqrt)+\s*$"
_INFINITE = r"^[-+−]?\.?(?:[iI][nN][fF](?:[iI][nN][iI][tT][yY])?|[nN][aA][nN]|∞)$"


def schema() -> Schema:
    """The schema, as plain dicts and lists."""
    members = {name: _field(field) for name, field in FIELDS.items() if field.in_file and field.kind != "problems"}
    lists = {
        field.name: {"description": field.help, "type": "array", "minItems": 1, "items": _ref("member")}
        for field in FIELDS.values()
        if field.kind == "problems"
    }
    starts = ("X", "Q", *LATER_STEPS, *lists)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "attncli problem",
        "description": "An attention problem: its matrices, its rules, and the numbers of a hand calculation.",
        **_object(_both_spellings({**members, **lists})),
        "anyOf": [{"required": [name]} for name in starts],
        "not": {"anyOf": [{"required": ["scale", "temperature"]}, {"required": list(lists)}]},
        "$defs": {**_definitions(), "member": _object(_both_spellings(members))},
    }


def _field(field: Field) -> Schema:
    """The schema of one key, with its help and default as description."""
    default = f" (default: {field.default})" if field.default else ""
    return {"description": field.help + default, **_KINDS[field.kind](field)}


def _object(properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _both_spellings(properties: Schema) -> Schema:
    """Options are known with `_` and with `-`."""
    dashed = {name.replace("_", "-"): part for name, part in properties.items() if "_" in name}
    return properties | dashed


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _either(*parts: Schema) -> Schema:
    return {"anyOf": list(parts)}


def _definitions() -> Schema:
    number = _either({"type": "number"}, {"type": "string", "pattern": f"{_ARITHMETIC}|{_INFINITE}"})
    word = {"type": "string", "minLength": 1, "not": {"pattern": _ARITHMETIC}}
    blank: Schema = {"enum": [None, "", "~", "_", "?"]}
    return {
        "number": number,
        "numbers": {"type": "array", "minItems": 1,
                    "items": _either(_ref("number"), {"type": "boolean"}, _ref("numbers"))},
        "grid": {"type": "array", "minItems": 1, "items": _either(_ref("number"), blank, _ref("grid"))},
        "file": _either(word, {**_object({"file": word, "name": {"type": "string"}}), "required": ["file"]}),
        "table": _either(_ref("numbers"), _ref("file"),
                         {**_object({"identity": {"type": "integer", "minimum": 1}}), "required": ["identity"]}),
        "matrix": _either(_ref("table"), {
            **_object({"stage": {"type": "string"}, "step": {"type": "string", "pattern": _step()}}),
            "required": ["stage", "step"],
        }, *({
            **_object({how: {"type": "array", "minItems": 2, "items": {"type": "string"}},
                       **({"times": _ref("number")} if join.factor else {})}),
            "required": [how],
        } for how, join in JOINS.items())),
        "hand": _either(_ref("grid"), _ref("file"), {
            **_object({
                "values": _either(_ref("grid"), _ref("file")),
                "decimals": {"type": "integer", "minimum": 0},
                "significant": {"type": "integer", "minimum": 1},
            }),
            "required": ["values"],
            "not": {"required": ["decimals", "significant"]},
        }),
        "mask": _mask(),
    }  # fmt: skip


def _step(prefix: str = "") -> str:
    """A step's name, or a part of it such as weights[1,2]."""
    return rf"^{prefix}(?:{'|'.join(NAMED_STEPS)})(?:\[\s*[0-9]+(?:\s*,\s*[0-9]+)*\s*\])?$"


def _number(field: Field) -> Schema:
    """A number by its rule; one that is written as arithmetic is only looked at, not computed."""
    rules: dict[Any, Schema] = {positive: {"type": "number", "exclusiveMinimum": 0},
                                nonzero: {"type": "number", "not": {"const": 0}}}  # fmt: skip
    plain = rules.get(field.check, {"type": "number"})
    texts = f"{_ARITHMETIC}|^[-−]\\.?(?:inf|Inf|INF|∞)$" if field.check is hidden_value else _ARITHMETIC
    return _either(plain, {"type": "string", "pattern": texts})


def _integer(field: Field) -> Schema:
    limits = {"minimum": field.low, "maximum": field.high}
    return {"type": "integer", **{name: limit for name, limit in limits.items() if limit is not None}}


def _choice(field: Field) -> Schema:
    names = field.choices() if field.choices else []
    if field.family is not None:
        return _either({"enum": names}, {"type": "string", "pattern": f"^(?:{'|'.join(names)}):"})
    return {"enum": names} if names else {"type": "string"}


def _score(field: Field) -> Schema:
    return _either({"enum": SCORES.names()}, *(_score_with_parameters(entry) for entry in SCORES))


def _score_with_parameters(entry: ScoreEntry) -> Schema:
    """{name: gaussian, sigma: 2}: numbers where the default is one, matrices elsewhere."""
    parameters = {
        name: {"enum": [*entry.words[name]]}
        if name in entry.words
        else _ref("number" if isinstance(default, float | int) else "table")
        for name, default in entry.parameters.items()
    }
    required = [name for name, default in entry.parameters.items() if default is inspect.Parameter.empty]
    return {
        "description": f"{entry.help} f(q, k) = {entry.formula}",
        **_object({"name": {"const": entry.name}, **parameters}),
        "required": ["name", *required],
    }


def _mask() -> Schema:
    """A text such as window:2,0, or a mapping of one name."""
    names = "|".join(MASKS.names())
    return _either(
        {"type": "string", "pattern": rf"^\s*(?:{names}|none)\s*(?::.*)?$"},
        {"type": "string", "pattern": r"[&|!()]|\b(?:and|or|not)\b", "description": "masks joined by & | ! ( )"},
        {
            **_object({name: _either(_ref("mask"), {"type": "array", "items": _ref("mask")}) for name in JOINING}),
            "minProperties": 1,
            "maxProperties": 1,
        },
        {**_object({entry.name: _mask_argument(entry) for entry in MASKS}), "minProperties": 1, "maxProperties": 1},
    )


def _mask_argument(entry: MaskEntry) -> Schema:
    takes = entry.takes
    about = {"description": f"{entry.help} Visible: {entry.formula}"}
    if not takes:
        return {**about, "enum": [None, *ALIGNMENTS]}
    if takes == "array":
        return {**about, **_ref("table")}
    numbers = {"type": "array", "minItems": 1, "items": {"type": ["number", "string", "array"]}}
    plain = _either({"type": "number"}, {"type": "string"}, numbers)
    return {**about, **(_either(plain, _ref("table")) if "array" in takes else plain)}


_TEXT: Schema = {"type": ["string", "number", "boolean"]}

_KINDS: dict[str, Callable[[Field], Schema]] = {
    "matrix": lambda field: _ref("matrix"),
    "number": _number,
    "numbers": lambda field: _either(*([{"enum": field.choices()}] if field.choices else []), {"type": "number"},
                                     {"type": "string"}, _ref("table")),
    "parts": lambda field: _either(_ref("table"), {
        "type": "object", "minProperties": 1, "additionalProperties": False,
        "properties": {name: _either(_ref("number"), _ref("table")) for name in (field.choices or list)()},
    }),
    "integer": _integer,
    "choice": _choice,
    "flag": lambda field: {"type": "boolean"},
    "text": lambda field: _TEXT,
    "score": _score,
    "parameters": lambda field: {"type": "object", "additionalProperties": _either(_ref("number"), _ref("table"))},
    "masks": lambda field: _either(_ref("mask"), {"type": "array", "items": _ref("mask")}),
    "tokens": lambda field: _either(
        {"type": "array", "items": {"type": ["string", "number", "boolean", "null"]}},
        _TEXT,
        {**_object({"file": {"type": "string"}}), "required": ["file"]},
    ),
    "steps": lambda field: _either(
        {"type": "string", "minLength": 1},
        {"type": "array", "items": _either({"const": "all"}, {"type": "string", "pattern": _step(r"(?:.+\.)?")})},
    ),
    "expect": lambda field: {
        "type": "object", "patternProperties": {_step(r"(?:.+\.)?"): _ref("hand")}, "additionalProperties": False,
    },
}  # fmt: skip
