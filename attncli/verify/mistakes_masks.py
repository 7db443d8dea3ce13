"""The mistakes that people make with masks: left out, inverted, at the wrong place, or not low enough.

Entries as in `mistakes.py`.
"""

from __future__ import annotations

from dataclasses import replace

from attncli.lazy import Array, np
from attncli.pipeline.masks import Masks
from attncli.pipeline.steps import STEPS
from attncli.verify.given import Given
from attncli.verify.mistakes import Change, Changes, mistake


def _masked(given: Given, shown: Array, text: str) -> Changes:
    right = given.shown
    if right is None or not (shown != right).any():
        return
    yield Change({"masked": np.where(shown, given.unmasked, given.rules.mask_value)}, text)


@mistake("no-mask", at=("masked",), simplicity=1)
def no_mask(given: Given) -> Changes:
    """The mask was left out."""
    if given.shown is not None:
        yield Change({"masked": given.unmasked}, "the mask was left out: hidden keys have a share")


@mistake("one-mask-forgotten", at=("masked",), source="a padding mask dropped beside a causal one", simplicity=2)
def one_mask_forgotten(given: Given) -> Changes:
    """One of several masks was left out."""
    masks = given.masks
    if masks is None or len(masks.specs) < 2:
        return
    for place, text in enumerate(masks.texts):
        others = [spec for at, spec in enumerate(masks.specs) if at != place]
        shown = given.table(Masks(others, given.extent, masks.alignment).visible())
        yield from _masked(given, shown, f"one of the masks was left out: {text}")


@mistake("mask-inverted", at=("masked",), source="1 = may attend or 1 = blocked", simplicity=2)
def mask_inverted(given: Given) -> Changes:
    """The mask was read the other way round."""
    if given.shown is not None:
        text = "the mask is inverted: what is to be seen was hidden, and what is to be hidden was seen"
        yield from _masked(given, ~given.shown, text)


@mistake("other-triangle", at=("masked",), simplicity=2)
def other_triangle(given: Given) -> Changes:
    """The other triangle was hidden (the mask transposed)."""
    shown = given.shown
    if shown is None:
        return
    n, m = given.unmasked.shape[-2:]
    causal = any(spec.aligned for spec in given.rules.masks)
    text = "the other triangle was hidden" if causal else "the mask was applied with queries and keys exchanged"
    if n == m:
        yield from _masked(given, np.broadcast_to(shown, (*shown.shape[:-2], n, m)).mT, text)
    elif causal and given.masks is not None:
        at = given.masks.indices
        yield from _masked(given, given.table(at.key >= at.position), text)


@mistake("diagonal-hidden", at=("masked",), simplicity=3)
def diagonal_hidden(given: Given) -> Changes:
    """Each query's own key was hidden too."""
    if given.masks is not None and given.shown is not None:
        own = given.masks.indices.key == given.masks.indices.position
        yield from _masked(given, given.shown & ~own, "the diagonal was hidden: no query sees its own key")


@mistake("other-alignment", at=("masked",), source="top-left or bottom-right", simplicity=2)
def other_alignment(given: Given) -> Changes:
    """The causal mask was aligned to the other corner."""
    if given.masks is None or not any(spec.aligned for spec in given.rules.masks):
        return
    now = given.masks.alignment
    other = "bottom-right" if now == "top-left" else "top-left"
    specs = [spec.with_alignment(None) for spec in given.rules.masks]
    shown = given.table(Masks(specs, given.extent, other).visible())
    yield from _masked(given, shown, f"the mask was aligned {other}, not {now}")


@mistake("mask-off-by-one", at=("masked",), simplicity=4)
def off_by_one(given: Given) -> Changes:
    """The mask's edge lies one key beside the right one."""
    masks = given.masks
    if masks is None or not any(spec.aligned for spec in given.rules.masks):
        return
    for shift, text in ((1, "each query sees one key further"), (-1, "each query sees one key less far")):
        at = replace(masks.indices, position=masks.indices.position + shift)
        shown: Array = np.ones((1, 1), bool)
        for spec in given.rules.masks:
            shown = shown & spec.bind(given.extent, masks.alignment)(at if spec.aligned else masks.indices)
        yield from _masked(given, given.table(shown), f"the mask is off by one: {text}")


@mistake("window-off-by-one", at=("masked",), source="a window of L keys, or of L and the query's own", simplicity=4)
def window_off_by_one(given: Given) -> Changes:
    """A window reaches one key too far, or too short, on one side."""
    masks, specs = given.masks, given.rules.masks
    for place, spec in enumerate(specs if masks is not None else ()):
        if spec.name != "window":
            continue
        for side, name in enumerate(("left", "right")):
            for step, text in ((1, "one key too far"), (-1, "one key too short")):
                limits = list(spec.argument)
                if limits[side] == "*" or limits[side] + step < 0:
                    continue
                limits[side] += step
                changed = [*specs[:place], replace(spec, argument=limits), *specs[place + 1 :]]
                alignment = masks.alignment if masks is not None else "top-left"
                shown = Masks([replace(each, alignment=None) for each in changed], given.extent, alignment).visible()
                window = f"window:{','.join(map(str, limits))} in place of {','.join(map(str, spec.argument))}"
                yield from _masked(given, given.table(shown), f"the window reaches {text} to the {name}: {window}")


@mistake("mask-after-softmax", at=("masked",), simplicity=3)
def mask_after(given: Given) -> Changes:
    """The weights were masked, without normalizing again."""
    if given.shown is not None and given.target in ("weights", "heads", "output"):
        weights = given.run({"masked": given.unmasked}, "weights") * given.shown
        text = given.displayed("the mask was applied after the softmax, and the rows were not normalized again")
        yield Change({"weights": weights}, text)


@mistake("scores-times-mask", at=("masked",), source="a padding mask that multiplies", simplicity=3)
def scores_times_mask(given: Given) -> Changes:
    """The scores were multiplied by the mask: a hidden score became 0, not -inf."""
    if given.shown is not None:
        masked = np.where(given.shown, given.unmasked, 0.0)
        yield Change({"masked": masked}, "the scores were multiplied by the mask: a hidden score became 0, and e^0 = 1")


@mistake("finite-mask-value", at=("masked",), source="-1e6 in place of -inf", simplicity=5, alone=True)
def finite_mask_value(given: Given) -> Changes:
    """A finite number stood for -inf, and hidden keys kept a share."""
    if given.shown is None or not np.isneginf(given.rules.mask_value):
        return
    some = np.broadcast_to(given.shown, given.unmasked.shape).any(axis=-1)
    if given.target != "masked" and not some.all():
        low = np.where(given.shown, given.unmasked, -1e6)
        text = "a finite number such as -1e6 stood for -inf: a query that sees no key gets equal weights for all"
        yield Change({"masked": low}, text)
    written = (-1e3, -1e4, -1e6, -1e9) if given.target == "masked" else ()
    for value in (-1.0, -2.0, -5.0, -9.0, -10.0, -20.0, -50.0, -99.0, -100.0, *written):
        replaced = np.where(given.shown, given.unmasked, value)
        text = f"hidden scores were set to {value:g}, not to -inf"
        yield Change({"masked": replaced}, text if value < -100 else f"{text}: hidden keys keep a share")
        if value > -100:
            added = np.where(given.shown, given.unmasked, given.unmasked + value)
            yield Change({"masked": added}, f"{value:g} was added to hidden scores, which is not enough to hide them")


_BEFORE_MASK = tuple(each.name for each in STEPS.of_line("logits") if STEPS.order(each.name) < STEPS.order("masked"))


@mistake("masked-early", at=_BEFORE_MASK, simplicity=2)
def masked_early(given: Given) -> Changes:
    """Hidden cells are hidden already, before the step that hides them."""
    if given.shown is None or given.target not in _BEFORE_MASK:
        return
    for value, told in ((given.rules.mask_value, f"{given.rules.mask_value:g}"), (0.0, "0")):
        text = f"hidden cells are {told} already: {given.target} has all its numbers, and hiding is the step masked"
        yield Change({given.target: np.where(given.shown, given[given.target], value)}, text, given.target)


@mistake("mask-unasked", at=("masked",), simplicity=3)
def mask_unasked(given: Given) -> Changes:
    """A causal mask was used, which this problem does not have."""
    if given.shown is None and given.begin not in ("masked", "weights") and given.rules.masks == ():
        at = given.extent.indices("top-left")
        masked = np.where(at.key <= at.position, given.unmasked, -np.inf)
        yield Change({"masked": masked}, "a causal mask was applied, which this problem does not ask for")


@mistake("masked-not-used", at=("weights",), simplicity=2)
def masked_not_used(given: Given) -> Changes:
    """The masked scores were written, and the weights made from the scores before the mask."""
    if "masked" in given.written and given.target == "weights" and given.shown is not None:
        text = "the mask was put on the scores, but the weights were made from those without it"
        yield Change({"masked": given.unmasked}, text, "weights")
