"""The mistakes that people make with matrices: projections, products in the wrong order, heads, the output.

Entries as in `mistakes.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from attncli.core.normalizers import find_normalizer
from attncli.core.projections import join_heads, project
from attncli.errors import AttnError
from attncli.lazy import Array, np
from attncli.verify.given import Given
from attncli.verify.mistakes import Change, Changes, mistake

_PROJECTIONS = ("Q", "K", "V")


# -- projections ------------------------------------------------------------------------------------------------


def _reprojected(given: Given, ways: Mapping[str, tuple[Array, Array | None]], done: str) -> Changes:
    """Every choice of the open projections, all of them first, made from other data or another weight matrix.

    ways: name to (data, weight). done: a sentence with `{names}` in it.
    """
    made = {}
    for name, (source, weight) in ways.items():
        if name not in given.open:
            continue
        try:
            other = given.projected(name, source, weight)
        except AttnError:
            continue  # the sizes do not allow this mistake
        if other.shape[-2:] == given[name].shape[-2:] and not np.array_equal(other, given[name]):
            made[name] = other
    yield from _together(made, done)


def _together(made: Mapping[str, Array], done: str) -> Changes:
    """All of these projections at once, then fewer of them: a person makes a mistake in one or in each."""
    for count in range(len(made), 0, -1):
        for names in combinations(made, count):
            yield Change({name: made[name] for name in names}, done.format(names=_and(names)), names[0])


def _and(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _weight(given: Given, name: str) -> Array | None:
    return given.frame.inputs.get(f"W_{name}")


@mistake("weights-transposed", at=_PROJECTIONS, source="W X in columns, X W in rows", simplicity=2)
def weight_matrices_transposed(given: Given) -> Changes:
    """A weight matrix was used transposed: X W^T for X W."""
    ways = {}
    for name in _PROJECTIONS:
        weight = _weight(given, name)
        if weight is not None:
            ways[name] = (given[given.frame.source(name)], weight.T)
    yield from _reprojected(given, ways, "the weight matrix of {names} was transposed")


@mistake("weights-exchanged", at=_PROJECTIONS, simplicity=3)
def weight_matrices_exchanged(given: Given) -> Changes:
    """One of W_Q, W_K, W_V was used in place of another."""
    for one, other in combinations(_PROJECTIONS, 2):
        weights = {name: _weight(given, name) for name in (one, other)}
        if weights[one] is None and weights[other] is None:
            continue
        made: dict[str, Array] = {}
        for name, instead in ((one, other), (other, one)):
            if name in given.open:
                changes = _reprojected(given, {name: (given[given.frame.source(name)], weights[instead])}, "")
                made |= next((change.arrays for change in changes), {})
        if len(made) == 2:
            yield Change(dict(made), f"W_{one} and W_{other} were exchanged", one)
        for name, array in made.items():
            yield Change({name: array}, f"{name} was made with W_{other if name == one else one}, not W_{name}", name)


@mistake("wrong-source", at=_PROJECTIONS, source="cross-attention", simplicity=2)
def wrong_source(given: Given) -> Changes:
    """Keys or values were taken from X, not Y, or queries from Y."""
    if "X" not in given or "Y" not in given:
        return
    ways = {name: (given["X"], _weight(given, name)) for name in ("K", "V")}
    yield from _reprojected(given, ways, "{names} came from X, not from Y")
    yield from _reprojected(given, {"Q": (given["Y"], _weight(given, "Q"))}, "{names} came from Y, not from X")


@mistake("not-projected", at=(*_PROJECTIONS, "heads", "output"), simplicity=3)
def not_projected(given: Given) -> Changes:
    """The data itself was used in place of Q, K or V."""
    for name in _PROJECTIONS:
        source = given.frame.source(name)
        if name not in given or source not in given or given[source].shape[-2:] != given[name].shape[-2:]:
            continue
        if name in given.open or (name == "V" and given.target in ("heads", "output")):
            step = name if name in given.open else given.target
            yield Change({name: given[source]}, f"{source} itself was used in place of {name}", step)


@mistake("product-from-the-left", at=_PROJECTIONS, source="W X with tokens as rows", simplicity=4, whole=True)
def product_from_the_left(given: Given) -> Changes:
    """W X was computed where tokens are rows and X W is meant."""
    made = {}
    for name in _PROJECTIONS:
        weight, source = _weight(given, name), given.frame.source(name)
        if name in given.open and weight is not None and source in given:
            data = given[source]
            if weight.shape[-1] == data.shape[-2] and (weight @ data).shape[-2:] == given[name].shape[-2:]:
                made[name] = weight @ data
    letter = "W" if (given.frame.weight_layout == "in-out") == (given.exact.layout == "rows") else "W^T"
    done, right = given.product(letter, "X"), given.product("X", letter)
    yield from _together(made, f"{{names}} made as {done}, not as {right}")


@mistake("no-projection-bias", at=(*_PROJECTIONS, "output"), simplicity=1)
def no_projection_bias(given: Given) -> Changes:
    """The bias of a projection was not added."""
    for name in (*_PROJECTIONS, "O"):
        bias = given.frame.inputs.get(f"b_{name}")
        step = "output" if name == "O" else name
        if bias is not None and step in given.open and step in given:
            without = given[step] - bias.reshape(-1)
            past = given.frame.inputs.get(f"past_{name.lower()}")
            if past is not None:
                count = past.shape[-2]
                without = np.concatenate([given[step][..., :count, :], without[..., count:, :]], axis=-2)
            yield Change({step: without}, f"the bias b_{name} was not added", step)


# -- products ---------------------------------------------------------------------------------------------------


def _dots(given: Given) -> bool:
    """Whether the scores are plain dot products of q and k."""
    return "q" in given and "k" in given and given.frame.score.name in ("dot", "scaled-dot")


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
    at=(*_PROJECTIONS, "weights", "output"),
    source="tokens as rows or as columns",
    simplicity=3,
    whole=True,
)
def transposed(given: Given) -> Changes:
    """A step was written transposed."""
    for step in dict.fromkeys((*_PROJECTIONS, given.target)):
        if step not in given.open or step not in given or step not in (*_PROJECTIONS, "weights", "output"):
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
        from attncli.core.scores import hidden_layer

        p = given.frame.score.parameters
        if given.frame.score.name == "concat":
            d_q = given["q"].shape[-1]
            p = {"W_q": p["W"][:, :d_q], "W_k": p["W"][:, d_q:], "w_v": p["v"]}
        q, k, w = hidden_layer(given["q"], given["k"], p.get("W_q"), p.get("W_k"), p.get("w_v"))
        yield Change({"scores": (q[..., :, None, :] + k[..., None, :, :]) @ w}, "the tanh was left out")


@mistake("kernel-distance", at=("kernel",), source="kernel regression", simplicity=3)
def kernel_distance(given: Given) -> Changes:
    """The distance was not squared, or not halved, or squared where it is not, or squared apart from its width."""
    if "kernel" not in given or given.begin is not None:
        return
    from attncli.core.scores import distances

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
            with np.errstate(divide="ignore"):
                yield Change({"scores": np.log(kernel)}, text, "kernel")
        else:
            yield Change({"kernel": kernel}, text)


@mistake("not-normalized", at=("weights",), source="kernel regression", simplicity=2)
def not_normalized(given: Given) -> Changes:
    """The kernel values were not divided by their sum."""
    entry = find_normalizer(given.rules.normalizer)
    if entry.facts.get("of_kernel") and given.begin != "weights":
        values = given["kernel"] if "kernel" in given else np.where(np.isneginf(given.logits), 0, given.logits)
        yield Change({"weights": np.where(given.visible, values, 0)}, "the values were not divided by their sum")


# -- heads ------------------------------------------------------------------------------------------------------


@mistake("heads-split-other-order", at=("scores", "heads", "output"), source="reshape without transpose", simplicity=3)
def heads_split_other_order(given: Given) -> Changes:
    """The features were dealt to the heads in another order."""
    if given.heads == 1 or not given.frame.joined:
        return
    names = [name for name in _PROJECTIONS if name in given]
    if "scores" not in given.open:
        names = [name for name in names if name == "V" and given.target in ("heads", "output")]
    elif given.target not in ("heads", "output"):
        names = [name for name in names if name != "V"]
    if not names:
        return
    step = "scores" if "scores" in given.open and "Q" in names else given.target
    by_rows = given.displayed("the matrix was cut into heads by rows, not by columns")
    for order, text in ((_interleaved, "head 1 got every H-th feature, not the first ones"), (_reshaped, by_rows)):
        changed = {}
        for name in names:
            heads = given.heads if name == "Q" else given.frame.key_heads
            if heads > 1:
                changed[name.lower()] = given_repeat(given, name, order(given[name], heads))
        if changed:
            yield Change(changed, f"the heads were split in the other order: {text}", step)


def given_repeat(given: Given, name: str, split: Array) -> Array:
    """Key heads, one for each query head."""
    return split if name == "Q" else np.repeat(split, given.heads // split.shape[-3], axis=-3)


def _interleaved(x: Array, heads: int) -> Array:
    return np.moveaxis(x.reshape(*x.shape[:-1], x.shape[-1] // heads, heads), -1, -3)


def _reshaped(x: Array, heads: int) -> Array:
    return x.reshape(*x.shape[:-2], heads, x.shape[-2], x.shape[-1] // heads)


@mistake("heads-joined-other-order", at=("output",), simplicity=4)
def heads_joined_other_order(given: Given) -> Changes:
    """The heads' results were put together in another order."""
    if given.heads > 1 and "heads" in given:
        heads = given["heads"]
        mixed = np.moveaxis(heads, -3, -1).reshape(*heads.shape[:-3], heads.shape[-2], -1)
        yield Change({"output": _through_w_o(given, mixed)}, "the heads' results were joined feature by feature")
        rows = heads.reshape(*heads.shape[:-3], heads.shape[-2], -1)
        text = given.displayed("the heads' results were joined row by row")
        yield Change({"output": _through_w_o(given, rows)}, text)


def _through_w_o(given: Given, joined: Array) -> Array:
    return project("W_O", joined, _weight(given, "O"), given.frame.inputs.get("b_O"))


@mistake("heads-averaged", at=("weights", "heads", "output"), simplicity=2)
def heads_averaged(given: Given) -> Changes:
    """The heads were averaged, not kept apart."""
    if given.heads == 1:
        return
    if "weights" in given.open and "weights" in given:
        mean = given["weights"].mean(axis=-3, keepdims=True)
        yield Change(
            {"weights": np.broadcast_to(mean, given["weights"].shape)}, "the heads' weights were averaged", "weights"
        )
    if "heads" in given and given.target in ("heads", "output"):
        mean = np.broadcast_to(given["heads"].mean(axis=-3, keepdims=True), given["heads"].shape)
        yield Change({"heads": mean}, "the heads' results were averaged, not put side by side", given.target)


@mistake("groups-tiled", at=("scores", "heads", "output"), source="h mod G in place of h G / H", simplicity=2)
def groups_tiled(given: Given) -> Changes:
    """The key heads were tiled over the query heads (k1 k2 k1 k2), not repeated (k1 k1 k2 k2)."""
    groups = given.frame.key_heads if given.frame.joined else given["K"].shape[-3] if "K" in given else 1
    if groups in (1, given.heads):
        return
    order = [head * (given.heads // groups) for head in range(groups)] * (given.heads // groups)
    text = "the key heads were tiled over the query heads: query head h used key head h mod G"
    changed = {}
    if "scores" in given.open and "k" in given:
        changed["k"] = given["k"][..., order, :, :]
    if given.target in ("heads", "output") and "v" in given:
        changed["v"] = given["v"][..., order, :, :]
    if changed:
        yield Change(changed, text, "scores" if "k" in changed else given.target)


# -- output -----------------------------------------------------------------------------------------------------


@mistake("no-W_O", at=("output",), simplicity=1)
def without_w_o(given: Given) -> Changes:
    """The output was not multiplied by W_O."""
    if "W_O" in given.frame.inputs and "v" in given:
        joined = _joined(given)
        if joined.shape[-2:] == given["output"].shape[-2:]:
            yield Change({"output": joined}, "the joined heads were not multiplied by W_O")


@mistake("W_O-transposed", at=("output",), simplicity=3)
def w_o_transposed(given: Given) -> Changes:
    """W_O was used transposed."""
    weight = _weight(given, "O")
    if weight is not None and weight.shape[0] == weight.shape[1] and "v" in given:
        other = project("W_O", _joined(given), weight.T, given.frame.inputs.get("b_O"))
        yield Change({"output": other}, "W_O was transposed")


def _joined(given: Given) -> Array:
    return join_heads(given["heads"] if "heads" in given else given["weights"] @ given["v"])
