"""Inputs that once ended in a fault of attncli itself, or in a warning of NumPy: each ends well, with right numbers."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faulty import here, run

TWO, THREE = "[[[1]], [[2]]]", "[[[1]], [[2]], [[3]]]"


@pytest.fixture(autouse=True)
def _no_warning() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def problem(folder: Path, text: str) -> str:
    (folder / "p.yaml").write_text(text, encoding="utf-8")
    return "p.yaml"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["attend", TWO, THREE], "K: the leading axes do not match: Q 2 x 1 x 1, K 3 x 1 x 1"),
        (["attend", TWO, TWO, THREE], "V: the leading axes do not match"),
        (["attend", TWO, TWO, TWO, "--past-k", THREE, "--past-v", TWO], "--past-k: the leading axes do not match"),
        (["attend", TWO, TWO, TWO, "--past-k", TWO, "--past-v", THREE], "--past-v: the leading axes do not match"),
        (["attend", f"[{TWO}]", f"[{THREE}]"], "Q has 2 heads, but there are 3 elsewhere: Q 2, K 3"),
        (["attend", f"[[{TWO}]]", f"[[{THREE}]]"], "Q has 2 heads, but there are 3 elsewhere: Q 2, K 3"),
        (["self", "[[1, 2]]", "--score", "additive", "--param", "W_k=2"], "W_k of the score 'additive' is a matrix"),
        (["self", "[[1]]", "--show", f"weights[{'9' * 5000}]"], "is not a step"),
        (["show", "h.npy"], "its header is no description of an array"),
    ],
)
def test_what_does_not_fit_is_told_by_name(tmp_path: Path, arguments: list[str], told: str) -> None:
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({'9' * 8000},), }}".encode()
    (tmp_path / "h.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    done = here(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr


def marked(folder: Path, text: str) -> dict[str, Any]:
    done = here(folder, "check", problem(folder, text), "--format", "json")
    assert done.returncode in (0, 1), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)[0]
    return found


def test_values_of_more_keys_than_queries_in_sixteen_digits(tmp_path: Path) -> None:
    text = "Q: [[1, 2]]\nK: [[1, 0], [0, 1], [1, 1]]\nV: [[1, 2], [3, 4], [5, 6]]\nexpect: {V: [[1.000000000000000, "
    found = marked(tmp_path, text + "2.500000000000000], [3.000000000000000, 4.000000000000000], [5, 6]]}\n")
    assert found["first_wrong"] == {"step": "V", "at": [1, 2], "row": "k1", "column": "2"}


@pytest.mark.parametrize("axes", ["[[1, 0, 2]]", "[[[1, 0]], [[2, 5]]]"], ids=["joined", "split into heads"])
def test_past_keys_before_a_projection_that_widens(tmp_path: Path, axes: str) -> None:
    """Every mistake with another weight matrix is tried, and one that gives keys of another width is none."""
    heads, width = ("heads: 2\n", 4) if "[[[" in axes else ("", 3)
    weight = [[int(i == j % 2) for j in range(width)] for i in range(2)]
    past = [[1, 0, 2, 5][:width]]
    text = f"X: [[1, 2]]\nW_Q: {weight}\nW_K: {weight}\n{heads}past_k: {axes}\npast_v: [[1, 2]]\n"
    right = [*past, [1, 2, 1, 2][:width]]
    wrong = [*past, [1, 2, 4, 2][:width]]
    assert marked(tmp_path, f"{text}expect: {{K: {right}}}\n")["verdict"] == "agrees"
    assert marked(tmp_path, f"{text}expect: {{K: {wrong}}}\n")["first_wrong"]["at"] == [2, 3]


def test_an_output_wider_than_the_values_is_explained(tmp_path: Path) -> None:
    """Two equal keys have a half each: (1 + 3) / 2 = 2 goes through W_O to 2, 4 and 6."""
    text = "Q: [[0]]\nK: [[1], [1]]\nV: [[1], [3]]\nW_O: [[1, 2, 3]]\n"
    told = here(tmp_path, "explain", problem(tmp_path, text), "--query", "1").stdout
    assert [f"output[q1, {j}] = 2 × {j} = {2 * j}" in told for j in (1, 2, 3)] == [True] * 3


def test_data_of_four_axes(tmp_path: Path) -> None:
    x = [[[[1, 2], [0, 1]], [[2, 2], [1, 1]]]]
    text = f"X: {x}\nexpect: {{scores: [[[[5, 2], [2, 1]], [[8, 4], [4, 3]]]]}}\n"  # right is 2 in the last place
    assert marked(tmp_path, text)["first_wrong"]["at"] == [1, 2, 2, 2]
    for command in (["run"], ["explain", "--query", "1"], ["decode", "--mask", "causal"], ["run", "--dry-run"]):
        assert here(tmp_path, command[0], "p.yaml", *command[1:]).returncode == 0


def test_a_temperature_at_the_end_of_the_doubles(tmp_path: Path) -> None:
    text = "scores: [[1, 2]]\nd_k: 2\ntemperature: 1e-160\nexpect: {weights: [[0, 1]]}\n"
    assert marked(tmp_path, text)["verdict"] == "agrees"


def test_a_head_of_the_weights_in_a_batch(tmp_path: Path) -> None:
    text = 'X: [[0, 1], [0, 2]]\nheads: 2\nexpect: {"weights[1]": [[0.5, 0.5], [0.5, 0.5]]}\n'
    assert "agrees" in here(tmp_path, "batch", problem(tmp_path, text)).stdout


@pytest.mark.parametrize(
    "command", [["check"], ["run", "--precision", "3"], ["decode", "--mask", "causal"], ["run", "--stats"]]
)
@pytest.mark.parametrize(("n", "m", "d", "v"), [(0, 3, 2, 2), (2, 0, 2, 2), (2, 3, 0, 2), (2, 3, 2, 0), (0, 0, 0, 0)])
def test_axes_of_size_0(tmp_path: Path, command: list[str], n: int, m: int, d: int, v: int) -> None:
    """Without keys every query gets 0, without features every key the same share."""
    output = np.zeros((n, v)) if m == 0 else np.ones((n, v))
    np.savez(tmp_path / "a.npz", Q=np.ones((n, d)), K=np.ones((m, d)), V=np.ones((m, v)), O=output)
    text = "Q: a.npz::Q\nK: a.npz::K\nV: a.npz::V\nexpect: {output: a.npz::O}\n"
    assert here(tmp_path, command[0], problem(tmp_path, text), *command[1:]).returncode == 0


def test_a_kernel_times_nothing(tmp_path: Path) -> None:
    done = here(tmp_path, "self", "[[1, 2], [3, 4]]", "--score", "boxcar", "--scale", "0", "--show", "weights",
                "--format", "csv")  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "1.0,0.0\n0.0,1.0\n")


@pytest.mark.parametrize(
    ("arguments", "note"),
    [
        (["self", "[[1, 2]]", "--score", "general", "--param", "W=[[inf, 0], [0, 1]]"], "NaN or infinity"),
        (["self", "[[1, 2]]", "--score", "additive", "--param", "W_k=[[inf, 0], [0, nan]]"], "NaN or infinity"),
        (["self", "[[1, 2]]", "--expect", "weights=[[1e308]]"], ""),
        (["self", "[[1e308, 1e308]]"], "NaN or infinity"),
        (["self", "[[1e200, 1]]", "--stats"], "NaN or infinity"),
        (["self", "[[1, 2]]", "--bias", "[[inf]]"], "NaN or infinity"),
        (["self", "[[1, 2]]", "--wq", "[[inf, 1], [0, 1]]"], "NaN or infinity"),
        (["self", "[[1, 2]]", "--wo", "[[nan, 0], [0, 1]]"], "NaN or infinity in W_O reaches the output: feature 1"),
        (["self", "[[inf, nan]]", "--top", "1"], "NaN or infinity"),
        (["diff", "[[1e308]]", "[[-1e308]]"], ""),
    ],
)
def test_what_is_not_finite_is_told_in_notes_and_not_by_numpy(tmp_path: Path, arguments: list[str], note: str) -> None:
    done = here(tmp_path, *arguments)
    assert done.returncode in (0, 1)
    assert note in done.stderr
    assert "Warning" not in done.stderr


def test_a_warning_of_a_library_stays_inside_unless_it_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, warnings\n"
        "def hook(event, arguments):\n"
        "    if event == 'import' and arguments[0] == 'attncli.cli.console': warnings.warn('from within')\n"
        "sys.addaudithook(hook)\n"
    )
    for asked in ("", "default"):
        done = run(tmp_path, "self", "[[1]]", env={"PYTHONPATH": str(tmp_path), "PYTHONWARNINGS": asked})
        assert (done.returncode, "from within" in done.stderr) == (0, asked == "default")
