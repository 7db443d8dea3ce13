"""From the scores to the output: e^s and its sum, the weights, the weighted sum of the values, both ways.

Letters: n queries, m keys, d_v value width, H heads.
"""

from __future__ import annotations

import math
from typing import Any

from attncli.errors import ShapeError, UsageError
from attncli.lazy import Array, np
from attncli.pipeline import logits as _  # noqa: F401  (steps are registered in the order of the pipeline)
from attncli.pipeline.heads import broadcast_leading, join_heads, project, split_heads, spread_to
from attncli.pipeline.normalizers import exp_shifted
from attncli.pipeline.sinks import beside_sink, has_sink
from attncli.pipeline.state import State
from attncli.pipeline.steps import KEY_FEATURE, KEY_QUERY, QUERY_FEATURE, QUERY_KEY, always, step, value
from attncli.pipeline.tight import averaged, exponentials, logarithm_of_sum, normalized


def _has_exponentials(at: State) -> bool:
    return at.normalizer.exponentials and at.begin != "weights"


@step(
    "exp",
    fast=True,
    line="shares",
    axes=QUERY_KEY,
    per_head=True,
    on_request=True,
    hides=True,
    when=_has_exponentials,
    formula="e^s",
    latex="e^{s}",
    about="e^s of the step before, not shifted",
    shape="n x m",
    comes_of="it comes of --normalizer softmax",
)
def exp(at: State) -> Any:
    """e^s, not shifted, so that it overflows where e^s does."""
    return exponentials(at["logits"], at["normalized_over"])


@step(
    "sum",
    fast=True,
    line="shares",
    made_from=("exp",),
    axes=("query", "feature"),
    per_head=True,
    on_request=True,
    when=_has_exponentials,
    formula="sum of e^s over the keys",
    latex=r"\textstyle\sum e^{s}",
    about="its sum over the keys",
    shape="n x 1",
    comes_of="it comes of --normalizer softmax",
)
def total(at: State) -> Any:
    """The sum of e^s over the keys, (..., n, 1)."""
    total = np.sum(at["exp"], axis=-1, keepdims=True)
    return total + np.exp(at["sink"]) if has_sink(at) else total


@step(
    "lse",
    fast=True,
    line="shares",
    made_from=("logits",),
    axes=("query", "feature"),
    per_head=True,
    on_request=True,
    when=_has_exponentials,
    formula="ln of the sum of e^s",
    latex=r"\ln \textstyle\sum e^{s}",
    about="log of the sum of e^s, stable",
    shape="n x 1",
    comes_of="it comes of --normalizer softmax",
)
def lse(at: State) -> Any:
    """ln sum e^s, the row's maximum taken out first, (..., n, 1)."""
    logits, over = at["logits"], at["normalized_over"]
    return logarithm_of_sum(*(beside_sink(at, logits, over) if has_sink(at) else (logits, over)))


@value(
    "tau",
    "shares",
    axes=("query", "feature"),
    on_request=True,
    tells="tau",
    when=lambda at: at.normalizer.threshold is not None and at.begin != "weights",
    formula="(sum of the scores that stay - 1) / their number",
    latex=r"\frac{\sum s - 1}{\text{number}}",
)
def tau(at: State) -> Any:
    """The threshold of a normalizer that has one, (..., n, 1)."""
    assert at.normalizer.threshold is not None
    return at.normalizer.threshold(at["to_normalize"], at["counted"])


def kernel_values(at: State) -> Any:
    """The kernel itself, unless something was done to its logarithm."""
    line = at.line("logits")
    after = line[line.index("scores") + 1 :]
    changed = any(name != "masked" for name in after) or at.is_given("scores", "masked")
    return np.exp(at["logits"]) if changed else at["kernel"]


@value("to_normalize", "fact")
def to_normalize(at: State) -> Any:
    """What the normalizer takes: the scores as they have come, or kernel values where it asks for these."""
    if not (at.normalizer.of_kernel and at.has("kernel")):
        return at["logits"]
    if at.stepwise or at.is_given("kernel"):
        return kernel_values(at)
    # Those of the log domain in units of the row's largest, which cancels.
    return exp_shifted(at["logits"], spread_to(at["normalized_over"], at["logits"].shape))


def _with_sink(at: State) -> tuple[Any, Array]:
    """What the normalizer takes and where it counts, the sink beside it."""
    of_kernel = at.normalizer.of_kernel and at.has("kernel")
    if not of_kernel or at.stepwise or at.is_given("kernel"):
        return beside_sink(at, at["to_normalize"], at["counted"], of_kernel=of_kernel)
    x, over = beside_sink(at, at["logits"], at["counted"])
    return exp_shifted(x, over), over


@value("counted", "fact", truth=True)
def counted(at: State) -> Any:
    """Where a key can have a weight: a normalizer may leave out what a finite mask value hides."""
    return at["visible"] if at.normalizer.visible_only else at["normalized_over"]


@value("empty", "fact", truth=True)
def empty(at: State) -> Any:
    """Which queries see no key, or only kernel values whose sum is 0, (..., n, 1)."""
    nothing = ~at["visible"].any(axis=-1, keepdims=True) | (at.shape.m == 0)
    if at.normalizer.of_kernel and not at.has("kernel") and at.begin != "weights":
        total = np.sum(np.where(at["counted"], at["logits"], 0.0), axis=-1, keepdims=True)
        nothing = nothing | is_zero(total)
    return nothing


def is_zero(x: Any) -> Array:
    """Where numbers are exactly 0: plain booleans."""
    zero: Array = np.asarray(x == 0) if isinstance(x, np.ndarray) else np.zeros((1, 1), bool)
    return zero


@value("empty_weight", "fact", per_head=False)
def empty_weight(at: State) -> Any:
    """What each key gets from a query that sees none."""
    m = at.shape.m
    return {"nan": math.nan, "uniform": 1 / m if m else 0.0}.get(at.config.empty_rows, 0.0)


def _as_weights(at: State, weights: Any) -> Any:
    """What a normalizer gave. Raises ShapeError for something of another shape."""
    if at.dtype is not None:
        weights = at.as_number(np.asarray(weights))
    shape = broadcast_leading(at["logits"].shape, at["counted"].shape)
    if math.prod(weights.shape) != math.prod(shape) or weights.shape[-2:] not in (shape[-2:], shape[:-3:-1]):
        told = [s if at.layout.heads is not None else (*s[:-3], *s[-2:]) for s in (weights.shape, shape)]
        raise ShapeError(f"the normalizer {at.normalizer.name!r} gave {told[0]}, not (..., n, m) = {told[1]}")
    return weights


@step(
    "weights",
    fast=True,
    line="shares",
    made_from=("sum", "exp"),
    axes=QUERY_KEY,
    per_head=True,
    begins=True,
    hides=True,
    when=always,
    formula="the normalizer over the keys",
    told=lambda at: (at.normalizer.formula or at.normalizer.name, at.normalizer.latex),
    about="after the normalizer",
    shape="n x m",
    settings=("empty_rows", "normalizer"),
)
def weights(at: State) -> Any:
    """The normalizer over the keys; then the rule for queries that see no key."""
    if at.normalizer.exponentials and at.from_steps("exp", "sum"):
        shares = at["exp"] / at["sum"]
    elif at.normalizer.threshold and at.from_steps("tau"):
        shares = np.where(at["counted"], np.maximum(0, at["to_normalize"] - at["tau"]), 0)
    elif has_sink(at):
        shares = _as_weights(at, normalized(*_with_sink(at), at.normalizer)[..., :-1])
    else:
        shares = _as_weights(at, normalized(at["to_normalize"], at["counted"], at.normalizer))
    if at.shape.n and at["empty"].any():
        return np.where(at["empty"], at.scalar(at["empty_weight"]), shares)
    return shares


@value("contributing", "fact", truth=True)
def contributing(at: State) -> Any:
    """Where a value reaches the output: the counted ones, and all where an empty row says so."""
    if at.begin == "weights":
        return np.ones((1, 1, 1), dtype=bool)
    return at["counted"] if at.config.empty_rows in ("zero", "error") else at["counted"] | at["empty"]


@step(
    "heads",
    fast=True,
    line="output",
    made_from=("weights", "V"),
    axes=QUERY_FEATURE,
    per_head=True,
    when=lambda at: at.has("V") and at.heads > 1,
    formula="weights V",
    latex=r"\mathit{weights} \cdot V",
    about="weights times V, one a head",
    shape="H x n x d_v",
    comes_of="it comes of V and --heads, 2 or more",
)
def heads(at: State) -> Any:
    """weights V, (..., H, n, d_v)."""
    return at["attended"]


@value("attended", "fact", axes=QUERY_FEATURE)
def attended(at: State) -> Any:
    """weights V, of one head too."""
    attended = averaged(at["weights"], at.spread("V", at.latest("value")), at["contributing"])
    if at.config.empty_rows == "nan" and at.begin != "weights" and at["empty"].any():
        return np.where(at["empty"], at.scalar(math.nan), attended)
    return attended


def _goes_through(at: State) -> bool:
    """Whether the heads go through W_O."""
    return not {"W_O", "b_O"}.isdisjoint(at.inputs)


@value(
    "only_head",
    "output",
    axes=QUERY_FEATURE,
    tells="heads",
    when=lambda at: at.has("V") and at.heads == 1 and _goes_through(at),
    formula="weights V",
    latex=r"\mathit{weights} \cdot V",
)
def only_head(at: State) -> Any:
    """weights V of one head, before it goes through W_O."""
    return at["attended"]


def _told_output(at: State) -> tuple[str, str]:
    inner = "heads side by side" if at.heads > 1 else "weights V"
    if not _goes_through(at):
        return inner, r"\text{heads side by side}" if at.heads > 1 else r"\mathit{weights} \cdot V"
    bias = " + b_O" if "b_O" in at.inputs else ""
    return f"heads W_O{bias}", rf"\mathit{{heads}}\, W_O{bias}"


@step(
    "output",
    fast=True,
    line="output",
    axes=QUERY_FEATURE,
    when=lambda at: at.has("V"),
    formula="heads W_O + b_O",
    told=_told_output,
    about="the weighted sum of the values",
    shape="n x d_v",
    comes_of="V is missing: give it",
)
def output(at: State) -> Any:
    """The heads side by side, through W_O where it is given, (..., n, H d_v)."""
    before = next((name for name in ("heads", "only_head") if at.has(name)), "attended")
    return project("W_O", join_heads(at[before]), at.inputs.get("W_O"), at.inputs.get("b_O"))


def _goes_back(at: State) -> bool:
    if at.config.both_ways and (not {"X", "Y"} <= at.inputs.keys() or at.begin is not None):
        raise UsageError("both ways needs X and Y", hint="cross X Y --both-ways")
    return at.config.both_ways


@step(
    "weights_back",
    line="back",
    axes=KEY_QUERY,
    per_head=True,
    hides=True,
    when=_goes_back,
    formula="the normalizer over the queries",
    about="each key's weights over the queries",
    shape="m x n",
    comes_of="it comes of `cross X Y --both-ways`",
)
def weights_back(at: State) -> Any:
    """The same scores, normalized for each key over the queries; a key that no query may see has weights 0."""
    x, over = at["to_normalize_back"], at["counted_back"]
    shares = _as_weights(at, normalized(x, over, at.normalizer))
    nothing = ~over.any(axis=-1, keepdims=True)
    return np.where(nothing, at.scalar(0.0), shares) if nothing.any() else shares


@value("counted_back", "fact", truth=True)
def counted_back(at: State) -> Any:
    """Where a query has a say for a key, (..., H, m, n)."""
    return spread_to(at["counted"], at["logits"].shape).mT


@value("to_normalize_back", "fact")
def to_normalize_back(at: State) -> Any:
    """What is normalized over the queries, (..., H, m, n)."""
    if at.normalizer.of_kernel and at.has("kernel"):
        return kernel_values(at).mT if at.stepwise else exp_shifted(at["logits"].mT, at["counted_back"])
    return at["logits"].mT


@step(
    "output_back",
    line="back",
    axes=KEY_FEATURE,
    when=_goes_back,
    formula="weights_back X W_V",
    about="what the queries' side gives each key",
    shape="m x d_x",
    comes_of="it comes of `cross X Y --both-ways`",
)
def output_back(at: State) -> Any:
    """What X (through W_V) gives each key by those weights, (..., m, d_x or d_v)."""
    x = project("V", at["X"], at.inputs.get("W_V"), None)
    split = x[..., None, :, :] if at.layout.heads is None else split_heads("X", x, at.heads)
    return join_heads(averaged(at["weights_back"], split, at["counted_back"]))
