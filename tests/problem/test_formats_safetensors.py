"""Safetensors: what the package of that name wrote is read, and what is not sound is refused with what is wrong."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli import attend
from attncli.problem.formats import ReadOptions, encode, read_all, read_matrix
from attncli.problem.matrix import Matrix
from tests.calling import Result
from tests.inside import InputError

# Written by safetensors.numpy.save_file of safetensors 0.8.0.
PACKAGE = Path(__file__).parents[1] / "data" / "package.safetensors"
HELD = {
    "w64": (np.float64, [[1 / 3, -2.5], [1e300, 0]]),
    "w32": (np.float32, [[1 / 3, -2.5]]),
    "w16": (np.float16, [[1 / 3, -2.5]]),
    "b16": (np.float32, [[1.5, -2, 0.333984375]]),  # the bfloat16 nearest to 0.33333
    "i64": (np.int64, [[1, -2]]),
    "i32": (np.int32, [[1, -2]]),
    "i16": (np.int16, [[1, -2]]),
    "i8": (np.int8, [[1, -2]]),
    "u64": (np.uint64, [[1, 2]]),
    "u32": (np.uint32, [[1, 2]]),
    "u16": (np.uint16, [[1, 2]]),
    "u8": (np.uint8, [[1, 2]]),
    "yes": (np.bool_, [[True, False]]),
    "layers.0.é": (np.float64, [[[0, 1], [2, 3]]]),
}


def held(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    """A file with this header, a text or what becomes JSON."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def one(shape: Any = (1, 2), offsets: Any = (0, 16), kind: Any = "F64") -> dict[str, Any]:
    return {"dtype": kind, "shape": shape, "data_offsets": offsets}


def through_stdin(data: bytes, name: str = "") -> Matrix:
    return read_matrix(f"-{name}", ReadOptions(stdin_format="safetensors"), stdin=lambda: data)


@pytest.mark.parametrize("name", HELD)
def test_what_the_package_wrote(name: str) -> None:
    dtype, rows = HELD[name]
    for found in (read_matrix(f"{PACKAGE}::{name}"), through_stdin(PACKAGE.read_bytes(), f"::{name}")):
        assert found.array.dtype == dtype
        np.testing.assert_array_equal(found.array, np.array(rows, dtype))
    assert found.stored == ("bfloat16" if name == "b16" else None)


def test_all_of_it() -> None:
    found = read_all(str(PACKAGE))
    assert found.keys() == {*HELD, "none"}
    assert found["none"].array.shape == (0, 2)
    assert found["b16"].notes == [f"{PACKAGE}::b16: bfloat16, read as float32"]


def test_in_commands(cli: Callable[..., Result]) -> None:
    listed = cli("show", PACKAGE)
    assert listed.status == 0
    assert f"{PACKAGE}::b16: 1 x 3, bfloat16" in listed.out.splitlines()
    assert f"{PACKAGE}::none: 0 x 2, float64" in listed.out.splitlines()
    several = cli("attend", PACKAGE, PACKAGE)
    assert several.status == 2
    assert "the file holds 15 arrays" in several.err
    wrong = cli("attend", f"{PACKAGE}::w65", f"{PACKAGE}::w64")
    assert (wrong.status, "did you mean 'w64'?" in wrong.err) == (2, True)
    scores = cli(
        "attend", f"{PACKAGE}::w32", f"{PACKAGE}::i16", "--score", "dot", "--show", "scores", "--format", "csv"
    )
    assert float(scores.out.split()[-1]) == pytest.approx(1 / 3 + 5)


def test_in_a_problem_file(tmp_path: Path, cli: Callable[..., Result]) -> None:
    (tmp_path / "m.safetensors").write_bytes(PACKAGE.read_bytes())
    (tmp_path / "p.yaml").write_text("Q: m.safetensors::w32\nK: {file: m.safetensors, name: i8}\nscore: dot\n")
    done = cli("run", tmp_path / "p.yaml", "--show", "scores", "--format", "csv")
    assert float(done.out.split()[-1]) == pytest.approx(1 / 3 + 5)


def test_written_is_what_the_format_describes() -> None:
    arrays = {"Q": np.arange(6.0).reshape(2, 3).T, "K": np.array([[1, 2]], ">i4"), "none": np.zeros((2, 0), "f4")}
    data = encode("safetensors", {name: Matrix(array) for name, array in arrays.items()}, {})
    (length,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    assert [each["data_offsets"] for each in header.values()] == [[0, 48], [48, 56], [56, 56]]
    assert body == struct.pack("<6d2i", 0, 3, 1, 4, 2, 5, 1, 2)
    assert header["K"]["dtype"] == "I32"
    assert length % 8 == 0


def test_a_result(tmp_path: Path, cli: Callable[..., Result]) -> None:
    path = tmp_path / "all.safetensors"
    assert cli("attend", "[[1, 2]]", "[[1, 0], [0, 1]]", "[[1], [2]]", "-o", path).status == 0
    found = read_all(str(path))
    trace = attend([[1, 2]], [[1, 0], [0, 1]], [[1], [2]])
    np.testing.assert_array_equal(found["output"].array, trace.output)
    np.testing.assert_array_equal(found["weights"].array, trace.weights)


def test_a_large_array_is_mapped_not_read(tmp_path: Path) -> None:
    small, large = np.ones((1, 3), np.float32), np.random.default_rng(0).normal(size=(1_000, 200))
    data = encode("safetensors", {"small": Matrix(small), "large": Matrix(large)}, {})
    (tmp_path / "a.safetensors").write_bytes(data)
    found = read_matrix(f"{tmp_path / 'a.safetensors'}::large").array
    np.testing.assert_array_equal(found, large)
    base: Any = found
    while getattr(base, "base", None) is not None and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "it ends after 0 bytes"),
        (b"\x08\0\0", "it ends after 3 bytes"),
        (held({"a": one()}, bytes(15)), "the header claims 16 bytes of arrays, the file holds 15"),
        (held({"a": one()}, bytes(17)), "the header claims 16 bytes of arrays, the file holds 17"),
        (held({}, length=2**63), "it claims a header of 9,223,372,036,854,775,808 bytes, the file holds 2"),
        (held(b" " * (2**24 + 1)), "its header is 16,777,217 bytes long, more than 16,777,216"),
        (held(b"[1, 2]"), "its header is no description of arrays"),
        (held(b'{"a": 1}'), "its header is no description of arrays"),
        (held(b"\xff\xfe"), "its header is no description of arrays"),
        (held(b"[" * 100_000), "its header is no description of arrays"),
        (held(b'{"a": ' + b"9" * 10_000 + b"}"), "its header is no description of arrays"),
        (held(b'{"a": {}, "a": {}}'), "its header is no description of arrays"),
        (held({"__metadata__": {"a": "b"}}), "the file holds no array"),
        (held({"a": {"dtype": "F64"}}), "its header is no description of an array"),
        (held({"a": one(offsets=[0, 8, 16])}, bytes(16)), "its header is no description of an array"),
        (held({"a": one(shape=[-1, -2])}, bytes(16)), "its header is no description of an array"),
        (held({"a": one(shape=[True, 2])}, bytes(16)), "its header is no description of an array"),
        (held({"a": one(shape=[1.0, 2])}, bytes(16)), "its header is no description of an array"),
        (held({"a": one(kind=["F64"])}, bytes(16)), "its header is no description of an array"),
        (held({"a": one(shape=[2**40, 2**40])}, bytes(16)), "a shape that is too large"),
        (held({"a": one(shape=[0, 2**40], offsets=[0, 0])}), "a shape that is too large"),
        (held({"a": one(shape=[1] * 40, offsets=[0, 8])}, bytes(8)), "a shape that is too large"),
        (held({"a": one(shape=[3, 2])}, bytes(16)), "its shape 3 x 2 of F64 needs 48 bytes, not 16"),
        (held({"a": one(offsets=[16, 0])}, bytes(16)), "needs 16 bytes, not -16"),
        (held({"a": one(), "b": one(offsets=[8, 24])}, bytes(24)), "it overlaps the array before it"),
        (held({"a": one(), "b": one()}, bytes(16)), "it overlaps the array before it"),
        (held({"a": one(offsets=[8, 24])}, bytes(24)), "it does not follow the array before it"),
        (held({"a": one(kind="F8_E4M3", offsets=[0, 2])}, bytes(2)), "numbers of type F8_E4M3 are not read"),
    ],
)  # fmt: skip
def test_what_is_not_sound(data: bytes, says: str, tmp_path: Path, cli: Callable[..., Result]) -> None:
    (tmp_path / "a.safetensors").write_bytes(data)
    for spec in ("a.safetensors", "a.safetensors::a"):
        with pytest.raises(InputError, match="^" + ".*" + says.replace("(", r"\(")):
            read_matrix(spec, base=tmp_path)
    shown = cli("show", tmp_path / "a.safetensors")
    assert shown.status == 2
    assert says in " ".join(shown.err.split())


def test_a_file_of_pytorch_is_told_how_to_convert(tmp_path: Path, cli: Callable[..., Result]) -> None:
    (tmp_path / "w.pt").write_bytes(b"\x80\x02")
    told = cli("attend", tmp_path / "w.pt", "[[1]]")
    assert told.status == 2
    assert "pickles are never read" in told.err
    assert "numpy.save" in told.err


def test_called_otherwise(tmp_path: Path, cli: Callable[..., Result]) -> None:
    (tmp_path / "a.npy").write_bytes(PACKAGE.read_bytes())
    told = cli("show", tmp_path / "a.npy")
    assert "this is a .safetensors file, not .npy" in told.err
    assert "a.safetensors" in told.err
