"""Outputs that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO

import pytest

from attncli import AttnError
from attncli.problem.formats import open_source
from attncli.problem.formats.files import write_all
from tests.inside import InputError, MachineError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names() -> list[str]:
    return sorted(os.listdir())


def failing(error: BaseException) -> object:
    def write(stream: BinaryIO) -> None:
        stream.write(b"half")
        raise error

    return write


def test_writes_exactly_the_names_that_were_given() -> None:
    write_all({"w.NPY": b"a", "result.txt": lambda stream: stream.write(b"b")})
    assert names() == ["result.txt", "w.NPY"]
    assert Path("w.NPY").read_bytes() == b"a"
    assert Path("result.txt").read_bytes() == b"b"


def test_an_existing_file_needs_force() -> None:
    Path("a").write_text("old")
    with pytest.raises(InputError, match="--force"):
        write_all({"b": b"new", "a": b"new"})
    assert names() == ["a"]
    assert Path("a").read_text() == "old"
    write_all({"b": b"new", "a": b"new"}, force=True)
    assert names() == ["a", "b"]
    assert Path("a").read_text() == "new"


def test_all_that_is_wrong_is_told_at_once() -> None:
    Path("a").write_text("old")
    Path("d").mkdir()
    with pytest.raises(AttnError) as caught:
        write_all({"a": b"", "d": b"", "no/b": b"", "c": b"", "./c": b"", "x\0": b"", "a/b": b""})
    told = str(caught.value)
    assert len(caught.value.errors()) == 6
    for part in ("the file exists", "this is a folder", "there is no folder", "same file as c", "null byte"):
        assert part in told
    assert names() == ["a", "d"]


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_an_output_that_is_an_input_is_refused_by_any_name(link: object) -> None:
    Path("a").write_text("old")
    link("a", "b")  # type: ignore[operator]
    open_source("a")
    for name in ("a", "./a", "b"):
        with pytest.raises(InputError, match="also an input"):
            write_all({name: b"new"}, force=True)
    assert Path("a").read_text() == "old"


@pytest.mark.parametrize("error", [RuntimeError("x"), KeyboardInterrupt(), MemoryError()])
def test_a_failure_leaves_nothing_behind(error: BaseException) -> None:
    Path("a").write_text("old")
    with pytest.raises(type(error)):
        write_all({"a": b"new", "b": b"new", "c": failing(error)}, force=True)
    assert names() == ["a"]
    assert Path("a").read_text() == "old"


@pytest.mark.parametrize(
    ("code", "kind", "told"),
    [
        (errno.ENOSPC, MachineError, "disk is full"),
        (errno.EDQUOT, MachineError, "disk is full"),
        (errno.EIO, MachineError, "could not write"),
        (errno.EACCES, InputError, "not allowed"),
        (errno.EROFS, InputError, "not allowed"),
        (errno.ENAMETOOLONG, InputError, "too long"),
    ],
)
def test_errors_of_the_system(code: int, kind: type[AttnError], told: str) -> None:
    with pytest.raises(kind, match=told):
        write_all({"a": b"new", "b": failing(OSError(code, "x"))})
    assert names() == []


def test_a_full_disk() -> None:
    with pytest.raises(MachineError, match="disk is full"):
        write_all({"/dev/full": b"x" * 10, "a": b"new"})
    assert names() == []


def test_a_late_failure_undoes_the_early_renames(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("a").write_text("old")
    replace = os.replace

    def fails_for_c(source: str, target: str) -> None:
        if target.endswith("/c"):
            raise OSError(errno.EACCES, "no")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fails_for_c)
    with pytest.raises(InputError, match="not allowed"):
        write_all({"a": b"new", "b": b"new", "c": b"new"}, force=True)
    assert names() == ["a"]
    assert Path("a").read_text() == "old"


def test_a_file_that_came_into_being_meanwhile_is_kept() -> None:
    def slow(stream: BinaryIO) -> None:
        stream.write(b"new")
        Path("b").write_text("precious")

    with pytest.raises(InputError, match="meanwhile"):
        write_all({"a": b"new", "b": slow})
    assert (names(), Path("b").read_text()) == (["b"], "precious")
    write_all({"a": b"new", "b": slow}, force=True)
    assert (names(), Path("b").read_text()) == (["a", "b"], "new")


def test_a_file_system_without_links(monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: object) -> None:
        raise OSError(errno.EPERM, "no links")

    monkeypatch.setattr(os, "link", link)
    write_all({"c": b"new"})
    assert (names(), Path("c").read_text()) == (["c"], "new")


def test_a_link_stays_a_link() -> None:
    Path("d").mkdir()
    Path("d/real").write_text("old")
    os.symlink("d/real", "a")
    os.symlink("d/new", "b")
    write_all({"a": b"1", "b": b"2"}, force=True)
    assert os.readlink("a") == "d/real"
    assert Path("d/real").read_text() == "1"
    assert Path("d/new").read_text() == "2"


def test_permissions_are_those_of_open_and_of_the_file_before() -> None:
    Path("a").write_text("old")
    Path("a").chmod(0o600)
    before = os.umask(0o027)
    try:
        write_all({"a": b"1", "b": b"2"}, force=True)
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat("a").st_mode) == 0o600
    assert stat.S_IMODE(os.stat("b").st_mode) == 0o640


def test_pipes_and_devices_are_written_to() -> None:
    os.mkfifo("pipe")
    got: list[bytes] = []
    thread = threading.Thread(target=lambda: got.append(Path("pipe").read_bytes()), daemon=True)
    thread.start()
    write_all({"pipe": b"x", "/dev/null": b"y"})
    thread.join(5)
    assert got == [b"x"]
    assert stat.S_ISFIFO(os.stat("pipe").st_mode)
    assert names() == ["pipe"]


def test_standard_output_by_name_keeps_what_was_printed_before() -> None:
    code = (
        "import sys; from attncli.problem.formats.files import write_all; "
        "print('first', flush=True); write_all({'/dev/stdout': b'second\\n'})"
    )
    with open("out", "wb") as stream:
        subprocess.run([sys.executable, "-c", code], stdout=stream, check=True)
    assert Path("out").read_text() == "first\nsecond\n"


def test_a_folder_without_the_right_to_write(without_rights: Callable[[], AbstractContextManager[None]]) -> None:
    Path("d").mkdir(mode=0o555)
    with without_rights(), pytest.raises(InputError, match="not allowed"):
        write_all({"d/a": b"1"})
