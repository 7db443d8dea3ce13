"""Where matrices come from: paths, names in files, standard input, the command line; and hostile paths."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest

from attncli import AttnError
from attncli.problem.formats import FORMATS, ReadOptions, encode, format_of, known_suffixes, read_all, read_matrix
from attncli.problem.matrix import Matrix
from tests.inside import InputError, Place, ShapeError

CASES = Path(__file__).parents[1] / "field_cases"
EXPECTED = json.loads((CASES / "EXPECTED.json").read_text())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Q.csv").write_text("1,2\n3,4\n")
    return tmp_path


def error_of(spec: str, **options: Any) -> AttnError:
    with pytest.raises(AttnError) as caught:
        read_matrix(spec, **options)
    return caught.value


@pytest.mark.parametrize("case", ["B26", "B32", "B34", "B38", "B44"])
def test_field_cases_that_are_read(case: str) -> None:
    want = EXPECTED[case]
    options = ReadOptions(decimal=",") if case == "B32" else ReadOptions()
    found = read_matrix(want["file"], options, base=CASES)
    assert found.array.tolist() == want["matrix"]
    assert found.row_labels == want.get("rows")
    assert found.column_labels == want.get("columns")


@pytest.mark.parametrize("key", ["row", "col", "cell"])
def test_field_case_of_shapes(key: str) -> None:
    name, shape = EXPECTED["B40"][key]
    assert list(read_matrix(name, base=CASES).array.shape) == shape


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("B22_text.npy", EXPECTED["B22"]["error"]),
        ("B22_magic_cut.npy", "cut short"),
        ("B24_two_arrays.npy", EXPECTED["B24"]["error"]),
        ("B24_trailing.npy", "4 unread bytes follow the array"),
        ("B28_huge_claim.npy", "header claims 8 TB"),
        ("B28_huge_claim.npy", "the file holds 0 bytes"),
        ("B28_negative.npy", "(-1,)"),
        ("B32_semicolon_comma.csv", "decimal comma?"),
        ("B36_ragged_short.csv", EXPECTED["B36"]["error"]),
        ("B36_ragged_long.csv", "line 2 has 3 values, line 1 has 2"),
        ("B38_commas.csv", "line 2 holds separators only"),
        ("B42_thousands.csv", '"1,234" is not a number'),
        ("B44_nbsp.csv", "U+00A0"),
        ("B46_0d.npy", "shape ()"),
        ("B48_hex.csv", "B48_hex.csv:1:1: "),
        ("B48_overflow.csv", "B48_overflow.csv:1:1: "),
        ("B48_underscore.csv", "B48_underscore.csv:1:1: "),
        ("B50_badcell.csv", EXPECTED["B50"]["error"]),
        ("A26_K_empty.csv", "has no rows"),
    ],
)
def test_field_cases_that_are_refused(name: str, told: str) -> None:
    error = error_of(name, base=CASES)
    assert told in str(error)
    assert isinstance(error, InputError)


@pytest.mark.parametrize("name", ["B38_blank.csv", "B38_spaces.csv", "B46_excel_sep.csv", "B48_cr.csv", "B48_crlf.csv"])
def test_field_cases_of_lines(name: str) -> None:
    assert read_matrix(name, base=CASES).array.tolist() == [[1, 2], [3, 4]]


def test_field_cases_of_more_axes_and_fractions() -> None:
    assert read_matrix("B46_3d.npy", base=CASES).array.shape == (1, 2, 2)
    assert read_matrix("B48_fraction.csv", base=CASES).array.tolist() == [[0.5, 2]]


def test_inline() -> None:
    found = read_matrix(" [[1, 1/2],\t[-.5, inf]]")
    assert found.array.tolist() == [[1, 0.5], [-0.5, np.inf]]
    assert read_matrix("[1, 2]").array.shape == (2,)
    assert read_matrix("[[0.5, ~]]", blanks=True).spelling() == [["0.5", None]]
    assert read_all("[[1]]")[""].array.tolist() == [[1]]
    for text in ("[[1, 2]", "[[1, 2], [3]]", "[[1 2]]", "[]", "[[1, x]]", "[[1]] [[2]]"):
        place = error_of(text).place
        assert isinstance(place, Place)
        assert place.file == "inline"


@pytest.mark.usefixtures("folder")
def test_paths_are_looked_up_from_the_base(tmp_path: Path) -> None:
    assert read_matrix("Q.csv").array.shape == (2, 2)
    assert read_matrix(str(tmp_path / "Q.csv"), base=Path("/nowhere")).array.shape == (2, 2)
    assert read_matrix("Q.csv", base=tmp_path).place == Place(str(tmp_path / "Q.csv"), 1, 1)


def test_a_dash_is_standard_input_and_dot_slash_dash_a_file(folder: Path) -> None:
    (folder / "-").write_text("7")
    assert read_matrix("-", ReadOptions(stdin_format="csv"), stdin=lambda: b"1,2").array.tolist() == [[1, 2]]
    assert "not told by a suffix" in str(error_of("./-"))


def test_standard_input_tells_binary_formats_by_their_first_bytes() -> None:
    for kind in ("npy", "npz"):
        data = encode(kind, {"a": Matrix(np.eye(2))}, {})
        assert read_matrix("-", stdin=lambda data=data: data).array.tolist() == [[1, 0], [0, 1]]
    assert "--stdin-format" in str(error_of("-", stdin=lambda: b"1,2"))
    assert "known" in str(error_of("-", options=ReadOptions(stdin_format="ods"), stdin=lambda: b"1,2"))


def test_the_process_reads_its_own_standard_input() -> None:
    code = "from attncli.problem.formats import *; print(read_matrix('-', ReadOptions(stdin_format='csv')).array.sum())"
    done = subprocess.run([sys.executable, "-c", code], input="1,2\n", capture_output=True, text=True, check=True)
    assert done.stdout == "3.0\n"


def test_a_name_of_a_file_may_hold_colons(folder: Path) -> None:
    (folder / "a::b.csv").write_text("5")
    assert read_matrix("a::b.csv").array.tolist() == [[5]]
    assert "no name" in str(error_of("Q.csv::x"))
    (folder / "a::b.npz").write_bytes(encode("npz", {"c::d": Matrix(np.ones((1, 1)))}, {}))
    assert read_matrix("a::b.npz::c::d").array.tolist() == [[1]]


@pytest.mark.parametrize("spec", [".", "missing.csv", "no/folder.csv", "Q.ods", "Q", "/dev/zero", "a\0.csv", "x" * 400])
@pytest.mark.usefixtures("folder")
def test_what_is_no_file_is_an_input_error(spec: str) -> None:
    error = error_of(spec)
    assert isinstance(error, InputError)
    assert error.place is not None


@pytest.mark.parametrize("spec", ["", "::a"])
def test_no_name_at_all_is_not_the_folder(spec: str) -> None:
    assert "the name of the file is empty" in str(error_of(spec))


def test_hints(folder: Path) -> None:
    (folder / "Q.ods").write_text("")
    assert "did you mean Q.csv?" in str(error_of("q.csv"))
    assert ".npy" in str(error_of("Q.ods"))
    assert "the folder no does not exist" in str(error_of("no/folder.csv"))
    (folder / "link.csv").symlink_to("gone.csv")
    assert "it is a link to gone.csv" in str(error_of("link.csv"))


def test_no_right_to_read(folder: Path, without_rights: Callable[[], AbstractContextManager[None]]) -> None:
    (folder / "Q.csv").chmod(0)
    with without_rights():
        assert "not allowed to read" in str(error_of("Q.csv"))


def test_a_socket_is_no_file(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("s.csv")
        assert "socket" in str(error_of("s.csv"))


def test_a_named_pipe_is_no_file_and_one_of_the_shell_is(folder: Path) -> None:
    os.mkfifo("pipe.csv")
    assert "a named pipe" in str(error_of("pipe.csv"))
    read, write = os.pipe()
    os.write(write, b"1,2\n")
    os.close(write)
    assert read_matrix(f"/dev/fd/{read}", ReadOptions(stdin_format="csv")).array.tolist() == [[1, 2]]
    os.close(read)


def test_suffixes_in_any_case(folder: Path) -> None:
    np.save("w.npy", np.eye(2))
    Path("w.npy").rename("w.NPY")
    assert read_matrix("w.NPY").array.shape == (2, 2)
    assert format_of("out.YML").name == "yaml"
    assert format_of(".npz").name == "npz"
    assert format_of("csv").name == "csv"
    assert {".npy", ".npz", ".csv", ".tsv", ".txt", ".yaml", ".yml", ".json", ".safetensors", ".xlsx"} == set(
        known_suffixes()
    )


def test_a_format_is_added_in_one_place(folder: Path) -> None:
    def write(stream: BinaryIO, steps: Mapping[str, Matrix], meta: Mapping[str, Any]) -> None:
        (part,) = steps.values()
        stream.write(f"{part.array.shape}".encode())

    @FORMATS("ones", suffixes=(".ones",), write=write)
    def read(source: Any, options: ReadOptions, name: str | None) -> dict[str, Matrix]:
        """A square of ones, as large as the file."""
        size = len(source.read())
        return {"": Matrix(np.ones((size, size)))}

    try:
        Path("a.ones").write_text("12")
        assert read_matrix("a.ones").array.tolist() == [[1, 1], [1, 1]]
        assert encode("b.ones", {"output": Matrix(np.eye(3))}, {}) == b"(3, 3)"
        (folder / "Q.ods").write_text("")
        assert ".ones" in str(error_of("Q.ods"))
        assert FORMATS.find("ones").help == "A square of ones, as large as the file."
    finally:
        FORMATS.remove("ones")


def test_importing_the_formats_costs_no_library() -> None:
    code = (
        "import attncli.problem.formats, sys; "
        "print([n for n in ('numpy.core', 'numpy._core', 'yaml', 'zipfile', 'rich') if n in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_a_single_number_is_no_matrix() -> None:
    with pytest.raises(ShapeError, match=r"shape \(\)"):
        read_matrix("B46_0d.npy", base=CASES)
