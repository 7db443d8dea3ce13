"""10,000 problems in one call: what each costs, and that a bad one among them is but one.

What is counted is processor time, of one process on one thread: other work on the machine weighs less on it.
"""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
from batches import rows, run

pytestmark = pytest.mark.many
COUNT = 10_000


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return [f"{rows(number, 8, 8)}" for number in range(COUNT)]


def start_up(folder: Path) -> float:
    """The seconds of a batch of one problem."""
    (folder / "one.yaml").write_text("X: [[1, 2]]\n")
    return min(_timed(folder, "one.yaml") for _ in range(3))


def _timed(folder: Path, *arguments: str) -> float:
    began = _spent()
    assert run(folder, *arguments).returncode == 0
    return _spent() - began


def _spent() -> float:
    """Seconds of processor time of the processes that have ended, the system's included."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_in_one_file(tmp_path: Path, texts: list[str]) -> None:
    """At most half a millisecond each, parsing included."""
    (tmp_path / "many.yaml").write_text("problems:\n" + "".join(f"  - X: {text}\n" for text in texts))
    beside = start_up(tmp_path)
    each = (min(_timed(tmp_path, "many.yaml") for _ in range(3)) - beside) / COUNT
    assert each <= 0.5e-3, f"{each * 1e3:.3f} ms each"


def test_from_files_of_their_own(tmp_path: Path, texts: list[str]) -> None:
    """At most one and a half milliseconds each, a JSON file for each included."""
    (tmp_path / "in").mkdir()
    for number, text in enumerate(texts):
        (tmp_path / "in" / f"p{number}.yaml").write_text(f"X: {text}\n")
    beside = start_up(tmp_path)
    each = (min(_timed(tmp_path, "in", "-o", f"out{i}") for i in range(2)) - beside) / COUNT
    assert each <= 1.5e-3, f"{each * 1e3:.3f} ms each"


def test_a_bad_one_in_the_middle(tmp_path: Path, texts: list[str]) -> None:
    bad = [*texts[:5000], "[[1, 2], [3]]", *texts[5001:]]
    (tmp_path / "many.yaml").write_text("problems:\n" + "".join(f"  - X: {text}\n" for text in bad))
    done = run(tmp_path, "many.yaml", "-o", "out")
    assert done.returncode == 2
    assert done.stderr == "attncli: many.yaml:5002:17: row 2 (line 5002) has 1 values, row 1 (line 5002) has 2\n"
    assert len([*(tmp_path / "out").glob("*.json")]) == COUNT - 1
    assert not (tmp_path / "out" / "many-05001.json").exists()
