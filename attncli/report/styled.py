"""What Rich's table and console draw, with styles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

if TYPE_CHECKING:
    from rich.box import Box

    from attncli.report.table import Line

_THEME = Theme({"markdown.code": "bold", "markdown.code_block": ""})  # Rich's own have a black background


def table(header: list[Line], body: list[Line], borders: Box, width: int) -> list[str]:
    """A table of two columns, the labels and the numbers, each a single cell of lines that are already aligned."""
    drawn = Table(box=borders, border_style="dim", header_style="")
    drawn.add_column("", no_wrap=True, overflow="ignore", width=cell_len(body[0].label))
    names = Text("\n".join(line.numbers for line in header))
    drawn.add_column(names, no_wrap=True, overflow="ignore", width=len(body[0].numbers))
    labels, numbers = Text("\n".join(line.label for line in body)), Text()
    for line in body:
        start = len(numbers)
        numbers.append(f"{line.numbers}\n")
        for style, first, last in line.styles:
            numbers.stylize(style, start + first, start + min(last, len(line.numbers)))
    numbers.right_crop(1)
    drawn.add_row(labels, numbers)
    return lines(drawn, width)


def bold(text: str) -> str:
    """A line of text in bold."""
    return "".join(lines(Text(text, style="bold"), cell_len(text) + 1))


def markdown(text: str, width: int, *, colour: bool) -> str:
    """A page of Markdown, typeset for a terminal."""
    from rich.markdown import Markdown

    page = Markdown(text, code_theme="ansi_dark", hyperlinks=False)
    return "".join(f"{line.rstrip()}\n" for line in lines(page, width, colour=colour))


def lines(renderable: RenderableType, width: int, *, colour: bool = True) -> list[str]:
    """What Rich makes of it at that width, whatever the environment says of terminals and colours."""
    import io

    stream = io.StringIO()
    console = Console(
        file=stream, width=width, height=100, color_system="256" if colour else None, force_terminal=True,
        force_jupyter=False,
        force_interactive=False, legacy_windows=False, markup=False, emoji=False, highlight=False, _environ={},
    )  # fmt: skip
    with console.use_theme(_THEME):
        console.print(renderable)
    return stream.getvalue().removesuffix("\n").split("\n")
