"""The mistakes that people make with the normalizer: the softmax over the wrong numbers, in part, or not at all.

Entries as in `mistakes.py`.
"""

from __future__ import annotations

from attncli.lazy import np
from attncli.pipeline.sinks import has_sink
from attncli.verify.given import Given
from attncli.verify.mistakes import Change, Changes, mistake


def _softmax(given: Given) -> bool:
    return given.exponentials and given.begin != "weights"


@mistake("softmax-over-queries", at=("weights",), source="the axis of a softmax", simplicity=2, whole=True)
def softmax_over_queries(given: Given) -> Changes:
    """The softmax was taken over the other axis."""
    if _softmax(given):
        weights = given.normalized(given.logits.mT).mT
        sums = given.displayed("each column sums to 1, not each row")
        yield Change({"weights": weights}, f"the softmax was taken over the queries: {sums}")


@mistake("softmax-over-all", at=("weights",), simplicity=3, whole=True)
def softmax_over_all(given: Given) -> Changes:
    """The softmax was taken over the whole matrix."""
    if _softmax(given):
        logits = given.logits
        flat = given.normalized(logits.reshape(*logits.shape[:-2], 1, -1))
        text = given.displayed("the softmax was taken over the whole matrix, not each row")
        yield Change({"weights": flat.reshape(logits.shape)}, text)


@mistake("scores-by-sum", at=("weights",), simplicity=4)
def scores_by_sum(given: Given) -> Changes:
    """The scores were divided by their sum, without exponentials."""
    if _softmax(given):
        weights = given.normalized(given.logits, normalizer="sum")
        yield Change({"weights": weights}, "the scores were divided by their sum; the exponentials are missing")


@mistake("sink-forgotten", at=("weights", "sum"), simplicity=2)
def sink_forgotten(given: Given) -> Changes:
    """The sink's share is missing in the denominators."""
    if _softmax(given) and has_sink(given.at):
        text = "the sink is missing in the denominators: each row was made to sum to 1"
        if given.target == "sum":
            yield Change({"sum": given["exp"].sum(axis=-1, keepdims=True)}, text)
        else:
            yield Change({"weights": given.normalized(given.logits, sink=False)}, text)


@mistake("exp-only", at=("weights",), simplicity=2)
def exp_only(given: Given) -> Changes:
    """The exponentials were not divided by their sum."""
    if _softmax(given):
        weights = np.exp(given.logits)
        yield Change({"weights": weights}, "the exponentials were not divided by their sum")


@mistake("exp-by-score-sum", at=("weights",), source="exp(x) / sum(x)", simplicity=5)
def exp_by_score_sum(given: Given) -> Changes:
    """The exponentials were divided by the sum of the scores."""
    if _softmax(given):
        shown = np.where(np.isneginf(given.logits), 0, given.logits)
        weights = np.exp(given.logits) / shown.sum(axis=-1, keepdims=True)
        yield Change(
            {"weights": weights}, "the exponentials were divided by the sum of the scores, not by their own sum"
        )


def _base(given: Given, base: int) -> Changes:
    if _softmax(given):
        logits = given.logits * np.log(base)
        text = f"powers of {base} were used in place of e"
        if given.target in ("exp", "sum"):
            yield Change({"exp": np.exp(logits)}, text, "exp")
        else:
            yield Change({"weights": given.normalized(logits)}, text, "exp")


@mistake("base-2", at=("exp",), simplicity=4)
def base_2(given: Given) -> Changes:
    """Powers of 2 were used in place of e."""
    yield from _base(given, 2)


@mistake("base-10", at=("exp",), simplicity=5)
def base_10(given: Given) -> Changes:
    """Powers of 10 were used in place of e."""
    yield from _base(given, 10)


@mistake("no-softmax", at=("weights",), simplicity=3)
def no_softmax(given: Given) -> Changes:
    """The scores themselves were used as weights."""
    if given.exact.normalizer != "none" and given.begin != "weights":
        weights = np.where(np.isneginf(given.logits), 0, given.logits)
        yield Change({"weights": weights}, "the scores were used as weights; the normalizer is missing")


@mistake("softmax-unasked", at=("weights",), simplicity=3)
def softmax_unasked(given: Given) -> Changes:
    """A softmax was taken, which this problem does not do."""
    if given.exponentials is False and given.exact.normalizer != "none" and given.begin != "weights":
        text = f"a softmax was taken; this problem asks for {given.exact.normalizer}"
        yield Change({"weights": given.normalized(given.logits)}, text)


@mistake("softmax-of-kernel", at=("scores", "weights"), source="kernel regression", simplicity=3)
def softmax_of_kernel(given: Given) -> Changes:
    """The softmax was taken of the kernel itself, not of its logarithm."""
    if "kernel" in given:
        weights = given.normalized(given["kernel"], np.broadcast_to(given.visible, given["kernel"].shape))
        yield Change({"weights": weights}, "the softmax was taken of the kernel values, which are e^s already")
