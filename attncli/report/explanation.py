"""Explanations as text, Markdown and LaTeX: the formula, the numbers put in, the result, each on its line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from attncli.arithmetic.trees import Cell
from attncli.lazy import np
from attncli.pipeline.by_hand import half_up
from attncli.registry import Entry, Registry
from attncli.report.look import Look
from attncli.report.notation import LATEX, TEXT, Notation
from attncli.report.numbers import spell_one
from attncli.working.explanation import Asked, Explanation, Section
from attncli.working.lines import Group, Line

if TYPE_CHECKING:
    from attncli.working.exact import Exact

EXPLANATIONS: Registry[Entry] = Registry("format of an explanation", Entry)


@dataclass
class Writing:
    """How one explanation is written: its notation, and what stands in a cell's place.

    rounded: the places to which a person rounds each step, or None. exact: keeps roots and fractions, or None.
    """

    explanation: Explanation
    notation: Notation
    look: Look
    exact: Exact | None = None
    rounded: int | None = None

    def number(self, value: float, decimals: int | None = None) -> str:
        """A number as it is written: whole and short ones in full, others to the precision."""
        if decimals is None and repr(float(value)).rstrip("0").rstrip(".").lstrip("-").replace(".", "", 1).isdigit():
            short = repr(float(value)).removesuffix(".0")
            if len(short.partition(".")[2]) <= self.look.precision:
                return self.notation.number("0" if short == "-0" else short)
        return self.notation.number(spell_one(value, self.look.precision if decimals is None else decimals))

    def round_step(self, value: float) -> float:
        """A number as somebody has it who rounds it to the places of --round-steps."""
        unit = 10.0 ** (self.rounded or 0)
        return float(half_up(np.asarray(value * unit)) / unit) if isfinite(value) else value

    def value_of(self, section: Section, cell: Cell) -> float:
        """The number of a cell, rounded on the way where that is asked for."""
        if self.rounded is None:
            return section.row.number(cell)
        return section.row.rounded(cell, self.round_step)

    def leaf(self, section: Section) -> Callable[[Cell], tuple[str, int]]:
        """What stands for a cell inside a term, and how tightly it binds."""

        def write(cell: Cell) -> tuple[str, int]:
            exact = self.exact.value(section.row, cell) if self.exact else None
            if exact is not None:
                return self.notation.exact(exact)
            text = self.result(section, cell)
            return text, self.notation.binding(text)

        return write

    def result(self, section: Section, cell: Cell) -> str:
        """The number that a line ends in, and that stands in later lines."""
        decimals = self.rounded if section.row.is_computed(cell) else None
        return self.number(self.value_of(section, cell), decimals)


def equation(writing: Writing, section: Section, line: Line) -> str:
    """What stands behind `weights[it, animal] = `: the term with numbers, and the result; words are not among it.

    With exact numbers, the exact result too where it is no longer than the term, and the decimals it is close to.
    """
    notation, result = writing.notation, writing.result(section, line.cell)
    if line.term is None:
        return result
    term = notation.term(line.term, writing.leaf(section), writing.number)
    exact = writing.exact.value(section.row, line.cell) if writing.exact else None
    if exact is None:
        return result if term == result else f"{term} = {result}"
    value, plain = notation.exact(exact)[0], term.replace(" ", "")
    members = f"{term} = {value}" if value != plain and len(value) <= len(plain) else term
    return members if value == result else f"{members} {notation.close} {result}"


def comparison(writing: Writing, section: Section, line: Line) -> str:
    """What the rounding on the way made of a number, where it made a difference."""
    if writing.rounded is None or line.term is None:
        return ""
    right = section.row.number(line.cell)
    shown = writing.number(right, writing.rounded)
    return "" if shown == writing.result(section, line.cell) else f"right: {writing.number(right)}"


def labels(writing: Writing, line: Line) -> list[str]:
    """The labels of a line's number, as it lies in the layout: [`it`, `animal`]."""
    trace = writing.explanation.trace
    names = {"query": trace.query_labels, "key": trace.key_labels}
    found = [names[axis][at] if axis in names else str(at + 1) for axis, at in line.places]
    return [writing.look.label(each) for each in (found[::-1] if trace.layout == "columns" else found)]


def title(writing: Writing, asked: Asked) -> str:
    """What is explained."""
    trace, key = writing.explanation.trace, writing.explanation.key
    query = trace.query_labels[asked.query]
    return writing.look.label(query if key is None else f"{query} -> {trace.key_labels[key]}")


def left_out(group: Group) -> str:
    """The lines that are not shown."""
    return f"and {group.left_out} more like these"


def words_beside(writing: Writing, section: Section, line: Line) -> str:
    """What is said beside a number: why it is so, what it should be, and what somebody wrote instead."""
    written = writing.explanation.expected.of(line)
    same = written in (None, writing.result(section, line.cell))
    expected = "" if same else f"written: {writing.look.label(str(written))}"
    return "; ".join(filter(None, [line.words, comparison(writing, section, line), expected]))


def told(writing: Writing, section: Section, group: Group, line: Line) -> tuple[str, str]:
    """A line without markup, `scores[it, animal] = 1 × 2 = 2`, and the words beside it."""
    place = ", ".join(labels(writing, line))
    return f"{group.step}[{place}] = {equation(writing, section, line)}", words_beside(writing, section, line)


@EXPLANATIONS("text")
def text(writing: Writing) -> Iterator[str]:
    """Plain text for the terminal: a heading a step, a line a number."""
    for number, asked in enumerate(writing.explanation.asked):
        yield ("\n" if number else "") + title(writing, asked)
        for section in asked.sections:
            if section.title:
                yield f"\n{section.title}"
            for group in section.groups:
                yield f"\n{group.step} = {group.formula[0]}"
                for line in group.lines:
                    numbers, words = told(writing, section, group, line)
                    yield f"  {numbers}" + (f"   ({words})" if words else "")
                if group.left_out:
                    yield f"  ... {left_out(group)}"


@EXPLANATIONS("markdown")
def markdown(writing: Writing) -> Iterator[str]:
    """Markdown: the same lines as a list, in code, so that no sign of them is taken for markup."""
    from attncli.report.markup import escape_markdown

    for number, asked in enumerate(writing.explanation.asked):
        yield ("\n" if number else "") + f"## {escape_markdown(title(writing, asked))}"
        for section in asked.sections:
            if section.title:
                yield f"\n### {section.title}"
            for group in section.groups:
                yield f"\n**{group.step}** = {_code(group.formula[0])}\n"
                for line in group.lines:
                    numbers, words = told(writing, section, group, line)
                    yield f"- {_code(numbers)}" + (f" ({escape_markdown(words)})" if words else "")
                if group.left_out:
                    yield f"- … {left_out(group)}"


@EXPLANATIONS("latex")
def latex(writing: Writing) -> Iterator[str]:
    """LaTeX: an align* for each step, which needs amsmath alone."""
    from attncli.report.markup import escape_latex

    for asked in writing.explanation.asked:
        yield rf"\subsection*{{{escape_latex(title(writing, asked))}}}"
        for section in asked.sections:
            if section.title:
                yield rf"\subsubsection*{{{section.title}}}"
            for group in section.groups:
                name = rf"\mathit{{{escape_latex(group.step)}}}"
                yield r"\begin{align*}"
                lines = [f"{name} &= " + (group.formula[1] or rf"\text{{{escape_latex(group.formula[0])}}}")]
                for line in group.lines:
                    place = r",\,".join(rf"\text{{{escape_latex(each)}}}" for each in labels(writing, line))
                    words = words_beside(writing, section, line)
                    beside = rf" \quad\text{{({escape_latex(words)})}}" if words else ""
                    lines.append(f"{name}_{{{place}}} &= {equation(writing, section, line)}{beside}")
                if group.left_out:
                    lines.append(rf"&\;\;\text{{{left_out(group)}}}")
                yield " \\\\\n".join(lines)
                yield r"\end{align*}"


NOTATIONS: dict[str, Notation] = {"text": TEXT, "markdown": TEXT, "latex": LATEX}


def write(
    explanation: Explanation, format: str, look: Look, *, exact: Any = None, rounded: int | None = None
) -> Iterator[str]:
    """The lines of an explanation in one of the EXPLANATIONS. Raises InputError for an unknown format."""
    entry = EXPLANATIONS.find(format, place="--format")
    notation = NOTATIONS.get(format, TEXT)
    yield from entry.function(Writing(explanation, notation, look, exact, rounded))


def _code(code: str) -> str:
    """A code span that survives backticks inside."""
    fence = "``" if "`" in code else "`"
    return f"{fence} {code} {fence}" if "`" in code else f"{fence}{code}{fence}"
