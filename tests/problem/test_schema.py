"""The JSON Schema takes every problem that the program takes, and refuses what an editor can see to be wrong."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from attncli import AttnError, load
from tests.calling import attncli
from tests.inside import SCORES

ROOT = Path(__file__).parents[2]
CASES = yaml.load(
    (ROOT / "tests" / "data" / "worked_cases.yaml").read_text(encoding="utf-8"),
    Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader),
)["cases"]
# Those under errors/ are wrong on purpose.
SAMPLES = sorted(
    path for path in (ROOT / "samples").glob("**/*.yaml") if path.parent.name not in ("errors", "extending")
)
BASE = {"Q": [[1, 0]], "K": [[1, 0]]}


def schema():
    return json.loads(attncli("schema").out)


def errors(document):
    validator = jsonschema.Draft202012Validator(schema())
    return [f"{list(error.path)}: {error.message}" for error in validator.iter_errors(document)]


def test_it_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(schema())


def test_worked_cases_are_valid():
    for case in CASES:
        assert not errors({**case["problem"], "expect": case.get("hand") or {}}), case["id"]


@pytest.mark.parametrize("path", SAMPLES, ids=[path.name for path in SAMPLES])
def test_samples_are_valid(path):
    assert not errors(yaml.safe_load(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "more",
    [
        {"V": "v.npy"}, {"V": "data.npz::V"}, {"V": {"file": "w.npz", "name": "V"}}, {"V": {"identity": 1}},
        {"V": {"stage": "encoder", "step": "output"}}, {"V": [["1/3", "sqrt(2)/2"], ["-inf", 1e-3]]}, {"V": [1, "2√3"]},
        {"scale": "1/8"}, {"scale": -1}, {"mask_value": "-inf"}, {"mask-value": -1e6}, {"weight-layout": "out-in"},
        {"mask": "causal"}, {"mask": ["causal:bottom-right", {"window": [2, 0]}, {"lengths": "f.csv"}]},
        {"mask": {"keep": [[1, 0], [True, False]]}}, {"mask": {"keep": "keep.npy"}}, {"mask": {"causal": "top-left"}},
        {"score": {"name": "additive", "w_v": [1, 2]}}, {"score": "general", "param": {"W": [[1]]}},
        {"tokens": ["a", 1, None, True]}, {"tokens": "a b"}, {"tokens": {"file": "tokens.txt"}},
        {"show": "weights[1],output"}, {"show": ["all", "encoder.weights"]}, {"header": "yes"},
        {"expect": {"weights[1, 2]": [["0.50", None, "_", "?"]], "output": "hand.csv"}},
        {"expect": {"encoder.weights": {"values": [[1]], "significant": 3}}}, {"title": 3},
        {"problems": [BASE]}, {"stages": [{"name": "a", "X": [[1]]}]},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_right_is_valid(more):
    assert not errors({**BASE, **more})


@pytest.mark.parametrize(
    "wrong",
    [
        {"W_q": [[1]]}, {"quiet": True}, {"V": 3}, {"V": "1/2"}, {"V": []}, {"V": [["x"]]}, {"V": [["1,5"]]},
        {"V": [["0x10"]]}, {"V": {"fil": "v.npy"}}, {"V": {"identity": 0}}, {"V": {"stage": "a"}}, {"temperature": [1]},
        {"temperature": "two"}, {"temperature": 0}, {"softcap": 0}, {"softcap": -1}, {"mask_value": "inf"},
        {"heads": 0}, {"heads": 1.5}, {"precision": 18}, {"layout": "rwos"}, {"score": "addtive"},
        {"score": {"sigma": 1}},
        {"score": {"name": "gaussian", "sgma": 1}}, {"score": {"name": "general"}}, {"normalizer": "softmx"},
        {"like": "torch"}, {"both_ways": "yes"}, {"tokens": [["CLS"]]}, {"mask": 3}, {"mask": ["causal", 3]},
        {"mask": "causl"}, {"mask": {"widow": [1]}}, {"mask": {"causal": "left"}},
        {"mask": {"causal": None, "keys": [1]}},
        {"expect": {"weigts": [[1]]}}, {"expect": {"weights": {"value": [[1]]}}}, {"show": ["weigths"]},
        {"expect": {"weights": {"values": [[1]], "decimals": 1, "significant": 2}}}, {"scale": 1, "temperature": 2},
        {"problems": [{"layot": "rows"}]}, {"problems": []}, {"problems": [BASE], "stages": [BASE]},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_wrong_is_not(wrong):
    assert errors({**BASE, **wrong})


def test_a_problem_begins_somewhere():
    assert errors({"title": "nothing"})


def test_each_key_is_described():
    """Of all keys that a problem file may have, as the message for an unknown one lists them."""
    properties = schema()["properties"]
    with pytest.raises(AttnError) as caught:
        load({"zzzzzzzz": 1})
    known = caught.value.errors()[0].hint.removeprefix("known: ").split(", ")
    assert len(known) > 50
    assert set(properties) >= set(known)
    assert all(properties[name]["description"] for name in known)
    assert not {"output", "force", "dry_run", "quiet"} & set(properties)


def test_a_score_that_is_registered_at_run_time_is_in_it():
    @SCORES("mine", formula="0", kernel=None)
    def mine(q, k, *, power: float = 1.0):
        """All alike."""

    try:
        assert not errors({**BASE, "score": {"name": "mine", "power": 2}})
        assert errors({**BASE, "score": {"name": "mine", "force": 2}})
    finally:
        SCORES.remove("mine")
