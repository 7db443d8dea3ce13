"""Normalizers: what turns a row of scores into a row of weights. A hidden cell has weight 0 in each.

Letters: logits (..., n, m), visible broadcasts to it; the weights are (..., n, m).
`visible_only`: what is hidden by a finite mask value has weight 0 here too. `of_kernel`: it takes kernel values.
"""

from __future__ import annotations

from collections.abc import Callable

from attncli.errors import ShapeError
from attncli.lazy import Array, np
from attncli.registry import LooseEntry as Entry
from attncli.registry import Registry, check_call

NORMALIZERS = Registry("normalizer")
normalizer = NORMALIZERS


def find_normalizer(name: str | Callable[..., Array]) -> Entry:
    """The registered normalizer of that name, or any g(logits, visible) -> (..., n, m)."""
    if callable(name):
        hint = "normalizer(logits, visible) gives weights; all three are (..., n, m), visible of booleans"
        check_call(name, "normalizer", ["logits", "visible"], hint)
        return Entry(name=getattr(name, "__name__", "callable"), function=name, facts={"sums_to_one": False})
    return NORMALIZERS.find(name)


def weigh(entry: Entry, logits: Array, counted: Array, *, kernel: bool) -> Array:
    """The weights that a normalizer gives, (..., n, m). kernel: the logits are logarithms of kernel values.

    Raises ShapeError for a callable that gives something of another shape.
    """
    with np.errstate(all="ignore"):
        # The sum takes kernel values: those of the log domain in units of the row's largest, which cancels.
        values = exp_shifted(logits, counted) if kernel and entry.facts.get("of_kernel") else logits
        weights = np.asarray(entry.function(values, counted)).astype(logits.dtype, copy=False)
    if weights.shape != logits.shape:
        raise ShapeError(f"the normalizer {entry.name!r} gave {weights.shape}, not (..., n, m) = {logits.shape}")
    return weights


@normalizer("softmax", formula="e^s / sum e^s", source="Bridle 1990", sums_to_one=True)
def softmax(logits: Array, visible: Array) -> Array:
    """The exponentials' shares; the row's maximum is subtracted first, so that large scores are ordinary numbers."""
    shifted = exp_shifted(logits, visible)
    return shifted / _or_one(shifted.sum(axis=-1, keepdims=True))


@normalizer(
    "sum",
    formula="s / sum s (of kernel values, where the score is a kernel)",
    source="Nadaraya 1964",
    sums_to_one=True,
    of_kernel=True,
    visible_only=True,
)
def by_sum(logits: Array, visible: Array) -> Array:
    """Each value's share of the sum of what is visible; a sum of 0 is an empty row."""
    shown = np.where(visible, logits, 0)
    return shown / _or_one(shown.sum(axis=-1, keepdims=True))


@normalizer(
    "hardmax",
    formula="1 for the largest, ties share",
    source="Murphy, Probabilistic Machine Learning, ch. 15",
    sums_to_one=True,
)
def hardmax(logits: Array, visible: Array) -> Array:
    """All weight for the key of the largest score; equal ones share."""
    largest = row_maximum(logits, visible)
    best = (visible & (logits == largest)).astype(logits.dtype)
    best = best / _or_one(best.sum(axis=-1, keepdims=True))
    return np.where(np.isnan(largest) & visible, np.nan, best)


@normalizer(
    "sparsemax",
    formula="max(0, s - tau), tau such that the sum is 1",
    source="Martins, Astudillo 2016, arXiv:1602.02068",
    sums_to_one=True,
)
def sparsemax(logits: Array, visible: Array) -> Array:
    """The point of the simplex nearest to the scores: small weights are exactly 0."""
    largest = row_maximum(logits, visible)
    with np.errstate(invalid="ignore"):
        shifted = np.where(visible, logits - largest, -np.inf)
    descending = -np.sort(-shifted, axis=-1)
    counts = np.arange(1, logits.shape[-1] + 1, dtype=logits.dtype)
    with np.errstate(invalid="ignore"):
        # -inf would spoil the running sums; such a key is never in the support.
        sums = np.cumsum(np.where(np.isneginf(descending), 0, descending), axis=-1)
        support = (1 + counts * descending > sums) & ~np.isneginf(descending)
        size = np.maximum(support.sum(axis=-1, keepdims=True), 1)
        tau = (np.take_along_axis(sums, size - 1, axis=-1) - 1) / size if logits.shape[-1] else np.zeros_like(largest)
        weights = np.maximum(shifted - tau, 0)
    return np.where(visible, np.where(np.isnan(tau), np.nan, weights), 0)


@normalizer("sigmoid", formula="1 / (1 + e^-s)", source="Ramapuram et al. 2024, arXiv:2409.04431", sums_to_one=False)
def sigmoid(logits: Array, visible: Array) -> Array:
    """Each key for itself; the row need not sum to 1."""
    e = np.exp(-np.abs(np.where(visible, logits, 0)))
    return np.where(visible, np.where(logits >= 0, 1 / (1 + e), e / (1 + e)), 0)


@normalizer("none", formula="s", source="the scores themselves", sums_to_one=False, visible_only=True)
def none(logits: Array, visible: Array) -> Array:
    """The scores are the weights; the row need not sum to 1."""
    return np.where(visible, logits, 0)


def row_maximum(logits: Array, visible: Array) -> Array:
    """The largest visible score of each row, (..., n, 1); 0 in a row that sees nothing; NaN where one is NaN."""
    if logits.shape[-1] and visible.all():
        greatest: Array = logits.max(axis=-1, keepdims=True)
        return greatest
    shown = np.where(visible, logits, -np.inf)
    largest: Array = shown.max(axis=-1, keepdims=True, initial=-np.inf)
    nothing = ~np.any(visible, axis=-1, keepdims=True)
    return np.where(nothing, logits.dtype.type(0), largest)


def exp_shifted(logits: Array, visible: Array) -> Array:
    """e^(s - largest), 0 where hidden. +inf or NaN in what is visible gives NaN."""
    with np.errstate(invalid="ignore"):
        if visible.all():
            exponentials: Array = np.exp(logits - row_maximum(logits, visible))
            return exponentials
        return np.where(visible, np.exp(np.where(visible, logits, 0) - row_maximum(logits, visible)), 0)


def _or_one(total: Array) -> Array:
    return np.where(total == 0, 1, total)
