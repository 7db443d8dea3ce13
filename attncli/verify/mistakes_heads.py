"""The mistakes that people make with heads and the output: split, joined or grouped in another way, W_O left out.

Entries as in `mistakes.py`.
"""

from __future__ import annotations

from attncli.lazy import Array, np
from attncli.pipeline.heads import join_heads, project
from attncli.verify.given import Given
from attncli.verify.mistakes import Change, Changes, mistake


@mistake("heads-split-other-order", at=("scores", "heads", "output"), source="reshape without transpose", simplicity=3)
def heads_split_other_order(given: Given) -> Changes:
    """The features were dealt to the heads in another order."""
    if given.heads == 1 or not given.frame.joined:
        return
    names = [name for name in ("Q", "K", "V") if name in given]
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
                changed[name.lower()] = np.repeat(order(given[name], heads), given.heads // heads, axis=-3)
        if changed:
            yield Change(changed, f"the heads were split in the other order: {text}", step)


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
    through: Array = project("W_O", joined, given.frame.inputs.get("W_O"), given.frame.inputs.get("b_O"))
    return through


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
    weight = given.frame.inputs.get("W_O")
    if weight is not None and weight.shape[0] == weight.shape[1] and "v" in given:
        other = project("W_O", _joined(given), weight.T, given.frame.inputs.get("b_O"))
        yield Change({"output": other}, "W_O was transposed")


def _joined(given: Given) -> Array:
    joined: Array = join_heads(given["heads"] if "heads" in given else given["weights"] @ given["v"])
    return joined
