"""Streams and exit statuses, without any command."""

from __future__ import annotations

import errno
import io
import sys
from pathlib import Path

import pytest

from attncli.cli import console
from tests.inside import InputError, MachineError, Place, Several


class Stream(io.StringIO):
    """A stream that may be a terminal."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize(
    ("terminal", "environment", "expected"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
        (False, {"FORCE_COLOR": "1"}, True),
        (False, {"FORCE_COLOR": "true"}, True),
        (False, {"FORCE_COLOR": "0"}, False),
        (False, {"FORCE_COLOR": ""}, False),
        (True, {"FORCE_COLOR": "0"}, True),
        (False, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (False, {"TTY_COMPATIBLE": "1"}, False),
    ],
)
def test_colour(
    terminal: bool,
    environment: dict[str, str],
    expected: bool,
    clean_environment: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert console.colour(Stream(terminal)) is expected


@pytest.mark.parametrize(
    ("columns", "expected"), [("40", 40), ("1", 1), ("0", None), ("-5", None), ("abc", None), ("", None), ("²", None)]
)
def test_width_of_a_pipe(columns: str, expected: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Stream(False))
    monkeypatch.setenv("COLUMNS", columns)
    assert console.width() == expected


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (InputError("bad", place=Place("f.csv", 2, 3), hint="mend it"), 2, "attncli: f.csv:2:3: bad\n  mend it\n"),
        (InputError("bad"), 2, "attncli: bad\n"),
        (Several([InputError("one"), InputError("two", hint="h")]), 2, "attncli: one\nattncli: two\n  h\n"),
        (MachineError("the disk is full"), 3, "attncli: the disk is full\n"),
        (OSError(errno.ENOSPC, "No space left on device"), 3, "attncli: standard output: No space left on device\n"),
        (OSError(errno.EIO, "Input/output error", "f.npy"), 3, "attncli: f.npy: Input/output error\n"),
        (MemoryError(), 3, "attncli: not enough memory\n"),
        (KeyboardInterrupt(), 130, "attncli: interrupted\n"),
        (BrokenPipeError(), 141, ""),
        (SystemExit(5), 5, ""),
    ],
)
def test_every_end_has_its_status_and_message(
    error: BaseException, status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert console.tell(error) == status
    assert capsys.readouterr() == ("", message)


def test_a_fault_of_our_own_is_one_line_with_a_request(
    capsys: pytest.CaptureFixture[str], clean_environment: None
) -> None:
    assert console.tell(ZeroDivisionError("division by zero")) == 70
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "attncli: this is a fault of attncli itself: ZeroDivisionError: division by zero"
    assert "report" in lines[1]
    assert len(lines) == 2


def test_the_traceback_of_a_fault_is_there_for_those_who_ask(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTNCLI_DEBUG", "1")
    with pytest.raises(ZeroDivisionError) as caught:
        1 / 0  # noqa: B018
    assert console.tell(caught.value) == 70
    assert "Traceback" in capsys.readouterr().err


def test_control_characters_in_names_cannot_fake_lines_or_colours(capsys: pytest.CaptureFixture[str]) -> None:
    console.error(InputError("no such file", place=Place("a\x1b[31m\nattncli: b\u202e.csv")))
    written = capsys.readouterr().err
    assert "\x1b" not in written
    assert "\u202e" not in written
    assert sum(line.startswith("attncli: ") for line in written.splitlines()) == 1


def test_a_full_disk_is_noticed_when_the_buffer_is_emptied(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    with full.open("w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        console.write("text")
        assert console.finish(0) == 3
        assert console.finish(0) == 0  # told once; nothing is left in the buffer
    assert capsys.readouterr().err == "attncli: standard output: No space left on device\n"


def test_notes_are_told_once_each(capsys: pytest.CaptureFixture[str]) -> None:
    console.notes(["a", "b", "a"])
    assert capsys.readouterr().err == "note: a\nnote: b\n"


def test_a_closed_standard_output_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(MachineError, match="closed"):
        console.write("text")


def test_a_terminal_gets_notes_broken_at_blanks(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "causal: the scores are 2 x 3, not square; aligned top-left"
    monkeypatch.setenv("COLUMNS", "30")
    for terminal in (True, False):
        monkeypatch.setattr(sys, "stderr", Stream(terminal))
        console.notes([text])
        told = sys.stderr.getvalue()
        assert " ".join(told.split()) == f"note: {text}"
        assert (max(map(len, told.splitlines())) <= 30) == terminal


def test_a_terminal_gets_long_words_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setattr(sys, "stderr", Stream(True))
    console.error(InputError("the file holds no matrix", place="a/" * 30 + "x.yaml", hint="is that meant? " * 4))
    lines = sys.stderr.getvalue().splitlines()
    assert any("a/" * 30 + "x.yaml:" in line for line in lines)
    assert lines[-1].startswith("    ")
