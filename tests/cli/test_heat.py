"""Cells coloured by value, and when colours are written at all, seen through a terminal."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyte
import pytest

from tests.calling import Result, on_terminal

Cli = Callable[..., Result]
pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="a pseudo-terminal"),
    pytest.mark.usefixtures("clean_environment"),
]
FULL = {"TERM": "xterm-256color"}
CAUSAL = ["run", "samples/07-causal-self-attention.yaml", "--quiet", "--show", "weights"]
# As that sample's own `expect:` has them.
ROWS = {"<s>": ["1.0000"], "I": ["0.3302", "0.6698"], "am": ["0.2483", "0.2483", "0.5035"]}


class Seen:
    """What stands on a terminal of 80 columns: its lines, and the colours of each character."""

    def __init__(self, arguments: list[str], environment: dict[str, str] | None = None) -> None:
        self.status, self.written = on_terminal(arguments, 80, environment or {})
        self.screen = pyte.Screen(80, 120)
        pyte.ByteStream(self.screen).feed(self.written)
        self.lines = [line.rstrip() for line in self.screen.display]

    def of(self, row: str, text: str) -> pyte.screens.Char:
        """The first character of a number in the row of that label."""
        at = next(i for i, line in enumerate(self.lines) if line.startswith(f"│ {row} ") and text in line)
        return self.screen.buffer[at][self.lines[at].index(text)]

    def backgrounds(self) -> set[str]:
        return {cell.bg for line in self.screen.buffer.values() for cell in line.values()} - {"default"}


def luminance(colour: str) -> float:
    """The relative luminance of an sRGB colour, as WCAG 2 defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_weights_are_coloured_and_more_is_lighter() -> None:
    seen = Seen(CAUSAL, FULL)
    cells = [seen.of("I", "0.3302"), seen.of("am", "0.5035"), seen.of("I", "0.6698"), seen.of("<s>", "1.0000")]
    light = [luminance(cell.bg) for cell in cells]
    assert light == sorted(light)
    assert len(set(light)) == 4
    for row, numbers in ROWS.items():
        for number in numbers:
            cell = seen.of(row, number)
            low, high = sorted([luminance(cell.bg), luminance(cell.fg)])
            assert (high + 0.05) / (low + 0.05) >= 4.5, "WCAG's contrast of text"
    assert seen.of("I", "·").bg == "default"


def test_the_table_is_the_same_without_colours() -> None:
    assert Seen(CAUSAL, FULL).lines == Seen(CAUSAL, {**FULL, "NO_COLOR": "1"}).lines


def test_wide_labels_keep_their_columns() -> None:
    seen = Seen(["self", "[[1, 0], [0, 1]]", "--scale", "1", "--tokens", "고양이 犬", "--show", "weights"], FULL)
    boxed = [row for row in seen.screen.buffer.values() if row[0].data == "│"]
    assert len(boxed) == 3
    assert len({max(column for column, cell in row.items() if cell.data == "│") for row in boxed}) == 1
    assert seen.backgrounds()


@pytest.mark.parametrize(
    ("options", "environment", "coloured"),
    [
        ([], {}, False),  # TERM=xterm: of eight colours no ramp is made
        ([], {"COLORTERM": "truecolor"}, True),
        ([], {**FULL, "NO_COLOR": "1"}, False),
        ([], {"TERM": "dumb"}, False),
        (["--color", "never"], FULL, False),
        (["--color", "auto"], FULL, True),
        (["--color", "always"], {**FULL, "NO_COLOR": "1"}, True),
        (["--no-heat"], FULL, False),
        (["--format", "plain"], FULL, False),
        (["--show", "output"], FULL, False),
        (["--show", "output", "--heat"], FULL, True),
    ],
)
def test_when_there_is_heat(options: list[str], environment: dict[str, str], coloured: bool) -> None:
    assert bool(Seen([*CAUSAL, *options], environment).backgrounds()) is coloured


@pytest.mark.parametrize("environment", [{"TERM": "dumb"}, {**FULL, "NO_COLOR": "1"}])
def test_shades_without_colours(environment: dict[str, str]) -> None:
    seen = Seen([*CAUSAL, "--heat"], environment)
    assert b"\x1b[" not in seen.written
    text = "\n".join(seen.lines)
    assert "1.0000 █" in text
    assert "0.6698 ▓" in text
    assert "0.3302 ░" in text


def test_shades_of_an_encoding_that_has_none(cli: Cli) -> None:
    out = cli("self", "[[1, 0], [0, 1]]", "--heat", "--show", "weights", "--scale", "0", encoding="ascii").out
    assert out.count("0.5000 #") == 4


def test_colours_into_a_pipe_only_where_asked_for(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    x = ("self", "[[1, 0], [0, 1]]", "--show", "weights")
    assert "\x1b[" not in cli(*x).out
    assert "48;5;" in cli(*x, "--color", "always").out
    assert cli(*x, "--color", "always", "--format", "csv").out == cli(*x, "--format", "csv").out
    assert cli(*x, "--heat", "--format", "markdown").out == cli(*x, "--format", "markdown").out


@pytest.mark.parametrize(("scores", "shown"), [
    ("[[-5, 0, 5]]", "-5.0000    0.0000 ▒  5.0000 █"),
    ("[[-1e308, 1e308, 0]]", " 0.0000 ▒"),
    ("[[nan, -inf, 2]]", "2.0000 █"),
    ("[[0, 0, 0]]", "0.0000    0.0000    0.0000"),
])  # fmt: skip
def test_all_kinds_of_numbers_have_a_shade(cli: Cli, scores: str, shown: str) -> None:
    result = cli("attend", "--scores", scores, "--show", "scores", "--heat")
    assert result.status == 0
    assert shown in result.out


def test_wrong_cells_are_red_and_marked_and_follows_are_yellow(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(
        "X: [[1, 0], [0, 2]]\nscale: 0.5\ntokens: a b\n"
        "expect: {scores: [[1, 0], [0, 3]], scaled: [[0.5, 0], [0, 1.5]]}\n"
    )
    seen = Seen(["check", str(tmp_path / "p.yaml")])
    assert seen.status == 1
    assert seen.of("b", "3!").fg == "red"
    assert seen.of("b", "1.5").fg == "brown"  # pyte's word for the yellow of eight colours
    assert "3!" in "\n".join(Seen(["check", str(tmp_path / "p.yaml")], {"NO_COLOR": "1"}).lines)
