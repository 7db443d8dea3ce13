"""The mistakes that people make with projections: other data, another weight matrix, the wrong order, no bias.

Entries as in `mistakes.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from attncli.errors import AttnError
from attncli.lazy import Array, np
from attncli.verify.given import Given
from attncli.verify.mistakes import Change, Changes, mistake

_PROJECTIONS = ("Q", "K", "V")


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
