"""The formats of results: one decorated function each, that turns steps of a Trace into text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attncli.pipeline.trace import Trace
from attncli.registry import Entry, Registry
from attncli.report.look import Look
from attncli.report.sheet import Sheet, sheets

RESULTS = ("weights", "output", "weights_back", "output_back", "average")


@dataclass(kw_only=True, eq=False, repr=False)
class RendererEntry(Entry):
    """A format of results: function(trace, steps, look) gives pieces of text.

    shows: see `default_steps`. data: it is UTF-8 whatever the terminal's encoding. elides: of many rows and columns it
    shows the first and the last. object: it holds an object, to which more may be added.
    """

    shows: str = "results"
    data: bool = False
    elides: bool = False
    object: bool = False


RENDERERS: Registry[RendererEntry] = Registry("format", RendererEntry)
renderer = RENDERERS


def render(
    trace: Trace,
    steps: Sequence[str] | None,
    look: Look,
    format: str = "table",
    beside: Mapping[str, Any] | None = None,
) -> Iterator[str]:
    """Pieces of text, line ends included, of the steps in a format; steps None means those that the format shows.

    steps: names or parts, such as weights[2]. beside: what an object of json or yaml tells besides. Raises InputError
    for an unknown format or a step that the trace does not have, UsageError and ShapeError where the format holds less
    than was asked for.
    """
    entry = RENDERERS.find(format)
    chosen = list(steps) if steps is not None else default_steps(trace, entry.shows)
    if beside and entry.object:
        yield from entry.function(trace, chosen, look, beside)
    else:
        yield from entry.function(trace, chosen, look)


def heading(title: str | None, options: Mapping[str, Any], look: Look) -> str:
    """The title over tables, as the format of the options writes it; "" without a title, and where data are printed."""
    from attncli.report.html import escape_html
    from attncli.report.markup import escape_latex, escape_markdown

    format = options.get("format") or "table"
    if not title or (format in RENDERERS and RENDERERS.find(format).data):
        return ""
    label = look.label(title)
    if format == "markdown":
        return f"# {escape_markdown(label)}\n\n"
    if format == "html":
        return f"<h1>{escape_html(label)}</h1>\n\n"
    return f"\\section*{{{escape_latex(label)}}}\n\n" if format == "latex" else f"{label}\n\n"


def subheading(name: str, format: str) -> str:
    """The name of a stage over its tables."""
    from attncli.report.html import escape_html
    from attncli.report.markup import escape_latex, escape_markdown

    if format == "markdown":
        return f"## {escape_markdown(name)}"
    if format == "html":
        return f"<h2>{escape_html(name)}</h2>"
    return rf"\subsection*{{{escape_latex(name)}}}" if format == "latex" else f"stage {name}"


def told(lines: Iterable[str], format: str | None) -> Iterator[str]:
    """Lines of text that stand beside the tables, with their line ends, as text of that format."""
    if format != "html":
        yield from (f"{line}\n" for line in lines)
        return
    from attncli.report.html import escape_html

    yield "<pre>\n"
    yield from (f"{escape_html(line)}\n" for line in lines)
    yield "</pre>\n"


def default_steps(trace: Trace, shows: str = "results") -> list[str]:
    """The steps that are shown unless others are named.

    shows: "results" (weights and output), "last" (output, or else weights), or "all" (but exp, sum and lse).
    """
    if shows == "all":
        return trace.names()
    if shows == "last":
        return [next((name for name in ("output", "weights") if name in trace), trace.names()[-1])]
    return [name for name in RESULTS if name in trace] or trace.names()[-1:]


@renderer("table", elides=True)
def table(trace: Trace, steps: Sequence[str], look: Look) -> Iterator[str]:
    """Boxed tables that fit the width of the terminal; never a number cut."""
    from attncli.report.table import draw

    return _between_blank_lines(sheets(trace, steps, look), lambda sheet: draw(sheet, look))


@renderer("plain")
def plain(trace: Trace, steps: Sequence[str], look: Look) -> Iterator[str]:
    """Aligned text without borders or colour, every row and column: for pipes and diff."""
    from attncli.report import markup

    return _between_blank_lines(sheets(trace, steps, look, elide=False), lambda sheet: markup.plain(sheet, look))


@renderer("csv", shows="last", data=True)
def csv(trace: Trace, steps: Sequence[str], look: Look) -> Iterator[str]:
    """One step at full precision, comma-separated, with labels if the inputs had any."""
    return _as_data(trace, steps, "csv", {"separator": look.separator, "decimal": look.decimal})


@renderer("tsv", shows="last", data=True)
def tsv(trace: Trace, steps: Sequence[str], look: Look) -> Iterator[str]:
    """As csv, with tabs."""
    return _as_data(trace, steps, "tsv", {"decimal": look.decimal})


@renderer("json", shows="all", data=True, object=True)
def json(trace: Trace, steps: Sequence[str], look: Look, beside: Mapping[str, Any] | None = None) -> Iterator[str]:
    """One object with the rules, the labels and every step at full precision."""
    return _as_data(trace, steps, "json", beside)


@renderer("yaml", shows="all", data=True, object=True)
def yaml(trace: Trace, steps: Sequence[str], look: Look, beside: Mapping[str, Any] | None = None) -> Iterator[str]:
    """The same object as YAML."""
    return _as_data(trace, steps, "yaml", beside)


@renderer("markdown", elides=True)
def markdown(trace: Trace, steps: Sequence[str], look: Look) -> Iterator[str]:
    """Pipe tables."""
    from attncli.report import markup

    return _between_blank_lines(sheets(trace, steps, look), markup.markdown)


@renderer("latex", elides=True)
def latex(trace: Trace, steps: Sequence[str], look: Look) -> Iterator[str]:
    """Arrays that need amsmath alone."""
    from attncli.report import markup

    return _between_blank_lines(sheets(trace, steps, look), lambda sheet: markup.latex(sheet, look))


@renderer("html", elides=True)
def html(trace: Trace, steps: Sequence[str], look: Look) -> Iterator[str]:
    """Tables to put into a page, weights coloured by value."""
    from attncli.report.html import html as table_of

    return _between_blank_lines(sheets(trace, steps, look._replace(ramp=True)), table_of)


def _as_data(trace: Trace, steps: Sequence[str], format: str, beside: Mapping[str, Any] | None = None) -> Iterator[str]:
    from attncli.report.data import text

    yield text(trace, steps, format, beside or {})


def _between_blank_lines(drawn: Iterator[Sheet], draw: Callable[[Sheet], Iterator[str]]) -> Iterator[str]:
    for count, sheet in enumerate(drawn):
        yield ("\n" if count else "") + "".join(f"{line}\n" for line in draw(sheet))
