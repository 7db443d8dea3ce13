"""10,000 problems in one call: all are there, and a bad one among them is but one. What each costs is a benchmark."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from batches import rows, run

pytestmark = pytest.mark.many
COUNT = 10_000


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return [f"{rows(number, 8, 8)}" for number in range(COUNT)]


def test_from_files_of_their_own(tmp_path: Path, texts: list[str]) -> None:
    """A JSON file for each; one of them by NumPy."""
    (tmp_path / "in").mkdir()
    for number, text in enumerate(texts):
        (tmp_path / "in" / f"p{number}.yaml").write_text(f"X: {text}\n")
    assert run(tmp_path, "in", "-o", "out").returncode == 0
    assert len([*(tmp_path / "out").glob("*.json")]) == COUNT
    x = np.array(rows(4321, 8, 8))
    e = np.exp(x @ x.T / np.sqrt(8))
    right = e / e.sum(axis=1, keepdims=True) @ x
    found = json.loads((tmp_path / "out" / "p4321.json").read_text())["steps"]["output"]
    np.testing.assert_allclose(found, right, rtol=1e-12)


def test_a_bad_one_in_the_middle(tmp_path: Path, texts: list[str]) -> None:
    bad = [*texts[:5000], "[[1, 2], [3]]", *texts[5001:]]
    (tmp_path / "many.yaml").write_text("problems:\n" + "".join(f"  - X: {text}\n" for text in bad))
    done = run(tmp_path, "many.yaml", "-o", "out")
    assert done.returncode == 2
    assert done.stderr == "attncli: many.yaml:5002:17: row 2 (line 5002) has 1 value, row 1 (line 5002) has 2\n"
    assert len([*(tmp_path / "out").glob("*.json")]) == COUNT - 1
    assert not (tmp_path / "out" / "many-05001.json").exists()
