"""NumPy's files: read in their own dtype, never beyond what they hold."""

from __future__ import annotations

import contextlib
import io
import struct
import warnings
import zipfile
import zlib
from itertools import count
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from attncli import AttnError
from attncli.problem.formats import ReadOptions, encode, npz, read_all, read_matrix
from attncli.problem.matrix import Matrix
from tests.inside import InputError

CASES = Path(__file__).parents[1] / "field_cases"
DTYPES = [np.float64, np.float32, np.float16, np.int8, np.uint8, np.int64, np.uint16, np.bool_, ">f8", ">i4", "<f4"]


def through_stdin(data: bytes, name: str = "", kind: str | None = None) -> Matrix:
    return read_matrix(f"-{name}", ReadOptions(stdin_format=kind), stdin=lambda: data)


def npy(array: np.ndarray, version: tuple[int, int] | None = None) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, version=version)
    return stream.getvalue()


def header(text: str, data: bytes = b"", version: int = 1) -> bytes:
    wide = "<H" if version == 1 else "<I"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack(wide, len(text)) + text.encode("latin-1") + data


def claim(shape: str, descr: str = "'<f8'", data: bytes = b"", **options: Any) -> bytes:
    return header(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n", data, **options)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_dtype_and_order(dtype: Any, order: str, tmp_path: Path) -> None:
    array = np.asarray(np.arange(6).reshape(2, 3), dtype=dtype, order=order)  # type: ignore[call-overload]
    np.save(tmp_path / "a.npy", array)
    for found in (read_matrix("a.npy", base=tmp_path).array, through_stdin((tmp_path / "a.npy").read_bytes()).array):
        np.testing.assert_array_equal(found, array)
        assert found.dtype == np.dtype(dtype).newbyteorder("=")


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_versions(version: tuple[int, int]) -> None:
    assert through_stdin(npy(np.eye(2), version)).array.tolist() == [[1, 0], [0, 1]]


def test_long_integers_of_python_2() -> None:
    assert through_stdin(claim("(1L, 2L)", data=struct.pack("<2d", 1, 2))).array.tolist() == [[1, 2]]


@pytest.mark.parametrize("shape", [(1_000, 200), (200_000,), (2, 400, 250)])
def test_a_large_file_is_mapped_not_read(shape: tuple[int, ...], tmp_path: Path) -> None:
    array = np.random.default_rng(0).normal(size=shape)
    np.save(tmp_path / "a.npy", np.asfortranarray(array))
    found = read_matrix(str(tmp_path / "a.npy")).array
    np.testing.assert_array_equal(found, array)
    base = found
    while getattr(base, "base", None) is not None and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)


def test_bfloat16_widens_exactly() -> None:
    array = np.array([[1.5, -0.0, 3.0e38], [np.inf, np.nan, 1e-40]], dtype=ml_dtypes.bfloat16)
    found = through_stdin(npy(array))
    np.testing.assert_array_equal(found.array, array.astype(np.float32))
    assert found.array.dtype == np.float32
    assert "bfloat16" in found.notes[0]


def test_no_rows_are_a_matrix() -> None:
    assert read_matrix(str(CASES / "A26_K_0x2.npy")).array.shape == (0, 2)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"1,2\n3,4\n", "not a .npy file: it starts with 1,2"),
        (b"", "it is empty"),
        (b"\x93NUM", "cut short after 4 bytes"),
        (npy(np.eye(2))[:9], "cut short"),
        (npy(np.eye(2))[:60], "header is not complete"),
        (npy(np.eye(2))[:-8], "claims 32 bytes (shape (2, 2)), the file holds 24 bytes"),
        (npy(np.eye(2)) + b"JUNK", "4 unread bytes follow the array"),
        (npy(np.eye(2)) * 2, "160 unread bytes follow the array"),
        (claim("(1000000000000,)"), "claims 8 TB"),
        (claim(f"({10**40}, {10**40})"), "claims"),
        (claim(f"({2**63 - 1}, 0)"), "claims the shape"),
        (claim(f"({10**40}, 0)"), "claims the shape"),
        (claim(f"({10**10}, 0)"), "claims the shape"),
        (claim("(-1,)"), "(-1,)"),
        (claim("(True,)"), "no description"),
        (claim("2"), "no description"),
        (claim("(1,)", "'O'", b"\x80\x04N."), "pickle"),
        (claim("(1,)", "'<c16'", b"\0" * 16), "complex"),
        (claim("(1,)", "'<M8[s]'", b"\0" * 8), "dates"),
        (claim("(1,)", "'<U1'", b"\0" * 4), "text"),
        (claim("(1,)", "'|V1'", b"\0"), "records"),
        (claim("(1,)", "[('a', '<f8')]", b"\0" * 8), "records"),
        (claim("(1,)", "'<f16'", b"\0" * 16), "are not read"),
        (claim("(1,)", "'nonsense'"), "no dtype"),
        (claim("(1,)", "1"), "records"),
        (header("{'descr': '<f8'}"), "no description"),
        (header("__import__('os').system('true')"), "no description"),
        (header("(" * 9000), "no description"),
        (header("[" * 9000 + "]" * 900), "no description"),
        (header(" " * 20_000), "20,000 bytes long"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "4,294,967,295 bytes long"),
        (b"\x93NUMPY\x09\x00" + b" " * 20, "version 9.0"),
        (npy(np.array(3.0)), "shape ()"),
    ],
    ids=count(),
)
def test_hostile_npy_files(data: bytes, told: str, tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(data)
    for read in (lambda: read_matrix("a.npy", base=tmp_path), lambda: through_stdin(data, kind="npy")):
        with pytest.raises(InputError) as caught:
            read()
        assert told in str(caught.value)
        assert caught.value.place is not None


@given(st.binary(max_size=200))
def test_any_bytes_are_an_array_or_an_error(tail: bytes) -> None:
    for data in (tail, b"\x93NUMPY" + tail, npy(np.eye(2))[:60] + tail):
        for kind in ("npy", "npz"):
            with contextlib.suppress(AttnError):
                through_stdin(data, kind=kind)


@given(arrays(np.float64, array_shapes(max_dims=4, max_side=3), elements=st.floats()), st.sampled_from(["npy", "npz"]))
def test_what_is_written_reads_back_bit_by_bit(array: np.ndarray, kind: str) -> None:
    found = through_stdin(encode(kind, {"output": Matrix(array)}, {})).array
    assert found.tobytes() == array.tobytes()
    assert found.shape == array.shape


def test_written_in_c_order() -> None:
    assert b"'fortran_order': False" in encode("npy", {"output": Matrix(np.asfortranarray(np.eye(3)))}, {})


def test_npz_holds_arrays_by_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", W_Q=np.eye(2), W_K=np.ones((2, 1)))
    np.savez_compressed(tmp_path / "b.npz", only=np.zeros((500, 500)))
    path = str(tmp_path / "a.npz")
    assert read_matrix(f"{path}::W_K").array.tolist() == [[1], [1]]
    assert list(read_all(path)) == ["W_Q", "W_K"]
    assert list(read_all(f"{path}::W_K")) == ["W_K"]
    assert read_matrix(str(tmp_path / "b.npz")).array.shape == (500, 500)
    with pytest.raises(InputError, match="2 arrays: W_Q, W_K"):
        read_matrix(path)
    with pytest.raises(InputError, match="did you mean 'W_Q'"):
        read_matrix(f"{path}::W_q")
    with np.load(io.BytesIO(encode("npz", {"a": Matrix(np.eye(2)), "b": Matrix(np.ones(3))}, {}))) as numpys:
        assert numpys["b"].tolist() == [1, 1, 1]


def test_npz_bytes_are_reproducible() -> None:
    steps = {"output": Matrix(np.eye(2))}
    assert encode("npz", steps, {}) == encode("npz", steps, {})


def archive(*members: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(stream, "w", method) as made:  # doubled names
        for name, data in members:
            made.writestr(zipfile.ZipInfo(name), data, method)  # dated 1980: the same bytes each time
    return stream.getvalue()


def patched(data: bytes, offset: int, value: int) -> bytes:
    """The archive with four bytes of its only member's directory entry changed."""
    at = data.index(b"PK\x01\x02") + offset
    return data[:at] + struct.pack("<I", value) + data[at + 4 :]


GOOD = archive(("a.npy", npy(np.eye(2))))


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"PK nothing", "not a sound .npz"),
        (b"", "not a sound .npz"),
        (GOOD[:40], "not a sound .npz"),
        (archive(("a.npy", npy(np.eye(2))), ("a.npy", npy(np.eye(3)))), "holds 'a' twice"),
        (archive(("a.npy", b"1,2")), "not a .npy file"),
        (archive(("a.npy", npy(np.eye(2)) + b"more")), "4 unread bytes"),
        (archive(("a.npy", claim("(1000000000000,)"))), "claims 8 TB"),
        (archive(("a.npy", claim("(1,)", "'O'", b"N."))), "pickle"),
        (archive(("a.npy", npy(np.eye(2))), method=zipfile.ZIP_LZMA), "method 14"),
        (archive(), "holds no array"),
        (patched(GOOD, 24, 2**31), "claims to unpack"),
        (patched(GOOD, 8, 1), "encrypted"),
        (patched(GOOD, 16, 12345), "not a sound .npz"),
        (GOOD.replace(GOOD[45:60], b"\xff" * 15), "not a sound .npz"),
    ],
    ids=count(),
)
def test_hostile_archives(data: bytes, told: str, tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(data)
    with pytest.raises(InputError) as caught:
        read_matrix(str(tmp_path / "a.npz"))
    assert told in str(caught.value)


def test_a_bomb_is_refused_before_memory_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory and the header agree on 400 MB, but 100 packed bytes cannot hold as much."""
    size = 400_000_000
    head = claim(f"({size // 8},)")
    packed = zlib.compressobj(wbits=-15)
    body = packed.compress(head) + packed.flush()
    data = archive(("a.npy", head))
    data = patched(data, 24, len(head) + size)
    assert len(body) < 1000
    monkeypatch.setattr(npz.np, "empty", lambda *args, **options: pytest.fail("memory was asked for"))
    with pytest.raises(InputError, match="claims to unpack"):
        through_stdin(data)


def test_a_member_that_is_shorter_than_it_says() -> None:
    head = claim("(1000,)")
    data = patched(archive(("a.npy", head + b"\0" * 800)), 24, len(head) + 8000)
    with pytest.raises(InputError, match=r"cut short|not a sound"):
        through_stdin(data)
