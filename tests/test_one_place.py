"""One place for each addition: what is registered at run time, in one place, is known to every command and reading.

A step (a rotation of queries), a score, a normalizer, a mask, a bias by distance and a mistake, each by one decorated
function that knows nothing of readings; each is found in run, by blocks of rows, in explain, check, the dry run, a
saved problem, list, schema, help, completion and messages.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli import check, explain, load, run
from tests.calling import Result
from tests.inside import (
    BIASES,
    MASKS,
    MISTAKES,
    NORMALIZERS,
    SCORES,
    STEPS,
    Change,
    Setting,
    large_from,
    plan_of,
    whole_numbers,
)

Cli = Callable[..., Result]

Q = [[1.0, 0.5], [0.2, -1.0], [0.7, 0.3]]
K = [[0.5, 1.0], [1.5, -0.5], [0.1, 0.8]]
V = [[1.0, 2.0], [3.0, -1.0], [0.5, 0.5]]
GIVEN = {"Q": Q, "K": K, "V": V}


def softmax(s: np.ndarray) -> np.ndarray:
    e = np.exp(s)
    return e / e.sum(axis=-1, keepdims=True)


def turned(x: Any, angle: float) -> Any:
    """Each row turned by its place times an angle, in the first two features."""
    at = np.arange(x.shape[-2])[:, None] * angle
    a, b = x[..., 0:1], x[..., 1:2]
    return np.concatenate([a * np.cos(at) - b * np.sin(at), a * np.sin(at) + b * np.cos(at)], axis=-1)


def a_step() -> None:
    @STEPS(
        "Q_turned", after="q", line="query", axes=("query", "feature"), per_head=True, formula="R(i) q",
        latex=r"R(i)\,q", about="queries, turned by place", when=lambda at: at.config.more.get("turn") is not None,
        setting=Setting(name="turn", kind="number", help="turn each query by its place times so many radians"),
    )  # fmt: skip
    def q_turned(at: Any) -> Any:
        """Each query turned by its place."""
        return turned(at.before("Q_turned"), at.config.more["turn"])


def a_score() -> None:
    @SCORES("twice", formula="2 q . k + 1", source="a test", kernel=None)
    def twice(q: Any, k: Any) -> Any:
        """Twice the dot product, and one."""
        return (q @ k.mT) * 2 + 1


def a_normalizer() -> None:
    @NORMALIZERS("relu", formula="max(0, s) / 3", source="a test", sums_to_one=False, monotone=True, error="absolute")
    def relu(logits: Any, over: Any) -> Any:
        """A third of what is positive."""
        return np.where(over, np.maximum(logits, 0), 0) / 3


def a_mask() -> None:
    @MASKS("skip", formula="j is not N", source="a test", spec="skip:N", takes="numbers", parse=whole_numbers)
    def skip(shape: Any, argument: list[int]) -> Any:
        """All keys but one."""
        return lambda at: at.key != argument[0] - 1


def a_bias() -> None:
    @BIASES("by-distance", formula="- w |i - j|", source="a test",
            setting=Setting(name="near", kind="number", help="take W off the score for each place apart"))  # fmt: skip
    def by_distance(at: Any, indices: Any, weight: float) -> Any:
        """Less the farther a key is."""
        return -weight * np.abs(indices.position - indices.key)


ADDITIONS: dict[str, tuple[Callable[[], None], Callable[[], None], dict[str, Any], tuple[str, np.ndarray]]] = {}
_PLAIN = np.array(Q) @ np.array(K).T / np.sqrt(2)
ADDITIONS["step"] = (a_step, lambda: STEPS.remove("Q_turned"), {"turn": 0.5},
                     ("weights", softmax(turned(np.array(Q), 0.5) @ np.array(K).T / np.sqrt(2))))  # fmt: skip
ADDITIONS["score"] = (a_score, lambda: SCORES.remove("twice"), {"score": "twice"},
                      ("weights", softmax(2 * np.array(Q) @ np.array(K).T + 1)))  # fmt: skip
ADDITIONS["normalizer"] = (a_normalizer, lambda: NORMALIZERS.remove("relu"), {"normalizer": "relu"},
                           ("weights", np.maximum(_PLAIN, 0) / 3))  # fmt: skip
ADDITIONS["mask"] = (a_mask, lambda: MASKS.remove("skip"), {"mask": "skip:2"},
                     ("weights", softmax(np.where(np.arange(3) == 1, -np.inf, _PLAIN))))  # fmt: skip
ADDITIONS["bias"] = (a_bias, lambda: BIASES.remove("by-distance"), {"near": 0.25},
                     ("weights", softmax(_PLAIN - 0.25 * abs(np.arange(3)[:, None] - np.arange(3)))))  # fmt: skip


@pytest.fixture(params=ADDITIONS)
def added(request: pytest.FixtureRequest) -> Iterator[tuple[dict[str, Any], str, np.ndarray, str]]:
    """A problem that uses what was added, the step and its right numbers, and which kind it is."""
    add, remove, said, (step, right) = ADDITIONS[request.param]
    add()
    yield {**GIVEN, **said}, step, right, request.param
    remove()


Added = tuple[dict[str, Any], str, np.ndarray, str]


@pytest.fixture
def complete(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """What bash offers for a command line whose last word is to be completed."""

    def ask(line: str) -> list[str]:
        with monkeypatch.context() as patch:
            patch.setenv("_ATTNCLI_COMPLETE", "complete_bash")
            patch.setenv("COMP_WORDS", line)
            patch.setenv("COMP_CWORD", str(len(line.split()) - (not line.endswith(" "))))
            offered = cli().out.split()
        if sys.modules.get("rich") is None:  # completion keeps it from being imported
            sys.modules.pop("rich", None)
        return offered

    return ask


def test_run_and_blocks_of_rows(added: Added, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, step, right, _ = added
    np.testing.assert_allclose(run(problem)[step], right, rtol=1e-12)
    large_from(monkeypatch, 1)
    np.testing.assert_allclose(run(problem, steps="output")["output"], right @ np.array(V), rtol=1e-12)


def test_check_marks_it(added: Added) -> None:
    """The right sheet, rounded to two places, agrees; the same sheet without what was added is wrong."""
    problem, step, right, _ = added
    sheet = [[f"{x:.2f}" for x in row] for row in right]
    output = [[f"{x:.3f}" for x in row] for row in right @ np.array(V)]
    assert check({**problem, "expect": {step: sheet, "output": output}}).verdict != "wrong"
    plain = [[f"{x:.2f}" for x in row] for row in softmax(_PLAIN)]
    marked = check({**problem, "expect": {step: plain}})
    assert (marked.verdict, marked.first_wrong[0].step) == ("wrong", step)
    array = check({**problem, "expect": {step: right}})
    assert array.verdict == "agrees"


def test_explain_ends_at_its_numbers(added: Added) -> None:
    problem, _, right, _ = added
    last = explain(problem, query=2).text(precision=8).splitlines()[-1]
    assert float(last.rpartition("= ")[2]) == pytest.approx((right @ np.array(V))[1, -1], abs=1e-8)


def test_dry_run_and_saved_problem(added: Added, cli: Cli, tmp_path: Path) -> None:
    problem, step, _, kind = added
    trace = run(problem)
    assert plan_of(trace.problem).shapes == {name: trace.rows(name).shape for name in trace.names(on_request=True)}
    file = tmp_path / "p.json"
    file.write_text(json.dumps(problem))
    dry = cli("run", file, "--dry-run")
    assert dry.status == 0
    told = {"step": "Q_turned: ", "score": "score: twice", "normalizer": "normalizer: relu", "mask": "mask: skip:2",
            "bias": "near: 0.25"}  # fmt: skip
    assert told[kind] in dry.out
    assert cli("run", file, "--save-problem", tmp_path / "saved.yaml", "-o", tmp_path / "o.json").status == 0
    np.testing.assert_array_equal(run(load(tmp_path / "saved.yaml"))[step], trace[step])


@pytest.mark.parametrize(
    ("kind", "section", "name", "arguments"),
    [
        ("step", "steps", "Q_turned", ("--turn", "0.5")),
        ("score", "scores", "twice", ("--score", "twice")),
        ("normalizer", "normalizers", "relu", ("--normalizer", "relu")),
        ("mask", "masks", "skip", ("--mask", "skip:2")),
        ("bias", "biases", "by-distance", ("--near", "0.25")),
    ],
)
def test_list_schema_help_completion_and_messages(
    kind: str, section: str, name: str, arguments: tuple[str, str], cli: Cli, complete: Callable[[str], list[str]]
) -> None:
    add, remove, said, _ = ADDITIONS[kind]
    add()
    try:
        assert name in cli("list", section).out
        schema = cli("schema").out
        assert json.dumps(next(iter(said))) in schema if kind in ("step", "bias") else name in schema
        option, value = arguments
        if kind in ("step", "bias"):
            assert option in cli("attend", "--help-all").out
            assert option in complete("attncli attend --")
            misspelt = cli("run", "missing.yaml", option[:-1] + "x")
        else:
            assert any(name in offered for offered in complete(f"attncli attend q {option} {value[:3]}"))
            misspelt = cli("attend", "[[1]]", "[[1]]", option, name + "x")
        assert misspelt.status == 2
        assert (option if kind in ("step", "bias") else name) in misspelt.err
        given = [json.dumps(GIVEN[each]) for each in "QKV"]
        result = cli("attend", *given, *arguments, "--show", "weights", "--format", "json")
        assert result.status == 0
        right = ADDITIONS[kind][3][1]
        np.testing.assert_allclose(json.loads(result.out)["steps"]["weights"], right, rtol=1e-12)
        if kind == "step":
            assert "Q_turned" in cli("attend", *given, *arguments, "--show", "all").out
            assert "Q_turned" in " ".join(complete("attncli attend q --show Q_t"))
            assert "it has: Q, K, V, scores" in cli("attend", *given, "--show", "Q_turned").err
    finally:
        remove()
    assert name not in cli("list", section).out


def test_a_mistake(cli: Cli) -> None:
    @MISTAKES("plus-a-half", at=("scores",), simplicity=1)
    def plus_a_half(given: Any) -> Iterator[Change]:
        """A half was added to each score."""
        yield Change({"scores": given["scores"] + 0.5}, "a half was added to each score")

    try:
        scores = [[1.0, 2.0], [0.5, 3.0]]
        sheet = {"scores": [[1.5, 2.5], [1.0, 3.5]]}
        problem = {"Q": scores, "K": [[1, 0], [0, 1]], "score": "dot", "expect": sheet}
        assert [each.mistake for each in check(problem).diagnosis] == ["plus-a-half"]
        assert "plus-a-half" in cli("list", "mistakes").out
    finally:
        MISTAKES.remove("plus-a-half")


def test_a_fact_that_is_missing_is_told_at_once() -> None:
    with pytest.raises(TypeError, match=r"the score 'half' cannot be registered: missing .* 'kernel'"):
        SCORES("half", formula="q . k / 2")(lambda q, k: q @ k.mT / 2)
    with pytest.raises(TypeError, match=r"the normalizer 'half' .* 'sums_to_one', 'monotone', and 'error'"):
        NORMALIZERS("half")(lambda logits, over: logits / 2)
    with pytest.raises(TypeError, match=r"the step 'half' .* 'line', 'axes', and 'when'"):
        STEPS("half")(lambda at: at.before("half") / 2)
