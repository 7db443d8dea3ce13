"""Scores of queries and keys that are only known to lie between bounds: each kind as tightly as its formula allows.

Letters: n queries, m keys, d_q and d_k their widths.
"""

from __future__ import annotations

from attncli.lazy import Array, np
from attncli.pipeline.scores import ScoreSpec
from attncli.verify.intervals import EPSILON, Box, added, product, widened


def score_of(score: ScoreSpec, q: Box, k: Box) -> Box:
    """f(q, k), (..., n, m), or what `score.kernel` says, of boxes of queries (..., n, d_q) and keys (..., m, d_k)."""
    p = score.parameters
    if score.name in ("dot", "scaled-dot"):
        return product(q, k.mT)
    if score.name == "general":
        return product(product(q, Box.of(p["W"])), k.mT)
    if score.name == "concat":
        d_q = q.low.shape[-1]
        return _additive(q, k, p["W"][:, :d_q], p["W"][:, d_q:], p["v"])
    if score.name == "additive":
        return _additive(q, k, p.get("W_q"), p.get("W_k"), p.get("w_v"))
    if q.is_point and k.is_point:
        return Box.of(score(q.low, k.low)).through(lambda x: x, 64)
    if score.name == "cosine":
        return _cosine(score, q, k)
    if score.kernel is not None and score.name in ("gaussian", "laplacian", "boxcar", "triangular", "epanechnikov"):
        return _radial(score, q, k)
    return _by_differences(score, q, k)


def _additive(q: Box, k: Box, W_q: Array | None, W_k: Array | None, w_v: Array | None) -> Box:
    q_h = q if W_q is None else product(q, Box.of(W_q.mT))
    k_h = k if W_k is None else product(k, Box.of(W_k.mT))
    hidden = added(q_h[..., :, None, :], k_h[..., None, :, :]).through(np.tanh)
    w = np.ones(hidden.low.shape[-1]) if w_v is None else np.ravel(w_v)
    return product(hidden, Box.of(w[:, None]))[..., 0]


def _radial(score: ScoreSpec, q: Box, k: Box) -> Box:
    """A function of the distance that never grows with it: from the largest distance and from the smallest."""
    apart = added(q[..., :, None, :], Box(-k.high, -k.low)[..., None, :, :])
    inside = np.where((apart.low <= 0) & (apart.high >= 0), 0, np.minimum(np.abs(apart.low), np.abs(apart.high)))
    outside = np.maximum(np.abs(apart.low), np.abs(apart.high))

    def at(differences: Array) -> Array:
        flat = np.sqrt(np.sum(differences * differences, axis=-1))
        return score(flat.reshape(-1, 1), np.zeros((1, 1))).reshape(flat.shape)

    return widened(at(outside), at(inside), 64)


def _cosine(score: ScoreSpec, q: Box, k: Box) -> Box:
    """The angle between the middles, give or take the angles that the boxes can turn each vector by."""
    turn_q, turn_k = _turn(q), _turn(k)
    angle = np.arccos(np.clip(score(_middle(q), _middle(k)), -1, 1))
    turn = turn_q[..., :, None] + turn_k[..., None, :]
    return widened(np.cos(np.minimum(np.pi, angle + turn)), np.cos(np.maximum(0, angle - turn)), 64, 64 * EPSILON)


def _turn(x: Box) -> Array:
    radius = np.sqrt(np.sum((x.high - x.low) ** 2, axis=-1)) / 2
    length = np.sqrt(np.sum(_middle(x) ** 2, axis=-1))
    with np.errstate(divide="ignore", invalid="ignore"):
        turn: Array = np.arcsin(np.minimum(1, radius / length))
    return np.where(radius == 0, 0, np.where(radius >= length, np.pi, turn))


def _by_differences(score: ScoreSpec, q: Box, k: Box) -> Box:
    """A score of which only the function is known: to first order, by moving one feature after the other."""
    middle_q, middle_k = _middle(q), _middle(k)
    middle = score(middle_q, middle_k)
    reach = np.zeros_like(middle)
    for c in range(middle_q.shape[-1]):
        moved = middle_q.copy()
        moved[..., c] = q.high[..., c]
        reach = reach + np.abs(score(moved, middle_k) - middle)
    for c in range(middle_k.shape[-1]):
        moved = middle_k.copy()
        moved[..., c] = k.high[..., c]
        reach = reach + np.abs(score(middle_q, moved) - middle)
    return widened(middle - reach, middle + reach, 64, 64 * EPSILON)


def _middle(box: Box) -> Array:
    return box.low if box.is_point else (box.low + box.high) / 2
