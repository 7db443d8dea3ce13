"""`--format html`, read back by a parser: what a browser would show."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser

import pytest

from tests.calling import Result

HOSTILE = "<script>alert(1)</script>"


class Shown(HTMLParser):
    """The tags that open, and the text of each cell and header."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.styles: list[str] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.styles += [value or "" for name, value in attrs if name == "style"]

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append(data)


def shown(cli: Callable[..., Result], *options: str) -> Shown:
    result = cli("attend", "[[1,0],[0,1]]", "[[1,0],[0,1]]", "--scale", "1", "--format", "html", *options)
    assert result.status == 0, result.err
    return Shown(result.out)


def test_the_numbers_stand_beside_their_labels(cli: Callable[..., Result]) -> None:
    page = shown(cli, "--tokens", "a b", "--key-tokens", "c d")
    assert page.texts[1:] == ["c", "d", "a", "0.7311", "0.2689", "b", "0.2689", "0.7311"]


def test_more_weight_is_darker(cli: Callable[..., Result]) -> None:
    dark, light = shown(cli).styles[:2]
    assert dark != light
    assert sum(map(int, dark.split("(")[1].split(")")[0].split(","))) < sum(
        map(int, light.split("(")[1].split(")")[0].split(","))
    )


@pytest.mark.parametrize("label", [HOSTILE, '"onmouseover=x', "a&amp;b", "</bdi></table>", "고양이"])
def test_a_label_is_text(cli: Callable[..., Result], label: str) -> None:
    page = shown(cli, "--tokens", f"{label} b", "--key-tokens", "c d")
    assert label in page.texts
    assert set(page.tags) == {"table", "caption", "thead", "tbody", "tr", "td", "th", "bdi"}


def test_a_hidden_cell_has_no_colour(cli: Callable[..., Result]) -> None:
    assert len(shown(cli, "--mask", "causal", "--show", "weights").styles) == 3


def test_the_largest_and_the_statistics_are_text_too(cli: Callable[..., Result]) -> None:
    for options in (["--top", "1"], ["--stats"]):
        page = shown(cli, "--tokens", f"{HOSTILE} b", *options)
        assert "pre" in page.tags
        assert "script" not in page.tags
        assert HOSTILE in page.texts[-1]
