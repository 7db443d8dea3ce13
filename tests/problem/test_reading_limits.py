"""What a file would take is told from its shapes: nothing is unpacked or made that does not fit or is not wanted."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from attncli import attend

Limited = Callable[..., tuple[int, str, str]]

_LIMIT = 1 << 30  # bytes of address space that a call may take
_UNPACKED = 2 << 30


@pytest.fixture
def limited(tmp_path: Path) -> Limited:
    """Call the program in a process that may not take much memory: exit status, standard output, standard error."""
    pytest.importorskip("resource")
    code = (
        "import resource, sys; from attncli.cli import call; import numpy; "
        f"resource.setrlimit(resource.RLIMIT_AS, ({_LIMIT}, {_LIMIT})); sys.exit(call(sys.argv[1:]))"
    )

    def invoke(*arguments: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False,
            env={"OPENBLAS_NUM_THREADS": "1", "PATH": ""},
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    return invoke


@pytest.fixture(params=["QK", "Q"], ids=["two arrays", "one array"])
def bomb(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """An archive of arrays of zeros, small as it lies and large when unpacked; gives their names."""
    path = tmp_path / "a.npz"
    rows = _UNPACKED // 16
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in request.param:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                header = io.BytesIO()
                np.lib.format.write_array_header_1_0(
                    header, {"descr": "<f8", "fortran_order": False, "shape": (rows, 2)}
                )
                member.write(header.getvalue())
                for _ in range(_UNPACKED >> 24):
                    member.write(bytes(1 << 24))
    return str(request.param)


def test_an_archive_is_looked_at_without_being_unpacked(limited: Limited, bomb: str, tmp_path: Path) -> None:
    rows = _UNPACKED // 16
    status, out, err = limited("show", "a.npz")
    assert (status, err) == (0, "")
    assert out == "".join(f"a.npz::{name}: {rows} x 2, float64\n" for name in bomb)
    status, _, err = limited("attend", "a.npz", "[[1, 2]]")
    if len(bomb) > 1:
        assert (status, "name one of them: a.npz::Q" in err) == (2, True)
    else:
        assert (status, "2.0 GiB of memory" in err) == (3, True)
    (tmp_path / "p.yaml").write_text("Q: a.npz::Q\nK: [[1, 2]]\n", encoding="utf-8")
    status, out, err = limited("run", "p.yaml", "--dry-run")
    assert (status, f"Q: {rows} x 2, float64, 2.0 GiB" in out) == (0, True), err
    status, out, err = limited("run", "p.yaml")
    assert (status, out) == (3, "")
    assert "a.npz::Q: this needs 2.0 GiB of memory" in err


def test_an_identity_takes_no_memory_of_its_own(limited: Limited, tmp_path: Path) -> None:
    """It is refused for what is computed from it, and told by a dry run; one that is used is the identity."""
    (tmp_path / "p.yaml").write_text("X: {identity: 100000}\n", encoding="utf-8")
    status, out, err = limited("run", "p.yaml", "--dry-run")
    assert (status, "X: 100000 x 100000" in out) == (0, True), err
    status, _, err = limited("run", "p.yaml")
    assert (status, "of memory" in err) == (3, True)
    (tmp_path / "w.yaml").write_text("X: [[1, 2, 3], [4, 5, 6]]\nW_V: {identity: 3}\nscore: dot\n", encoding="utf-8")
    status, out, _ = limited("run", "w.yaml", "--show", "V", "--format", "csv")
    assert (status, out) == (0, "1.0,2.0,3.0\n4.0,5.0,6.0\n")


@pytest.mark.parametrize("shape", [(200_000_000, 0), (0, 200_000_000), (99_999_999, 0, 2)])
def test_an_axis_of_size_0_hides_no_other(limited: Limited, tmp_path: Path, shape: tuple[int, ...]) -> None:
    np.save(tmp_path / "a.npy", np.empty(shape))
    status, _, err = limited("self", "a.npy")
    assert (status, "its header claims the shape" in err) == (2, True)


def test_no_keys_or_no_queries_stay_what_they_are() -> None:
    """Small axes of size 0 are arrays like any others."""
    assert attend(np.empty((2, 3)) * 0, np.empty((0, 3)), np.empty((0, 4)))["output"].tolist() == [[0.0] * 4] * 2
    assert attend(np.empty((0, 3)), np.ones((2, 3)), np.ones((2, 4)))["output"].shape == (0, 4)


def test_scores_of_many_queries_without_features_are_counted(limited: Limited, tmp_path: Path) -> None:
    """A million queries and keys without features have scores nevertheless."""
    np.save(tmp_path / "a.npy", np.empty((1_000_000, 0)))
    status, _, err = limited("self", "a.npy", "--show", "weights", "--format", "json")
    assert (status, "of memory" in err) == (3, True)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("p.yaml", "X: [[1]]\nscale: " + "9" * 60_000 + "x\n", "is not a number"),
        ("p.yaml", "X: [[1]]\nscale: " + "9" * 60_000 + "\n", "too large"),
        ("p.yaml", "X: [[1]] # " + "\t" * 60_000 + "\nQ: 1\n", "Q is the single value"),
        ("p.yaml", "".join(f"k{i}: 1\n" for i in range(9_000)), "unknown key 'k0'"),
        ("p.yaml", "X: [[1]]\nshow: weights[" + "1," * 30_000 + "]\n", "is not a step"),
        ("p.yaml", "X: [[1]]\nscore: " + "a" * 60_000 + "\n", "unknown score 'aaa"),
        ("p.yaml", "stages:\n" + "".join(f"- {{name: a{i}, X: [[1]]}}\n" for i in range(1_001)), "1,001 stages"),
        ("p.yaml", "X: [[1]]\nmask: [" + "causal, " * 1_001 + "]\n", "1,001 masks"),
        ("a.csv", "1," + "9" * 50_000 + "x\n1,2\n", "is not a number"),
    ],
)
def test_what_is_long_is_told_in_few_words(limited: Limited, tmp_path: Path, name: str, text: str, told: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    status, out, err = limited("self" if name.endswith("csv") else "run", name)
    assert (status, out, told in err) == (2, "", True), err[:500]
    assert len(err) < 10_000
    assert max(map(len, err.splitlines())) < 1000


def test_a_header_of_thousands_of_digits_is_told(limited: Limited, tmp_path: Path) -> None:
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({'9' * 8000},), }}".encode()
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    status, _, err = limited("show", "a.npy")
    assert (status, "a.npy: its header" in err) == (2, True)


def test_more_numbers_than_have_an_address_are_told(limited: Limited, tmp_path: Path) -> None:
    """Scores of 2^24 queries, keys and heads have no size in bytes, neither in a run nor in a dry one."""
    (tmp_path / "p.yaml").write_text("X: {identity: 16777216}\nheads: 16777216\n", encoding="utf-8")
    for more in ([], ["--dry-run"]):
        status, out, err = limited("run", "p.yaml", *more)
        assert (status, out) == (3, "")
        assert "scores would be 16777216 x 16777216 x 16777216: so many numbers have no address" in err


@pytest.mark.parametrize("axes", [25, 32, 33, 40, 64])
def test_more_axes_than_numpy_has_are_told(limited: Limited, axes: int) -> None:
    matrix = "[" * axes + "1" + "]" * axes
    for arguments in (("self", matrix), ("attend", "[[1]]", "[[1]]", matrix), ("self", matrix, "--expect", "V=[[1]]")):
        status, out, err = limited(*arguments)
        assert (status, out) == (2, "")
        assert f"has {axes} axes, more than 24" in err
