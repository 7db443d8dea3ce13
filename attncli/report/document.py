"""Whole documents in Markdown, LaTeX and HTML: a title, what was computed, the tables, and what was noted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from attncli.report.html import escape_html
from attncli.report.look import Look
from attncli.report.markup import escape_latex, escape_markdown
from attncli.report.renderers import render, subheading

if TYPE_CHECKING:
    from attncli.pipeline.trace import Trace

# XeTeX and LuaTeX take their fonts from the system; pdfTeX knows no letters beyond those of its own.
_LATEX = r"""\documentclass{article}
\usepackage{amsmath}
\usepackage{iftex}
\iftutex\usepackage{fontspec}\else\usepackage[T1]{fontenc}\fi
\usepackage[margin=2cm]{geometry}
\setlength{\parindent}{0pt}
\setlength{\parskip}{1ex}
\allowdisplaybreaks
\begin{document}
%s
\end{document}
"""
_HTML = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%s</title>
<style>
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 1em auto; max-width: 70em; padding: 0 1em; }
table { border-collapse: collapse; margin: 1em 0; display: block; overflow-x: auto; }
caption { text-align: left; font-weight: bold; }
td, th { padding: .15em .5em; text-align: right; font-variant-numeric: tabular-nums; }
.wrong { outline: 2px solid #d7191c; }
.follows { outline: 2px dashed #b07d00; }
pre { overflow-x: auto; }
@media print { body { font-size: 10pt; } table { break-inside: avoid; display: table; } }
</style>
</head>
<body>
%s</body>
</html>
"""
_ESCAPES: dict[str, Callable[[str], str]] = {
    "markdown": escape_markdown, "latex": escape_latex, "html": escape_html,
}  # fmt: skip


def of_trace(trace: Trace, steps: Sequence[str], format: str, title: str | None, look: Look) -> bytes:
    """The steps of a Trace. Raises InputError for a step that it does not have."""
    tables = "".join(render(trace, steps, look, format))
    return whole(format, title or f"Attention ({trace.attention})", [rules(trace), tables], trace.notes, look)


def of_stages(traces: Mapping[str, tuple[Trace, Sequence[str]]], format: str, title: str | None, look: Look) -> bytes:
    """The steps of several stages, each stage under its name."""
    tables, notes = [], []
    for name, (trace, steps) in traces.items():
        about = _ESCAPES[format](rules(trace))
        tables += [subheading(look.label(name), format), f"<p>{about}</p>" if format == "html" else about]
        tables.append("".join(render(trace, steps, look, format)).strip("\n"))
        notes += [f"{name}: {note}" for note in trace.notes]
    return whole(format, title or "Attention in stages", ["", "\n\n".join(tables)], notes, look)


def rules(trace: Trace) -> str:
    """What a reader needs to know of the numbers: `Self-attention, a token is a row; score scaled-dot; ...`"""
    said = [f"{trace.attention}-attention" if trace.attention != "attend" else "attention of given matrices"]
    said[0] = f"{said[0].capitalize()}, a token is a {trace.layout.removesuffix('s')}"
    if getattr(trace.problem, "begins", None) is None:
        parameters = (f"{name} {value:g}" for name, value in trace.score.items() if isinstance(value, (int, float)))
        said.append(" ".join(["score", str(trace.score["name"]), *parameters]))
    if isinstance(trace.scale, float) and trace.scale != 1:
        said.append(f"scale {trace.scale:.4g}")
    if trace.mask:
        said.append(f"mask {' and '.join(map(str, trace.mask))}")
    said.append(f"normalizer {trace.normalizer}")
    hidden = " A dot is a key that the query does not see." if trace.visible is not None else ""
    return "; ".join(said) + "." + hidden


def whole(format: str, title: str, body: Sequence[str], notes: Iterable[str], look: Look) -> bytes:
    """A document of that title. body: a sentence of plain text, and what is written in the format already."""
    escape = _ESCAPES[format]
    heading, (about, tables) = escape(look.label(title)), body
    told = [f"note: {look.label(note)}" for note in notes]
    if format == "markdown":
        parts = [f"# {heading}", *([escape(about)] if about else []), tables.strip("\n"), *map(escape, told)]
        return ("\n\n".join(parts) + "\n").encode()
    if format == "latex":
        parts = [rf"\section*{{{heading}}}", escape(about), tables.strip("\n"), *map(escape, told)]
        return (_LATEX % "\n\n".join(part for part in parts if part)).encode()
    paragraphs = "".join(f"<p>{escape(text)}</p>\n" for text in told)
    intro = f"<p>{escape(about)}</p>\n" if about else ""
    return (_HTML % (heading, f"<h1>{heading}</h1>\n{intro}{tables}{paragraphs}")).encode()
