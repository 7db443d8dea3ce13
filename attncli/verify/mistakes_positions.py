"""The mistakes that people make with what depends on positions, and with norms and scales of heads: left out, or done
another way.

Entries as in `mistakes.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from attncli.lazy import Array, np
from attncli.pipeline.biases import named_biases
from attncli.pipeline.norms import normed
from attncli.pipeline.positions import rotary, turned
from attncli.pipeline.relative import SLOPES, has_vectors
from attncli.pipeline.state import State
from attncli.verify.given import Given
from attncli.verify.mistakes import Change, Changes, mistake, number

_BOTH = "the queries and the keys"


def _before(given: Given, step: str) -> Array:
    """What a step of the queries or keys is made from, split into heads."""
    earlier = given.at.name_before(step)
    assert earlier is not None, step
    return given[earlier]


def _of_either(made: dict[str, Array], text: str) -> Changes:
    """All of these steps changed, then each alone. text: a sentence with `{whose}` in it."""
    yield Change(made, text.format(whose=_BOTH), next(iter(made)))
    for step, array in made.items():
        yield Change({step: array}, text.format(whose="the queries" if step[0] == "Q" else "the keys"), step)


def _otherwise(given: Given, name: str, said: object) -> State:
    """The same problem, in which something else was said to a setting."""
    config = given.at.config
    return given.at.with_given({}, replace(config, more={**config.more, name: said}))


# -- rotary positions -------------------------------------------------------------------------------------------

_TURNED = ("Q_rotated", "K_rotated")


@mistake("no-rope", at=_TURNED, source="rotary positions", simplicity=1)
def no_rope(given: Given) -> Changes:
    """Queries and keys were not turned by their positions."""
    if _TURNED[0] in given:
        made = {step: _before(given, step) for step in _TURNED}
        yield from _of_either(made, "{whose} were not turned by their positions: the rotation (rope) was left out")


def _turned_otherwise(given: Given, said: str, shift: float = 0) -> dict[str, Array]:
    """Queries and keys turned in another way, or as if they stood further on."""
    other = _otherwise(given, "rope", said)
    places = (x + shift for x in given.at["standing"])
    return {step: turned(other, _before(given, step), where) for step, where in zip(_TURNED, places, strict=True)}


@mistake("rope-pairs", at=_TURNED, source="neighbours or halves paired", simplicity=2)
def other_pairs(given: Given) -> Changes:
    """The features were paired in the other way before they were turned."""
    if _TURNED[0] not in given or given.at["past_turned"]:
        return
    said = str(given.at.config.more["rope"])
    neighbours = rotary(said).neighbours
    plain = ":".join(part for part in said.split(":") if part.strip() not in ("neighbours", "halves"))
    done, right = ("halves", "neighbours") if neighbours else ("neighbours", "halves")
    made = _turned_otherwise(given, f"{plain}:{done}")
    yield from _of_either(made, f"{{whose}} were turned with {done} paired, not {right} (rope)")


@mistake("rope-from-1", at=_TURNED, source="positions counted from 1", simplicity=3)
def counted_from_one(given: Given) -> Changes:
    """The positions were counted from 1 where they count from 0."""
    more = given.at.config.more
    if _TURNED[0] in given and not given.at["past_turned"] and more.get("positions") is None:
        made = _turned_otherwise(given, str(more["rope"]), 1)
        yield from _of_either(made, "{whose} were turned as if positions counted from 1: the first one is 0")


@mistake("rope-backwards", at=_TURNED, source="the sign of the sine", simplicity=3)
def turned_backwards(given: Given) -> Changes:
    """Queries and keys were turned the other way round."""
    if _TURNED[0] in given and not given.at["past_turned"]:
        other = _otherwise(given, "rope", given.at.config.more["rope"])
        places = zip(_TURNED, given.at["standing"], strict=True)
        made = {step: turned(other, _before(given, step), -where) for step, where in places}
        yield from _of_either(made, "{whose} were turned the other way round: the signs of the sine are exchanged")


# -- norms ------------------------------------------------------------------------------------------------------

_NORMED = ("Q_normed", "K_normed")


@mistake("no-qk-norm", at=_NORMED, source="QK-norm", simplicity=1)
def no_norm(given: Given) -> Changes:
    """Queries and keys were not normalized."""
    if _NORMED[0] in given:
        made = {step: _before(given, step) for step in _NORMED}
        yield from _of_either(made, "{whose} were not normalized before their product (qk-norm)")


@mistake("qk-norm-weights", at=_NORMED, source="QK-norm with learned weights", simplicity=2)
def no_weights(given: Given) -> Changes:
    """Queries and keys were normalized, but not multiplied by the weights of the norm."""
    more = given.at.config.more
    names = [f"{letter}_{each}" for letter in "qk" for each in ("weight", "shift")]
    ours = [name for name in names if more.get(name) is not None]
    if _NORMED[0] in given and ours and not given.at["past_turned"]:
        config = given.at.config
        other = given.at.with_given({}, replace(config, more={**more, **dict.fromkeys(ours)}))
        made = {step: normed(other, _before(given, step), step[0].lower()) for step in _NORMED}
        yield Change(made, f"{_BOTH} were normalized, but {' and '.join(ours)} left out", _NORMED[0])


# -- biases by position -----------------------------------------------------------------------------------------

_WORDS = {"alibi": "ALiBi's bias, slope x (j - i),", "relative": "the bias by distance"}


def _named_parts(given: Given) -> Iterator[tuple[str, Array]]:
    """What each bias by position adds, as it broadcasts to the scores."""
    at = given.at
    for entry in named_biases(at):
        said = at.config.more[entry.setting.name]
        yield entry.name, given.table(np.asarray(entry.function(at, at["places"], said)))


@mistake("no-position-bias", at=("biased",), source="ALiBi, biases by distance", simplicity=0)
def no_position_bias(given: Given) -> Changes:
    """A bias by position was not added."""
    for name, part in _named_parts(given):
        right = given.before("biased") + (given.bias - part if given.bias is not None else 0)
        yield Change({"biased": right}, f"{_WORDS.get(name, name)} was not added to the scores")


@mistake("alibi-slopes", at=("biased",), source="ALiBi", simplicity=2)
def other_slopes(given: Given) -> Changes:
    """The slopes of ALiBi were those of another rule, or of the first head for all."""
    said = given.at.config.more.get("alibi")
    if said is None or given.bias is None or "biased" not in given:
        return
    heads = given.heads
    right = said if isinstance(said, str) else "those given"
    ways: list[tuple[object, str]] = [(rule, f"the slopes of ALiBi are the {rule} ones, not {right}")
            for rule in SLOPES if not isinstance(said, str) or rule != said]  # fmt: skip
    if heads > 1:
        own = SLOPES[said](heads) if isinstance(said, str) else np.ravel(said)
        ways.append((np.full(heads, own[0]), f"the first head's slope {number(float(own[0]))} was used for all heads"))
    for other, text in ways:
        table = given.table(_otherwise(given, "alibi", other)["bias_table"])
        yield Change({"biased": given.before("biased") + table}, text)


@mistake("no-relative-vectors", at=("scores",), source="vectors by distance", simplicity=1)
def no_vectors(given: Given) -> Changes:
    """The queries did not meet the vectors by distance."""
    if has_vectors(given.at):
        q, k = (given.at.spread(line[0].upper(), given.steps[name]) if name in given.steps else given[name]
                for line, name in (("query", given.at.name_latest("query")), ("key", given.at.name_latest("key")))
                if name is not None)  # fmt: skip
        yield Change({"scores": q @ k.mT}, "the vectors by distance were left out: the scores are q . k alone")


@mistake("no-decay", at=("decayed",), source="retention", simplicity=1)
def no_decay(given: Given) -> Changes:
    """The scores were not multiplied by gamma to the distance."""
    if "decayed" in given:
        yield Change({"decayed": given.before("decayed")}, "the scores were not multiplied by gamma^|i - j| (decay)")


# -- scales of heads --------------------------------------------------------------------------------------------


@mistake("scale-of-one", at=("scaled",), source="a scale for each head or query", simplicity=3)
def one_for_all(given: Given) -> Changes:
    """The scale of the first head (or query) was used for all of them."""
    if not (given.has_scale and given.at.has("scales")):
        return
    scales = np.asarray(given.at["scales"])
    if scales.size > 1:
        what, first = ("head" if scales.ndim == 3 else "query"), float(scales.ravel()[0])
        text = f"the scale of the first {what}, {number(first)}, was used for all: each {what} has its own"
        yield Change({"scaled": given["scores"] * first}, text)
