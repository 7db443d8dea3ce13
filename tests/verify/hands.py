"""Hand calculations at random, made in plain Python decimals: no code of attncli's core or checker is used here."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal

Grid = list[list[float]]
MODES = {"half-even": ROUND_HALF_EVEN, "half-up": ROUND_HALF_UP, "cut": ROUND_DOWN}
ORDER = ("Q", "K", "V", "scores", "scaled", "masked", "weights", "output")


def to_places(x: float, places: int, mode: str) -> float:
    if math.isinf(x):
        return x
    # The shortest decimal, without the noise of binary sums, is what stands on paper.
    return float(Decimal(repr(round(x, 12))).quantize(Decimal(1).scaleb(-places), MODES[mode]))


def text(x: float, places: int) -> str:
    return ".inf" if x == math.inf else "-.inf" if x == -math.inf else f"{x:.{places}f}"


@dataclass
class Way:
    """How the hand calculates. carry: it goes on from what it wrote, or from all digits. rounds: what else, to p."""

    places: int
    mode: str = "half-even"
    carry: str = "written"
    rounds: str = ""
    p: int = 2
    p_mode: str = "half-even"
    adjusts: bool = False


@dataclass
class HandWork:
    """A problem and one hand's numbers."""

    inputs: dict[str, Grid]
    d_k: int
    causal: bool
    way: Way
    written: list[str]
    steps: dict[str, Grid] = field(default_factory=dict)

    def yaml(self) -> str:
        lines = ["attention: self"]
        lines += [f"{name}: {grid}" for name, grid in self.inputs.items()]
        if self.causal:
            lines.append("mask: causal")
        lines.append("expect:")
        for step in self.written:
            rows = ", ".join("[" + ", ".join(text(x, self.way.places) for x in row) + "]" for row in self.steps[step])
            lines.append(f"  {step}: {{values: [{rows}], decimals: {self.way.places}}}")
        return "\n".join(lines) + "\n"


def random_problem(rng: random.Random) -> tuple[dict[str, Grid], int, bool]:
    n, d, d_k, d_v = rng.randint(2, 6), rng.randint(2, 4), rng.randint(2, 4), rng.randint(2, 4)
    whole = rng.random() < 0.5

    def grid(rows: int, columns: int) -> Grid:
        def one() -> float:
            return float(rng.randint(-2, 3)) if whole else round(rng.randint(-15, 20) / 10, 1)

        return [[int(x) if whole else x for x in (one() for _ in range(columns))] for _ in range(rows)]

    inputs = {"X": grid(n, d), "W_Q": grid(d, d_k), "W_K": grid(d, d_k), "W_V": grid(d, d_v)}
    return inputs, d_k, rng.random() < 0.3


def calculate(work: HandWork, slip: tuple[str, int, int, float] | None = None) -> HandWork:
    """Fill in the steps as that hand does; a slip adds to one number, and the hand goes on from it."""
    way, inputs = work.way, work.inputs

    def habit(kind: str, x: float) -> float:
        return to_places(x, way.p, way.p_mode) if way.rounds == kind else x

    def product(a: Grid, b: Grid) -> Grid:
        columns = list(zip(*b, strict=True))
        return [[math.fsum(habit("terms", x * y) for x, y in zip(row, column, strict=True)) for column in columns]
                for row in a]  # fmt: skip

    def done(step: str, grid: Grid) -> Grid:
        """Write a step down; what the hand goes on from."""
        if way.rounds == "steps" and step not in work.written:
            grid = [[to_places(x, way.p, way.p_mode) for x in row] for row in grid]
        if slip is not None and slip[0] == step:
            grid = [list(row) for row in grid]
            grid[slip[1]][slip[2]] += slip[3]
        shown = [[to_places(x, way.places, way.mode) for x in row] for row in grid]
        if step == "weights" and way.adjusts and step in work.written:
            shown = [adjusted(row, exact, way.places) for row, exact in zip(shown, grid, strict=True)]
        work.steps[step] = shown
        return shown if way.carry == "written" else grid

    q = done("Q", product(inputs["X"], inputs["W_Q"]))
    k = done("K", product(inputs["X"], inputs["W_K"]))
    v = done("V", product(inputs["X"], inputs["W_V"]))
    scores = done("scores", product(q, [list(column) for column in zip(*k, strict=True)]))
    root = habit("root", math.sqrt(work.d_k))
    scale = habit("scale", 1 / math.sqrt(work.d_k))
    scaled = done("scaled", [[x / root if way.rounds == "root" else x * scale for x in row] for row in scores])
    if work.causal:
        scaled = done(
            "masked", [[x if j <= i else -math.inf for j, x in enumerate(row)] for i, row in enumerate(scaled)]
        )
    weights = done("weights", [softmax(row, way, habit) for row in scaled])
    done("output", product(weights, v))
    return work


def softmax(row: list[float], way: Way, habit) -> list[float]:  # type: ignore[no-untyped-def]
    top = max(row) if way.rounds != "exponentials" else 0.0
    exponentials = [habit("exponentials", habit("shifted", math.exp(x - top))) for x in row]
    return [e / math.fsum(exponentials) for e in exponentials]


def adjusted(shown: list[float], exact: list[float], places: int) -> list[float]:
    """One unit off where the rounding was worst, until the row sums to 1."""
    unit = 10.0**-places
    row = list(shown)
    for _ in range(len(row)):
        missing = round((1 - math.fsum(row)) / unit)
        if missing == 0:
            break
        step = unit if missing > 0 else -unit
        open_ = [i for i in range(len(row)) if row[i] == shown[i]]
        best = max(open_, key=lambda i: (exact[i] - row[i]) * step)
        row[best] = round(row[best] + step, places)
    return row


def random_steps(rng: random.Random, causal: bool) -> list[str]:
    """What the hand writes down: all, or some."""
    names = [step for step in ORDER if step != "masked" or causal]
    return names if rng.random() < 0.4 else [step for step in names if rng.random() < 0.5] or ["output"]


def random_way(rng: random.Random) -> Way:
    places = rng.randint(2, 4)
    rounds = rng.choice(["", "", "steps", "terms", "exponentials", "shifted", "scale", "root"])
    return Way(
        places,
        rng.choice(["half-even", "half-even", "half-up", "cut"]),
        rng.choice(["written", "full"]),
        rounds,
        rng.choice([places, places, places + 1, 2, 3]),
        rng.choice(["half-even", "half-up", "cut"]),
    )
