"""Scores, and what is done to them before they are normalized: scale, soft cap, bias, mask.

Letters: n queries, m keys, H heads, c the soft cap. Sources stand with each step, and with each score in `scores`.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from attncli.errors import InputError, Opaque, ShapeError, UsageError, many, there_are
from attncli.lazy import Array, np
from attncli.pipeline import positions  # noqa: F401  (steps are registered in the order of the pipeline)
from attncli.pipeline.biases import all_biases, has_bias, table_of_bias
from attncli.pipeline.heads import broadcast_leading, one_a_head
from attncli.pipeline.relative import asking, has_vectors, met
from attncli.pipeline.scores import ScoreSpec, inverse_root
from attncli.pipeline.state import Partly, RowBlock, State
from attncli.pipeline.steps import QUERY_KEY, always, step, value
from attncli.pipeline.tight import scaled_by
from attncli.pipeline.together import all_of
from attncli.registry import Setting

ENORMOUS_CAP = 1e15  # soft caps beyond are computed in double precision
_INSIDE = 2**19  # numbers that a score holds at once on its way to (..., n, m)


def scored(at: State, score: ScoreSpec, q: Any, k: Any) -> Any:
    """f(q, k), so many queries at a time as keep what it holds inside small. Raises Opaque for a function of the
    user's own that cannot be read in this kind of number.
    """
    call = partial(score.function, **at.parameters)
    if at.dtype is None:
        try:
            return call(q, k)
        except (TypeError, AttributeError, ValueError) as error:
            raise Opaque(f"the score {score.name!r} cannot be read in {type(q).__name__}: {error}") from None
    inside = score.entry.inside(q, k, **at.parameters) if score.entry else 1
    if inside == 1:
        return at.as_number(np.asarray(call(q, k)))
    rows = max(1, _INSIDE // max(1, math.prod(broadcast_leading(q.shape[:-2], k.shape[:-2])) * k.shape[-2] * inside))
    if rows >= q.shape[-2]:
        return at.as_number(np.asarray(call(q, k)))
    parts = [call(q[..., i : i + rows, :], k) for i in range(0, q.shape[-2], rows)]
    return at.as_number(np.concatenate(parts, axis=-2))


def never_negative(x: Any) -> Any:
    """Kernel values as they are. Raises InputError for a negative one."""
    if isinstance(x, np.ndarray) and np.any(x < 0):
        raise InputError("a kernel is never negative", hint="scores: takes any number")
    return x


def _told_score(at: State) -> tuple[str, str]:
    """The formula of the score: of a scaled one without its scale, which is a step of its own."""
    score = at.score
    if score is None or score.entry is None:
        return score.name if score else "given", ""
    text, drawn = score.entry.raw or score.entry.formula or score.name, score.entry.latex
    return (f"{text} + q . r", rf"{drawn} + q \cdot r") if has_vectors(at) else (text, drawn)


def _told_scores(at: State) -> tuple[str, str]:
    return ("ln(kernel)", r"\ln(\mathit{kernel})") if at.has("kernel") else _told_score(at)


@value("similarity", "fact")
def similarity(at: State) -> Any:
    """What the score function gives, (..., H, n, m): f(q, k), or of a kernel its value or its logarithm."""
    score = at.score
    assert score is not None
    queries, keys = at.latest("query"), at.spread("K", at.latest("key"))
    vectors = has_vectors(at)
    scores = scored(at, score, asking(at, queries) if vectors else queries, keys)
    shape = (*broadcast_leading(queries.shape[:-2], keys.shape[:-2]), queries.shape[-2], keys.shape[-2])
    if scores.shape != shape:
        told = [(*sizes[:-3], *sizes[-2:]) if at.layout.heads is None else sizes for sizes in (scores.shape, shape)]
        raise ShapeError(f"the score {score.name!r} gave {told[0]}, not (..., n, m) = {told[1]}")
    return scores + met(at, queries) if vectors else scores


@step(
    "kernel",
    line="logits",
    axes=QUERY_KEY,
    per_head=True,
    begins=True,
    when=lambda at: at.score is not None and at.score.kernel is not None and at.begin is None,
    formula="K(q, k)",
    told=_told_score,
    about="K(q, k) of a kernel score",
    shape="n x m",
    comes_of="it comes of a kernel, such as --score gaussian",
)
def kernel(at: State) -> Any:
    """K(q, k), never negative."""
    assert at.score is not None
    return never_negative(at["similarity"]) if at.score.kernel == "value" else np.exp(at["similarity"])


@step(
    "scores",
    fast=True,
    line="logits",
    moments=True,
    axes=QUERY_KEY,
    per_head=True,
    begins=True,
    when=always,
    formula="f(q, k)",
    told=_told_scores,
    about="f(q, k), raw",
    shape="n x m",
)
def scores(at: State) -> Any:
    """f(q, k); of a kernel its logarithm."""
    if not at.has("kernel"):
        return at["similarity"]
    if at.begin is None and at.score is not None and at.score.kernel == "log" and not at.from_steps("kernel"):
        return at["similarity"]
    return np.log(never_negative(at["kernel"]) if at.begin is not None else at["kernel"])


def scales_by_width(at: State) -> bool:
    """Whether 1/sqrt(d_k) is the default scale."""
    if at.score is not None:
        return at.score.scaled
    return at.begin == "scores" and at.config.d_k is not None


def applied_scale(at: State) -> Any:
    """What the scores are multiplied by here: 1 where nothing scales them, or they begin scaled."""
    if not at.has("scaled") or at.begin == "scaled":
        return 1.0
    return at.config.scale if at.has("scales") else at["scale"]


def key_width(at: State) -> int:
    """d_k: as it was given, else the width of one head's keys."""
    if at.config.d_k is not None:
        return at.config.d_k
    if at.begin is None:
        width: int = at.latest("key").shape[-1]
        return width
    raise UsageError("the scale 1/sqrt(d_k) needs d_k", hint="give d_k or scale beside the scores")


def _checked(at: State, scale: Any) -> Any:
    """The scale as a number of what is computed in. Raises UsageError where that has no such number."""
    if at.dtype is None:
        return scale
    with np.errstate(over="ignore"):
        now = float(at.dtype.type(scale))
    if np.isinf(now) or (now == 0 and scale != 0):
        what = f"a scale of {scale:g} is {'infinite' if now else 0} in {at.dtype}"
        raise UsageError(what, hint="--dtype float64 computes in double precision")
    return scale


def within_support(at: State, s: Any) -> Any:
    """s, but -inf where a kernel is 0: no scale and no cap brings it back."""
    if at.begin is None and not at.has("kernel"):
        return s
    return hide(s, at["in_kernel_support"])


def is_scaled(at: State) -> bool:
    """Whether anything scales the scores."""
    return scales_by_width(at) or at.config.scale is not None or at.config.temperature is not None


@value("root", "fact", per_head=False)
def root(at: State) -> Any:
    """sqrt(d_k), d_k the width of one head's keys."""
    return math.sqrt(key_width(at))


@value("scale", "fact", per_head=False)
def scale(at: State) -> Any:
    """The given scale, or 1/sqrt(d_k) where the score is scaled by width, over the temperature; 1 beside `scales`."""
    config = at.config
    if at.has("scales"):
        return 1.0
    if config.scale is not None:
        return _checked(at, config.scale)
    factor: Any = 1.0
    if scales_by_width(at):
        factor = 1 / at["root"] if at.is_given("root") else inverse_root(key_width(at)) if key_width(at) else 1.0
    return _checked(at, factor if config.temperature is None else factor / config.temperature)


@value("scales", "table", when=lambda at: isinstance(at.config.scale, np.ndarray), settings=("scale",))
def scales(at: State) -> Any:
    """One scale a head or a query, as they broadcast to (H, n, m). Raises ShapeError for other heads or queries."""
    given = np.asarray(at.config.scale, dtype=np.float64)
    column = given.ndim == 2 and given.shape[1] == 1 < given.shape[0]
    if given.ndim > 2 or (given.ndim == 2 and 1 not in given.shape):
        shape = " x ".join(map(str, given.shape))
        raise ShapeError(f"scale is {shape}", hint="a row is one scale a head, a column one a query")
    for number in given.flat:
        _checked(at, number)
    if not column:
        return at.as_number(one_a_head("scale", given, at.heads, "a row is one a head, a column one a query"))
    if given.size != at.shape.n:
        raise ShapeError(f"scale has {many(given.size, 'row')}, but {there_are(at.shape.n, 'query')}",
                         hint="a column is one scale a query, a row one a head")  # fmt: skip
    return at.as_number(given)


def _told_scale(at: State) -> tuple[str, str]:
    if at.config.scale is not None:
        return "scores × scale", r"\mathit{scores} \cdot \mathit{scale}"
    by_width, by_heat = scales_by_width(at), at.config.temperature is not None
    below = " × ".join(["sqrt(d_k)"] * by_width + ["temperature"] * by_heat)
    drawn = r" \cdot ".join([r"\sqrt{d_k}"] * by_width + [r"\mathit{temperature}"] * by_heat)
    below = f"({below})" if " × " in below else below
    return f"scores / {below}", rf"\frac{{\mathit{{scores}}}}{{{drawn}}}"


@step(
    "scaled",
    fast=True,
    line="logits",
    moments=True,
    axes=QUERY_KEY,
    per_head=True,
    begins=True,
    when=is_scaled,
    formula="scores x scale",
    told=_told_scale,
    about="scores x scale",
    shape="n x m",
    comes_of="it comes of --scale",
    settings=("scale", "temperature", "d_k"),
)
def scaled(at: State) -> Any:
    """scores x scale: for scaled-dot, and where a scale or temperature was given."""
    if at.has("scales"):
        return within_support(at, at.before("scaled") * at["scales"])
    by_width = at.config.scale is None and scales_by_width(at)
    width = key_width(at) or 1 if by_width else None
    return within_support(at, scaled_by(at.before("scaled"), at.scalar(at["scale"]), width, at.config.temperature))


def retention(heads: int) -> list[float]:
    """1 - 2^(-5 - h), h from 0, as the paper has it for each head."""
    return [1 - 2.0 ** (-5 - h) for h in range(heads)]


@value("decay", "fact", setting=Setting(
    name="decay", kind="numbers", metavar="retention|GAMMA", choices=lambda: ["retention"],
    help="multiply the scores by gamma to the distance of query and key: a gamma for all, or one a head"))  # fmt: skip
def decay(at: State) -> Any:
    """gamma^|i - j|, (H or 1, n, m). Raises ShapeError for other heads, UsageError where it has no meaning."""
    said, heads, places = at.config.more["decay"], at.whole.heads, at["places"]
    if at.has("kernel"):
        raise UsageError("decay multiplies scores, and those of a kernel are its logarithm",
                         hint="--alibi S with S = -ln gamma multiplies the kernel by gamma^|i - j|")  # fmt: skip
    gammas = np.array(retention(heads)) if isinstance(said, str) else np.ravel(np.asarray(said, dtype=np.float64))
    if gammas.size not in (1, heads):
        raise ShapeError(f"decay has {many(gammas.size, 'number')}, but {there_are(heads, 'head')}",
                         hint="one gamma for all, or one a head, or retention")  # fmt: skip
    if not np.all((gammas > 0) & (gammas <= 1)):
        raise UsageError("decay is a number above 0, at most 1", hint="0.9, or retention: 1 - 2^(-5 - h) of head h")
    gamma = np.broadcast_to(gammas, heads)[places.head]
    return at.as_number(gamma ** np.abs(places.key - places.position))


@step(
    "decayed",
    line="logits",
    axes=QUERY_KEY,
    per_head=True,
    when=lambda at: at.config.more.get("decay") is not None,
    formula="s gamma^|i - j|",
    latex=r"s \, \gamma^{|i - j|}",
    about="s gamma^|i - j|, less the farther a key stands",
    shape="n x m",
    source="Sun et al. 2023, arXiv:2307.08621 (retention)",
    comes_of="it comes of --decay",
)
def decayed(at: State) -> Any:
    """s gamma^|i - j|, i and j where query and key stand."""
    return within_support(at, at.before("decayed") * at["decay"])


@step(
    "capped",
    fast=True,
    line="logits",
    axes=QUERY_KEY,
    per_head=True,
    when=lambda at: at.config.softcap is not None,
    formula="c tanh(s / c)",
    latex=r"c \tanh(s / c)",
    about="c tanh(s / c), soft cap c",
    shape="n x m",
    source="Bello et al. 2017, arXiv:1611.09940",
    comes_of="it comes of --softcap",
    settings=("softcap",),
)
def capped(at: State) -> Any:
    """c tanh(s / c); a key out of reach stays out of reach."""
    cap = at.config.softcap
    assert cap is not None
    s = at.before("capped")
    if at.dtype is not None and abs(cap) > ENORMOUS_CAP:  # in float32 s / c would vanish, or c be infinite
        return within_support(at, at.as_number(cap * np.tanh(s.astype(float) / cap)))
    c = at.scalar(cap)
    return within_support(at, c * np.tanh(s / c))


@value("given_bias", "table", settings=("bias",))
def given_bias(at: State) -> Any:
    """The bias that is given as a table."""
    return table_of_bias(at)


@value("bias_table", "fact")
def bias_table(at: State) -> Any:
    """All biases together, as they broadcast to (..., H, n, m)."""
    return all_biases(at)


@step(
    "biased",
    fast=True,
    line="logits",
    axes=QUERY_KEY,
    per_head=True,
    when=has_bias,
    formula="s + bias",
    latex=r"s + \mathit{bias}",
    about="+ bias",
    shape="n x m",
    comes_of="it comes of --bias",
    settings=("bias",),
)
def biased(at: State) -> Any:
    """s + bias; -inf there hides a key."""
    return at.before("biased") + at["bias_table"]


@value("in_kernel_support", "fact", truth=True)
def in_kernel_support(at: State) -> Any:
    """Where a kernel is not 0; where scores are handed over, -inf is how a hidden key is written."""
    if at.begin is None and not at.has("kernel"):
        return np.ones((1, 1, 1), dtype=bool)
    return ~np.isneginf(at["scores"] if at.has("scores") else at[at.begin or "scores"])


@value("allowed_by_bias", "fact", truth=True)
def allowed_by_bias(at: State) -> Any:
    """Where the bias is not -inf."""
    if at.is_given("biased"):  # a number that stands there is one like any other
        return ~np.isneginf(at["biased"])
    return ~np.isneginf(at["bias_table"]) if has_bias(at) and at.begin != "masked" else np.ones((1, 1, 1), dtype=bool)


def _shown(at: State) -> Any:
    if at.masks is None:
        return np.ones((1, 1, 1), dtype=bool)
    if isinstance(at, RowBlock):
        return all_of(at.masks.predicates, at.indices(at.masks))
    return at.masks.visible()


@value("shown", "fact", truth=True)
def shown(at: State) -> Any:
    """Where every mask lets a key be seen."""
    return _shown(at)


@value("visible", "fact", truth=True)
def visible(at: State) -> Any:
    """Where a query sees a key: in reach, not barred by the bias, shown by every mask."""
    given = at.given.get("masked")  # a number that stands there is one like any other
    if given is not None and not isinstance(given, Partly):
        return ~np.isneginf(given)
    sees = at["shown"]
    if at.begin is not None or at.has("kernel"):
        sees = at["in_kernel_support"] & sees
    sees = at["allowed_by_bias"] & sees if has_bias(at) else sees
    return sees if given is None else np.where(given.written, ~np.isneginf(given.numbers), sees)


@value("normalized_over", "fact", truth=True)
def normalized_over(at: State) -> Any:
    """Where a key has a say in the normalizer: visible, or hidden by a finite mask value in a row that sees some."""
    if np.isneginf(at.config.mask_value) or at.masks is None or at.is_given("masked"):
        return at["visible"]
    sees = at["visible"].any(axis=-1, keepdims=True)
    return at["visible"] | (sees & ~at["shown"])


@step(
    "masked",
    fast=True,
    line="logits",
    axes=QUERY_KEY,
    per_head=True,
    begins=True,
    hides=True,
    when=lambda at: bool(at.config.masks),
    formula="s where visible",
    latex=r"s \text{ where visible}",
    about="hidden cells at -inf or the mask value",
    shape="n x m",
    comes_of="it comes of --mask",
    settings=("mask", "mask_value"),
)
def masked(at: State) -> Any:
    """s, but the mask value where a mask hides the key, and -inf where it has no say at all."""
    hidden = np.where(at["shown"], at.before("masked"), at.scalar(at.config.mask_value))
    return hide(hidden, at["normalized_over"])


def hide(s: Any, over: Array) -> Any:
    """s, but -inf where a key has no say."""
    if over.all():
        return s
    return np.where(over, s, s.dtype.type(-np.inf) if isinstance(s, np.ndarray) else -np.inf)


@value("logits", "fact")
def logits(at: State) -> Any:
    """The scores as they enter the normalizer, -inf where a key has no say."""
    s = at.latest("logits")
    over = at["normalized_over"]
    return s if at.name_latest("logits") == "masked" else hide(s, over)
