"""Normalizers: what turns a row of scores into a row of weights. A hidden cell has weight 0 in each.

Letters: logits (..., n, m), over broadcasts to it, True where a key has a say; the weights are (..., n, m).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from attncli.errors import Opaque, Place, UsageError
from attncli.lazy import Array, np
from attncli.registry import Entry, Registry, check_call


@dataclass(kw_only=True, eq=False, repr=False)
class NormalizerEntry(Entry):
    """A normalizer as it is registered: function(logits, over) -> weights.

    sums_to_one: whether a row of weights does. monotone: whether a weight grows with its own score and never with the
    others; None: where no score is negative.
    error: how an error of the scores reaches the weights: "relative" to the weight, or "absolute".
    exponentials: whether the weights are shares of e^s, so that there are steps for e^s and its sum.
    of_kernel: whether it takes the values of a kernel. visible_only: whether what a finite mask value hides has
    weight 0 all the same. default: whether it is taken where nothing is said. jumps: whether a weight may jump where
    scores are equal.
    by_hand: the function as one writes it by hand, where it is written so that digits are kept.
    example, wrong: of one that has a parameter, how it is said, and what is wrong with a number ("" if nothing is).
    threshold: by the scores and which of them count, the tau, (..., n, 1), of which max(0, s - tau) are the weights.
    """

    sums_to_one: bool
    monotone: bool | None
    error: Literal["relative", "absolute"]
    exponentials: bool = False
    of_kernel: bool = False
    visible_only: bool = False
    default: bool = False
    jumps: bool = False
    by_hand: Callable[[Any, Array], Any] | None = None
    threshold: Callable[[Any, Array], Any] | None = None
    example: str = ""
    wrong: Callable[[float], str] = lambda number: ""


_HALVINGS = 60

NORMALIZERS: Registry[NormalizerEntry] = Registry("normalizer", NormalizerEntry)
normalizer = NORMALIZERS


def find_normalizer(name: str | Callable[..., Array] | None) -> NormalizerEntry:
    """The registered normalizer of that name (the default one for None), or any g(logits, visible) -> (..., n, m)."""
    if name is None:
        return NORMALIZERS.default
    if callable(name):
        hint = "normalizer(logits, visible) gives weights; all three are (..., n, m), visible of booleans"
        check_call(name, "normalizer", ["logits", "visible"], hint)
        called = getattr(name, "__name__", "callable")
        return NormalizerEntry(name=called, function=name, sums_to_one=False, monotone=False, error="absolute")
    return named_normalizer(name)


def named_normalizer(name: str, place: Place | str | None = None) -> NormalizerEntry:
    """The registered normalizer of that name, or of one with its parameter: top:2. Raises InputError."""
    base, colon, text = name.partition(":")
    entry = NORMALIZERS.find(base, place=place)
    if not entry.parameters:
        if colon:
            raise UsageError(f"the normalizer {base!r} takes no parameter", place=place, hint=f"leave out :{text}")
        return entry
    ((parameter, default),) = entry.parameters.items()
    if not colon and isinstance(default, float):
        return entry
    try:
        number = float(text)
        wrong = entry.wrong(number)
    except ValueError:
        wrong = f"{text!r} is no number" if colon else "it is missing"
    if wrong:
        raise UsageError(f"{parameter} of the normalizer {base!r}: {wrong}", place=place, hint=f"as {entry.example}")
    return replace(entry, name=name, function=partial(entry.function, **{parameter: number}))


@normalizer(
    "softmax",
    formula="e^s / sum e^s",
    latex=r"e^{s} / \textstyle\sum e^{s}",
    source="Bridle 1990",
    sums_to_one=True,
    monotone=True,
    error="relative",
    exponentials=True,
    default=True,
)
def softmax(logits: Array, over: Array) -> Array:
    """The exponentials' shares; the row's maximum is subtracted first, so that large scores are ordinary numbers."""
    shifted = exp_shifted(logits, over)
    return shifted / _or_one(shifted.sum(axis=-1, keepdims=True))


@normalizer(
    "sum",
    formula="s / sum s (of kernel values, where the score is a kernel)",
    latex=r"s / \textstyle\sum s",
    source="Nadaraya 1964",
    sums_to_one=True,
    monotone=None,
    error="absolute",
    of_kernel=True,
    visible_only=True,
)
def by_sum(logits: Array, over: Array) -> Array:
    """Each value's share of the sum of what has a say; a sum of 0 is an empty row."""
    shown = np.where(over, logits, 0)
    return shown / _or_one(shown.sum(axis=-1, keepdims=True))


@normalizer(
    "hardmax",
    formula="1 for the largest, ties share",
    latex=r"\text{1 for the largest, ties share}",
    source="Murphy, Probabilistic Machine Learning, ch. 15",
    sums_to_one=True,
    monotone=True,
    error="absolute",
    jumps=True,
)
def hardmax(logits: Array, over: Array) -> Array:
    """All weight for the key of the largest score; equal ones share."""
    largest = row_maximum(logits, over)
    best = (over & (logits == largest)).astype(logits.dtype)
    best = best / _or_one(best.sum(axis=-1, keepdims=True))
    return np.where(np.isnan(largest) & over, np.nan, best)


def _threshold(logits: Array, over: Array) -> Array:
    """The tau of sparsemax: what is above it of the scores sums to 1."""
    stays = sparsemax(logits, over) > 0
    total = np.sum(np.where(stays, logits, 0), axis=-1, keepdims=True)
    tau: Array = (total - 1) / np.sum(stays, axis=-1, keepdims=True)
    return tau


@normalizer(
    "sparsemax",
    formula="max(0, s - tau), tau such that the sum is 1",
    latex=r"\max(0, s - \tau)",
    source="Martins, Astudillo 2016, arXiv:1602.02068",
    sums_to_one=True,
    monotone=True,
    error="absolute",
    threshold=_threshold,
)
def sparsemax(logits: Array, over: Array) -> Array:
    """The point of the simplex nearest to the scores: small weights are exactly 0."""
    largest = row_maximum(logits, over)
    with np.errstate(invalid="ignore"):
        shifted = np.where(over, logits - largest, -np.inf)
    descending = -np.sort(-shifted, axis=-1)
    counts = np.arange(1, logits.shape[-1] + 1, dtype=logits.dtype)
    with np.errstate(invalid="ignore"):
        # -inf would spoil the running sums; such a key is never in the support.
        sums = np.cumsum(np.where(np.isneginf(descending), 0, descending), axis=-1)
        support = (1 + counts * descending > sums) & ~np.isneginf(descending)
        size = np.maximum(support.sum(axis=-1, keepdims=True), 1)
        tau = (np.take_along_axis(sums, size - 1, axis=-1) - 1) / size if logits.shape[-1] else np.zeros_like(largest)
        weights = np.maximum(shifted - tau, 0)
    return np.where(over, np.where(np.isnan(tau), np.nan, weights), 0)


@normalizer(
    "sigmoid",
    formula="1 / (1 + e^-s)",
    latex=r"1 / (1 + e^{-s})",
    source="Ramapuram et al. 2024, arXiv:2409.04431",
    sums_to_one=False,
    monotone=True,
    error="relative",
    by_hand=lambda logits, over: 1 / (1 + np.exp(-logits)),
)
def sigmoid(logits: Array, over: Array) -> Array:
    """Each key for itself; the row need not sum to 1."""
    e = np.exp(-np.abs(np.where(over, logits, 0)))
    return np.where(over, np.where(logits >= 0, 1 / (1 + e), e / (1 + e)), 0)


@normalizer(
    "none",
    formula="s",
    latex="s",
    source="the scores themselves",
    sums_to_one=False,
    monotone=True,
    error="absolute",
    visible_only=True,
)
def none(logits: Array, over: Array) -> Array:
    """The scores are the weights; the row need not sum to 1."""
    return np.where(over, logits, 0)


@normalizer(
    "entmax",
    formula="max(0, (alpha - 1) s - tau)^(1 / (alpha - 1)), tau such that the sum is 1",
    latex=r"\max(0, (\alpha - 1) s - \tau)^{1 / (\alpha - 1)}",
    source="Peters, Niculae, Martins 2019, arXiv:1905.05702",
    sums_to_one=True,
    monotone=True,
    error="absolute",
    example="entmax:1.5; alpha is more than 1, where 1 would be softmax and 2 is sparsemax",
    wrong=lambda alpha: "" if 1.01 <= alpha <= 100 else "it must be from 1.01 to 100",
)
def entmax(logits: Array, over: Array, *, alpha: float = 1.5) -> Array:
    """Between softmax and sparsemax: the larger alpha, the more weights are exactly 0."""
    power = 1 / (alpha - 1)
    if not isinstance(logits, np.ndarray):
        s = getattr(logits, "value", None)
        if s is None or s.shape != logits.shape:
            raise Opaque("the threshold of entmax is found by halving, not by a formula")
        tau = _halved(s, over, alpha) + (alpha - 1) * row_maximum(s, over)
        return np.where(over, np.maximum(0, (alpha - 1) * logits - tau) ** power, 0)
    with np.errstate(invalid="ignore", over="ignore"):
        x = np.where(over, (logits.astype(np.float64) - row_maximum(logits, over)) * (alpha - 1), -np.inf)
        shares = np.maximum(x - _halved(logits, over, alpha), 0) ** power
        weights = shares / _or_one(shares.sum(axis=-1, keepdims=True))
        spoiled = np.isnan(np.where(over, x, 0)).any(axis=-1, keepdims=True)
    return np.where(over, np.where(spoiled, np.nan, weights), 0).astype(logits.dtype)


def _halved(logits: Array, over: Array, alpha: float) -> Array:
    """The tau of entmax where the largest score is 0: with it, the weights sum to 1."""
    with np.errstate(invalid="ignore", over="ignore"):
        x = np.where(over, (logits.astype(np.float64) - row_maximum(logits, over)) * (alpha - 1), -np.inf)
        low, high = np.full((*x.shape[:-1], 1), -1.0), np.zeros((*x.shape[:-1], 1))
        for _ in range(_HALVINGS):  # until tau lies between neighbouring doubles
            tau = (low + high) / 2
            more = (np.maximum(x - tau, 0) ** (1 / (alpha - 1))).sum(axis=-1, keepdims=True) >= 1
            low, high = np.where(more, tau, low), np.where(more, high, tau)
    return low


@normalizer(
    "top",
    formula="e^s / sum e^s over the K largest; equal ones stay together",
    latex=r"e^{s} / \textstyle\sum_{\text{the largest } K} e^{s}",
    source="Gupta et al. 2021, arXiv:2106.06899",
    sums_to_one=True,
    monotone=True,
    error="relative",
    jumps=True,
    example="top:2",
    wrong=lambda k: "" if k >= 1 and k == int(k) else "it must be a whole number from 1 on",
)
def top(logits: Array, over: Array, *, k: int) -> Array:
    """A softmax over the K largest scores of each row; the others have weight 0."""
    place = max(0, logits.shape[-1] - int(k))
    least = np.sort(np.where(over, logits, -np.inf), axis=-1)[..., place : place + 1]
    spoiled = (np.isnan(logits) & over).any(axis=-1, keepdims=True)
    return softmax(logits, over & ((logits >= least) | spoiled)) if logits.shape[-1] else logits


def row_maximum(logits: Array, over: Array) -> Array:
    """The largest score that counts of each row, (..., n, 1); 0 in a row that counts none; NaN where one is NaN."""
    if logits.shape[-1] and over.all():
        greatest: Array = logits.max(axis=-1, keepdims=True)
        return greatest
    shown = np.where(over, logits, -np.inf)
    largest: Array = shown.max(axis=-1, keepdims=True, initial=-np.inf)
    nothing = ~np.any(over, axis=-1, keepdims=True)
    return np.where(nothing, logits.dtype.type(0), largest)


def exp_shifted(logits: Array, over: Array) -> Array:
    """e^(s - largest), 0 where hidden. +inf or NaN in what counts gives NaN."""
    with np.errstate(invalid="ignore"):
        if over.all():
            exponentials: Array = np.exp(logits - row_maximum(logits, over))
            return exponentials
        return np.where(over, np.exp(np.where(over, logits, 0) - row_maximum(logits, over)), 0)


def _or_one(total: Array) -> Array:
    return np.where(total == 0, 1, total)
