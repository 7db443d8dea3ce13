"""`diff` on the command line: exit status, what is printed, JSON, formats of matrices."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tests.calling import Result

Cli = Callable[..., Result]


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("[[1, 2]]", "[[1, 2]]"), 0),
        (("[[1, 2]]", "[[1, 2.5]]"), 1),
        (("[[1, 2]]", "[[1, 2.5]]", "--atol", "1/2"), 0),
        (("[[1, 2]]", "[[1, 2.5]]", "--rtol", "0.1"), 1),
        (("[[1, 2]]", "[[1, 2], [3, 4]]"), 1),
        (("[[nan]]", "[[nan]]"), 0),
        (("[[1]]", "[[1]]", "--ulp", "-1"), 2),
        (("[[1]]", "[[1]]", "--atol", "some"), 2),
        (("[[1]]", "[[1]]", "--format", "csv"), 2),
        (("missing.npy", "[[1]]"), 2),
        (("-", "-"), 2),
        (("[[1]]",), 2),
    ],
)
def test_exit_status(cli: Cli, arguments: tuple[str, ...], status: int) -> None:
    result = cli("diff", *arguments, stdin=b"1,2\n")
    assert result.status == status
    assert (result.out == "") == (status == 2)
    assert "Traceback" not in result.err


def test_what_is_printed(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(",x,y\ncat,1,2\nsat,3,4\n")
    (tmp_path / "b.csv").write_text(",x,y\ncat,1,2\nsat,3,5\n")
    result = cli("diff", tmp_path / "a.csv", tmp_path / "b.csv", "--format", "plain")
    assert "4 numbers, 3 equal, 1 not" in result.out
    assert "largest absolute error: 1 at sat, y (4.0 against 5.0)" in result.out
    assert "largest relative error: 0.2 at sat, y" in result.out
    assert result.out.endswith("they differ: 1 of 4 numbers (25 %) are not the same\n")


def test_histogram_has_a_bar_a_class(cli: Cli, tmp_path: Path) -> None:
    a = np.ones((1, 8), np.float32)
    np.savez(tmp_path / "both.npz", a=a, b=a + np.float32(2.0**-23) * np.array([0, 0, 1, 1, 1, 1, 3, 4], np.float32))
    result = cli("diff", f"{tmp_path}/both.npz::a", f"{tmp_path}/both.npz::b", "--ulp", 4)
    assert result.status == 0
    lines = result.out.splitlines()
    start = lines.index("ulp of float32")
    assert [line.split() for line in lines[start + 1 : start + 5]] == [
        ["0", "2", "█" * 20], ["1", "4", "█" * 40], ["2", "0"], ["3-4", "2", "█" * 20],
    ]  # fmt: skip
    assert "within ulp 4" in lines[-1]


def test_ascii_where_nothing_else_can_be_shown(cli: Cli) -> None:
    result = cli("diff", "[[1, 2]]", "[[1, 3]]", encoding="ascii")
    assert "#" in result.out
    assert "\\u" not in result.out


def test_json(cli: Cli, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([[1.0, np.nan, 2.0]], ml_dtypes.bfloat16))
    result = cli("diff", tmp_path / "a.npy", "[[1, 2, 4]]", "--format", "json")
    told = json.loads(result.out)
    assert result.status == 1
    assert told["a"] == {"file": str(tmp_path / "a.npy"), "shape": [1, 3], "dtype": "bfloat16"}
    assert (told["count"], told["equal"], told["outside"], told["within"]) == (3, 1, 2, False)
    assert told["nan_only_in"] == {"a": 1, "b": 0}
    assert told["worst"][0] == {"at": [1, 2], "name": "1, 2", "a": "nan", "b": 2.0, "absolute": "nan",
                                "relative": None, "ulp": "inf"}  # fmt: skip
    assert told["largest_absolute"]["at"] == [1, 3]
    assert told["ulp_of"] == "bfloat16"
    assert sum(each["count"] for each in told["ulps"]) == 2


def test_both_that_are_wrong_are_told(cli: Cli) -> None:
    result = cli("diff", "one.npy", "two.npy")
    assert result.status == 2
    assert "one.npy" in result.err
    assert "two.npy" in result.err


def test_standard_input(cli: Cli) -> None:
    assert cli("diff", "-", "[[1, 2]]", "--stdin-format", "csv", stdin=b"1,2\n").status == 0


def test_expect_of_an_array(cli: Cli, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, 2, 6, 4)).astype(np.float32) for _ in range(3))
    scores = q @ k.mT
    for name, scale in (("right", 0.5), ("wrong", 1.0)):
        weights = np.exp(scores * scale)
        np.save(tmp_path / f"{name}.npy", weights / weights.sum(-1, keepdims=True) @ v)
    files = [tmp_path / f"{name}.npy" for name in "qkv"]
    for file, array in zip(files, (q, k, v), strict=True):
        np.save(file, array)
    right = cli("attend", *files, "--top", 1, "--expect", f"output={tmp_path}/right.npy")
    assert right.status == 0
    assert "every number is within the tolerance" in right.out
    assert "its heads apart" in right.err
    wrong = cli("attend", *files, "--top", 1, "--expect", f"output={tmp_path}/wrong.npy")
    assert wrong.status == 1
    assert "likely: the scores were not divided by sqrt(d_k) = 2 (no-scale)" in wrong.out
    assert "rounding to float32 (5.96e-08 of its size)" in wrong.err


def test_nearly_all_are_not_all(cli: Cli, tmp_path: Path) -> None:
    a = np.zeros((64, 64))
    b = a + 1
    b[0, 0] = 0
    for name, array in (("a", a), ("b", b)):
        np.save(tmp_path / f"{name}.npy", array)
    result = cli("diff", tmp_path / "a.npy", tmp_path / "b.npy")
    assert "4095 of 4096 numbers (99.98 %) are not the same" in result.out


def test_large_whole_numbers_are_told_apart(cli: Cli, tmp_path: Path) -> None:
    for name, x in (("a", 12345678), ("b", 12345679)):
        np.save(tmp_path / f"{name}.npy", np.array([x, 5], np.int64))
    assert "(12345678 against 12345679)" in cli("diff", tmp_path / "a.npy", tmp_path / "b.npy").out
