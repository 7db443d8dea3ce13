"""Code of one's own: `--load FILE.py` and entry points of installed packages, in processes of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.calling import ROOT, Result

Process = Callable[..., Result]
SAMPLE = ROOT / "samples" / "extending"
TASK = SAMPLE / "task.yaml"
LOAD = ("--load", SAMPLE / "ours.py")


def right() -> np.ndarray:
    """The sample's output in a plain loop."""
    x, v, out = [[1, 0], [0, 2]], [[10, 0], [0, 10]], []
    for i, q in enumerate(x):
        s = [-max(abs(q[f] - k[f]) for f in range(2)) - 0.5 * abs(i - j) ** 0.5 for j, k in enumerate(x)]
        w = np.exp(s) / np.exp(s).sum()
        out.append(w @ np.array(v))
    return np.array(out)


def numbers(result: Result) -> np.ndarray:
    assert (result.status, result.err) == (0, "")
    return np.array(json.loads(result.out)["steps"]["output"])


@pytest.mark.parametrize("first", [True, False])
def test_a_file_is_loaded_before_or_after_the_command(process: Process, first: bool) -> None:
    command = ("run", TASK, "--format", "json")
    np.testing.assert_allclose(numbers(process(*((*LOAD, *command) if first else (*command, *LOAD)))), right())


def test_what_it_brings_is_known_to_the_commands(process: Process, tmp_path: Path) -> None:
    assert "chebyshev" in process("list", "scores", *LOAD).out
    assert "chebyshev" in process("schema", *LOAD).out
    assert "--fade W" in process("attend", "--help-all", *LOAD).out
    assert process("explain", TASK, "--query", "1", *LOAD).status == 0
    words = f"attncli attend --load {LOAD[1]} --score cheb"
    environment = {"_ATTNCLI_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": "5"}
    assert process(env=environment).out.split() == ["chebyshev"]
    assert process("run", TASK, *LOAD, "-o", "o.semi").status == 0
    assert [float(x) for x in (tmp_path / "o.semi").read_text().split("\n")[0].split(";")] == pytest.approx(
        right()[0], rel=1e-5
    )
    assert "o.semi: 2 x 2" in process("show", "o.semi", *LOAD).out


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import numpy\n\nx = nope\n", "bad.py:3: NameError: name 'nope' is not defined"),
        ("def x(:\n", "bad.py:1:7: invalid syntax"),
        ("from attncli.extending import score\n\n@score('dot', kernel=None)\ndef f(q, k): ...\n",
         "bad.py:3: TypeError: the score 'dot' cannot be registered: there is one of that name"),
        ("from attncli.extending import score\n@score('bad', kernel=None)\ndef f(q, k):\n    return [][3]\n",
         "bad.py:4: IndexError: list index out of range"),
    ],
)  # fmt: skip
def test_an_error_is_told_with_its_line(process: Process, tmp_path: Path, code: str, message: str) -> None:
    (tmp_path / "bad.py").write_text(code)
    result = process("attend", "[[1]]", "[[1]]", "--score", "bad", "--load", "bad.py")
    assert (result.status, result.out, result.err) == (2, "", f"attncli: {message}\n")


def test_a_problem_file_cannot_load_code(process: Process, tmp_path: Path) -> None:
    (tmp_path / "ran.py").write_text("print('ran')\n")
    (tmp_path / "p.yaml").write_text("X: [[1]]\nload: ran.py\n")
    result = process("run", "p.yaml")
    assert (result.status, result.out) == (2, "")
    assert "p.yaml:2:1: unknown key 'load'" in result.err


def test_an_installed_package_is_found_where_a_name_is_unknown(process: Process, tmp_path: Path) -> None:
    site = tmp_path / "site"
    about = site / "ours_of_a_test-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: ours-of-a-test\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[attncli]\nours = ours_of_a_test\n")
    (site / "ours_of_a_test.py").write_text((SAMPLE / "ours.py").read_text())
    environment = {"PYTHONPATH": f"{site}:{ROOT}"}
    np.testing.assert_allclose(numbers(process("run", TASK, "--format", "json", env=environment)), right())
    by_option = process("attend", "[[1, 2]]", "[[1, 2], [3, 4]]", "--fade", "1", env=environment)
    assert (by_option.status, by_option.err) == (0, "")
    assert "chebyshev" in process("list", "scores", env=environment).out
    (site / "ours_of_a_test.py").write_text("import nothing_of_that_name\n")
    broken = process("list", "scores", env=environment)
    assert broken.status == 2
    assert "the extension 'ours' of the package 'ours-of-a-test' cannot be imported" in broken.err
    assert process("self", "[[1]]", "--format", "csv", env=environment).out == "1.0\n"  # which asks for nothing unknown
