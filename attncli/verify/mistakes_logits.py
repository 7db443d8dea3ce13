"""The mistakes that people make between the scores and the softmax, masks apart: scale, cap and bias.

Entries as in `mistakes.py`.
"""

from __future__ import annotations

from attncli.lazy import Array, np
from attncli.pipeline.biases import named_biases
from attncli.verify.given import Given
from attncli.verify.mistakes import Change, Changes, mistake, number

# -- scale ------------------------------------------------------------------------------------------------------


def _scaled(given: Given, factor: float, text: str) -> Changes:
    if given.has_scale and not abs(factor - given.scale) <= 1e-9 * abs(factor):
        yield Change({"scaled": given["scores"] * factor}, text)


def _root(given: Given, width: str, what: str) -> Changes:
    size = given.widths.get(width, 0)
    if size:
        text = (
            f"the scores were divided by sqrt({width}) = {number(size**0.5)}, the root of {what}, not {_right(given)}"
        )
        yield from _scaled(given, size**-0.5, text)


def _right(given: Given) -> str:
    if np.isnan(given.scale):
        return "multiplied by the scales of the heads or queries"
    d_k = given.widths.get("d_k")
    if d_k and abs(given.scale - d_k**-0.5) < 1e-12:
        return f"by sqrt(d_k) = {number(d_k**0.5)}"
    return f"multiplied by {number(given.scale)}"


@mistake("no-scale", at=("scaled",), simplicity=1)
def no_scale(given: Given) -> Changes:
    """The scores were not scaled."""
    yield from _scaled(given, 1.0, f"the scores were not {_scaling(given)}")


def _scaling(given: Given) -> str:
    right = _right(given)
    return f"divided {right}" if right.startswith("by") else right


@mistake("scale-d_k", at=("scaled",), simplicity=2)
def by_width(given: Given) -> Changes:
    """The scores were divided by d_k, not by its root."""
    d_k = given.widths.get("d_k")
    if d_k:
        yield from _scaled(given, 1 / d_k, f"the scores were divided by d_k = {d_k}, not {_right(given)}")


@mistake("scale-root-d_model", at=("scaled",), simplicity=3)
def by_root_of_model(given: Given) -> Changes:
    """The scores were divided by the root of the data's width."""
    yield from _root(given, "d_model", "the data's width")


@mistake("scale-root-d_v", at=("scaled",), simplicity=4)
def by_root_of_values(given: Given) -> Changes:
    """The scores were divided by the root of the values' width."""
    yield from _root(given, "d_v", "the values' width")


@mistake("scale-root-n", at=("scaled",), simplicity=5)
def by_root_of_count(given: Given) -> Changes:
    """The scores were divided by the root of the number of tokens."""
    yield from _root(given, "n", "the number of queries")
    if given.widths["m"] != given.widths["n"]:
        yield from _root(given, "m", "the number of keys")


@mistake("scale-root-all-heads", at=("scaled",), simplicity=3)
def by_root_of_all_heads(given: Given) -> Changes:
    """The scores were divided by the root of all heads' width together."""
    width = given.widths.get("d_k", 0) * given.heads
    if given.heads > 1 and width:
        root = f"sqrt({width}) = {number(width**0.5)}, the root of all heads' width together (d_model)"
        yield from _scaled(given, width**-0.5, f"the scores were divided by {root}, not {_right(given)}")


@mistake("scaled-twice", at=("scaled",), simplicity=4)
def scaled_twice(given: Given) -> Changes:
    """The scores were scaled twice."""
    text = f"the scores were scaled twice, by {number(given.scale)} each time"
    yield from _scaled(given, given.scale**2, text)


@mistake("scale-inverted", at=("scaled",), simplicity=3)
def scale_inverted(given: Given) -> Changes:
    """The scores were multiplied by the root (or divided by a scale that multiplies)."""
    if given.scale:
        right = _right(given)
        done = f"multiplied {right}" if right.startswith("by") else f"divided by {number(given.scale)}"
        yield from _scaled(given, 1 / given.scale, f"the scores were {done}, not {_scaling(given)}")


@mistake("scale-fourth-root", at=("scaled",), source="a root of the root", simplicity=6)
def scale_fourth_root(given: Given) -> Changes:
    """The root was taken twice."""
    if given.scale > 0:
        root = given.scale**0.5
        yield from _scaled(given, root, f"the root was taken twice: the scores were divided by {number(1 / root)}")


@mistake("scale-default", at=("scaled",), simplicity=3)
def default_scale(given: Given) -> Changes:
    """1/sqrt(d_k) was used in place of the given scale or temperature."""
    d_k = given.widths.get("d_k")
    if d_k and (given.rules.scale is not None or given.rules.temperature is not None):
        done = f"the scores were divided by sqrt(d_k) = {number(d_k**0.5)}"
        yield from _scaled(given, d_k**-0.5, f"{done}, not {_right(given)}")


@mistake("scale-unasked", at=("scaled", "weights"), simplicity=2)
def scale_unasked(given: Given) -> Changes:
    """The scores were divided by sqrt(d_k), which this problem does not do."""
    d_k = given.widths.get("d_k")
    if d_k and not given.has_scale and "scores" in given:
        text = f"the scores were divided by sqrt(d_k) = {number(d_k**0.5)}, which this problem does not ask for"
        if "masked" in given.written and given.target == "weights":
            yield Change({"masked": given["masked"] * d_k**-0.5}, text, "weights")
        else:
            yield Change({"scaled": given["scores"] * d_k**-0.5}, text)


@mistake("scaled-early", at=("scores",), simplicity=6)
def scaled_early(given: Given) -> Changes:
    """The scores are scaled already, one step early."""
    if given.target == "scores" and given.has_scale:
        yield Change({"scores": given["scores"] * given.scale}, "the scores are scaled already; that is the next step")


@mistake("scaled-not-used", at=("masked", "weights"), simplicity=2)
def scaled_not_used(given: Given) -> Changes:
    """The scaled scores were written, and the next step was made from the raw ones."""
    if "scaled" not in given.written or {"capped", "biased"} & set(given.exact.steps):
        return
    raw = given["scores"]
    if given.shown is not None and "masked" in given.open:
        text = "the mask was put on the scores, not on the scaled ones"
        yield Change({"masked": np.where(given.shown, raw, given.rules.mask_value)}, text)
    elif given.shown is None:
        text = "the weights were made from the scores, not from the scaled ones"
        yield Change({"masked": raw}, text, "weights")


@mistake("scaled-after-softmax", at=("scaled", "weights"), simplicity=5)
def scaled_after(given: Given) -> Changes:
    """The weights were scaled, not the scores."""
    if not given.has_scale or given.target not in ("weights", "heads", "output"):
        return
    if "scaled" in given.open:
        weights = given.run({"scaled": given["scores"]}, "weights") * given.scale
        yield Change({"weights": weights}, f"the weights were multiplied by {number(given.scale)}, not the scores")
    elif "weights" in given.open:
        text = f"the weights were multiplied by {number(given.scale)} once more, after the softmax"
        yield Change({"weights": given["weights"] * given.scale}, text)


# -- cap and bias -----------------------------------------------------------------------------------------------


def _cap(given: Given, logits: Array) -> Array:
    cap = given.rules.softcap
    return logits if cap is None else cap * np.tanh(logits / cap)


@mistake("no-softcap", at=("capped",), simplicity=1)
def no_softcap(given: Given) -> Changes:
    """The soft cap was left out."""
    if "capped" in given:
        cap = number(given.rules.softcap or 0)
        yield Change({"capped": given.before("capped")}, f"the soft cap {cap} tanh(s / {cap}) was left out")


@mistake("softcap-after-mask", at=("capped",), simplicity=4)
def softcap_last(given: Given) -> Changes:
    """The soft cap was taken after the bias or the mask, not before."""
    if "capped" not in given or given.target == "capped":
        return
    plain = given.before("capped")
    biased = plain if given.bias is None else plain + given.bias
    if given.shown is not None:
        capped = _cap(given, np.where(given.shown, biased, given.rules.mask_value))
        text = f"the soft cap was taken after the mask: a hidden cell became {number(-(given.rules.softcap or 0))}"
        yield Change({"capped": plain, "biased": biased, "masked": capped}, text)
    if given.bias is not None:
        yield Change({"capped": plain, "biased": _cap(given, biased)}, "the soft cap was taken after the bias")


@mistake("no-bias", at=("biased",), simplicity=1)
def no_bias(given: Given) -> Changes:
    """The bias was not added."""
    # One bias by position, alone, is left out in `no-position-bias`.
    if given.bias is not None and ("bias" in given.at.inputs or len(named_biases(given.at)) > 1):
        yield Change({"biased": given.before("biased")}, "the bias was not added to the scores")


@mistake("bias-sign", at=("biased",), simplicity=2)
def bias_subtracted(given: Given) -> Changes:
    """The bias was subtracted."""
    if given.bias is not None and not np.isneginf(given.bias).any():
        yield Change({"biased": given.before("biased") - given.bias}, "the bias was subtracted, not added")


@mistake("bias-before-scale", at=("scaled", "biased"), simplicity=3)
def bias_scaled(given: Given) -> Changes:
    """The bias was added before the scale, and scaled with the scores."""
    if given.bias is not None and given.has_scale:
        text = f"the bias was added before the scale, and so multiplied by {number(given.scale)} too"
        early = given["scaled"] + given.bias * given.scale
        arrays = {"biased": _cap(given, early)}
        yield Change(arrays | {"scaled": early} if "scaled" in given.open else arrays, text)
