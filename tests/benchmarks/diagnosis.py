"""Are mistakes found, and only mistakes? Random problems with one mistake each, and others with none.

The hand's numbers are made here, in plain Python, cell by cell: nothing is shared with attncli but the problem file
that is written and the check that reads it. Run as `python tests/benchmarks/diagnosis.py [--count 2000] [--seed 0]`;
the exit status is 1 where a bound is not kept.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Grid = list[list[float]]
ORDER = (
    "Q",
    "K",
    "V",
    "kernel",
    "scores",
    "scaled",
    "capped",
    "biased",
    "masked",
    "exp",
    "sum",
    "weights",
    "heads",
    "output",
)
INF = math.inf


# -- plain arithmetic -------------------------------------------------------------------------------------------


def times(a: Grid, b: Grid) -> Grid:
    return [[sum(x * b[t][j] for t, x in enumerate(row)) for j in range(len(b[0]))] for row in a]


def turned(a: Grid) -> Grid:
    return [list(column) for column in zip(*a, strict=True)]


def each(a: Grid, change: Callable[[float], float]) -> Grid:
    return [[change(x) for x in row] for row in a]


def together(a: Grid, b: Grid, change: Callable[[float, float], float]) -> Grid:
    return [[change(x, y) for x, y in zip(r, s, strict=True)] for r, s in zip(a, b, strict=True)]


def softmax(row: list[float], base: float = math.e) -> list[float]:
    seen = [x for x in row if x > -INF]
    if not seen:
        return [0.0] * len(row)
    e = [base ** (x - max(seen)) if x > -INF else 0.0 for x in row]
    return [x / sum(e) for x in e]


def share(row: list[float]) -> list[float]:
    seen = [0.0 if x == -INF else x for x in row]
    return [x / sum(seen) if sum(seen) else 0.0 for x in seen]


def columns(a: Grid, start: int, count: int) -> Grid:
    return [row[start : start + count] for row in a]


def side_by_side(parts: list[Grid]) -> Grid:
    return [[x for part in parts for x in part[i]] for i in range(len(parts[0]))]


# -- problems ---------------------------------------------------------------------------------------------------


@dataclass
class Case:
    """One problem. mistake: its name; at: the step where it happens; choice: what else it needs (a cell, a value)."""

    X: Grid
    Y: Grid | None
    W: dict[str, Grid | None]
    b: dict[str, list[float]]
    heads: int = 1
    groups: int = 1
    score: str = "scaled-dot"
    scale: float | None = None
    cap: float | None = None
    bias: Grid | None = None
    mask: Any = None
    shown: Callable[[int, int], bool] | None = None
    normalizer: str = "softmax"
    sigma: float = 1.0
    mistake: str = ""
    choice: dict[str, Any] = field(default_factory=dict)

    @property
    def factor(self) -> float | None:
        """What the scores are multiplied by; None where there is no step `scaled`."""
        if self.scale is not None:
            return self.scale
        return 1 / math.sqrt(self.d_k) if self.score == "scaled-dot" else None

    @property
    def d_k(self) -> int:
        weight = self.W["Q"]
        return (len(weight[0]) if weight else len(self.X[0])) // self.heads

    @property
    def data(self) -> Grid:
        return self.Y if self.Y is not None else self.X


Note = Callable[[str, list[Grid]], list[Grid]]


class Hand:
    """A person who calculates, with one mistake. `note` gets every step and says with which numbers to go on."""

    def __init__(self, case: Case, note: Note, *, right: bool = False) -> None:
        self.c, self.note = case, note
        self.mistake = "" if right else case.mistake

    def does(self, *names: str) -> bool:
        return self.mistake in names

    def step(self, name: str, parts: list[Grid]) -> list[Grid]:
        return self.note(name, self.slip(name, parts))

    def slip(self, name: str, parts: list[Grid]) -> list[Grid]:
        """Slips that are made with the finished numbers of a step."""
        choice = self.c.choice
        if choice.get("step") != name or not self.mistake:
            return parts
        parts = [[list(row) for row in part] for part in parts]
        part, (i, j) = parts[choice.get("part", 0) % len(parts)], choice["cell"]
        i, j = i % len(part), j % len(part[0])
        if self.does("cell-sign"):
            part[i][j] = -part[i][j]
        if self.does("cells-exchanged"):
            r, s = choice["other"][0] % len(part), choice["other"][1] % len(part[0])
            part[i][j], part[r][s] = part[r][s], part[i][j]
        if self.does("rows-exchanged"):
            k = choice["other"][0] % len(part)
            part[i], part[k] = part[k], part[i]
        if self.does("transposed"):
            parts = [turned(part) for part in parts]
        if self.does("constant-factor"):
            parts = [each(part, lambda x: x * choice["factor"]) for part in parts]
        return parts

    def product(self, name: str, a: Grid, b: Grid, part: int = 0) -> Grid:
        """a b, with a slip in one product where the mistake is one."""
        made = times(a, b)
        choice = self.c.choice
        if choice.get("step") == name and choice.get("part", 0) == part and self.mistake:
            i, j = choice["cell"][0] % len(made), choice["cell"][1] % len(made[0])
            t = choice["term"] % len(b)
            x, y = a[i][t], b[t][j]
            if self.does("term-left-out"):
                made[i][j] -= x * y
            elif self.does("product-sign"):
                made[i][j] -= 2 * x * y
            elif self.does("product-wrong"):
                made[i][j] += (x + y - x * y) if choice["how"] == "added" else x * y
        return made

    def run(self) -> None:
        """All steps, one after the other."""
        c = self.c
        made = {name: self.projection(name) for name in ("Q", "K", "V")}
        for name in ("Q", "K", "V"):
            made[name] = self.step(name, [made[name]])[0]
        q, k, v = (self.split(name, made[name]) for name in ("Q", "K", "V"))
        if self.does("key-value-exchanged"):
            k, v = v, k
        if self.does("not-projected") and c.choice["which"] == "V, late":
            v = [c.data]
        scores = [self.scores(q[h], k[h], h) for h in range(c.heads)]
        weights = self.weights(scores)
        if self.does("heads-averaged") and c.choice["how"] == "weights":
            mean = [
                [sum(w[i][j] for w in weights) / c.heads for j in range(len(weights[0][0]))]
                for i in range(len(weights[0]))
            ]
            weights = [mean for _ in weights]
        weights = self.step("weights", weights)
        used = [turned(w) for w in weights] if self.does("weights-transposed-before-V") else weights
        outputs = [self.product("output", used[h], v[h], h) for h in range(c.heads)]
        if self.does("heads-averaged") and c.choice["how"] == "results":
            mean = [
                [sum(o[i][j] for o in outputs) / c.heads for j in range(len(outputs[0][0]))]
                for i in range(len(outputs[0]))
            ]
            outputs = [mean for _ in outputs]
        if c.heads > 1:
            outputs = self.step("heads", outputs)
        joined = side_by_side(outputs)
        if self.does("heads-joined-other-order"):
            width = len(outputs[0][0])
            joined = [[outputs[h][i][j] for j in range(width) for h in range(c.heads)] for i in range(len(outputs[0]))]
        if c.W.get("O") is not None and not self.does("no-W_O"):
            weight = c.W["O"]
            assert weight is not None
            joined = self.product("W_O", joined, turned(weight) if self.does("W_O-transposed") else weight)
        self.step("output", [joined])

    def projection(self, name: str) -> Grid:
        c = self.c
        which = c.choice.get("which", ())
        source = c.X if name == "Q" else c.data
        if self.does("wrong-source") and name in which:
            source = c.data if name == "Q" else c.X
        weight = c.W[name]
        if self.does("weights-exchanged") and name in which:
            weight = c.W[which[1] if name == which[0] else which[0]]
        if weight is None or (self.does("not-projected") and name == which):
            return [list(row) for row in source]
        if self.does("weights-transposed") and name in which:
            weight = turned(weight)
        if self.does("product-from-the-left") and name in which:
            return times(weight, source)
        made = self.product(name, source, weight)
        bias = c.b.get(name)
        if bias and not (self.does("no-projection-bias") and name in which):
            made = [[x + y for x, y in zip(row, bias, strict=True)] for row in made]
        return made

    def split(self, name: str, whole: Grid) -> list[Grid]:
        c = self.c
        count = c.heads if name == "Q" else c.groups
        width = len(whole[0]) // count
        parts = [columns(whole, h * width, width) for h in range(count)]
        if self.does("heads-split-other-order"):
            if c.choice["how"] == "interleaved":
                parts = [[[row[t * count + h] for t in range(width)] for row in whole] for h in range(count)]
            else:
                flat = [x for row in whole for x in row]
                size = len(whole) * width
                parts = [
                    [flat[h * size + i * width : h * size + (i + 1) * width] for i in range(len(whole))]
                    for h in range(count)
                ]
        if count == c.heads:
            return parts
        tiled = self.does("groups-tiled")
        return [parts[h % count if tiled else h * count // c.heads] for h in range(c.heads)]

    def scores(self, q: Grid, k: Grid, head: int) -> Grid:
        c = self.c
        if c.score == "gaussian":

            def kernel(a: list[float], b: list[float]) -> float:
                square = sum((x - y) ** 2 for x, y in zip(a, b, strict=True))
                if self.does("kernel-distance"):
                    how = c.choice["how"]
                    if how == "no 2":
                        return math.exp(-square / c.sigma**2)
                    if how == "not squared":
                        return math.exp(-math.sqrt(square) / c.sigma / 2)
                    return math.exp(-square / (2 * c.sigma))
                return math.exp(-square / (2 * c.sigma**2))

            return [[kernel(a, b) for b in k] for a in q]
        if self.does("scores-of-features"):
            how = c.choice["how"]
            return {"K^T Q": lambda: times(turned(k), q), "Q^T K": lambda: times(turned(q), k),
                    "Q K": lambda: times(q, k), "Q Q^T": lambda: times(q, turned(q))}[how]()  # fmt: skip
        made = self.product("scores", q, turned(k), head)
        return turned(made) if self.does("scores-transposed") else made

    def weights(self, scores: list[Grid]) -> list[Grid]:
        c = self.c
        if c.score == "gaussian":
            kernel = self.step("kernel", scores)
            if self.does("not-normalized"):
                return kernel
            if self.does("softmax-of-kernel"):
                return [[softmax(row) for row in part] for part in kernel]
            return [[share(row) for row in part] for part in kernel]
        scores = self.step("scores", self.scaled_early(scores))
        logits = self.hidden(self.biased(self.capped(self.scaled(scores))))
        return self.normalized(logits)

    def scaled_early(self, scores: list[Grid]) -> list[Grid]:
        if self.does("scaled-early"):
            return [each(part, lambda x: x * (self.c.factor or 1)) for part in scores]
        return scores

    def scaled(self, scores: list[Grid]) -> list[Grid]:
        c = self.c
        factor = c.factor
        if factor is None:
            if self.does("scale-unasked"):
                return [each(part, lambda x: x / math.sqrt(c.d_k)) for part in scores]
            return scores
        d_v = len((c.W["V"] or c.data)[0]) // c.groups
        n, m = len(c.X), len(c.data)
        wrong = {
            "no-scale": 1.0, "scaled-after-softmax": 1.0, "scale-d_k": 1 / c.d_k, "scaled-twice": factor**2,
            "scale-root-d_model": len(c.X[0]) ** -0.5, "scale-root-d_v": d_v**-0.5,
            "scale-root-n": (n if c.choice.get("which") == "n" else m) ** -0.5,
            "scale-root-all-heads": (c.d_k * c.heads) ** -0.5, "scale-inverted": 1 / factor,
            "scale-fourth-root": math.sqrt(factor), "scale-default": c.d_k**-0.5,
        }  # fmt: skip
        used = wrong.get(self.mistake, factor)
        if self.does("bias-before-scale") and c.bias is not None:
            scores = [together(part, c.bias, lambda x, y: x + y) for part in scores]
        return self.step("scaled", [each(part, lambda x: x * used) for part in scores])

    def capped(self, logits: list[Grid]) -> list[Grid]:
        c = self.c
        if c.cap is None or self.does("softcap-after-mask"):
            return logits
        if self.does("no-softcap"):
            return self.step("capped", logits)
        return self.step("capped", [self.cap(part) for part in logits])

    def cap(self, part: Grid) -> Grid:
        cap = self.c.cap
        return each(part, lambda x: cap * math.tanh(x / cap)) if cap else part

    def biased(self, logits: list[Grid]) -> list[Grid]:
        c = self.c
        if c.bias is None:
            return logits
        if self.does("no-bias", "bias-before-scale"):
            return self.step("biased", logits)
        sign = -1 if self.does("bias-sign") else 1
        return self.step("biased", [together(part, c.bias, lambda x, y: x + sign * y) for part in logits])

    def hidden(self, logits: list[Grid]) -> list[Grid]:
        c = self.c
        n, m = len(c.X), len(c.data)
        if c.shown is None:
            if not self.does("mask-unasked"):
                return logits
            return [
                [[x if j <= i else -INF for j, x in enumerate(row)] for i, row in enumerate(part)] for part in logits
            ]
        right, shown, value = c.shown, c.shown, -INF
        last = m - n if c.choice.get("aligned") == "bottom-right" else 0
        if self.does("no-mask", "mask-after-softmax"):
            shown = lambda i, j: True  # noqa: E731
        elif self.does("mask-inverted"):
            shown = lambda i, j: not right(i, j)  # noqa: E731
        elif self.does("other-triangle"):
            shown = lambda i, j: right(j, i)  # noqa: E731
        elif self.does("diagonal-hidden"):
            shown = lambda i, j: right(i, j) and j != i + last  # noqa: E731
        elif self.does("other-alignment"):
            other = 0 if last else m - n
            shown = lambda i, j: j <= i + other  # noqa: E731
        elif self.does("mask-off-by-one"):
            shown = lambda i, j: j <= i + last + c.choice["shift"]  # noqa: E731
        elif self.does("scores-times-mask"):
            value = 0.0
        elif self.does("finite-mask-value"):
            value = c.choice["value"]
        added = self.does("finite-mask-value") and c.choice["added"]
        made = [
            [
                [x if shown(i, j) else x + value if added else value for j, x in enumerate(row)]
                for i, row in enumerate(part)
            ]
            for part in logits
        ]
        if self.does("softcap-after-mask"):
            made = [each(part, lambda x: c.cap * math.tanh(x / c.cap) if c.cap else x) for part in made]
        return made if self.does("mask-after-softmax") else self.step("masked", made)

    def totals(self, logits: list[Grid]) -> Grid:
        return [[sum(0.0 if x == -INF else x for x in row) for row in part] for part in logits]

    def normalized(self, logits: list[Grid]) -> list[Grid]:
        c = self.c
        if self.does("base-2", "base-10"):
            base = 2.0 if self.does("base-2") else 10.0
            return [[softmax(row, base) for row in part] for part in logits]
        if self.does("softmax-over-queries"):
            return [turned([softmax(row) for row in turned(part)]) for part in logits]
        if self.does("softmax-over-all"):
            made = []
            for part in logits:
                flat = softmax([x for row in part for x in row])
                made.append([flat[i * len(row) : (i + 1) * len(row)] for i, row in enumerate(part)])
            return made
        if self.does("scores-by-sum"):
            return [
                [[0.0 if x == -INF else x / total for x in row] for row, total in zip(*both, strict=True)]
                for both in zip(logits, self.totals(logits), strict=True)
            ]
        if self.does("no-softmax"):
            return [each(part, lambda x: 0.0 if x == -INF else x) for part in logits]
        exps = [each(part, lambda x: 0.0 if x == -INF else math.exp(x)) for part in logits]
        if self.does("exp-only"):
            return exps
        if self.does("exp-by-score-sum"):
            return [
                [[e / total for e in row] for row, total in zip(*both, strict=True)]
                for both in zip(exps, self.totals(logits), strict=True)
            ]
        weights = [[softmax(row) for row in part] for part in logits]
        if self.does("scaled-after-softmax"):
            weights = [each(part, lambda x: x * (c.factor or 1)) for part in weights]
        if self.does("mask-after-softmax"):
            shown = c.shown
            assert shown is not None
            weights = [
                [[x if shown(i, j) else 0.0 for j, x in enumerate(row)] for i, row in enumerate(part)]
                for part in weights
            ]
        return weights


# -- drawing ----------------------------------------------------------------------------------------------------

SCALED = ("no-scale", "scale-d_k", "scale-root-d_model", "scale-root-d_v", "scale-root-n", "scaled-twice",
          "scale-inverted", "scale-fourth-root", "scaled-after-softmax", "scaled-early")  # fmt: skip
MASKED = ("no-mask", "mask-inverted", "other-triangle", "diagonal-hidden", "mask-off-by-one", "mask-after-softmax",
          "scores-times-mask", "finite-mask-value", "other-alignment")  # fmt: skip
SOFTMAX = ("softmax-over-queries", "softmax-over-all", "scores-by-sum", "exp-only", "exp-by-score-sum", "base-2",
           "base-10", "no-softmax")  # fmt: skip
PROJECTED = ("weights-transposed", "weights-exchanged", "wrong-source", "not-projected", "product-from-the-left",
             "no-projection-bias")  # fmt: skip
HEADS = ("heads-split-other-order", "heads-averaged", "groups-tiled", "scale-root-all-heads",
         "heads-joined-other-order", "no-W_O", "W_O-transposed")  # fmt: skip
SLIPS = ("term-left-out", "product-sign", "product-wrong", "cell-sign", "rows-exchanged", "cells-exchanged")
OTHERS = ("scale-default", "scale-unasked", "mask-unasked", "no-bias", "bias-sign", "bias-before-scale", "no-softcap",
          "softcap-after-mask", "scores-transposed", "scores-of-features", "key-value-exchanged",
          "weights-transposed-before-V", "constant-factor", "kernel-distance", "not-normalized",
          "softmax-of-kernel", "transposed")  # fmt: skip
ALL = SCALED + MASKED + SOFTMAX + PROJECTED + HEADS + SLIPS + OTHERS


def draw(rnd: random.Random, mistake: str) -> Case:
    """A problem in which this mistake can be made."""
    tenths = rnd.random() < 0.5

    def grid(rows: int, cols: int, size: int) -> Grid:
        if tenths:
            return [[rnd.randint(-10 * size, 10 * size) / 10 for _ in range(cols)] for _ in range(rows)]
        return [[float(rnd.randint(-size, size)) for _ in range(cols)] for _ in range(rows)]

    n = rnd.randint(2, 6)
    d, d_k, d_v = (rnd.randint(2, 4) for _ in range(3))
    cross = rnd.random() < 0.35
    heads = groups = 1
    score, normalizer, scale, cap, bias, mask, shown = "scaled-dot", "softmax", None, None, None, None, None
    choice: dict[str, Any] = {}
    if mistake in HEADS:
        heads = groups = 2
        if mistake == "groups-tiled":
            heads, groups, d_k = 4, 2, 2
    if mistake in ("scores-transposed", "other-triangle", "weights-transposed-before-V"):
        cross = False
    if mistake in ("wrong-source", "other-alignment"):
        cross = True
    if mistake == "scores-of-features":
        cross, d_k = False, n if n <= 4 else 3
        n = d_k
        choice["how"] = rnd.choice(["K^T Q", "Q^T K", "Q K", "Q Q^T"])
    m = rnd.randint(2, 6) if cross else n
    while mistake == "other-alignment" and m == n:
        m = rnd.randint(2, 6)
    if mistake == "weights-transposed":
        d_k = d_v = d
    if mistake == "weights-exchanged":
        d_v = d_k
    if mistake == "key-value-exchanged":
        d_v = d_k
    if mistake == "not-projected":
        d_k = d_v = d
    if mistake in ("product-from-the-left", "transposed"):
        d = d_k = d_v = n = m = rnd.randint(2, 4)
        cross = False
    if mistake in ("kernel-distance", "not-normalized", "softmax-of-kernel"):
        score, normalizer = "gaussian", "sum"
        choice["how"] = rnd.choice(["no 2", "not squared", "sigma"])
    elif mistake in ("scale-unasked",) or (mistake in SOFTMAX + PROJECTED + SLIPS + OTHERS and rnd.random() < 0.3):
        score = "dot"
    if mistake == "scale-default" or (mistake in ("no-scale", "scale-inverted", "scaled-twice") and rnd.random() < 0.2):
        scale = rnd.choice([0.25, 0.1, 2.0, 0.3])
    if mistake == "bias-before-scale":
        score = "scaled-dot"
    if mistake in ("no-softcap", "softcap-after-mask"):
        cap = float(rnd.choice([2, 3, 5]))
    if mistake in ("no-bias", "bias-sign", "bias-before-scale") or (score != "gaussian" and rnd.random() < 0.1):
        bias = grid(n, m, 2)
    masked = mistake in (*MASKED, "softcap-after-mask") or (mistake != "mask-unasked" and rnd.random() < 0.2)
    if masked and score != "gaussian":
        mask, shown, choice["aligned"] = draw_mask(rnd, mistake, n, m)
    size = 2 if score != "gaussian" else 1
    X = grid(n, d, size)
    Y = grid(m, d if mistake == "wrong-source" or rnd.random() < 0.5 else rnd.randint(2, 4), size) if cross else None
    d_y = len(Y[0]) if Y is not None else d
    if mistake in ("weights-transposed", "weights-exchanged", "not-projected") and Y is not None:
        d_y = d
        Y = grid(m, d, size)
    W: dict[str, Grid | None] = {
        "Q": grid(d, d_k * heads, 1), "K": grid(d_y, d_k * groups, 1), "V": grid(d_y, d_v * groups, 1)
    }  # fmt: skip
    if mistake in ("no-W_O", "W_O-transposed"):
        W["O"] = grid(d_v * heads, d_v * heads, 1)
    b: dict[str, list[float]] = {}
    if mistake == "no-projection-bias":
        which = rnd.choice("QKV")
        b[which] = grid(1, len(W[which][0]), 2)[0]  # type: ignore[index]
        choice["which"] = which
    if mistake in ("weights-transposed", "product-from-the-left"):
        choice["which"] = rnd.choice(["QKV", "Q", "K", "V"])
    if mistake == "weights-exchanged":
        choice["which"] = rnd.choice(["QK", "KV", "QV"])
    if mistake == "wrong-source":
        choice["which"] = rnd.choice(["KV", "K", "V", "Q"]) if n == m else "Q"
        if choice["which"] == "Q" and n != m:
            Y = grid(n, d, size)
            bias = mask = shown = None
    if mistake == "not-projected":
        choice["which"] = rnd.choice(["Q", "K", "V", "V, late"])
    if mistake == "scale-root-n":
        choice["which"] = rnd.choice("nm")
    if mistake == "heads-split-other-order":
        choice["how"] = rnd.choice(["interleaved", "by rows"])
    if mistake == "heads-averaged":
        choice["how"] = rnd.choice(["weights", "results"])
    if mistake == "mask-off-by-one":
        choice["shift"] = rnd.choice([1, -1])
    if mistake == "finite-mask-value":
        choice["value"], choice["added"] = float(rnd.choice([-1, -2, -5, -10])), rnd.random() < 0.3
    if mistake in SLIPS or mistake in ("constant-factor", "transposed"):
        products = ["Q", "K", "V", "scores"] + (["output"] if heads == 1 else [])
        steps = products if mistake in ("term-left-out", "product-sign", "product-wrong") else [*products, "weights"]
        if mistake == "constant-factor":
            steps = ["scores", "scaled", "weights"] if score == "scaled-dot" else ["scores", "weights"]
        if mistake == "transposed":
            steps = ["Q", "K", "V", "weights", "output"]
        step = rnd.choice(steps)
        choice |= {
            "step": step, "cell": (rnd.randrange(6), rnd.randrange(6)), "other": (rnd.randrange(6), rnd.randrange(6)),
            "term": rnd.randrange(6), "how": rnd.choice(["added", "twice"]),
            "factor": rnd.choice([0.1, 0.25, 0.3, 0.4, 0.8, 1.5, 3.0, 10.0]),
        }  # fmt: skip
    return Case(X, Y, W, b, heads, groups, score, scale, cap, bias, mask, shown, normalizer,
                rnd.choice([0.5, 2.0]) if score == "gaussian" else 1.0, mistake, choice)  # fmt: skip


def draw_mask(rnd: random.Random, mistake: str, n: int, m: int) -> tuple[Any, Callable[[int, int], bool], str]:
    aligned = rnd.choice(["top-left", "bottom-right"])
    last = m - n if aligned == "bottom-right" else 0
    if mistake in ("other-alignment", "other-triangle", "diagonal-hidden", "mask-off-by-one") or rnd.random() < 0.5:
        return f"causal:{aligned}", lambda i, j: j <= i + last, aligned
    keep = [[int(rnd.random() < 0.7) for _ in range(m)] for _ in range(n)]
    for row in keep:
        row[rnd.randrange(m)] = 1
    return {"keep": keep}, lambda i, j: bool(keep[i][j]), "top-left"


# -- writing ----------------------------------------------------------------------------------------------------


def spelled(x: float, places: int, cut: bool) -> str:
    if math.isinf(x):
        return "inf" if x > 0 else "-inf"
    if cut:
        text = f"{abs(x):.{places + 9}f}"
        kept = text[: len(text) - 9] if places else text[: len(text) - 10]
        return ("-" if x < 0 and float(kept) else "") + kept
    # Half away from zero, of the shortest decimal: as people do it.
    unit = 10**places
    number = math.floor(abs(x) * unit + 0.5 + 1e-9) / unit
    return ("-" if x < 0 and number else "") + f"{number:.{places}f}"


@dataclass
class Sheet:
    """What the person wrote: texts by step, one grid a head."""

    steps: dict[str, list[list[list[str]]]]
    places: int
    cut: bool
    carried: bool


def calculate(case: Case, written: set[str], places: int, cut: bool, carried: bool, *, right: bool = False) -> Sheet:
    """The numbers of one person. carried: goes on from the numbers as written, not from all digits."""
    texts: dict[str, list[list[list[str]]]] = {}

    def note(name: str, parts: list[Grid]) -> list[Grid]:
        if name not in written:
            return parts
        texts[name] = [[[spelled(x, places, cut) for x in row] for row in part] for part in parts]
        return [[[float(text) for text in row] for row in part] for part in texts[name]] if carried else parts

    Hand(case, note, right=right).run()
    return Sheet(texts, places, cut, carried)


def steps_of(case: Case) -> list[str]:
    """The steps that this problem has."""
    found: list[str] = []

    def note(name: str, parts: list[Grid]) -> list[Grid]:
        found.append(name)
        return parts

    Hand(case, note, right=True).run()
    return found


def problem_file(case: Case, sheet: Sheet) -> dict[str, Any]:
    """The problem as JSON, with the hand's numbers under `expect`."""
    made: dict[str, Any] = {"attention": "cross" if case.Y is not None else "self", "X": case.X}
    if case.Y is not None:
        made["Y"] = case.Y
    made |= {f"W_{name}": weight for name, weight in case.W.items() if weight is not None}
    made |= {f"b_{name}": bias for name, bias in case.b.items()}
    made["score"] = {"name": "gaussian", "sigma": case.sigma} if case.score == "gaussian" else case.score
    for name, value in (("scale", case.scale), ("softcap", case.cap), ("bias", case.bias), ("mask", case.mask)):
        if value is not None:
            made[name] = [value] if name == "mask" and isinstance(value, dict) else value
    if case.heads > 1:
        made["heads"] = case.heads
        if case.groups != case.heads:
            made["kv_heads"] = case.groups
    if case.normalizer != "softmax":
        made["normalizer"] = case.normalizer
    expect = {}
    for name, parts in sheet.steps.items():
        split = case.heads > 1 and name not in ("Q", "K", "V", "output")
        values = parts if split else parts[0]
        expect[name] = {"values": values, "decimals": sheet.places}
    made["expect"] = expect
    return made


class Raw(str):
    """A number that stays spelled as it is in JSON."""


def as_text(problem: dict[str, Any]) -> str:
    """JSON in which the hand's numbers keep their zeros; -inf is a YAML word."""
    text = json.dumps(problem)
    return re.sub(r'"(-?\d+(?:\.\d*)?|-?inf)"', r"\1", text)


# -- checking ---------------------------------------------------------------------------------------------------


@dataclass
class Answer:
    """What the check said: the first wrong step or None, and the exact diagnoses (name, step, text)."""

    first_wrong: str | None
    diagnoses: list[tuple[str, str, str]]
    seconds: float


def check(text: str, folder: Path) -> Answer:
    """The one place where attncli is asked."""
    from attncli import check as marked

    path = folder / "p.json"
    path.write_text(text)
    start = time.process_time()
    told = marked(path).to_dict()
    seconds = time.process_time() - start
    wrong = told["first_wrong"]
    diagnoses = [(d["mistake"], d["step"], d["text"]) for d in told["diagnosis"] if d["exact_match"]]
    return Answer(wrong and str(wrong["step"]).partition("[")[0], diagnoses, seconds)


def reproduces(case: Case, sheet: Sheet, step: str, name: str) -> bool:
    """Whether this mistake, made by a person who has the sheet's earlier numbers, gives every number of the step.

    Bounds are wide rather than narrow: the unit of the last place, and what half a unit (or, cut, a unit) in each
    earlier number does.
    """
    before = ORDER.index(step)
    earlier = {s: [[[float(x) for x in row] for row in part] for part in parts]
               for s, parts in sheet.steps.items() if ORDER.index(s) < before}  # fmt: skip
    target = [[[float(x) for x in row] for row in part] for part in sheet.steps[step]]
    half = (1.0 if sheet.cut else 0.5) * 10.0**-sheet.places
    for variant in variants(case, name):
        here = forward(variant, earlier, step)
        if here is None:
            continue
        room = [0.0] * len(here)
        for parts in earlier.values():
            for part in parts:
                for row in part:
                    for j, x in enumerate(row):
                        if math.isinf(x):
                            continue
                        row[j] = x + half
                        there = forward(variant, earlier, step) or here
                        row[j] = x
                        room = [r + abs(a - b) if not math.isinf(a - b) and a == a and b == b else r
                                for r, a, b in zip(room, here, there, strict=True)]  # fmt: skip
        flat = [x for part in target for row in part for x in row]
        bound = 1.1 * 10.0**-sheet.places
        if len(flat) == len(here) and all(
            h == x or abs(h - x) <= bound + 1.5 * r for h, x, r in zip(flat, here, room, strict=True)
        ):
            return True
    return False


def alike(case: Case, sheet: Sheet, step: str, name: str) -> bool:
    """Whether this mistake and the one that was made are one by construction: equal in all digits (d_v = d_model)."""
    made = forward(case, {}, step)
    others = [forward(variant, {}, step) for variant in variants(case, name)]
    return made is not None and any(
        other is not None
        and len(other) == len(made)
        and all(abs(a - b) <= 1e-9 or a == b for a, b in zip(made, other, strict=True))
        for other in others
    )


class _StopHere(Exception):
    pass


def forward(case: Case, earlier: dict[str, list[Grid]], step: str) -> list[float] | None:
    """The numbers of a step, from these earlier ones."""
    found: list[float] = []

    def note(name: str, parts: list[Grid]) -> list[Grid]:
        if name == step:
            found.extend(x for part in parts for row in part for x in row)
            raise _StopHere
        return earlier.get(name, parts)

    try:
        Hand(case, note).run()
    except _StopHere:
        return found
    except (IndexError, ValueError, ZeroDivisionError, OverflowError, TypeError, KeyError):
        return None
    return None


def variants(case: Case, name: str) -> Iterator[Case]:
    """Every way of making a mistake of this name in this problem."""
    from dataclasses import replace

    ways: list[dict[str, Any]] = [{}]
    if name in ("weights-transposed", "product-from-the-left", "wrong-source"):
        ways = [{"which": which} for which in ("QKV", "QK", "QV", "KV", "Q", "K", "V")]
    elif name == "weights-exchanged":
        ways = [{"which": which} for which in ("QK", "KV", "QV")]
        one_sided = [{"one": a, "other": b} for a in "QKV" for b in "QKV" if a != b]
        for way in one_sided:
            changed = dict(case.W)
            changed[way["one"]] = case.W[way["other"]]
            yield replace(case, W=changed, mistake="none")
    elif name == "not-projected":
        ways = [{"which": which} for which in ("Q", "K", "V", "V, late")]
    elif name == "no-projection-bias":
        ways = [{"which": which} for which in case.b]
    elif name == "scale-root-n":
        ways = [{"which": which} for which in "nm"]
    elif name == "mask-off-by-one":
        ways = [{"shift": shift} for shift in (1, -1)]
    elif name == "heads-split-other-order":
        ways = [{"how": how} for how in ("interleaved", "by rows")]
    elif name == "heads-averaged":
        ways = [{"how": how} for how in ("weights", "results")]
    elif name == "kernel-distance":
        ways = [{"how": how} for how in ("no 2", "not squared", "sigma")]
    elif name == "scores-of-features":
        ways = [{"how": how} for how in ("K^T Q", "Q^T K", "Q K", "Q Q^T")]
    elif name == "finite-mask-value":
        ways = [{"value": float(v), "added": added} for v in (-1, -2, -5, -9, -10, -20, -50, -99, -100, -1e9)
                for added in (False, True)]  # fmt: skip
    for way in ways:
        yield replace(case, mistake=name, choice={"aligned": case.choice.get("aligned")} | way)


UNIVERSAL = set(ALL) - set(SLIPS) - {"constant-factor", "heads-joined-other-order", "transposed"}


@dataclass
class Figures:
    """What came out."""

    drawn: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    first: Counter[str] = field(default_factory=Counter)
    misplaced: list[str] = field(default_factory=list)
    untrue: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


def with_mistakes(count: int, seed: int, mistakes: tuple[str, ...] = ALL, folder: Path | None = None) -> Figures:
    """`count` visible mistakes, all kinds in turn."""
    figures = Figures()
    with tempfile.TemporaryDirectory() as temporary:
        place = folder or Path(temporary)
        number = 0
        while sum(figures.seen.values()) < count:
            rnd = random.Random(f"{seed}/{number}")
            mistake = mistakes[number % len(mistakes)]
            number += 1
            case = draw(rnd, mistake)
            try:
                names = steps_of(case)
                written = {name for name in names if rnd.random() < 0.6} | {rnd.choice(["weights", "output"])}
                if rnd.random() < 0.3:
                    written = set(names)
                if mistake == "scaled-after-softmax":
                    written -= {"scaled", "capped", "biased", "masked"}  # these are not scaled, either
                if mistake == "scaled-early":
                    written |= {"scores"}  # else it is a scale taken twice
                places, cut, carried = rnd.randint(2, 4), rnd.random() < 0.15, rnd.random() < 0.5
                sheet = calculate(case, written, places, cut, carried)
                right = calculate(case, written, places, cut, carried, right=True)
            except (IndexError, ZeroDivisionError, OverflowError, ValueError):
                continue
            if case.mistake == "heads-joined-other-order" and "output" not in written:
                continue
            figures.drawn[mistake] += 1
            text = as_text(problem_file(case, sheet))
            answer = check(text, place)
            figures.seconds.append(answer.seconds)
            affected = [name for name in ORDER if name in sheet.steps and sheet.steps[name] != right.steps[name]]
            if answer.first_wrong is None:
                continue
            figures.seen[mistake] += 1
            label = f"{mistake} #{number - 1}"
            if answer.first_wrong not in affected or plain_before(case, sheet, affected, answer.first_wrong):
                figures.misplaced.append(f"{label}: {answer.first_wrong}, affected {affected}")
            told = [name for name, *_ in answer.diagnoses]
            if told[:1] == [mistake]:
                figures.first[mistake] += 1
            truly = [mistake] + [
                name for name in told if name in UNIVERSAL and alike(case, sheet, answer.first_wrong, name)
            ]
            if told and (told[0] in truly or (len(told) <= 3 and set(told) & set(truly))):
                figures.found[mistake] += 1
            else:
                figures.missed.append(
                    f"{label}: first wrong {answer.first_wrong}, written {sorted(sheet.steps)}, told {told}"
                )
            for name in told:
                if name in UNIVERSAL and not reproduces(case, sheet, answer.first_wrong, name):
                    figures.untrue.append(f"{label}: {name}")
    return figures


def plain_before(case: Case, sheet: Sheet, affected: list[str], told: str) -> bool:
    """Whether an affected step before the one told is so far off that no rounding explains it."""
    from dataclasses import replace

    for step in affected:
        if step == told:
            return False
        if not reproduces(replace(case, mistake="none"), sheet, step, "none"):
            return True
    return False


def without_mistakes(count: int, seed: int) -> list[str]:
    """Hands without a mistake that were called wrong, in `count` of them."""
    alarms = []
    with tempfile.TemporaryDirectory() as temporary:
        number, checked = -1, 0
        while checked < count:
            number += 1
            rnd = random.Random(f"right/{seed}/{number}")
            case = draw(rnd, rnd.choice(ALL))
            names = steps_of(case)
            written = {name for name in names if rnd.random() < 0.6} | {rnd.choice(["weights", "output"])}
            places, habit = rnd.randint(2, 4), rnd.choice(HABITS)
            try:
                sheet = Careful(case, habit, places).calculate(written)
            except ZeroDivisionError:
                continue
            checked += 1
            answer = check(as_text(problem_file(case, sheet)), Path(temporary))
            if answer.first_wrong is not None:
                alarms.append(
                    f"#{number} {habit}, {places} places: {answer.first_wrong}, written {sorted(sheet.steps)}"
                )
    return alarms


HABITS = ("all digits", "carried", "carried, cut", "every step", "terms", "exponentials", "scale", "rows to one")


class Careful(Hand):
    """A person without a mistake who rounds on the way."""

    def __init__(self, case: Case, habit: str, places: int) -> None:
        self.habit, self.places = habit, places
        self.texts: dict[str, list[list[list[str]]]] = {}
        super().__init__(case, self.write, right=True)

    def short(self, x: float) -> float:
        return float(spelled(x, self.places, self.habit == "carried, cut"))

    def calculate(self, written: set[str]) -> Sheet:
        self.written = written
        self.run()
        return Sheet(self.texts, self.places, False, True)

    def write(self, name: str, parts: list[Grid]) -> list[Grid]:
        carried = self.habit in ("carried", "carried, cut", "every step")
        shortened = [each(part, lambda x: x if math.isinf(x) else self.short(x)) for part in parts]
        if name == "weights" and self.habit == "rows to one" and self.c.normalizer == "softmax":
            shortened = [
                [self.to_one(row, exact) for row, exact in zip(a, b, strict=True)]
                for a, b in zip(shortened, parts, strict=True)
            ]
        if name in self.written:
            cut = self.habit == "carried, cut"
            self.texts[name] = [[[spelled(x, self.places, False) for x in row] for row in part] for part in shortened]
            assert not cut or shortened == [
                each(part, lambda x: x if math.isinf(x) else self.short(x)) for part in parts
            ]
            return shortened if carried else parts
        return shortened if self.habit == "every step" else parts

    def to_one(self, row: list[float], exact: list[float]) -> list[float]:
        """The largest weight gives or takes the unit that the row is off."""
        unit = 10.0**-self.places
        off = round((1 - sum(row)) / unit)
        if abs(off) != 1 or sum(exact) < 0.5:
            return row
        at = max(range(len(row)), key=lambda j: (exact[j] - row[j]) * off)
        return [x + off * unit if j == at else x for j, x in enumerate(row)]

    def product(self, name: str, a: Grid, b: Grid, part: int = 0) -> Grid:
        if self.habit != "terms":
            return super().product(name, a, b, part)
        return [[sum(self.short(x * b[t][j]) for t, x in enumerate(row)) for j in range(len(b[0]))] for row in a]

    def scaled(self, scores: list[Grid]) -> list[Grid]:
        factor = self.c.factor
        if self.habit != "scale" or factor is None:
            return super().scaled(scores)
        used = self.short(factor)
        return self.step("scaled", [each(part, lambda x: x * used) for part in scores])

    def normalized(self, logits: list[Grid]) -> list[Grid]:
        if self.habit != "exponentials":
            return super().normalized(logits)
        made = []
        for part in logits:
            rows = []
            for row in part:
                e = [0.0 if x == -INF else self.short(math.exp(x)) for x in row]
                if not any(e) and any(x > -INF for x in row):
                    raise ZeroDivisionError  # nobody goes on from a row of zeros
                rows.append([x / sum(e) if sum(e) else 0.0 for x in e])
            made.append(rows)
        return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=None, help="these mistakes alone")
    parser.add_argument("--show", type=int, default=10, help="how many of each failure are listed")
    options = parser.parse_args()
    figures = with_mistakes(options.count, options.seed, tuple(options.only) if options.only else ALL)
    alarms = without_mistakes(options.count, options.seed) if not options.only else []
    for name in options.only or ALL:
        drawn, seen = figures.drawn[name], figures.seen[name]
        print(
            f"{name:30} drawn {drawn:4}  visible {seen:4}  told {figures.found[name]:4}  first {figures.first[name]:4}"
        )
    seen, drawn = sum(figures.seen.values()), sum(figures.drawn.values())
    found = sum(figures.found.values())
    seconds = sorted(figures.seconds)
    print(f"\n{drawn} drawn, {drawn - seen} in vain; told {found} of {seen}: {100 * found / seen:.2f} %")
    print(f"first wrong step misplaced: {len(figures.misplaced)}; told as exact but untrue: {len(figures.untrue)}")
    print(f"without a mistake: {len(alarms)} false alarms in {options.count if not options.only else 0}")
    middle, most = seconds[len(seconds) // 2], seconds[int(0.95 * len(seconds))]
    print(f"seconds of processor: median {middle:.4f}, 95 % {most:.4f}, most {seconds[-1]:.4f}")
    for title, lines in (
        ("missed", figures.missed),
        ("misplaced", figures.misplaced),
        ("untrue", figures.untrue),
        ("alarm", alarms),
    ):
        for line in lines[: options.show]:
            print(f"  {title}: {line}")
    return int(found < 0.98 * seen or bool(figures.misplaced or figures.untrue or alarms))


if __name__ == "__main__":
    sys.exit(main())
