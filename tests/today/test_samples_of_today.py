"""The samples of today's attention: their numbers by the papers' formulas, in plain Python; a step left out is told."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from attncli import check, explain, run
from tests.calling import ROOT

Table = list[list[float]]
Steps = dict[str, Any]


def dot(a: list[float], b: list[float]) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def product(a: Table, b: Table) -> Table:
    return [[dot(row, list(column)) for column in zip(*b, strict=True)] for row in a]


def shares(scores: list[float | None], sink: float | None = None) -> list[float]:
    """e^s over their sum; None is a key that is not seen; a sink has a share of its own."""
    e = [0.0 if s is None else math.exp(s) for s in scores]
    total = math.fsum(e) + (0.0 if sink is None else math.exp(sink))
    return [x / total for x in e]


def rotary(p: Steps) -> Steps:
    """Su et al. 2021, equation 34, with halves paired: (a, b) to (a cos - b sin, b cos + a sin)."""
    turned = []
    for place, row in enumerate(p["X"]):
        half = len(row) // 2
        angles = [place / p["rope"] ** (2 * c / len(row)) for c in range(half)]
        first = [row[c] * math.cos(w) - row[half + c] * math.sin(w) for c, w in enumerate(angles)]
        second = [row[half + c] * math.cos(w) + row[c] * math.sin(w) for c, w in enumerate(angles)]
        turned.append(first + second)
    weights = [shares([dot(q, k) / math.sqrt(len(q)) for k in turned]) for q in turned]
    return {"Q_rotated": turned, "weights": weights, "output": product(weights, p["X"])}


def alibi(p: Steps) -> Steps:
    """Press et al. 2022, equation 1, with the slopes of the authors' code for three heads: 2^-4, 2^-8 and 2^-2."""
    weights, d = [], len(p["X"][0]) // 3
    for h, slope in enumerate((2.0**-4, 2.0**-8, 2.0**-2)):
        part = [row[h * d : (h + 1) * d] for row in p["X"]]
        weights.append([
            shares([dot(q, k) / math.sqrt(d) - slope * (i - j) if j <= i else None for j, k in enumerate(part)])
            for i, q in enumerate(part)
        ])  # fmt: skip
    return {"weights": weights}


def sink(p: Steps) -> Steps:
    """A logit in the denominator alone; the outputs 5.749486 and 1.972347 are known."""
    weights = [shares([dot(q, k) / math.sqrt(len(q)) for k in p["K"]], p["sink"]) for q in p["Q"]]
    return {"weights": weights, "output": product(weights, p["V"])}


def window_with_sinks(p: Steps) -> Steps:
    """Xiao et al. 2023: the first key, the one before, and its own."""
    weights = [
        shares([dot(q, k) / math.sqrt(len(q)) if j <= i and (j == 0 or j >= i - 1) else None
                for j, k in enumerate(p["X"])])
        for i, q in enumerate(p["X"])
    ]  # fmt: skip
    return {"weights": weights, "output": product(weights, p["X"])}


def grouped_with_norms(p: Steps) -> Steps:
    """Ainslie et al. 2023 (two query heads share a key head); Zhang, Sennrich 2019, equation 4, of each head."""
    heads, groups, eps = p["heads"], p["kv_heads"], p["eps"]
    made = {name: product(p["X"], p[f"W_{name}"]) for name in "QKV"}
    d = len(made["Q"][0]) // heads

    def part(name: str, h: int, weight: list[float] | None) -> Table:
        cut = [row[h * d : (h + 1) * d] for row in made[name]]
        if weight is None:
            return cut
        roots = [math.sqrt(dot(row, row) / d + eps) for row in cut]
        return [[x / root * w for x, w in zip(row, weight, strict=True)] for row, root in zip(cut, roots, strict=True)]

    weights, joined = [], [[] for _ in p["X"]]  # type: ignore[var-annotated]
    for h in range(heads):
        q, k = part("Q", h, p["q_weight"][0]), part("K", h * groups // heads, p["k_weight"][0])
        own = [shares([dot(a, b) / math.sqrt(d) if j <= i else None for j, b in enumerate(k)]) for i, a in enumerate(q)]
        weights.append(own)
        for row, more in zip(joined, product(own, part("V", h * groups // heads, None)), strict=True):
            row += more
    return {"weights": weights, "output": joined}


def linear(p: Steps) -> Steps:
    """Katharopoulos et al. 2020, equations 18 to 20: what is kept of the keys grows, and no weight is ever made."""

    def phi(row: list[float]) -> list[float]:
        return [x + 1 if x > 0 else math.exp(x) for x in row]

    kernel = [[dot(phi(q), phi(k)) for k in p["X"]] for q in p["X"]]
    state, total, output = [[0.0] * len(p["X"][0]) for _ in p["X"][0]], [0.0] * len(p["X"][0]), []
    for x in p["X"]:
        state = [[s + a * v for s, v in zip(row, x, strict=True)] for row, a in zip(state, phi(x), strict=True)]
        total = [t + a for t, a in zip(total, phi(x), strict=True)]
        output.append([y / dot(phi(x), total) for y in product([phi(x)], state)[0]])
    return {"kernel": kernel, "output": output}


# Sample, its formula, what a hand left out (None: that key), and the mistake that it is told.
SAMPLES: dict[str, tuple[Callable[[Steps], Steps], Steps, str]] = {
    "16-rotary": (rotary, {"rope": None}, "no-rope"),
    "17-alibi": (alibi, {"alibi": None}, "no-position-bias"),
    "18-sink": (sink, {"sink": None}, "sink-forgotten"),
    "19-window-with-sinks": (window_with_sinks, {"mask": "causal"}, ""),
    "20-grouped-qk-norm": (
        grouped_with_norms, dict.fromkeys(("qk_norm", "q_weight", "k_weight", "eps")), "no-qk-norm",
    ),
    "21-linear-attention": (linear, {"score": "gaussian"}, ""),
}  # fmt: skip


def problem(name: str) -> tuple[Path, dict[str, Any]]:
    path = ROOT / "samples" / f"{name}.yaml"
    return path, yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", SAMPLES)
def test_numbers_are_those_of_the_papers_formula(name: str) -> None:
    path, said = problem(name)
    right, found = SAMPLES[name][0](said), run(path)
    for step, numbers in right.items():
        np.testing.assert_allclose(found[step], numbers, rtol=1e-12, atol=1e-13, err_msg=step)
    for step, written in said["expect"].items():
        np.testing.assert_allclose(written, right[step], rtol=0, atol=0.5001e-4, err_msg=step)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_hand_that_left_the_step_out_is_told_so(name: str) -> None:
    _, said = problem(name)
    _, instead, mistake = SAMPLES[name]
    without = {key: value for key, value in {**said, **instead}.items() if value is not None and key != "expect"}
    numbers = np.vectorize(lambda cell: f"{cell:.4f}")(run(without).weights).tolist()
    marked = check({**said, "expect": {"weights": {"values": numbers, "decimals": 4}}})
    assert marked.verdict == "wrong"
    assert [each.mistake for each in marked.diagnosis][:1] == ([mistake] if mistake else [])


def test_kernel_values_that_were_not_divided_and_no_feature_map_are_told() -> None:
    _, said = problem("21-linear-attention")
    kernel = np.tril(linear(said)["kernel"])
    products = np.array(said["X"]) @ np.array(said["X"]).T
    for step, numbers, mistake in (("weights", kernel, "not-normalized"), ("kernel", products, "no-feature-map")):
        written = np.vectorize(lambda cell: f"{cell:.4f}")(numbers).tolist()
        marked = check({**said, "expect": {step: {"values": written, "decimals": 4}}})
        assert [each.mistake for each in marked.diagnosis][:1] == [mistake]


@pytest.mark.parametrize("name", SAMPLES)
def test_explain_ends_at_the_number(name: str) -> None:
    path, _ = problem(name)
    told = explain(path, query=2).text(precision=9).splitlines()
    last = float([line for line in told if "= " in line][-1].rpartition("= ")[2].split()[0])
    assert last == pytest.approx(float(run(path).output[1, -1]), abs=2e-9)
