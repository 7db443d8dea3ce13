"""The mistakes that people make with scores and products: matrices transposed or exchanged, another formula.

Entries as in `mistakes.py`.
"""

from __future__ import annotations

from attncli.lazy import Array, np
from attncli.pipeline.normalizers import find_normalizer
from attncli.verify.given import Given
from attncli.verify.mistakes import Change, Changes, mistake

_TRANSPOSED = ("Q", "K", "V", "weights", "output")


def _dots(given: Given) -> bool:
    """Whether the scores are plain dot products of q and k."""
    return "q" in given and "k" in given and given.frame.score.dots


def _scores(given: Given, product: Array, text: str) -> Changes:
    if product.shape == given["scores"].shape:
        yield Change({"scores": product}, text)


@mistake("scores-transposed", at=("scores",), source="K Q^T", simplicity=2, whole=True)
def scores_transposed(given: Given) -> Changes:
    """K Q^T was computed, not Q K^T."""
    if "scores" in given and given.begin is None:
        done, right = given.product("K", "Q^T"), given.product("Q", "K^T")
        text = f"the scores are {done}, not {right}: rows and columns are exchanged"
        yield from _scores(given, given["scores"].mT, text)


@mistake(
    "transposed",
    at=_TRANSPOSED,
    source="tokens as rows or as columns",
    simplicity=3,
    whole=True,
)
def transposed(given: Given) -> Changes:
    """A step was written transposed."""
    for step in dict.fromkeys(("Q", "K", "V", given.target)):
        if step not in given.open or step not in given or step not in _TRANSPOSED:
            continue
        if given[step].shape[-1] == given[step].shape[-2]:
            yield Change({step: given[step].mT}, f"{step} is written transposed: rows and columns are exchanged", step)


@mistake("scores-of-features", at=("scores",), source="K^T Q, Q^T K, Q K, Q Q^T, K K^T", simplicity=5, whole=True)
def scores_of_features(given: Given) -> Changes:
    """Another product of Q and K was computed, which has the same shape here."""
    if not _dots(given):
        return
    q, k = given["q"], given["k"]
    named = {"Q": q, "K": k, "Q^T": q.mT, "K^T": k.mT}
    for left, right in (("K^T", "Q"), ("Q^T", "K"), ("Q", "K"), ("Q", "Q^T"), ("K", "K^T")):
        if named[left].shape[-1] == named[right].shape[-2]:
            text = f"the scores are {given.product(left, right)}, not {given.product('Q', 'K^T')}"
            yield from _scores(given, named[left] @ named[right], text)


@mistake("key-value-exchanged", at=("scores", "heads", "output"), simplicity=3)
def key_and_value_exchanged(given: Given) -> Changes:
    """Keys and values were exchanged."""
    if "k" not in given or "v" not in given:
        return
    k, v = given["k"], given["v"]
    if k.shape[-1] != v.shape[-1]:
        return
    if "scores" in given.open:
        both = {"k": v, "v": k} if given.target in ("heads", "output") else {"k": v}
        text = f"keys and values were exchanged: the scores are {given.product('Q', 'V^T')}"
        yield Change(both, text, "scores")
    if given.target in ("heads", "output"):
        yield Change({"v": k}, "the weights were multiplied by K, not by V", given.target)


@mistake("weights-transposed-before-V", at=("heads", "output"), simplicity=3, whole=True)
def transposed_before_values(given: Given) -> Changes:
    """The weights were transposed before they were multiplied by V."""
    if given.widths["n"] == given.widths["m"] and "weights" in given:
        step = "heads" if "heads" in given.open and "heads" in given else "output"
        yield Change({"weights": given["weights"].mT}, "the weights were transposed before the product with V", step)


@mistake("no-tanh", at=("scores",), source="additive attention", simplicity=2)
def no_tanh(given: Given) -> Changes:
    """The tanh of an additive score was left out."""
    if "scores" in given.open and given.begin is None and given.frame.score.name in ("additive", "concat"):
        from attncli.pipeline.scores import hidden_layer

        p = given.frame.score.parameters
        if given.frame.score.name == "concat":
            d_q = given["q"].shape[-1]
            p = {"W_q": p["W"][:, :d_q], "W_k": p["W"][:, d_q:], "w_v": p["v"]}
        layer = (p.get(name) for name in ("W_q", "W_k", "w_v", "b_q", "b_k"))
        q, k, w = hidden_layer(given["q"], given["k"], *layer)
        without = (q[..., :, None, :] + k[..., None, :, :]) @ w + p.get("b_v", 0)
        yield Change({"scores": without}, f"the {p.get('activation', 'tanh')} was left out")


@mistake("no-feature-map", at=("kernel",), source="linear attention", simplicity=2)
def no_feature_map(given: Given) -> Changes:
    """The feature map of linear attention was left out."""
    entry = given.frame.score.entry
    if "kernel" in given and given.begin is None and entry is not None and "map" in entry.words:
        text = "the feature map was left out: these are the products of Q and K themselves"
        yield Change({"kernel": given["q"] @ given["k"].mT}, text)


@mistake("kernel-distance", at=("kernel",), source="kernel regression", simplicity=3)
def kernel_distance(given: Given) -> Changes:
    """The distance was not squared, or not halved, or squared where it is not, or squared apart from its width."""
    if "kernel" not in given or given.begin is not None:
        return
    from attncli.pipeline.tight import distances

    d, name = distances(given["q"], given["k"]), given.frame.score.name
    width = given.frame.score.parameters.get("sigma", given.frame.score.parameters.get("radius", 1.0))
    u = d / width
    made = {
        "gaussian": ((np.exp(-u * u), "the 2 of 2 sigma^2 is missing"),
                     (np.exp(-u / 2), "the distance was not squared"),
                     (np.exp(-d * d / (2 * width)), "sigma was not squared")),
        "laplacian": ((np.exp(-u * u), "the distance was squared"),),
        "epanechnikov": ((np.maximum(0, 1 - u * u), "the factor 3/4 is missing"),
                         (0.75 * np.maximum(0, 1 - u), "the distance was not squared")),
        "triangular": ((np.maximum(0, 1 - u * u), "the distance was squared"),),
        "boxcar": (((u < 1).astype(float), "a key at the radius itself was left out"),),
    }  # fmt: skip
    for kernel, text in made.get(name, ()):
        if given.target == "scores":
            yield Change({"scores": np.log(kernel)}, text, "kernel")
        else:
            yield Change({"kernel": kernel}, text)


@mistake("not-normalized", at=("weights",), source="kernel regression", simplicity=2)
def not_normalized(given: Given) -> Changes:
    """The kernel values were not divided by their sum."""
    entry = find_normalizer(given.rules.normalizer)
    if entry.of_kernel and given.begin != "weights":
        values = given["kernel"] if "kernel" in given else np.where(np.isneginf(given.logits), 0, given.logits)
        yield Change({"weights": np.where(given.visible, values, 0)}, "the values were not divided by their sum")


@mistake("scores-for-weights", at=("heads", "output"), simplicity=3)
def scores_for_weights(given: Given) -> Changes:
    """The scores were multiplied by V, where the weights should be."""
    for name in ("scores", "scaled"):
        if name in given and "v" in given:
            shown = given[name] if given.shown is None else np.where(given.shown, given[name], 0)
            text = f"the output is {given.product(name, 'V')}, not {given.product('weights', 'V')}"
            yield Change({"weights": shown}, text, given.target)
