"""Numbers about a step: the moments of scores, the entropy of weights."""

from __future__ import annotations

from attncli.lazy import Array, np


class Moments:
    """Mean and variance (of the population) of all visible scores, some rows (r, m) after the other.

    -inf, a key out of a kernel's reach, is left out, too. Without any number both are NaN; NaN or +inf among the scores
    gives what arithmetic gives. size: how many scores there are; left_out: how many of these are hidden.
    """

    def __init__(self) -> None:
        self.size = self.left_out = 0
        self.mean = float("nan")
        self._squares = float("nan")  # of the distances from the mean

    def add(self, scores: Array, hidden: Array | None = None) -> None:
        """Count these too (Chan, Golub, LeVeque 1979: two means and sums of squares make one)."""
        seen = scores.ravel() if hidden is None else scores[~hidden]
        within = seen[~np.isneginf(seen)].astype(np.float64)
        before = self.size - self.left_out
        self.size += scores.size
        self.left_out += scores.size - within.size
        if not within.size:
            return
        with np.errstate(invalid="ignore", over="ignore"):
            mean = float(within.mean())
            squares = float(within.var()) * within.size
        if before:
            apart, share = mean - self.mean, within.size / (before + within.size)
            squares += self._squares + apart * apart * before * share
            mean = self.mean + apart * share
        self.mean, self._squares = mean, squares

    @property
    def variance(self) -> float:
        """The mean of the squared distances from the mean."""
        return self._squares / (self.size - self.left_out) if self.size > self.left_out else float("nan")


def entropy(weights: Array) -> Array:
    """-sum p log p, in nats, of each row: (..., n, m) -> (..., n). A weight of 0 adds nothing."""
    weights = weights.astype(np.float64)
    positive = weights != 0
    with np.errstate(invalid="ignore"):
        return np.asarray(-(weights * np.log(np.where(positive, weights, 1))).sum(axis=-1) + 0.0)
