"""YAML and JSON files of matrices, and the result objects that are written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from attncli.problem.formats import ReadOptions, encode, read_all, read_matrix
from attncli.problem.formats.json import dumps
from attncli.problem.formats.yaml import dump
from attncli.problem.matrix import Matrix
from tests.inside import InputError, Place

META: dict[str, Any] = {
    "attncli": "0.1.0",
    "schema": 1,
    "attention": "self",
    "layout": "rows",
    "score": {"name": "general", "W": np.array([[1.0, 1e-05]])},
    "scale": 0.5,
    "mask": ["causal:top-left"],
    "query_labels": ["[CLS]", "yes"],
    "key_labels": ["1", 'it\'s "a": #b', "\u732b\n\x7f\u2028"],
    "notes": ["row 1: {odd}", "null"],
}


def read(text: str | bytes, kind: str, name: str = "") -> Matrix:
    data = text if isinstance(text, bytes) else text.encode()
    return read_matrix(f"-{name}", ReadOptions(stdin_format=kind), stdin=lambda: data)


@pytest.mark.parametrize("kind", ["yaml", "json"])
def test_one_array_needs_no_name(kind: str) -> None:
    assert read("[[1, 2], [3, 4]]", kind).array.tolist() == [[1, 2], [3, 4]]
    assert read('{"W_Q": [[1, 2]], "title": "x", "tokens": ["a", "b"]}', kind).array.tolist() == [[1, 2]]


def test_several_arrays_have_names(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(
        "X: [[1, 0]]\nW_Q: [[2], [3]]\nW_K: wq.npy\nheads: 1\ntokens: [a]\nscore: {name: dot}\n"
    )
    assert read_matrix("p.yaml::W_Q", base=tmp_path).array.tolist() == [[2], [3]]
    assert list(read_all("p.yaml", base=tmp_path)) == ["X", "W_Q"]
    with pytest.raises(InputError, match="2 arrays: X, W_Q"):
        read_matrix("p.yaml", base=tmp_path)
    with pytest.raises(InputError, match=r'W_K is no array here: it names "wq\.npy"'):
        read_matrix("p.yaml::W_K", base=tmp_path)
    with pytest.raises(InputError, match="did you mean 'W_Q'"):
        read_matrix("p.yaml::w_q", base=tmp_path)
    with pytest.raises(InputError, match="score is no array"):
        read_matrix("p.yaml::score", base=tmp_path)


def test_numbers_in_json_as_python_and_javascript_write_them() -> None:
    found = read('[[NaN, Infinity, -Infinity, "inf", "nan", 1E5, "1/3"]]', "json").array
    np.testing.assert_array_equal(found, [[np.nan, np.inf, -np.inf, np.inf, np.nan, 1e5, 1 / 3]])


def test_a_mistake_has_its_place() -> None:
    with pytest.raises(InputError) as caught:
        read("X:\n  - [1, x]\n", "yaml")
    assert caught.value.place == Place("standard input", 2, 9)


def test_the_object_of_a_result() -> None:
    steps = {"weights": Matrix(np.array([[1.0, 0.1, -0.0], [np.inf, np.nan, -np.inf]])), "output": Matrix(np.eye(2))}
    text = encode("json", steps, META).decode()
    found = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} stands without quotes"))
    assert list(found) == [*list(META)[:-1], "steps", "notes"]
    assert found["steps"]["weights"] == [[1.0, 0.1, -0.0], ["inf", "nan", "-inf"]]
    assert found["score"] == {"name": "general", "W": [[1.0, 1e-05]]}
    assert found["schema"] == 1
    assert {key: found[key] for key in META if key != "score"} == {k: v for k, v in META.items() if k != "score"}


def test_the_same_object_in_yaml_is_the_same_for_other_readers() -> None:
    steps = {"weights": Matrix(np.array([[1.0, 1e-05, -0.0], [np.inf, 5e-324, -np.inf]]))}
    text = encode("yaml", steps, META).decode()
    found = yaml.safe_load(text)
    assert found["steps"]["weights"] == [[1.0, 1e-05, 0.0], [np.inf, 5e-324, -np.inf]]
    assert found["score"] == {"name": "general", "W": [[1.0, 1e-05]]}
    assert {key: found[key] for key in META if key != "score"} == {k: v for k, v in META.items() if k != "score"}


@pytest.mark.parametrize("kind", ["yaml", "json"])
def test_results_read_back_with_the_labels_of_their_steps(kind: str) -> None:
    steps = {"weights": Matrix(np.ones((2, 3))), "output": Matrix(np.eye(2)), "K": Matrix(np.ones((3, 1)))}
    data = encode(kind, steps, META)
    weights, output, keys = (read(data, kind, f"::{name}") for name in steps)
    assert (weights.row_labels, weights.column_labels) == (META["query_labels"], META["key_labels"])
    assert (output.row_labels, output.column_labels) == (META["query_labels"], None)
    assert keys.row_labels == META["key_labels"]
    columns = encode(kind, {"weights": Matrix(np.ones((3, 2)))}, META | {"layout": "columns"})
    assert read(columns, kind).row_labels == META["key_labels"]


@given(
    arrays(np.float64, array_shapes(max_dims=4, max_side=3), elements=st.floats()), st.sampled_from(["yaml", "json"])
)
def test_what_is_written_reads_back_bit_by_bit(array: np.ndarray, kind: str) -> None:
    back = read(encode(kind, {"output": Matrix(array)}, {}), kind).array
    np.testing.assert_array_equal(back, array)
    assert (np.signbit(back) == np.signbit(array))[~np.isnan(array)].all()
    if kind == "yaml":
        other = np.array(yaml.safe_load(encode(kind, {"output": Matrix(array)}, {}))["steps"]["output"])
        np.testing.assert_array_equal(other, array)


@given(arrays(np.float32, (2, 2), elements=st.floats(width=32)), st.sampled_from(["yaml", "json", "csv", "txt"]))
def test_float32_is_written_as_the_double_that_it_is(array: np.ndarray, kind: str) -> None:
    back = read(encode(kind, {"output": Matrix(array)}, {}), kind).array
    np.testing.assert_array_equal(back, array.astype(np.float64))


KEYS = st.text("abyn1 :", min_size=1, max_size=4)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(st.dictionaries(KEYS, VALUES, max_size=3))
def test_any_object_is_written_so_that_others_read_the_same(value: dict[str, Any]) -> None:
    assert json.loads(dumps(value)) == value
    if value:
        assert yaml.safe_load("\n".join(dump(value))) == value


def test_rows_stand_on_lines_of_their_own() -> None:
    steps = {"Q": Matrix(np.array([[1.0, 2.0], [3.0, 4.0]]))}
    assert (
        encode("yaml", steps, {"scale": 1.0}).decode()
        == "scale: 1.0\nsteps:\n  Q:\n    - [1.0, 2.0]\n    - [3.0, 4.0]\n"
    )
    assert encode("json", steps, {"scale": 1.0}).decode() == (
        '{\n "scale": 1.0,\n "steps": {\n  "Q": [[1.0, 2.0],\n   [3.0, 4.0]]\n }\n}\n'
    )
