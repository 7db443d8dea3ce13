"""What is explained is the definition itself: every combination, and what somebody registers at run time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from attncli import explain, load, run
from attncli.pipeline.steps import KEY_FEATURE, QUERY_FEATURE, QUERY_KEY, STEPS, always, step, value
from tests.calling import normalizers
from tests.explain.test_written_out import Line, calculated, lines, numbers_of
from tests.inside import NORMALIZERS, SCORES

Problem = dict[str, Any]
PARAMETERS: dict[str, Callable[[Any, int], Problem]] = {
    "general": lambda rng, d: {"W": rng.normal(size=(d, d))},
    "concat": lambda rng, d: {"W": rng.normal(size=(3, 2 * d)), "v": rng.normal(size=3)},
    "additive": lambda rng, d: {
        "W_q": rng.normal(size=(3, d)),
        "W_k": rng.normal(size=(3, d)),
        "w_v": rng.normal(size=3),
    },
    "gat": lambda rng, d: {"W": rng.normal(size=(3, d)), "a": rng.normal(size=6)},
    "linear": lambda rng, d: {"map": "exp"},
    "gaussian": lambda rng, d: {"sigma": 1.7},
    "boxcar": lambda rng, d: {"radius": 3.0},
    "triangular": lambda rng, d: {"radius": 4.0},
}
MASKS: list[Any] = [
    [],
    ["causal"],
    ["causal:bottom-right"],
    [{"window": [1, 1]}],
    [{"keys": "1,1,0,1,1"}],
    ["causal", {"lengths": [4]}],
]


def random_problem(rng: np.random.Generator, score: str, normalizer: str) -> Problem:
    """Any problem with this score and normalizer; small numbers, so that no digit is lost in writing them down."""
    n, m, d = 3, 5, 2

    def pick(among: list[Any]) -> Any:
        return among[rng.integers(len(among))]

    heads, groups = pick([(None, None), (2, 2), (4, 2), (4, 1)])
    matrices: Problem = {}
    past = pick([0, 0, 2])
    if pick([True, False]):
        matrices |= {
            "X": rng.normal(size=(n, 4)),
            "Y": rng.normal(size=(m - past, 3)),
            "b_K": rng.normal(size=d * (groups or 1)),
        }
        matrices |= {f"W_{name}": rng.normal(size=(depth, d * (count or 1)))
                     for name, depth, count in (("Q", 4, heads), ("K", 3, groups), ("V", 3, groups))}  # fmt: skip
    else:
        matrices |= {"Q": rng.normal(size=(n, d * (heads or 1)))}
        matrices |= {name: rng.normal(size=(m - past, d * (groups or 1))) for name in ("K", "V")}
    if past:
        matrices |= {name: rng.normal(size=(past, d * (groups or 1))) for name in ("past_k", "past_v")}
    if pick([True, False]):
        matrices |= {"W_O": rng.normal(size=(d * (heads or 1), 3)), "b_O": rng.normal(size=3)}
    if pick([True, False]):
        matrices["bias"] = np.where(rng.random((n, m)) < 0.2, -np.inf, rng.normal(size=(n, m)))
    layout = pick(["rows", "columns"])
    weights = pick(["in-out", "out-in"])
    for name, x in matrices.items():
        if x.ndim == 2 and (weights == "out-in" if name.startswith("W_") else layout == "columns"):
            matrices[name] = x.T
    parameters = {
        name: x.tolist() if isinstance(x, np.ndarray) else x
        for name, x in PARAMETERS.get(score, lambda rng, d: {})(rng, d).items()
    }
    said: Problem = {"score": {"name": score, **parameters}, "normalizer": normalizer, "mask": pick(MASKS)}
    said |= {"layout": layout, "weight_layout": weights}
    said |= pick([{}, {"scale": 0.5}, {"temperature": 2.0}, {"softcap": 1.5}, {"mask_value": -1.0, "mask": ["causal"]},
                  {"empty_rows": "uniform"}])  # fmt: skip
    said |= {} if heads is None else {"heads": heads, "kv_heads": groups}
    return {name: x.tolist() for name, x in matrices.items()} | said


def near(number: float) -> Any:
    """What is the number, within 1e-12."""
    return pytest.approx(number, rel=1e-12, abs=1e-12, nan_ok=True)


def ends_at_the_trace(problem: Problem, query: int, key: int | None = None) -> list[Line]:
    """Every line is calculated again, and ends in the number that the Trace has there."""
    trace, written = run(problem), list(lines(explain(problem, query, key).text(precision=17)))
    for line in written:
        number = float(line.number)
        assert "opaque" not in line.words, line
        assert line.term == "" or "more terms" in line.term or calculated(line.term) == near(number), line
        if line.step in trace:
            assert any(near(number) == each for each in numbers_of(trace, line)), line
    if key is None:
        output = [float(line.number) for line in written if line.step == "output"]
        rows = trace.output.T if trace.layout == "columns" else trace.output
        np.testing.assert_allclose(output, rows[query - 1], rtol=1e-12, atol=1e-12)
    return written


@pytest.mark.parametrize("normalizer", normalizers())
@pytest.mark.parametrize("score", SCORES.names())
def test_every_score_and_normalizer_with_everything_else(score: str, normalizer: str) -> None:
    for seed in range(4):
        rng = np.random.default_rng([seed, *map(ord, score + normalizer)])
        problem = random_problem(rng, score, normalizer)
        ends_at_the_trace(problem, 1 + int(rng.integers(3)))
        ends_at_the_trace(problem, 1 + int(rng.integers(3)), 1 + int(rng.integers(5)))


@pytest.mark.parametrize("begins", ["kernel", "scores", "scaled", "masked", "weights"])
def test_problems_that_begin_later(begins: str) -> None:
    rng = np.random.default_rng(7)
    for more in ({}, {} if begins in ("masked", "weights") else {"bias": rng.normal(size=(3, 4)).tolist()}):
        given = rng.random((2, 3, 4)) / 4
        ends_at_the_trace({begins: given[0].tolist(), "V": rng.normal(size=(4, 2)).tolist()} | more, 2)


def test_sequences_and_heads_that_lie_apart() -> None:
    rng = np.random.default_rng(8)
    q, k, v = rng.normal(size=(2, 4, 3, 2)), rng.normal(size=(2, 2, 5, 2)), rng.normal(size=(2, 2, 5, 3))
    problem = {"Q": q, "K": k, "V": v, "mask": [{"lengths": [3, 5]}, "causal"]}
    text = explain(problem, 2).text(precision=17)
    trace, found = run(problem), list(lines(text))
    assert [line.section for line in found if line.step == "sum"] == [
        f"sequence {b}, head {h}" for b in (1, 2) for h in (1, 2, 3, 4)
    ]
    for line in found:
        assert any(float(line.number) == near(each) for each in numbers_of(trace, line)), line


# -- what somebody registers at run time -----------------------------------------------------------------------------


@pytest.fixture
def rotary() -> Iterator[None]:
    """Queries and keys turned by their positions, between Q and K and the scores."""

    def turned(x: Any) -> Any:
        angles = np.arange(x.shape[-2])[:, None] * 0.7 ** np.arange(x.shape[-1] // 2)
        even, odd = x[..., 0::2], x[..., 1::2]
        pairs = [even * np.cos(angles) - odd * np.sin(angles), even * np.sin(angles) + odd * np.cos(angles)]
        return np.stack(pairs, axis=-1).reshape(*x.shape)

    facts: dict[str, Any] = {"after": "v", "when": always, "per_head": True}
    step("Q_turned", line="query", axes=QUERY_FEATURE, formula="R(i) q", **facts)(
        lambda at: turned(at.before("Q_turned"))
    )
    step("K_turned", line="key", axes=KEY_FEATURE, formula="R(j) k", **facts)(lambda at: turned(at.before("K_turned")))
    yield
    STEPS.remove("Q_turned")
    STEPS.remove("K_turned")


@pytest.mark.usefixtures("rotary")
@pytest.mark.parametrize("seed", range(6))
def test_a_rotary_step(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, "scaled-dot", "softmax")
    written = ends_at_the_trace(problem, 3)
    turned = [line for line in written if line.step == "Q_turned"]
    assert {line.labels[-1 if problem["layout"] == "rows" else 0] for line in turned} == {"1", "2"}
    assert all(line.term for line in turned)
    scores = next(line for line in written if line.step == "scores")
    used = [line.number for line in turned[:2]] + [line.number for line in written if line.step == "K_turned"][:2]
    assert all(number in scores.term for number in used)


@pytest.mark.usefixtures("rotary")
def test_a_step_by_its_own_formula_and_labels() -> None:
    """By hand: at position 2, q = (1, 0) is turned by 0.7^0 = 1 to (cos 1, sin 1) = (0.5403, 0.8415)."""
    text = explain({"X": [[1, 0], [1, 0]], "tokens": ["I", "am"]}, "am", "am").text()
    assert "Q_turned = R(i) q\n  Q_turned[am, 1] = 1 × 0.5403 - 0 × 0.8415 = 0.5403" in text
    assert "  K_turned[am, 2] = 1 × 0.8415 + 0 × 0.5403 = 0.8415" in text
    latex = explain({"X": [[1, 0], [1, 0]]}, 1, 1).text("latex")
    assert r"\mathit{Q\_turned} &= \text{R(i) q}" in latex


@pytest.fixture
def distanced() -> Iterator[None]:
    """The scores less what the distance costs: a table, and the step that adds it."""

    def table(at: Any) -> Any:
        return -0.25 * np.abs(at["places"].position - at["places"].key)

    value("costs", "fact")(table)
    step("distanced", after="capped", line="logits", axes=QUERY_KEY, when=always, per_head=True,
         formula="s - |i - j| / 4")(lambda at: at.before("distanced") + at["costs"])  # fmt: skip
    yield
    STEPS.remove("distanced")
    STEPS.remove("costs")


@pytest.mark.usefixtures("distanced")
@pytest.mark.parametrize("seed", range(6))
def test_a_bias_by_distance(seed: int) -> None:
    problem = random_problem(np.random.default_rng(seed), "dot", "softmax") | {"mask": []}
    assert any(line.step == "distanced" and line.term for line in ends_at_the_trace(problem, 2))


@pytest.mark.usefixtures("distanced")
def test_a_bias_by_distance_in_numbers() -> None:
    text = explain({"Q": [[1], [2], [3]], "K": [[1], [1], [1]], "score": "dot"}, 3, 1).text()
    assert "distanced = s - |i - j| / 4\n  distanced[q3, k1] = 3 + (-0.5) = 2.5" in text


def test_a_normalizer_and_a_score_registered_here() -> None:
    @NORMALIZERS("relu", formula="max(0, s) / (1 + sum)", sums_to_one=False, monotone=False, error="absolute")
    def relu(logits: Any, over: Any) -> Any:
        kept = np.where(over, np.maximum(logits, 0), 0)
        return kept / (1 + kept.sum(axis=-1, keepdims=True))

    @SCORES("streets", formula="c - sum w |q - k|", kernel=None)
    def streets(q: Any, k: Any, *, w: Any, c: float = 4.0) -> Any:
        return c - np.sum(np.abs(q[..., :, None, :] - k[..., None, :, :]) * w, axis=-1)

    try:
        problem: Problem = {"Q": [[1, 2], [0, 1]], "K": [[1, 0], [3, 2], [1, 5]], "V": [[1], [2], [3]]}
        problem |= {"score": {"name": "streets", "w": [1, 0.5]}, "normalizer": "relu", "mask": {"keys": [1, 1, 0]}}
        ends_at_the_trace(problem, 1)
        text = explain(problem, 1).text()
        assert "scores = c - sum w |q - k|\n  scores[q1, k1] = 4 - (abs(1 - 1) × 1 + abs(2 - 0) × 0.5) = 3" in text
        assert "weights = max(0, s) / (1 + sum)\n" in text
        assert "  weights[q1, k1] = max(3, 0) / (1 + max(3, 0) + max(2, 0)) = 0.5" in text
    finally:
        NORMALIZERS.remove("relu")
        SCORES.remove("streets")


# -- what cannot be read -----------------------------------------------------------------------------------------------


def waves(q: Any, k: Any) -> Any:
    return np.sin(q @ k.mT)


def by_loops(q: Any, k: Any) -> Any:
    return np.array([[float(np.dot(a, b)) for b in k[0]] for a in q[0]])[None]


def halves(logits: Any, visible: Any) -> Any:
    found = np.zeros(logits.shape)
    found[..., :2] = 0.5
    return found


@pytest.mark.parametrize(
    ("said", "what", "steps"),
    [
        ({"score": waves}, r"np\.sin", {"scores"}),
        ({"score": by_loops}, "plain", {"scores"}),
        ({"normalizer": lambda logits, visible: np.sinh(logits) / 9}, r"np\.sinh", {"weights"}),
        ({"normalizer": lambda logits, visible: logits.copy() * 0}, "copy", {"weights"}),
    ],
)
def test_a_function_that_cannot_be_read_is_told_to_be_opaque(said: Problem, what: str, steps: set[str]) -> None:
    x = np.random.default_rng(3).normal(size=(3, 2))
    problem = load({"Q": x, "K": x, "V": x} | said)
    trace = run(problem)
    for line in lines(explain(problem, 2).text(precision=17)):
        number = float(line.number)
        assert any(number == near(each) for each in numbers_of(trace, line)), line
        if line.step in steps:
            assert re.search(f"opaque: .*{what}", line.words), line
            assert line.term == ""
        else:
            assert line.words == ""
            assert line.term, line
            assert calculated(line.term) == near(number), line


def test_a_step_that_knows_only_the_whole_is_not_explained_wrongly() -> None:
    """It counts its rows, of which there is one where a single query is read: its terms give another number."""
    step("aged", after="capped", line="logits", axes=QUERY_KEY, when=always, per_head=True, formula="s - i")(
        lambda at: at.before("aged") - np.arange(at.shape.n)[:, None]
    )
    try:
        problem = {"Q": [[1], [2], [3]], "K": [[1], [2]], "V": [[1], [5]], "score": "dot"}
        trace = run(problem)
        written = list(lines(explain(problem, 3).text(precision=17)))
        aged = [line for line in written if line.step == "aged"]
        assert [line.members for line in aged] == ["1", "4"]
        assert all("opaque" in line.words for line in aged)
        for line in written:
            assert any(each == near(float(line.number)) for each in numbers_of(trace, line)), line
    finally:
        STEPS.remove("aged")


def test_five_hundred_tokens_are_explained_of_one_query_alone() -> None:
    """Of 500 x 500 scores those of the query are read, and of its numbers the first ones are written out."""
    rng = np.random.default_rng(9)
    problem = {"X": rng.normal(size=(500, 96)), "W_Q": rng.normal(size=(96, 32)), "W_K": rng.normal(size=(96, 32)),
               "heads": 2, "mask": "causal"}  # fmt: skip
    text = explain(problem, 400).text()
    written = list(lines(text))
    assert "... and 7997 more like these" in text  # 500 keys of 16 features each
    assert "... and 97 more like these" in text  # 100 of the keys are hidden
    assert len(written) < 100
    output = [float(line.number) for line in written if line.step == "output"]
    np.testing.assert_allclose(output, run(problem).output[399, : len(output)], atol=1e-4)
