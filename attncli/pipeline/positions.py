"""Where tokens stand, and queries and keys that are turned by it: rotary positions.

Letters: n queries, m keys, of them `past`; d the width of one head, of which D numbers are turned in pairs.
Sources: Su et al. 2021, arXiv:2104.09864 (neighbours paired); halves paired as in GPT-NeoX and Llama; Chen et al. 2023,
arXiv:2306.15595 (linear); bloc97 2023 (NTK-aware); Peng et al. 2023, arXiv:2309.00071 (YaRN, as its authors' code).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from attncli.errors import ShapeError, UsageError
from attncli.lazy import Array, np
from attncli.pipeline.config import AttentionConfig
from attncli.pipeline.masking import ScoreIndices, ScoreShape
from attncli.pipeline.norms import past_stays
from attncli.pipeline.state import State
from attncli.pipeline.steps import KEY_FEATURE, QUERY_FEATURE, step, value
from attncli.pipeline.together import places_of
from attncli.registry import Setting

_SPELLED = "10000, 10000:neighbours, 10000:width=64, 10000:linear=4, 10000:ntk=4 or 10000:yarn=4,2048"


@dataclass(eq=False, repr=False)
class Rotary:
    """theta: the base of the frequencies. neighbours: pairs are (0, 1), (2, 3) ..., else (0, D/2), (1, D/2 + 1) ...

    width: D, None for all of it. scaling: "linear", "ntk", "yarn" or "", with its numbers.
    """

    theta: float
    neighbours: bool = False
    width: int | None = None
    scaling: str = ""
    numbers: tuple[float, ...] = ()


def rotary(text: str) -> Rotary:
    """`10000:neighbours:width=64:yarn=4,2048` as a Rotary. Raises UsageError."""
    first, *rest = str(text).split(":")
    found: dict[str, Any] = {"theta": _number(text, first)}
    for part in rest:
        name, _, told = part.strip().partition("=")
        if name in ("halves", "neighbours") and not told:
            found["neighbours"] = name == "neighbours"
        elif name == "width":
            found["width"] = _width(text, told)
        elif name in _LEAST:
            found |= {"scaling": name, "numbers": tuple(_number(text, each) for each in told.split(","))}
            if not _LEAST[name] <= len(found["numbers"]) <= _MOST[name]:
                raise UsageError(f"rope: {part!r} has {len(found['numbers'])} numbers", hint=f"as in {_SPELLED}")
        else:
            raise UsageError(f"rope: {part!r} in {text!r} is not understood", hint=f"as in {_SPELLED}")
    return Rotary(**found)


# How many numbers a scaling takes: its factor; of yarn also the length it was trained with, and two bounds.
_LEAST = {"linear": 1, "ntk": 1, "yarn": 2}
_MOST = {"linear": 1, "ntk": 1, "yarn": 4}


def _number(text: str, part: str) -> float:
    try:
        number = float(part)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise UsageError(f"rope: {part.strip()!r} in {text!r} is not a number above 0", hint=f"as in {_SPELLED}")
    return number


def _width(text: str, part: str) -> int:
    number = _number(text, part)
    if number != int(number) or int(number) % 2:
        raise UsageError(f"rope: a width of {part} cannot be turned in pairs", hint="an even number of features")
    return int(number)


def frequencies(how: Rotary, width: int) -> tuple[Array, float]:
    """The angle of each pair for one place further, (D/2,), and what queries and keys are multiplied by besides."""
    theta, factor = how.theta, how.numbers[0] if how.numbers else 1.0
    if how.scaling == "ntk":
        if width == 2:
            raise UsageError("rope: ntk has no meaning for a single pair", hint="linear=FACTOR is scaling of positions")
        theta *= factor ** (width / (width - 2))
    plain = theta ** (-np.arange(0, width, 2) / width)
    if how.scaling == "linear":
        return plain / factor, 1.0
    if how.scaling != "yarn":
        return plain, 1.0
    fast, slow = (*how.numbers[2:], 32.0, 1.0)[:2] if len(how.numbers) != 3 else (how.numbers[2], 1.0)

    def pair(turns: float) -> float:
        """Which pair turns so often over the length of the training."""
        return width * math.log(how.numbers[1] / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low, high = max(math.floor(pair(fast)), 0), min(math.ceil(pair(slow)), width - 1)
    stretched = np.clip((np.arange(width // 2) - low) / (high - low or 0.001), 0, 1)
    return plain * (1 - stretched) + plain / factor * stretched, 0.1 * math.log(factor) + 1 if factor > 1 else 1.0


def _is_turned(at: State) -> bool:
    return at.config.more.get("rope") is not None and at.has("Q")


def stand(config: AttentionConfig, shape: ScoreShape, alignment: str) -> tuple[Array, Array]:
    """Where the queries and the keys stand, (n,) or (*batch, 1, n), (m,) or (*batch, 1, m): as it was said.

    Else keys stand at 0, 1 ..., and queries as the alignment has it, after past keys.
    """
    more, n, m, now = config.more, shape.n, shape.m, shape.m - shape.past
    queries, keys = more.get("positions"), more.get("key_positions")
    where = np.arange(n, dtype=float) + (shape.past if alignment == "top-left" else m - n)
    if alignment == "lengths":
        places = places_of(config.masks, shape.indices(alignment), shape)
        where = where if places.ndim == 2 else places[..., 0].astype(float)
    if queries is not None:
        table = _table(shape, "positions", queries, {n, m})
        where = table[..., m - n :] if table.shape[-1] != n else table
        keys = queries if keys is None and _count(queries, {m, now}) in (m, now) else keys
    if keys is None:
        return where, np.arange(m, dtype=float)
    name = "key_positions" if more.get("key_positions") is not None else "positions"
    table = _table(shape, name, keys, {m, now})
    if table.shape[-1] == m:
        return where, table
    if not more.get("past_turned"):
        raise ShapeError(
            f"{name} says where {now} keys stand, but not where the {shape.past} past ones do",
            hint=f"key_positions has {m} numbers, past keys first; or --past-turned: they are turned already",
        )
    return where, np.concatenate([np.zeros((*table.shape[:-1], shape.past)), table], axis=-1)


def _count(given: Array, counts: set[int]) -> int:
    """How many tokens it says something of: in columns, one under the other, or in rows."""
    if given.ndim == 2 and given.shape[1] == 1 and given.shape[0] in counts:
        return int(given.shape[0])
    return int(given.shape[-1]) if given.ndim else 1


def _table(shape: ScoreShape, name: str, given: Array, counts: set[int]) -> Array:
    """Positions as they broadcast to (*batch, 1, tokens). Raises ShapeError, UsageError."""
    count, batch = _count(given, counts), shape.batch
    if count not in counts:
        told = " or ".join(str(count) for count in sorted(counts))
        raise ShapeError(f"{name} has {count} number{'s' * (count != 1)} a row, but there are {told} tokens",
                         hint="one number a token, one row a sequence")  # fmt: skip
    if not np.all(np.isfinite(given)):
        raise UsageError(f"{name} holds a number that is not finite", hint="positions are numbers such as 0, 1, 2")
    table = given.astype(float)
    if table.size == count:
        return table.reshape(-1)
    leading = table.shape[:-1]
    if len(leading) > len(batch) or any(a not in (1, b) for a, b in zip(leading[::-1], batch[::-1], strict=False)):
        told = " x ".join(map(str, batch)) or "1"
        raise ShapeError(f"{name} has {' x '.join(map(str, leading))} rows, but there are {told} sequences",
                         hint="one row a sequence, or one for all")  # fmt: skip
    return table[..., None, :]


# What asks where tokens stand.
PLACED = ("rope", "alibi", "relative", "decay")


@value("standing", "fact", setting=(
    Setting(name="positions", kind="matrix", metavar="MATRIX", default="0, 1, ..., queries after past keys",
            help="where tokens stand, queries and keys: one number a token, one row a sequence", needs=PLACED),
    Setting(name="key_positions", kind="matrix", metavar="MATRIX", default="as positions",
            help="where the keys stand, past ones included", needs=PLACED)))  # fmt: skip
def standing(at: State) -> tuple[Array, Array]:
    """Where the queries and the keys stand."""
    return stand(at.config, at.shape, at.alignment)


@value("indices", "place")
def indices(at: State) -> ScoreIndices:
    """Where the scores lie: the numbers of queries and keys."""
    every: ScoreIndices = at.masks.indices if at.masks else at.shape.indices(at.alignment)
    return every


@value("places", "place")
def places(at: State) -> ScoreIndices:
    """The same, with where the tokens stand."""
    queries, keys = at["standing"]
    every: ScoreIndices = at["indices"]
    return replace(every, position=queries[..., None], key=keys if keys.ndim == 1 else keys[..., None, :])


@value("turning", "fact", setting=Setting(
    name="rope", kind="text", metavar="THETA[:neighbours]", help="turn queries and keys by their positions (rotary): "
    "the base, as 10000; 10000:neighbours pairs features 1 and 2, else halves are paired; :width=D turns D of them; "
    ":linear=F, :ntk=F, :yarn=F,LENGTH scale it"))  # fmt: skip
def turning(at: State) -> Rotary:
    """How queries and keys are turned, its width known. Raises UsageError, ShapeError."""
    how, d = rotary(at.config.more["rope"]), at["q"].shape[-1]
    width = d if how.width is None else how.width
    if width > d or width % 2:
        what = f"turns {width} features" if how.width is not None else "turns features in pairs"
        hint = f"10000:width={min(width, d) // 2 * 2} turns so many"
        raise ShapeError(f"rope {what}, but one head has {d}", hint=hint)
    return Rotary(how.theta, how.neighbours, width, how.scaling, how.numbers)


def turned(at: State, x: Any, positions: Array) -> Any:
    """x with each pair (a, b) as (a cos - b sin, b cos + a sin) of position times frequency; the rest of it stays."""
    how: Rotary = at["turning"]
    width = how.width or 0
    angles, grown = frequencies(how, width)
    angles = (positions[..., :1] if at.only_sizes else positions)[..., None] * angles
    cos, sin = at.as_number(np.cos(angles) * grown), at.as_number(np.sin(angles) * grown)
    half = width // 2
    first, second = (slice(0, width, 2), slice(1, width, 2)) if how.neighbours else (slice(0, half), slice(half, width))
    a, b = x[..., first], x[..., second]
    pairs = a * cos - b * sin, b * cos + a * sin
    if not how.neighbours:
        return np.concatenate([*pairs, x[..., width:]], axis=-1)
    beside = np.stack(pairs, axis=-1)
    return np.concatenate([beside.reshape(*beside.shape[:-2], width), x[..., width:]], axis=-1)


_TURNED = "(a cos pw - b sin pw, b cos pw + a sin pw), w = theta^(-2c/d)"
_DRAWN = r"(a \cos p\omega - b \sin p\omega,\; b \cos p\omega + a \sin p\omega)"


@step("Q_rotated", line="query", axes=QUERY_FEATURE, per_head=True, when=_is_turned, formula=_TURNED, latex=_DRAWN,
      source="Su et al. 2021, arXiv:2104.09864", about="queries turned by their positions", shape="H x n x d_k",
      comes_of="it comes of --rope")  # fmt: skip
def queries_rotated(at: State) -> Any:
    """Queries turned by their positions, (..., H, n, d_k)."""
    return turned(at, at.before("Q_rotated"), at["standing"][0])


@step("K_rotated", line="key", axes=KEY_FEATURE, per_head=True, when=_is_turned, formula=_TURNED, latex=_DRAWN,
      source="Su et al. 2021, arXiv:2104.09864", about="keys turned by their positions", shape="H x m x d_k",
      comes_of="it comes of --rope")  # fmt: skip
def keys_rotated(at: State) -> Any:
    """Keys turned by their positions, (..., G, m, d_k)."""
    where = at["standing"][1]
    return past_stays(at, "K_rotated", lambda keys, done: turned(at, keys, where[..., done:]))
