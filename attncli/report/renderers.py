"""The formats of results: one decorated function each, that turns steps of a Trace into text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from attncli.core.trace import Trace
from attncli.registry import Registry
from attncli.report.look import Look
from attncli.report.sheet import Sheet, sheets

RESULTS = ("weights", "output", "weights_back", "output_back")
RENDERERS = Registry("format")
renderer = RENDERERS


def render(trace: Trace, steps: Sequence[str] | None, look: Look, format: str = "table") -> Iterator[str]:
    """Pieces of text, line ends included, of the steps in a format; steps None means those that the format shows.

    steps: names or parts, such as weights[2]. Raises InputError for an unknown format or a step that the trace does not
    have, UsageError and ShapeError where the format holds less than was asked for.
    """
    entry = RENDERERS.find(format)
    chosen = list(steps) if steps is not None else default_steps(trace, entry.facts.get("shows", "results"))
    yield from entry.function(trace, chosen, look)


def default_steps(trace: Trace, shows: str = "results") -> list[str]:
    """The steps that are shown unless others are named.

    shows: "results" (weights and output), "last" (output, or else weights), or "all" (but exp, sum and lse).
    """
    if shows == "all":
        return trace.names()
    if shows == "last":
        return [next((name for name in ("output", "weights") if name in trace), trace.names()[-1])]
    return [name for name in RESULTS if name in trace] or trace.names()[-1:]


@renderer("table")
def table(trace: Trace, steps: Sequence[str], look: Look) -> Iterator[str]:
    """Boxed tables that fit the width of the terminal; never a number cut."""
    from attncli.report.table import draw

    return _between_blank_lines(sheets(trace, steps, look), lambda sheet: draw(sheet, look))


@renderer("plain")
def plain(trace: Trace, steps: Sequence[str], look: Look) -> Iterator[str]:
    """Aligned text without borders or colour, every row and column: for pipes and diff."""
    from attncli.report import markup

    return _between_blank_lines(sheets(trace, steps, look, elide=False), lambda sheet: markup.plain(sheet, look))


@renderer("markdown")
def markdown(trace: Trace, steps: Sequence[str], look: Look) -> Iterator[str]:
    """Pipe tables."""
    from attncli.report import markup

    return _between_blank_lines(sheets(trace, steps, look), markup.markdown)


@renderer("latex")
def latex(trace: Trace, steps: Sequence[str], look: Look) -> Iterator[str]:
    """Arrays that need amsmath alone."""
    from attncli.report import markup

    return _between_blank_lines(sheets(trace, steps, look), lambda sheet: markup.latex(sheet, look))


def _between_blank_lines(drawn: Iterator[Sheet], draw: Callable[[Sheet], Iterator[str]]) -> Iterator[str]:
    for count, sheet in enumerate(drawn):
        yield ("\n" if count else "") + "".join(f"{line}\n" for line in draw(sheet))
