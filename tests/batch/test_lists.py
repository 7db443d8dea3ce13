"""Lists of jobs: rows that say what is different from a common problem."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from batches import result, results

from attncli import self_attention

Batch = Callable[..., tuple[int, str, str]]
X = [[1.0, 0.5], [0.0, 2.0], [1.0, 1.0]]
BASE = f"X: {X}\nmask: causal\nscale: 3\n"


def output(folder: Path, name: str) -> Any:
    return result(folder / "out" / f"{name}.json")["steps"]["output"]


def test_a_table_of_jobs(batch: Batch, tmp_path: Path) -> None:
    """Cells are options, empty ones say nothing, files are looked up beside the table."""
    (tmp_path / "lists").mkdir()
    (tmp_path / "base.yaml").write_text(BASE)
    np.save(tmp_path / "lists" / "w.npy", [[2.0, 0.0], [0.0, 1.0]])
    (tmp_path / "lists" / "jobs.csv").write_text(
        'name,scale,mask,wq\nplain,,,\nwide,1,none,\nturned,1/2,,w.npy\n,,"window:1,0",\n'
    )
    status, _, err = batch("lists/jobs.csv", "--problem", "base.yaml", "-o", "out")
    assert (status, err) == (0, "")
    assert sorted(results(tmp_path / "out")) == ["jobs-4.json", "plain.json", "turned.json", "wide.json"]
    w = np.array([[2.0, 0.0], [0.0, 1.0]])
    for name, expected in {
        "plain": self_attention(X, mask="causal", scale=3),
        "wide": self_attention(X, scale=1),
        "turned": self_attention(X, mask="causal", scale=0.5, wq=w),
        "jobs-4": self_attention(X, mask=("window", [1, 0]), scale=3),
    }.items():
        np.testing.assert_array_equal(output(tmp_path, name), expected["output"], err_msg=name)


def test_a_column_for_the_problem_and_several_masks(batch: Batch, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(BASE)
    (tmp_path / "b.yaml").write_text("X: [[1, 2]]\n")
    (tmp_path / "jobs.tsv").write_text(
        "problem\tname\tmask\tmask\tboth_ways\na.yaml\tone\tcausal\tkeys:1,1,0\tfalse\nb.yaml\ttwo\t\t\t\n"
    )
    assert batch("jobs.tsv", "-o", "out")[0] == 0
    expected = self_attention(X, mask=["causal", "keys:1,1,0"], scale=3)["output"]
    np.testing.assert_array_equal(output(tmp_path, "one"), expected)
    assert output(tmp_path, "two") == [[1.0, 2.0]]


def test_jobs_in_yaml(batch: Batch, tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(BASE)
    (tmp_path / "jobs.yaml").write_text("""problem: base.yaml
jobs:
  - {name: warm, scale: 0.5}
  - name: cold
    mask: [causal, {keys: [1, 1, 0]}]
  - {mask-value: -1e6, wk: [[0, 1], [1, 0]]}
""")
    assert batch("jobs.yaml", "-o", "out")[0] == 0
    assert sorted(results(tmp_path / "out")) == ["cold.json", "jobs-3.json", "warm.json"]
    expected = self_attention(X, mask="causal", scale=3, mask_value=-1e6, wk=[[0, 1], [1, 0]])
    np.testing.assert_array_equal(output(tmp_path, "jobs-3"), expected["output"])


def test_options_win_over_jobs(batch: Batch, tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(BASE)
    (tmp_path / "jobs.csv").write_text("name,scale\na,1\n")
    assert batch("jobs.csv", "--problem", "base.yaml", "-o", "out", "--scale", "2")[0] == 0
    np.testing.assert_array_equal(output(tmp_path, "a"), self_attention(X, mask="causal", scale=2)["output"])


def test_a_bad_job_does_not_stop_the_others(batch: Batch, tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(BASE)
    (tmp_path / "jobs.csv").write_text("name,scale\na,one\nb,2\nc,nan\n")
    status, _, err = batch("jobs.csv", "--problem", "base.yaml", "-o", "out")
    assert status == 2
    assert [*results(tmp_path / "out")] == ["b.json"]
    assert [line.partition(": ")[2].partition(": ")[0] for line in err.splitlines() if line.startswith("attncli")] == [
        "jobs.csv:2:2", "jobs.csv:4:2",
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "told"), [
    ("jobs.csv", "name,scael\na,1\n", "jobs.csv:1:2: unknown column 'scael'\n  did you mean 'scale'?"),
    ("jobs.csv", "name,scale,scale\na,1,2\n", "jobs.csv:1:3: the column 'scale' stands twice"),
    ("jobs.csv", "name,scale\na,1,2\n", "jobs.csv:2: line 2 has 3 cells, but there are 2 columns"),
    ("jobs.csv", "name,scale\na,1\na,2\n", "jobs.csv:2 and jobs.csv:3 would both give the result 'a'"),
    ("jobs.csv", "name,scale\n", "jobs.csv: the list of jobs has no rows"),
    ("jobs.csv", "", "jobs.csv: the list of jobs is empty"),
    ("jobs.csv", "name,problem\na,missing.yaml\n", "missing.yaml: the file does not exist"),
    ("jobs.yaml", "jobs:\n  - {name: a, scael: 1}\n", "jobs.yaml:2:15: unknown column 'scael'\n  did you mean"),
    ("jobs.yaml", "jobs: {scale: 1}\n", "jobs.yaml:1:7: jobs is not a list"),
    ("jobs.yaml", "jobs:\n  - 3\n", "jobs.yaml:2:5: a job is a mapping of options"),
    ("jobs.yaml", "scale: 2\njobs:\n  - {scale: 3}\n", "jobs.yaml:1:1: unknown key 'scale' beside jobs"),
])  # fmt: skip
def test_what_is_wrong_with_a_list_is_told_before_anything_is_computed(
    name: str, text: str, told: str, batch: Batch, tmp_path: Path
) -> None:
    (tmp_path / "base.yaml").write_text(BASE)
    (tmp_path / name).write_text(text)
    status, out, err = batch(name, "--problem", "base.yaml", "-o", "out")
    assert (status, out) == (2, "")
    assert told in err
    assert not (tmp_path / "out").exists()


def test_a_list_without_a_problem(batch: Batch, tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("name,scale\na,1\n")
    status, _, err = batch("jobs.csv", "-o", "out")
    assert status == 2
    assert "jobs.csv:2: the job names no problem\n  a column `problem`, or --problem FILE" in err
