"""Queries and keys normalized before their product: QK-norm.

Letters: x the features of one head, or of all; d how many; w a weight for each of them, b what is added.
Sources: Henry et al. 2020, arXiv:2010.04245 (l2); Zhang, Sennrich 2019, arXiv:1910.07467 (rms); Dehghani et al. 2023,
arXiv:2302.05442 (layer).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attncli.errors import ShapeError
from attncli.lazy import Array, np
from attncli.pipeline import projections  # noqa: F401  (steps are registered in the order of the pipeline)
from attncli.pipeline.state import State
from attncli.pipeline.steps import KEY_FEATURE, QUERY_FEATURE, step, value
from attncli.registry import Setting

Axes = tuple[int, ...]


def _l2(x: Any, over: Axes, eps: float) -> Any:
    return x / _or_one(np.sqrt(np.sum(np.square(x), axis=over, keepdims=True) + eps))


def _rms(x: Any, over: Axes, eps: float) -> Any:
    return x / _or_one(np.sqrt(np.mean(np.square(x), axis=over, keepdims=True) + eps))


def _layer(x: Any, over: Axes, eps: float) -> Any:
    return _rms(x - np.mean(x, axis=over, keepdims=True), over, eps)


def _or_one(root: Any) -> Any:
    """So that a zero vector stays one."""
    return np.where(root == 0, 1, root)


NORMS: dict[str, tuple[Callable[[Any, Axes, float], Any], str, str]] = {
    "l2": (_l2, "x / sqrt(sum x^2)", r"\frac{x}{\sqrt{\sum x^2}}"),
    "rms": (_rms, "x / sqrt(mean x^2)", r"\frac{x}{\sqrt{\overline{x^2}}}"),
    "layer": (_layer, "(x - mean x) / sqrt(mean (x - mean x)^2)",
              r"\frac{x - \bar{x}}{\sqrt{\overline{(x - \bar{x})^2}}}"),
}  # fmt: skip


def _not_negative(number: float) -> tuple[str, str] | None:
    return None if 0 <= number < float("inf") else ("cannot be negative", "as 1e-6")


def _names() -> list[str]:
    return [name + over for over in ("", ":all") for name in NORMS]


def _matrix(name: str, help: str) -> Setting:
    return Setting(name=name, kind="matrix", metavar="MATRIX", default="none", help=help, needs=("qk_norm",))


@value("norm", "fact", setting=(
    Setting(name="qk_norm", kind="choice", choices=_names, metavar="NAME",
            help="normalize queries and keys: l2, rms, layer, by head; rms:all over all heads"),
    _matrix("q_weight", "what normalized queries are multiplied by, one number a feature"),
    _matrix("k_weight", "what normalized keys are multiplied by, one number a feature"),
    _matrix("q_shift", "what is added to normalized queries then"),
    _matrix("k_shift", "what is added to normalized keys then"),
    Setting(name="eps", kind="number", metavar="E", default="0", help="added below the root of a norm",
            needs=("qk_norm",), check=_not_negative)))  # fmt: skip
def norm(at: State) -> str:
    """Which norm is taken."""
    said: str = at.config.more["qk_norm"]
    return said


def normed(at: State, x: Any, letter: str) -> Any:
    """x normalized by head, or over all heads, with its weight and shift. x: (..., H or G, n, d)"""
    name, _, over = at["norm"].partition(":")
    function, more = NORMS[name][0], at.config.more
    found = function(x, (-3, -1) if over else (-1,), at.scalar(more.get("eps") or 0.0))
    weight, shift = (_fitted(at, f"{letter}_{each}", x.shape) for each in ("weight", "shift"))
    found = found if weight is None else found * weight
    return found if shift is None else found + shift


def _fitted(at: State, name: str, shape: tuple[int, ...]) -> Array | None:
    """A weight as it broadcasts to (..., H, n, d): one for all heads, or one a head. Raises ShapeError."""
    given = at.config.more.get(name)
    if given is None:
        return None
    heads, d = shape[-3], shape[-1]
    if given.size not in (d, heads * d):
        both = f"{d}, or {heads * d}" if heads > 1 else str(d)
        raise ShapeError(f"{name} has {given.size} number{'s' * (given.size != 1)}, but one head has {d} features",
                         hint=f"it has {both}: one a feature")  # fmt: skip
    fitted: Array = at.as_number(given.reshape(-1, 1, d))
    return fitted


def past_stays(at: State, name: str, change: Callable[[Any, int], Any]) -> Any:
    """The keys before a step of their line, changed, but for past ones that are so already.

    change: of the other keys, and how many these are that stay.
    """
    keys, done = at.before(name), at["past_turned"]
    if not done:
        return change(keys, 0)
    changed = change(keys[..., done:, :], done)
    stay = np.broadcast_to(keys[..., :done, :], (*changed.shape[:-2], done, keys.shape[-1]))
    return np.concatenate([stay, changed], axis=-2)


@value("past_turned", "fact", setting=Setting(
    name="past_turned", kind="flag", default="", needs=("rope", "qk_norm"),
    help="past keys are normed and turned already, as a cache holds them"))  # fmt: skip
def past_turned(at: State) -> int:
    """How many keys in front are what they are already."""
    said = at.config.more.get("past_turned")
    return at.shape.past if said is True else int(said or 0)


def _is_normed(at: State) -> bool:
    return at.config.more.get("qk_norm") is not None and at.has("Q")


def _told(letter: str) -> Callable[[State], tuple[str, str]]:
    def told(at: State) -> tuple[str, str]:
        _, text, drawn = NORMS[at["norm"].partition(":")[0]]
        for name, mark in ((f"{letter}_weight", " × "), (f"{letter}_shift", " + ")):
            if at.config.more.get(name) is not None:
                text, drawn = f"{text}{mark}{name}", rf"{drawn}{mark.replace('×', chr(92) + 'cdot')}\text{{{name}}}"
        return text, drawn

    return told


@step("Q_normed", line="query", axes=QUERY_FEATURE, per_head=True, when=_is_normed, formula="x / |x|", told=_told("q"),
      source="Henry et al. 2020, arXiv:2010.04245", about="queries normalized", shape="H x n x d_k",
      comes_of="it comes of --qk-norm")  # fmt: skip
def queries_normed(at: State) -> Any:
    """Queries normalized, (..., H, n, d_k)."""
    return normed(at, at.before("Q_normed"), "q")


@step("K_normed", line="key", axes=KEY_FEATURE, per_head=True, when=_is_normed, formula="x / |x|", told=_told("k"),
      source="Henry et al. 2020, arXiv:2010.04245", about="keys normalized", shape="H x m x d_k",
      comes_of="it comes of --qk-norm")  # fmt: skip
def keys_normed(at: State) -> Any:
    """Keys normalized, (..., G, m, d_k)."""
    return past_stays(at, "K_normed", lambda keys, _: normed(at, keys, "k"))
