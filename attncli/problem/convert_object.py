"""From Python objects to the normal forms: one function for each kind of keyword."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from typing import Any

from attncli.errors import AttnError, InputError, UsageError, nearest, raise_all, unknown
from attncli.lazy import np
from attncli.pipeline.masks import MASKS, MaskSpec, mask_spec
from attncli.pipeline.scores import SCORES
from attncli.problem.build import Layer
from attncli.problem.convert_text import masks_from_text, numbers_from_text, parameter_from_text
from attncli.problem.matrix import Matrix
from attncli.problem.numbers import parse_number
from attncli.problem.reading import READ_OPTIONS, Reading, check_words, read_options, split_words
from attncli.problem.settings import Field, check_choice, check_integer, check_number, keywords
from attncli.problem.values import JOINING, MaskChoice, ScoreChoice, Setting, placed


def layer_from_keywords(values: Mapping[str, Any]) -> Layer:
    """The settings of a call from Python, by field name; None was not given.

    Raises UsageError for a keyword that does not exist; what is wrong with a value is collected in the layer.
    """
    known = keywords()
    layer = Layer()
    for keyword in values:
        if keyword not in known:
            close = nearest(keyword, known)
            hint = f"did you mean {close!r}?" if close else f"known: {', '.join(known)}"
            raise UsageError(f"unknown keyword {keyword!r}", hint=hint)
    # How files are read has to be known before the first of them is.
    for keyword in READ_OPTIONS:
        if keyword in values:
            convert(known[keyword], keyword, values[keyword], Reading(), layer)
    reading = Reading(options=read_options(layer.settings))
    for keyword, value in values.items():
        if keyword not in READ_OPTIONS:
            convert(known[keyword], keyword, value, reading, layer)
    return layer


def convert(field: Field, keyword: str, value: Any, reading: Reading, layer: Layer) -> None:
    """Add the setting to the layer, or what is wrong with it. keyword: what messages call it."""
    if value is None:
        return
    try:
        with placed(keyword):
            layer.settings[field.name] = Setting(_KINDS[field.kind](field, value, reading), keyword)
    except AttnError as error:
        layer.errors += error.errors()
        layer.broken.add(field.name)


def matrix_from_object(name: str, value: Any, reading: Reading) -> Matrix:
    """An array, nested lists, a path, an inline text or a Matrix. Raises InputError for what holds no real numbers."""
    if isinstance(value, Matrix):
        return value
    if isinstance(value, str | PathLike):
        return reading.matrix(fspath(value), name)
    stored = None
    try:
        value, stored = _from_tensor(value)
        array = np.asarray(value)
    except ValueError:
        raise InputError(f"{name} has rows of unequal length", place=name) from None
    except (TypeError, RuntimeError) as error:  # a tensor in a list, or one that is sparse or without data
        what = f"{name} cannot become an array: {str(error).splitlines()[0]}"
        raise InputError(what, place=name, hint="give a dense tensor, such as torch.stack(list)") from None
    if hasattr(value, "mask") and np.ma.is_masked(value):
        raise InputError(
            f"{name} is a masked array, of which only the numbers would be used",
            place=name,
            hint='fill it, and say what is hidden as mask={"keep": array}',
        )
    if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        if array.size == 0 and array.dtype.kind == "O":
            array = array.astype(np.float64)
        else:
            raise InputError(f"{name} is not an array of real numbers, but of {array.dtype}", place=name)
    return Matrix(array, stored=stored)


def _from_tensor(value: Any) -> tuple[Any, str | None]:
    """A tensor of PyTorch as an array, and its type where NumPy has none such, read as float32; all else as it is.

    It is told by what it has, not by its class: PyTorch is not imported. Raises TypeError and RuntimeError as it does.
    """
    if not (hasattr(value, "detach") and hasattr(value, "is_floating_point")):
        return value, None
    kind = str(value.dtype).removeprefix("torch.")
    if value.is_floating_point() and kind not in ("float64", "float32", "float16"):
        return value.float().numpy(force=True), kind
    return value.numpy(force=True), None


def _matrix(field: Field, value: Any, reading: Reading) -> Matrix:
    return matrix_from_object(field.name, value, reading)


def _real(field: Field, value: Any) -> float:
    if isinstance(value, str):
        return parse_number(value)
    return _float(field.name, value)


def _float(name: str, value: Any) -> float:
    if isinstance(value, bool) or not hasattr(value, "__float__") or np.ndim(value) != 0:
        raise UsageError(f"{name} must be a number, not {value!r}")
    return float(value)


def _number(field: Field, value: Any, reading: Reading) -> float:
    return check_number(field, _real(field, value), str(value), None)


def _integer(field: Field, value: Any, reading: Reading) -> int:
    return check_integer(field, _real(field, value), str(value), None)


def _choice(field: Field, value: Any, reading: Reading) -> Any:
    if field.name == "normalizer" and callable(value):
        return value
    if field.name == "dtype" and not isinstance(value, str):
        value = _dtype_name(value)
    if isinstance(value, bool):
        value = "yes" if value else "no"
    return check_choice(field, str(value), None)


def _dtype_name(value: Any) -> str:
    """What a dtype is called: one of NumPy, or of PyTorch, such as torch.float32."""
    text = str(value)
    return text.removeprefix("torch.") if text.startswith("torch.") else np.dtype(value).name


def _numbers(field: Field, value: Any, reading: Reading) -> float | Matrix | str:
    if isinstance(value, str) or (not isinstance(value, Matrix | PathLike) and np.ndim(value) == 0):
        text = value if isinstance(value, str) else _float(field.name, value)
        return numbers_from_text(field, text, reading, field.name)
    return matrix_from_object(field.name, value, reading)


def _parts(field: Field, value: Any, reading: Reading) -> Matrix | dict[str, float | Matrix | str]:
    if not isinstance(value, Mapping):
        return matrix_from_object(field.name, value, reading)
    names = field.choices() if field.choices else []
    odd = next((name for name in value if name not in names), None)
    if odd is not None:
        raise unknown(field.name, str(odd), names)
    return {name: _parameter(name, each, reading) for name, each in value.items()}


def _flag(field: Field, value: Any, reading: Reading) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{field.name} must be True or False, not {value!r}")
    return value


def _text(field: Field, value: Any, reading: Reading) -> str:
    return str(value)


def _tokens(field: Field, value: str | Sequence[str], reading: Reading) -> list[str]:
    if isinstance(value, str):
        return reading.lines(value[1:], None) if value.startswith("@") else split_words(value)
    return check_words([str(word) for word in value])


def _score(field: Field, value: Any, reading: Reading) -> ScoreChoice:
    """A name, ("gaussian", {"sigma": 2}), {"name": "gaussian", "sigma": 2}, or a callable."""
    parameters: Mapping[str, Any] = {}
    if isinstance(value, Mapping):
        parameters = {name: each for name, each in value.items() if name != "name"}
        value = value.get("name")
    elif isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], Mapping):
        value, parameters = value
    if callable(value):
        return ScoreChoice(value, _parameters(field, parameters, reading), "score")
    if not isinstance(value, str):
        raise UsageError(
            f"score must be a name, a name with parameters, or a function, not {value!r}",
            hint='as in {"name": "gaussian", "sigma": 2}',
        )
    return ScoreChoice(SCORES.find(value).name, _parameters(field, parameters, reading), "score")


def _parameters(field: Field, values: Mapping[str, Any], reading: Reading) -> dict[str, float | Matrix | str]:
    if not isinstance(values, Mapping):
        raise UsageError(f"{field.name} must be a mapping, not {values!r}", hint='as in {"sigma": 2}')
    return {name: _parameter(name, value, reading) for name, value in values.items()}


def _parameter(name: str, value: Any, reading: Reading) -> float | Matrix | str:
    if isinstance(value, str):
        return parameter_from_text(value, reading, name)
    if not isinstance(value, Matrix | PathLike) and np.ndim(value) == 0:
        return _float(name, value)
    return matrix_from_object(name, value, reading)


def _masks(field: Field, value: Any, reading: Reading) -> list[MaskChoice]:
    """One mask or a list: texts, predicates, or names with arguments: ("window", [2, 0]), {"keep": array}."""
    table = isinstance(value, list) and value and all(isinstance(row, list) for row in value)
    items = value if isinstance(value, list) and not table else [value]
    choices: list[MaskChoice] = []
    errors: list[AttnError] = []
    for item in items:
        try:
            choices += _mask(item, reading)
        except AttnError as error:
            errors += error.errors()
    raise_all(errors)
    return choices


def _mask(item: Any, reading: Reading) -> list[MaskChoice]:
    if isinstance(item, str):
        return masks_from_text([item], reading, "mask")
    if isinstance(item, MaskChoice):
        return [item]
    if isinstance(item, MaskSpec):
        raise UsageError("mask: give its name and argument, not the core's MaskSpec")
    if callable(item):
        return [MaskChoice(item, place="mask")]
    if isinstance(item, list) or hasattr(item, "__array__"):
        hint = '{"keep": array} (True = visible) or {"block": array} (True = hidden)'
        raise UsageError("an array may mean two things", hint=hint)
    pair = next(iter(item.items())) if isinstance(item, Mapping) and len(item) == 1 else item
    if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)):
        from reprlib import repr as shortened

        hint = 'as in "causal", ("window", [2, 0]) or {"keep": array}; several are a list'
        raise UsageError(f"{shortened(item)} is not a mask", hint=hint)
    name, argument = pair
    if name in JOINING:
        items = argument if isinstance(argument, list) else [argument]
        return [MaskChoice(name, place="mask", parts=tuple(part for item in items for part in _mask(item, reading)))]
    takes = MASKS.find(name).takes or ""
    if isinstance(argument, str) and takes != "array":
        return masks_from_text([f"{name}:{argument}"], reading, "mask")
    if "array" in takes and (takes == "array" or isinstance(argument, Matrix | PathLike)):
        return [MaskChoice(name, matrix_from_object(name, argument, reading), place="mask")]
    argument = np.asarray(argument).tolist() if hasattr(argument, "__array__") else argument
    numbers = list(argument) if isinstance(argument, list | tuple | range) else [argument]
    mask_spec(name, numbers)
    return [MaskChoice(name, numbers, place="mask")]


_KINDS: dict[str, Callable[[Field, Any, Reading], Any]] = {
    "matrix": _matrix, "number": _number, "integer": _integer, "choice": _choice, "flag": _flag, "text": _text,
    "score": _score, "parameters": _parameters, "masks": _masks, "tokens": _tokens,
    "numbers": _numbers, "parts": _parts,
}  # fmt: skip
