"""All that a user can say, in one table, from which come options, keys of problem files, Python keywords and schema."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from attncli.errors import InputError, Place, UsageError, nearest, shortened, unknown
from attncli.extensions import installed
from attncli.registry import SETTINGS, Setting

# What a check says of a number: what is wrong, and what mends it; None if nothing is.
Complaint = tuple[str, str] | None


def finite(number: float) -> Complaint:
    return None if math.isfinite(number) else ("must be a finite number", "0 and negative numbers are fine")


def nonzero(number: float) -> Complaint:
    if not math.isfinite(number):
        return "must be a finite number", "it divides the scores: 1 changes nothing"
    if number == 0 or not math.isfinite(1 / number):
        return "must not be 0, since it divides the scores", "for all weight on the largest score: --normalizer hardmax"
    return None


def positive(number: float) -> Complaint:
    if math.isfinite(number) and number > 0:
        return None
    return "must be a finite number above 0", "leave it out for scores without a cap"


def tolerance(number: float) -> Complaint:
    return None if 0 <= number < math.inf else ("must be 0 or more, and finite", "as 1e-6")


def hidden_value(number: float) -> Complaint:
    if math.isfinite(number) or number == -math.inf:
        return None
    return "must be -inf or a finite number", "-inf hides completely, a number such as -1e6 nearly"


def _scores() -> list[str]:
    from attncli.pipeline.scores import SCORES

    return SCORES.names()


def _normalizers() -> list[str]:
    from attncli.pipeline.normalizers import NORMALIZERS

    return NORMALIZERS.names()


def _read_normalizer(name: str, place: Place | str | None) -> object:
    from attncli.pipeline.normalizers import named_normalizer

    return named_normalizer(name, place)


def _masks() -> list[str]:
    from attncli.pipeline.masks import MASKS

    return MASKS.names()


def _profiles() -> list[str]:
    from attncli.problem.profiles import PROFILES

    return list(PROFILES)


# Names that are offered by registries of floors above this one; `report` and the formats add theirs when loaded.
OFFERED: dict[str, Callable[[], list[str]]] = {}


def _offered(what: str) -> Callable[[], list[str]]:
    return lambda: OFFERED[what]() if what in OFFERED else []


def _fixed(*names: str) -> Callable[[], list[str]]:
    return lambda: list(names)


@dataclass(eq=False, repr=False)
class Field:
    """One thing that can be said.

    name: the key in problem files. kind: matrix, number, integer, choice, flag, switch (a flag that may be denied),
    text, score, parameters, masks, tokens, steps, expect or problems; each kind has one normal form and three
    converters. flag, metavar, help, panel, default: what --help shows; flag is None where there is no option.
    keyword: the Python name, "" where there is none.
    choices: the names that it may take, read anew each time, so that what was registered at run time is among them.
    check: a number's own rule. low, high: an integer's. in_file: whether it may stand in a problem file.
    family: reads a name with its parameter, as top:2, where names may have one; raises InputError.
    common: whether --help tells it; --help-all tells all.
    """

    name: str
    kind: str
    help: str
    panel: str
    flag: str | None = None
    metavar: str = ""
    default: str = ""
    keyword: str = ""
    choices: Callable[[], list[str]] | None = None
    check: Callable[[float], Complaint] | None = None
    low: int | None = None
    high: int | None = None
    repeatable: bool = False
    in_file: bool = True
    family: Callable[[str, Place | str | None], object] | None = None
    common: bool = False

    @cached_property
    def python(self) -> str:
        """The Python keyword: the flag's name."""
        return self.keyword or (self.flag or "").lstrip("-").replace("-", "_")

    @property
    def said_as(self) -> str:
        """How messages name it where it was not said in a file."""
        return self.flag or self.name


def _matrix(name: str, help: str, flag: str | None = None, *, keyword: str = "", common: bool = False) -> Field:
    return Field(name, "matrix", help, "Matrices", flag, "MATRIX", keyword=keyword, common=common)


_READ, _RULES, _SHOW = "Reading", "Attention", "Showing and writing"

_TABLE = (
    _matrix("X", "the data: queries come from it, and in self-attention keys and values", keyword="X"),
    _matrix("Y", "the data of the keys and values in cross-attention", keyword="Y"),
    _matrix("Q", "queries", keyword="Q"),
    _matrix("K", "keys", keyword="K"),
    _matrix("V", "values", keyword="V"),
    _matrix("W_Q", "weight matrix of the queries; left out: identity", "--wq", common=True),
    _matrix("W_K", "weight matrix of the keys; left out: identity", "--wk", common=True),
    _matrix("W_V", "weight matrix of the values; left out: identity", "--wv", common=True),
    _matrix("W_O", "weight matrix of the output; left out: identity", "--wo", common=True),
    _matrix("b_Q", "bias of the queries' projection; left out: 0", "--bq"),
    _matrix("b_K", "bias of the keys' projection; left out: 0", "--bk"),
    _matrix("b_V", "bias of the values' projection; left out: 0", "--bv"),
    _matrix("b_O", "bias of the output's projection; left out: 0", "--bo"),
    _matrix("W_QKV", "packed weights, E x 3E or 3E x E as the weight layout says, or (H + 2G) d wide", "--wqkv"),
    _matrix("b_QKV", "packed biases of the same", "--bqkv"),
    _matrix("past_k", "keys of earlier steps, put before K", "--past-k"),
    _matrix("past_v", "values of earlier steps, put before V", "--past-v"),
    _matrix("bias", "added to the scores after scaling; -inf hides a key", "--bias"),
    _matrix("scores", "begin at these raw scores instead of Q and K", "--scores"),
    _matrix("kernel", "begin at these kernel values", "--kernel"),
    _matrix("scaled", "begin at these scaled scores", "--scaled"),
    _matrix("masked", "begin at these masked scores; -inf is a hidden key", "--masked"),
    _matrix("weights", "begin at these attention weights", "--weights"),
    Field(
        "attention",
        "choice",
        "where queries, keys and values come from",
        _RULES,
        default="from the matrices",
        choices=_fixed("self", "cross", "attend"),
    ),
    Field(
        "layout",
        "choice",
        "a token is a row or a column",
        _RULES,
        "--layout",
        default="rows",
        choices=_fixed("rows", "columns"),
        common=True,
    ),
    Field(
        "weight_layout",
        "choice",
        "in-out: X W in rows; out-in: stored transposed, as framework layers do, and W X in columns",
        _RULES,
        "--weight-layout",
        default="in-out for rows, out-in for columns",
        choices=_fixed("in-out", "out-in"),
    ),
    Field(
        "axes",
        "text",
        "the order of the axes of Q, K, V, past keys and output: b sequence, h head, t token, d feature",
        _READ,
        "--axes",
        "LETTERS",
        "bhtd, btd, td",
    ),
    Field("heads", "integer", "split Q, K and V into H heads", _RULES, "--heads", "H", "1", low=1, common=True),
    Field(
        "kv_heads",
        "integer",
        "key heads, where fewer than query heads; query head h uses key head floor(h G / H)",
        _RULES,
        "--kv-heads",
        "G",
        "H",
        low=1,
    ),
    Field(
        "score",
        "score",
        "the score function f(q, k)",
        _RULES,
        "--score",
        "NAME",
        "scaled-dot",
        choices=_scores,
        common=True,
    ),
    Field(
        "param",
        "parameters",
        "a parameter of the score",
        _RULES,
        "--param",
        "NAME=VALUE",
        repeatable=True,
        common=True,
    ),
    Field(
        "scale",
        "numbers",
        "multiplies the scores; one, one a head or one a query",
        _RULES,
        "--scale",
        "S",
        "1/sqrt(d_k) for scaled-dot, else 1",
        check=finite,
        common=True,
    ),
    Field(
        "temperature",
        "number",
        "divides the scores, on top of the default scale",
        _RULES,
        "--temperature",
        "T",
        "1",
        check=nonzero,
    ),
    Field(
        "d_k",
        "integer",
        "the key width that the default scale is made of, where the problem begins at the scores",
        _RULES,
        "--d-k",
        "N",
        "from K",
        low=1,
    ),
    Field(
        "softcap",
        "number",
        "soft cap C tanh(s / C), after scaling and before bias and mask",
        _RULES,
        "--softcap",
        "C",
        "none",
        check=positive,
    ),
    Field(
        "mask",
        "masks",
        "which keys a query sees",
        _RULES,
        "--mask",
        "SPEC",
        "none",
        choices=_masks,
        repeatable=True,
        common=True,
    ),
    Field(
        "mask_value",
        "number",
        "what a hidden score becomes, in rows that see something",
        _RULES,
        "--mask-value",
        "V",
        "-inf",
        check=hidden_value,
    ),
    Field(
        "empty_rows",
        "choice",
        "what a query gets that sees no key",
        _RULES,
        "--empty-rows",
        default="zero",
        choices=_fixed("zero", "nan", "uniform", "error"),
    ),
    Field(
        "normalizer",
        "choice",
        "makes scores into weights",
        _RULES,
        "--normalizer",
        "NAME",
        "softmax",
        choices=_normalizers,
        family=_read_normalizer,
        common=True,
    ),
    Field(
        "like",
        "choice",
        "the rules of a named system at once, as defaults",
        _RULES,
        "--like",
        "NAME",
        "none",
        choices=_profiles,
        common=True,
    ),
    Field(
        "dtype",
        "choice",
        "what is computed in",
        _RULES,
        "--dtype",
        default="from the inputs",
        choices=_fixed("float64", "float32"),
    ),
    Field(
        "both_ways",
        "flag",
        "also normalize for each key over the queries: weights_back, output_back",
        _RULES,
        "--both-ways",
    ),
    Field(
        "round_steps",
        "integer",
        "round each step to P places before the next is made of it, as by hand",
        _RULES,
        "--round-steps",
        "P",
        "none",
        low=0,
        high=17,
    ),
    Field(
        "tokens",
        "tokens",
        "labels of the queries: words or @FILE",
        _READ,
        "--tokens",
        "WORDS",
        "from files",
        common=True,
    ),
    Field(
        "key_tokens",
        "tokens",
        "labels of the keys: words or @FILE",
        _READ,
        "--key-tokens",
        "WORDS",
        "from files",
    ),
    Field(
        "separator",
        "text",
        "between the cells of CSV files",
        _READ,
        "--separator",
        "CHAR",
        "tab, ; or , by the first line",
    ),
    Field(
        "decimal", "choice", "the decimal mark of text files", _READ, "--decimal", "CHAR", ".", choices=_fixed(".", ",")
    ),
    Field(
        "header",
        "choice",
        "whether the first line of text files is a header",
        _READ,
        "--header",
        default="seen from the file",
        choices=_fixed("yes", "no"),
    ),
    Field(
        "labels",
        "choice",
        "whether the first column of text files holds labels",
        _READ,
        "--labels",
        default="seen from the file",
        choices=_fixed("yes", "no"),
    ),
    Field(
        "stored",
        "flag",
        "expected numbers of a workbook as it stores them, not as it shows them",
        _READ,
        "--stored",
        in_file=False,
    ),
    Field("stdin_format", "text", "the format of standard input", _READ, "--stdin-format", "FORMAT", in_file=False),
    Field(
        "expect",
        "expect",
        "mark hand-calculated numbers",
        _READ,
        "--expect",
        "STEP=FILE",
        repeatable=True,
        common=True,
    ),
    Field(
        "rounded_inputs",
        "flag",
        "inputs written with a decimal point are known to half a unit only",
        _READ,
        "--rounded-inputs",
    ),
    Field(
        "atol", "number", "how far expected arrays may be off", _SHOW, "--atol", "A", "of their type", check=tolerance
    ),
    Field("rtol", "number", "and by which part of each number", _SHOW, "--rtol", "R", "of their type", check=tolerance),
    Field(
        "expect_dtype",
        "choice",
        "what expected arrays were computed in",
        _SHOW,
        "--expect-dtype",
        default="their own",
        choices=_fixed("float64", "float32", "float16", "bfloat16"),
    ),
    Field("show", "steps", "steps to show: a,b or all", _SHOW, "--show", "STEPS", "weights,output", common=True),
    Field(
        "precision",
        "integer",
        "decimals shown; files have all",
        _SHOW,
        "--precision",
        "N",
        "4",
        low=0,
        high=17,
        common=True,
    ),
    Field(
        "rounding",
        "choice",
        "what happens to a tie",
        _SHOW,
        "--rounding",
        default="half-even",
        choices=_fixed("half-even", "half-up"),
    ),
    Field("top", "integer", "only the K keys that each query looks at most", _SHOW, "--top", "K", low=1, common=True),
    Field("stats", "flag", "mean and variance of the scores, entropy of the weights", _SHOW, "--stats"),
    Field(
        "format",
        "choice",
        "how results are printed",
        _SHOW,
        "--format",
        "FORMAT",
        "table",
        choices=_offered("format"),
        common=True,
    ),
    Field(
        "output",
        "text",
        "write files, by suffix",
        _SHOW,
        "-o",
        "[STEP=]PATH",
        keyword="output",
        repeatable=True,
        in_file=False,
        common=True,
    ),
    Field("force", "flag", "replace files that exist", _SHOW, "--force", in_file=False, common=True),
    Field(
        "save_problem",
        "text",
        "write the resolved problem, as a file that run reproduces",
        _SHOW,
        "--save-problem",
        "PATH",
        in_file=False,
    ),
    Field(
        "dry_run",
        "flag",
        "shapes, steps and memory; nothing is computed",
        _SHOW,
        "--dry-run",
        in_file=False,
        common=True,
    ),
    Field(
        "heat",
        "switch",
        "cells of tables coloured by value, or shaded where there are no colours",
        _SHOW,
        "--heat",
        default="weights, on a terminal with colours",
        in_file=False,
    ),
    Field(
        "color",
        "choice",
        "whether to write colours, whatever NO_COLOR and FORCE_COLOR say",
        _SHOW,
        "--color",
        default="auto",
        choices=_fixed("auto", "always", "never"),
        in_file=False,
    ),
    Field(
        "cmap",
        "text",
        "the colours of pictures",
        _SHOW,
        "--cmap",
        "NAME",
        "viridis, with negative numbers PuOr_r",
        in_file=False,
    ),
    Field(
        "range",
        "text",
        "the numbers at the ends of a picture's colours",
        _SHOW,
        "--range",
        "LOW,HIGH",
        "the lowest and the highest",
        in_file=False,
    ),
    Field("size", "text", "of a picture, in inches", _SHOW, "--size", "WxH", "what its numbers need", in_file=False),
    Field("quiet", "flag", "no notes", _SHOW, "--quiet", in_file=False),
    Field(
        "title", "text", "what the problem is about: above tables, in pictures and documents", _READ, "--title", "TEXT"
    ),
    Field("name", "text", "the name of a stage", "File"),
    Field("problems", "problems", "a list of problems, for batch", "File"),
    Field(
        "stages", "problems", "a list of problems, each with a name; later ones may use steps of earlier ones", "File"
    ),
)


class Fields(Mapping[str, Field]):
    """The table, and what entries bring along that were registered since."""

    def __init__(self) -> None:
        self._table = {field.name: field for field in _TABLE}
        self._brought: dict[str, tuple[Setting, Field]] = {}

    def __getitem__(self, name: str) -> Field:
        known = self._table.get(name)
        if known is None and name not in SETTINGS:
            installed()
        return known if known is not None else self._of(SETTINGS[name])

    def _of(self, setting: Setting) -> Field:
        made = self._brought.get(setting.name)
        if made is None or made[0] is not setting:
            flag = "--" + setting.name.replace("_", "-")
            field = Field(setting.name, setting.kind, setting.help, setting.panel, flag, setting.metavar or "VALUE",
                          setting.default, choices=setting.choices, check=setting.check or finite, low=setting.low,
                          high=setting.high, common=setting.common)  # fmt: skip
            made = self._brought[setting.name] = setting, field
        return made[1]

    def __iter__(self) -> Iterator[str]:
        return iter([*self._table, *(name for name in SETTINGS if name not in self._table)])

    def __len__(self) -> int:
        return len(list(iter(self)))


FIELDS = Fields()
MATRICES: tuple[str, ...] = tuple(field.name for field in _TABLE if field.kind == "matrix")
LATER_STEPS = ("scores", "kernel", "scaled", "masked", "weights")


def keywords() -> dict[str, Field]:
    """The fields by their Python keyword; those that only show, write or read files have none."""
    return {
        field.python: field
        for field in FIELDS.values()
        if field.python
        and field.panel != _SHOW
        and (field.name not in ("expect", "rounded_inputs", "stdin_format", "stored", "title"))
    }


def find_key(key: str, place: Place | str | None = None) -> Field:
    """The field that a problem file's key means, `_` or `-` alike. Raises InputError with the nearest known key."""
    field = FIELDS.get(key.replace("-", "_"))
    if field is not None and field.in_file:
        return field
    if field is not None:
        raise InputError(
            f"{key!r} does not belong in a problem file", place=place, hint=f"give it on the command line: {field.flag}"
        )
    flags = {other.flag.lstrip("-"): other for other in FIELDS.values() if other.flag and other.in_file}
    meant = flags.get(key.replace("_", "-").lower())
    known = [name for name, other in FIELDS.items() if other.in_file]
    close = meant.name if meant else nearest(key.replace("-", "_"), known)
    hint = f"did you mean {close!r}?" if close else f"known: {', '.join(known)}"
    if close is not None and close.casefold() == key.casefold():
        hint = f"names are exact: write {close!r}" + (
            " (W_q, W_k and w_v are parameters of a score and stand inside `score:`)" if key in ("W_q", "W_k") else ""
        )
    if key == "problem":
        hint = "each matrix is named by itself, as in Q: task.yaml::Q; `batch` takes problem: beside a list of jobs:"
    raise InputError(f"unknown key {shortened(key)!r}", place=place, hint=hint)


def check_number(field: Field, number: float, spelled: str, place: Place | str | None) -> float:
    """The number, if the field's rule lets it pass. Raises UsageError."""
    complaint = field.check(number) if field.check else None
    if complaint is not None:
        given = "" if complaint[0].startswith("must not be") and number == 0 else f", not {spelled}"
        raise UsageError(f"{field.name} {complaint[0]}{given}", place=place, hint=complaint[1])
    return number


def check_integer(field: Field, number: float, spelled: str, place: Place | str | None) -> int:
    """The number as an integer within the field's limits. Raises UsageError."""
    low, high = field.low, field.high
    allowed = f"a whole number, {low} to {high}" if high is not None else f"a whole number from {low} on"
    if number != number or math.isinf(number) or number != int(number):
        raise UsageError(f"{field.name} must be a whole number, not {spelled}", place=place, hint=allowed)
    if (low is not None and number < low) or (high is not None and number > high):
        raise UsageError(f"{field.name} cannot be {spelled}", place=place, hint=allowed)
    return int(number)


_HALF = ("bfloat16", "float16", "half", "fp16", "bf16")
_KINDS_OF_NAME = {"like": "profile", "empty_rows": "rule for empty rows"}


def check_choice(field: Field, name: str, place: Place | str | None) -> str:
    """The name, if it is one of the field's. Raises InputError with the nearest."""
    names = field.choices() if field.choices else []
    if names and field.choices and name.partition(":")[0] not in names and installed():
        names = field.choices()
    if field.name == "dtype" and name in _HALF:
        raise UsageError(
            f"unknown dtype {name!r}",
            place=place,
            hint="half precision is computed in float32: leave it out, or say float32",
        )
    if field.family is not None and name.partition(":")[0] in names:
        field.family(name, place)
    elif names and name not in names:
        raise unknown(_KINDS_OF_NAME.get(field.name, field.name.replace("_", " ")), name, names, place=place)
    return name
