"""Are right hands called right, and slips called wrong? Random sheets in all styles in which people write them.

The hand's numbers are made here, in plain Python, cell by cell: nothing is shared with attncli but the problem file
that is written and the check that reads it. Run as `python tests/benchmarks/marks.py [--count 4000] [--seed 0]`;
the exit status is 1 where a bound is not kept.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

Grid = list[list[float]]
INF = math.inf
MODES = {"half-even": ROUND_HALF_EVEN, "half-up": ROUND_HALF_UP, "cut": ROUND_DOWN}
STYLES = (
    "plain", "mixed places", "kept digits", "cut", "half-up", "root", "e", "inside", "steps", "exponentials",
    "terms", "shifted", "per cent", "fractions", "blanks", "row sums", "everything alike", "root and steps",
    "now this, now that", "root and e", "row sums by root", "blanks by root", "reciprocal", "kept by root",
    "cut by root", "shifted and steps",
)  # fmt: skip
BOUNDS = {"right hands called wrong": 0.015, "of one style": 0.05, "one unit acquitted": 0.15, "three units": 0.03}


def to_places(x: float, places: int, mode: str = "half-even") -> float:
    if not math.isfinite(x):
        return x
    # The shortest decimal, without the noise of binary sums, is what stands on paper.
    return float(Decimal(repr(float(f"{x:.13g}"))).quantize(Decimal(1).scaleb(-places), MODES[mode]))


@dataclass
class Style:
    """How a hand works. places: of each step. on_the_way: by what is rounded, to how many places."""

    name: str
    places: dict[str, int]
    mode: str = "half-even"
    carry: str = "written"
    on_the_way: dict[str, int] = field(default_factory=dict)
    shifted: bool = False
    per_cent: bool = False
    fractions: bool = False
    blanks: bool = False
    row_sums: bool = False
    carries: dict[str, str] = field(default_factory=dict)


@dataclass
class Sheet:
    """One problem, what its hand writes, and a slip: step, row, column, units."""

    inputs: dict[str, Any]
    style: Style
    written: list[str]
    score: str = "dots"
    d_k: int | None = None
    causal: bool = False
    slip: tuple[str, int, int, int] | None = None
    steps: dict[str, Grid] = field(default_factory=dict)
    right: dict[str, Grid] = field(default_factory=dict)
    bare: bool = False  # nothing is rounded

    # -- the hand ---------------------------------------------------------------------------------------------------

    def way(self, site: str, x: float) -> float:
        if self.bare or site not in self.style.on_the_way or not math.isfinite(x):
            return x
        return to_places(x, self.style.on_the_way[site], self.style.mode)

    def product(self, a: Grid, b: Grid) -> Grid:
        columns = list(zip(*b, strict=True))

        def one(row: list[float], column: tuple[float, ...]) -> float:
            return math.fsum(self.way("terms", x * y) for x, y in zip(row, column, strict=True) if x)

        return [[one(row, column) for column in columns] for row in a]

    def done(self, step: str, grid: Grid) -> Grid:
        """Write a step down; what the hand goes on from."""
        if self.bare:
            self.right[step] = grid
            return grid
        if step not in self.written:
            site = "exponentials" if step == "exp" else "steps"
            return [[self.way(site, x) for x in row] for row in grid]
        places, mode = self.style.places[step], self.style.mode
        shown = [[to_places(x, places, mode) for x in row] for row in grid]
        if step == "weights" and self.style.row_sums:
            shown = [adjusted(row, exact, places) for row, exact in zip(shown, grid, strict=True)]
        if self.slip is not None and self.slip[0] == step:
            _, i, j, units = self.slip
            for each in (shown, grid := [list(row) for row in grid]):
                each[i][j] = round(each[i][j] + units * 10.0**-places, 12)
        self.steps[step] = shown
        carry = self.style.carries.get(step, self.style.carry)
        return shown if carry == "written" else grid

    def calculate(self) -> Sheet:
        scores = self.scores()
        if self.d_k is not None:
            # A root keeps two digits at least.
            root = math.sqrt(self.d_k)
            rounded = self.way("root", root)
            root = rounded if rounded >= 1.05 and abs(rounded - root) < 0.06 else root
            scores = self.done("scaled", [[x / root for x in row] for row in scores])
        if self.causal:
            hidden = [[x if j <= i else -INF for j, x in enumerate(row)] for i, row in enumerate(scores)]
            scores = self.done("masked", hidden)
        e = self.way("e", math.e)
        shifts = [max(row) if self.style.shifted else 0.0 for row in scores]
        exps = [[e ** (x - top) for x in row] for row, top in zip(scores, shifts, strict=True)]
        exps = self.done("exp", exps)
        sums = self.done("sum", [[math.fsum(row)] for row in exps])
        weights = self.done("weights", [[self.share(x, y) for x in row] for row, [y] in zip(exps, sums, strict=True)])
        if "V" in self.inputs or "W_V" in self.inputs:
            self.done("output", self.product(weights, self.values))
        return self

    def share(self, x: float, total: float) -> float:
        if "reciprocal" in self.style.on_the_way and not self.bare:
            return x * self.way("reciprocal", 1 / total)
        return x / total

    def scores(self) -> Grid:
        if "scores" in self.inputs:
            grid: Grid = self.inputs["scores"]
            return grid
        if "X" in self.inputs:
            q, k, self.values = (
                self.done(name, self.product(self.inputs["X"], self.inputs[f"W_{name}"])) for name in ("Q", "K", "V")
            )
        else:
            q, k = self.inputs["Q"], self.inputs["K"]
        if self.score == "cosine":

            def length(row: list[float]) -> float:
                return self.way("inside", math.sqrt(sum(x * x for x in row)))

            def cosine(r: list[float], s: list[float]) -> float:
                return sum(x * y for x, y in zip(r, s, strict=True)) / (length(r) * length(s))

            return self.done("scores", [[cosine(r, s) for s in k] for r in q])
        if self.score == "additive":
            w = self.inputs["w_v"]

            def additive(r: list[float], s: list[float]) -> float:
                return math.fsum(v * self.way("inside", math.tanh(x + y)) for v, x, y in zip(w, r, s, strict=True))

            return self.done("scores", [[additive(r, s) for s in k] for r in q])
        return self.done("scores", self.product(q, [list(column) for column in zip(*k, strict=True)]))

    values: Grid = field(default_factory=list)

    # -- the file -----------------------------------------------------------------------------------------------------

    def yaml(self, rng: random.Random) -> str:
        lines = ["attention: self"] if "X" in self.inputs else []
        lines += [f"{name}: {grid}" for name, grid in self.inputs.items() if name != "w_v"]
        if self.score == "additive":
            lines.append(f"score: {{name: additive, w_v: {self.inputs['w_v']}}}")
        elif self.score == "cosine":
            lines.append("score: cosine")
        elif "scores" in self.inputs and self.d_k is not None:
            lines.append(f"d_k: {self.d_k}")
        if self.causal:
            lines.append("mask: causal")
        lines.append("expect:")
        for step in self.written:
            if step not in self.steps:
                continue
            blank = self.style.blanks and rng.random() < 0.7
            rows = []
            for i, row in enumerate(self.steps[step]):
                cells = [self.cell(step, x) for x in row]
                for j in range(len(cells)):
                    slipped = self.slip is not None and self.slip[:3] == (step, i, j)
                    if blank and len(cells) > 1 and rng.random() < 0.15 and not slipped:
                        cells[j] = "~"
                rows.append("[" + ", ".join(cells) + "]")
            lines.append(f"  {step}: [{', '.join(rows)}]")
        return "\n".join(lines) + "\n"

    def cell(self, step: str, x: float) -> str:
        places = self.style.places[step]
        if not math.isfinite(x):
            return "-.inf"
        if step == "weights" and self.style.per_cent and places >= 2:
            return f"{100 * x:.{places - 2}f}"
        if step == "weights" and self.style.fractions and places in (2, 3):
            return f"{round(x * 10**places)}/{10**places}"
        return f"{x:.{places}f}"


def adjusted(shown: list[float], exact: list[float], places: int) -> list[float]:
    """One unit off where the rounding was worst, if that makes the row sum to 1."""
    missing = round((1 - math.fsum(shown)) * 10**places)
    if abs(missing) != 1:
        return shown
    best = max(range(len(shown)), key=lambda i: (exact[i] - shown[i]) * missing if exact[i] else -1.0)
    return [round(x + missing * 10.0**-places, places) if i == best else x for i, x in enumerate(shown)]


# -- random sheets --------------------------------------------------------------------------------------------------


def problem(rng: random.Random, style: str) -> tuple[dict[str, Any], str, int | None, bool]:
    kind = rng.choice(["scores", "scores", "QK", "X"])
    score = rng.choice(["cosine", "additive"]) if style == "inside" else "dots"
    kind = "QK" if score != "dots" or (style == "terms" and kind == "scores") else kind
    n, m = rng.choice([1, 2, 3]), rng.choice([2, 3, 4])
    causal = rng.random() < 0.2
    if causal or kind == "X":
        n = m = max(n, 2)
    d_k = rng.choice([2, 3, 5, 6]) if "root" in style else rng.choice([1, 2, 3, 4, 5, 8])
    d_k = d_k if kind == "scores" else min(d_k, 4)
    whole = rng.random() < 0.6 and style != "terms"

    def grid(rows: int, columns: int, least: int = -2, most: int = 3) -> Any:
        if whole:
            return [[rng.randint(least, most) for _ in range(columns)] for _ in range(rows)]
        return [[round(rng.uniform(least, most), 1 + (style == "terms")) for _ in range(columns)] for _ in range(rows)]

    if kind == "scores":
        scaled = rng.random() < 0.75 or "root" in style
        inputs = {"scores": grid(n, m, -3, 6), "V": grid(m, rng.choice([1, 2, 3]))}
        return inputs, score, d_k if scaled else None, causal
    if kind == "QK":
        inputs = {"Q": grid(n, d_k), "K": grid(m, d_k), "V": grid(m, 2)}
        if score == "additive":
            inputs["w_v"] = [rng.choice([-2, -1, 1, 2, 3]) for _ in range(d_k)]
        if score == "cosine" and not all(any(row) for row in inputs["Q"] + inputs["K"]):
            return problem(rng, style)
        return inputs, score, d_k if score == "dots" else None, causal
    d = rng.choice([2, 3])
    inputs = {"X": grid(n, d, -1, 2), "W_Q": grid(d, d_k, -1, 2), "W_K": grid(d, d_k, -1, 2), "W_V": grid(d, 2, -1, 2)}
    return inputs, score, d_k, causal


STEPS = ("Q", "K", "V", "scores", "scaled", "masked", "exp", "sum", "weights", "output")


def sheet(rng: random.Random, name: str, *, everything: bool | None = None) -> Sheet:
    """A right hand of that style."""
    inputs, score, d_k, causal = problem(rng, name)
    places = rng.choice([2, 3, 3, 4])
    style = Style(name, dict.fromkeys(STEPS, places))
    if name == "mixed places":
        style.places = {step: rng.choice([2, 3, 4]) for step in STEPS}
    fine = rng.choice([places, places, places + 1])
    ways = {
        "root": {"root": rng.choice([1, 2, 3])}, "e": {"e": rng.choice([2, 3, 4])}, "inside": {"inside": fine},
        "steps": {"steps": fine}, "exponentials": {"exponentials": fine}, "terms": {"terms": fine},
        "everything alike": dict.fromkeys(("steps", "exponentials", "root", "inside"), fine),
        "root and steps": dict.fromkeys(("steps", "root"), fine),
        "root and e": {"root": rng.choice([2, 3]), "e": rng.choice([2, 3])}, "reciprocal": {"reciprocal": max(3, fine)},
        "shifted and steps": dict.fromkeys(("steps", "exponentials"), fine),
    }  # fmt: skip
    style.on_the_way = ways.get(name, {"root": rng.choice([2, 3])} if name.endswith("by root") else {})
    style.mode = name if name in ("cut", "half-up") else rng.choice(["half-even"] * 4 + ["half-up"])
    keeps = name == "kept digits" or (name in ("root", "e", "cut") and rng.random() < 0.3)
    style.carry = "full" if keeps else "written"
    if name == "kept by root":
        style.carry = "full"
    if name == "cut by root":
        style.mode = "cut"
    if name == "now this, now that":
        style.carries = {step: rng.choice(["written", "full"]) for step in STEPS}
    style.shifted, style.per_cent = name.startswith("shifted"), name == "per cent"
    style.fractions = name == "fractions"
    style.blanks, style.row_sums = name.startswith("blanks"), name.startswith("row sums")
    mine = [step for step in STEPS if has(step, inputs, d_k, causal)]
    wanted = dict.fromkeys(("per cent", "fractions", "row sums", "row sums by root"), "weights")
    wanted |= {"shifted": "exp", "inside": "scores"}
    if everything is None:
        everything = rng.random() < 0.4 and not {"steps", "exponentials", "alike"}.intersection(name.split())
    written = mine if everything else [step for step in mine if rng.random() < 0.5 or step == wanted.get(name)]
    if name in ("exponentials", "shifted and steps"):
        written = [step for step in written if step not in ("exp", "sum")]
    return Sheet(inputs, style, written or ["weights"], score, d_k, causal)


def has(step: str, inputs: dict[str, Any], d_k: int | None, causal: bool) -> bool:
    if step in ("Q", "K", "V"):
        return "X" in inputs
    if step == "scores":
        return "scores" not in inputs
    return {"scaled": d_k is not None, "masked": causal}.get(step, True)


def made(sheet: Sheet) -> Sheet | None:
    """The sheet with its numbers; None for what nobody calculates: exponentials that overflow or all vanish."""
    sheet.bare = True
    sheet.values = sheet.inputs.get("V", [])
    try:
        sheet.calculate()
        sheet.bare = False
        sheet.values = sheet.inputs.get("V", [])
        sheet.calculate()
    except (ArithmeticError, ValueError):
        return None
    sums = [x for row in sheet.steps.get("sum", []) for x in row] + [
        x for step in ("exp",) for row in sheet.right[step] for x in row
    ]
    usual = all(math.isfinite(x) and abs(x) < 1e5 for x in sums)
    small = sheet.style.shifted or min(sum(row) for row in sheet.right["exp"]) > 0.2
    return sheet if usual and small else None


# -- both errors ----------------------------------------------------------------------------------------------------


class Judge:
    """attncli's check, on a file."""

    def __init__(self) -> None:
        from attncli import check

        self.check, self.path, self.seconds, self.count = check, Path(tempfile.mkdtemp()) / "p.yaml", 0.0, 0

    def __call__(self, text: str) -> Any:
        self.path.write_text(text, encoding="utf-8")
        start = time.process_time()
        result = self.check(self.path)
        self.seconds, self.count = self.seconds + time.process_time() - start, self.count + 1
        return result


def right_hands(count: int, seed: int, judge: Judge, tell: Callable[[str], None]) -> dict[str, tuple[int, int]]:
    """By style: called wrong, of how many."""
    wrong: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    number = seed * 1_000_003
    while sum(tried.values()) < count:
        number += 1
        rng = random.Random(number)
        style = STYLES[number % len(STYLES)]
        one = made(sheet(rng, style))
        if one is None:
            continue
        text = one.yaml(rng)
        result = judge(text)
        tried[style] += 1
        if result.verdict == "wrong":
            wrong[style] += 1
            step, cell = result.first_wrong
            tell(f"-- {style} {one.style} wrong: {step.step} {cell.at} {cell.hand} {cell.exact}\n{text}")
    return {style: (wrong[style], tried[style]) for style in STYLES}


def slips(count: int, seed: int, judge: Judge, units: int, tell: Callable[[str], None], *,
          only: str | None = None) -> dict[str, tuple[int, int]]:  # fmt: skip
    """By step: acquitted, of how many; all steps written, or (only) just one."""
    acquitted: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    later: Counter[bool] = Counter()
    number = seed * 1_000_003 + 500_000
    while sum(tried.values()) < count:
        number += 1
        rng = random.Random(number)
        style = rng.choice(["plain", "plain", "mixed places", "kept digits", "half-up"])
        one = sheet(rng, style, everything=only is None)
        if only is not None:
            one.written = [only]
        if made(one) is None or not one.written:
            continue
        step = rng.choice([name for name in one.written if name in one.steps and name != "masked"] or ["none"])
        if step == "none":
            continue
        before = [list(row) for row in one.steps[step]]
        i, j = rng.randrange(len(before)), rng.randrange(len(before[0]))
        if one.causal and j > i and step in ("exp", "weights"):
            continue
        one.slip = (step, i, j, rng.choice([-1, 1]) * units)
        if made(one) is None or aside(one):
            continue
        result = judge(one.yaml(rng))
        tried[step] += 1
        marks = {mark.step: mark for mark in result.steps}
        found = any(cell.verdict == "wrong" and cell.at == (i + 1, j + 1) for cell in marks[step].cells)
        acquitted[step] += not found
        if found:
            for name in one.written[one.written.index(step) + 1 :]:
                later[marks[name].verdict != "wrong"] += 1
        else:
            told = f"{step} {i, j} {one.slip[3]}: {marks[step].verdict}, {marks[step].reason}"
            tell(f"-- acquitted {told}\n{one.yaml(rng)}")
    if later:
        print(f"later steps not wrong: {later[True]} of {later.total()} ({later[True] / later.total():.1%})")
    return {step: (acquitted[step], tried[step]) for step in STEPS if tried[step]}


def aside(one: Sheet) -> bool:
    """What no teacher can tell: a row that then sums to exactly 1, ties, numbers that agree with the right one, or with
    the other way of carrying on."""
    assert one.slip is not None
    step, i, j, _ = one.slip
    h, unit = one.steps[step][i][j], 10.0 ** -one.style.places[step]
    other = Sheet(one.inputs, one.style, one.written, one.score, one.d_k, one.causal)
    carry = one.style.carry
    one.style.carry = "full" if carry == "written" else "written"
    other.values = one.inputs.get("V", [])
    other.calculate()
    one.style.carry = carry
    same = abs(other.steps[step][i][j] - h) < unit / 2
    agrees = abs(one.right[step][i][j] - h) <= unit * 0.50001
    sums = step == "weights" and abs(math.fsum(one.steps[step][i]) - 1) < 1e-9
    negative = step in ("exp", "sum", "weights") and h < 0  # which nobody writes
    return same or agrees or sums or negative


def report(title: str, found: dict[str, tuple[int, int]]) -> float:
    bad, all_of_them = (sum(pair[k] for pair in found.values()) for k in (0, 1))
    print(f"{title}: {bad} of {all_of_them} ({bad / max(1, all_of_them):.2%})")
    print("   " + ", ".join(f"{name} {a}/{b}" for name, (a, b) in found.items() if a) if bad else "   none")
    return bad / max(1, all_of_them)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", action="store_true", help="show each hand that is judged wrongly")
    options = parser.parse_args()
    tell = print if options.show else lambda text: None
    judge, kept = Judge(), True
    found = right_hands(options.count, options.seed, judge, tell)
    kept &= report("right hands called wrong", found) <= BOUNDS["right hands called wrong"]
    kept &= all(a <= BOUNDS["of one style"] * b for a, b in found.values())
    print(f"{1000 * judge.seconds / judge.count:.1f} ms each")
    for units in (1, 2, 3):
        by_step = slips(options.count // 4, options.seed, judge, units, tell)
        report(f"{units} unit{'s' * (units > 1)} off, all steps written, acquitted", by_step)
        shares = [by_step.get(step, (0, 0)) for step in ("weights", "exp")]
        bad, all_of_them = (sum(pair[k] for pair in shares) for k in (0, 1))
        print(f"   weights and exp: {bad} of {all_of_them} ({bad / max(1, all_of_them):.1%})")
        bound = {1: BOUNDS["one unit acquitted"], 3: BOUNDS["three units"]}.get(units, 1.0)
        kept &= bad <= bound * all_of_them
    for step in ("weights", "output"):
        report(f"one unit off, only {step} written, acquitted",
               slips(options.count // 8, options.seed, judge, 1, tell, only=step))  # fmt: skip
    print(f"{1000 * judge.seconds / judge.count:.1f} ms each")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
