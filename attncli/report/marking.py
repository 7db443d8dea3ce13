"""What a check found, as tables and sentences for a person, and as rows for a gradebook."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from attncli.errors import UsageError
from attncli.escapes import shown
from attncli.report.arrays import first_wrong, sheet_of_array, where
from attncli.report.html import escape_html, html
from attncli.report.look import Look, wrapped
from attncli.report.markup import escape_latex, escape_markdown
from attncli.report.numbers import spell_one
from attncli.report.points import Points
from attncli.report.sheet import ENDS, MANY, Sheet, counted
from attncli.verify.verdicts import BLANK, BY_HABIT, FOLLOWS, NOT_MARKED, WRONG, CellMark, CheckResult, StepMark
from attncli.verify.written import held, places_of, spelled

if TYPE_CHECKING:
    from attncli.lazy import Array

FORMATS = ("table", "plain", "markdown", "latex", "html", "csv", "tsv", "json")
DATA = ("csv", "tsv", "json")
_LISTED = 12  # wrong cells of one step that are told one by one

SENTENCES = {
    "agrees": "agrees: every number is the right one, to its places",
    "rounded": "rounded: no slip; where numbers are not the right ones, they follow from rounding",
}


_STYLES = {WRONG: "wrong", FOLLOWS: "follows", BY_HABIT: "follows"}
_ESCAPES = {"markdown": escape_markdown, "latex": escape_latex, "html": escape_html}


def marks(
    result: CheckResult, look: Look, format: str = "table", points: Points | None = None, more: Sequence[str] = ()
) -> Iterator[str]:
    """Pieces of text with their line ends: a table a step, the wrong cells one by one, and the verdict.

    more: sentences that follow the verdict.
    """
    draw = drawing(format, look)
    for step in result.steps:
        if step.array is not None:
            sheet = sheet_of_array(step, look)
            yield _lines(draw(sheet) if sheet.cells else iter(wrapped(sheet.heading, look)))
            yield "\n"
            continue
        yield _lines(draw(sheet_of(step, look)))
        wrong = [cell for cell in step.cells if cell.verdict == "wrong"]
        if wrong:
            yield "\n" if format in _ESCAPES else ""
            yield _lines(draw(corrections(step, wrong, look)))
        yield "\n"
    told = [*conclusion(result, look), *more]
    if points is not None:
        told.append(points.sentence(result))
    yield paragraphs(told, look, format)


def paragraphs(texts: Sequence[str], look: Look, format: str) -> str:
    """Sentences as they stand in that format, each a paragraph where it has such."""
    if format == "html":
        return "".join(f"<p>{escape_html(text)}</p>\n" for text in texts)
    if format in _ESCAPES:
        return "\n".join(f"{_ESCAPES[format](text)}\n" for text in texts)
    return _lines(line for text in texts for line in wrapped(text, look))


def drawing(format: str, look: Look) -> Callable[[Sheet], Iterator[str]]:
    """How that format draws a sheet. Raises UsageError for a format that has no tables of marks."""
    from attncli.report import markup
    from attncli.report.table import draw

    ways: dict[str, Callable[[Sheet], Iterator[str]]] = {
        "table": lambda sheet: draw(sheet, look),
        "plain": lambda sheet: markup.plain(sheet, look),
        "markdown": markup.markdown,
        "latex": lambda sheet: markup.latex(sheet, look),
        "html": html,
    }
    if format not in ways:
        raise UsageError(f"a check is not shown as {format}", place="--format", hint=", ".join(FORMATS))
    return ways[format]


def sheet_of(step: StepMark, look: Look) -> Sheet:
    """The hand's numbers of a step as it wrote them, `!` at the wrong ones, `~` where nothing was written.

    Of a step with leading axes the matrices stand one under the other.
    """
    count = step.hand.shape[-1]
    leading = step.hand.shape[:-2]
    shown = [array.reshape(-1, count) for array in (step.hand, step.unit, step.codes)]
    names = [label if not leading else f"{','.join(str(i + 1) for i in index)} {label}"
             for index in _indices(leading) for label in step.row_labels]  # fmt: skip
    rows, columns = _shown(len(names)), _shown(count)
    any_wrong = bool((step.codes == WRONG).any())
    cells = [[look.gap if i is None or j is None else _cell(shown, i, j, any_wrong) for j in columns] for i in rows]
    styles = {
        (a, b): _STYLES[code]
        for a, i in enumerate(rows)
        for b, j in enumerate(columns)
        if i is not None and j is not None and (code := int(shown[2][i, j])) in _STYLES
    }
    return Sheet(
        title=step.step,
        size=counted(step.step, step.hand.shape[-2:], (step.rows, step.columns)),
        caption=step.verdict + (f", with {look.label(step.reason)}" if step.reason else ""),
        row_labels=[look.gap if i is None else look.label(names[i]) for i in rows],
        column_labels=[look.gap if j is None else look.label(step.column_labels[j]) for j in columns],
        cells=cells,
        rows=rows,
        columns=columns,
        of=(len(names), count),
        styles=styles,
    )


def framed(step: StepMark, index: tuple[int, ...]) -> tuple[list[list[str]], dict[tuple[int, int], str], Array]:
    """Of one matrix of a step: the cells as `sheet_of` writes them, which are wrong or follow, and which are blank."""
    arrays = [array[index] for array in (step.hand, step.unit, step.codes)]
    codes = arrays[2]
    n, m = codes.shape
    cells = [[_cell(arrays, i, j, any_wrong=False) for j in range(m)] for i in range(n)]
    at = {(i, j): _STYLES[int(codes[i, j])] for i in range(n) for j in range(m) if int(codes[i, j]) in _STYLES}
    return cells, at, codes == BLANK


def corrections(step: StepMark, wrong: Sequence[CellMark], look: Look) -> Sheet:
    """The wrong cells one under the other: what the hand wrote, what is right, what follows from its own numbers."""
    listed = wrong[:_LISTED]
    more = f", the first {_LISTED} of {len(wrong)}" if len(wrong) > _LISTED else ""
    cells = [[_written(step, cell), _right(step, cell, look), _follows(step, cell, look)] for cell in listed]
    return Sheet(
        title=f"wrong in {step.step}",
        size=f"{len(wrong)} number{'s' * (len(wrong) != 1)}{more}",
        caption="right is what the inputs give, follows what the hand's own earlier numbers give",
        row_labels=[look.label(where(step, cell)) for cell in listed],
        column_labels=["hand", "right", "follows"],
        cells=cells,
        rows=list(range(len(listed))),
        columns=[0, 1, 2],
        of=(len(listed), 3),
    )


def conclusion(result: CheckResult, look: Look) -> list[str]:
    """The verdict, and the mistakes that are named."""
    return [sentence(result, look), *map(look.label, _mistakes(result))]


def sentence(result: CheckResult, look: Look) -> str:
    """The verdict in one sentence."""
    head = f"{look.label(result.file)}: " if result.file else ""
    found = result.first_wrong
    if found is None:
        arrays = result.verdict == "agrees" and all(step.array is not None for step in result.steps)
        if all(mark.verdict == NOT_MARKED for mark in result.steps):
            return f"{head}nothing was marked"
        return head + ("agrees: every number is within the tolerance" if arrays else SENTENCES[result.verdict])
    step, cell = found
    if step.array is not None:
        told = f"{head}wrong: {first_wrong(step, cell, look)}"
    else:
        follows, place = _follows(step, cell, look), look.label(where(step, cell))
        told = f"{head}wrong: the first slip is in {step.step} at {place}: {_written(step, cell)}, where {follows} "
        told += "follows from the hand's own numbers"
        right = _right(step, cell, look)
        if right != follows:
            told += f" ({right} would be right)"
    later = result.steps[result.steps.index(step) + 1 :]
    wrong = [other.step for other in later if other.verdict == "wrong"]
    if wrong:
        return f"{told}; more slips in {', '.join(wrong)}"
    return f"{told}; what comes after it is marked against that" if later else told


def summary(results: Sequence[CheckResult], look: Look, points: Points | None = None) -> Iterator[str]:
    """A line a file and a total, for several files."""
    for result in results:
        told = f"{look.label(result.file or '')}: {result.verdict}"
        if result.reason:
            yield f"{told}: {look.label(result.reason.removeprefix(f'{result.file}: '))}"
            continue
        if result.verdict == "wrong":
            told = sentence(result, look)
        if points is not None:
            told += f" ({points.total(result):g} of {points.most:g} points)"
        named = [diagnosis.mistake for diagnosis in result.diagnosis[:3]]
        yield told + (f" [{' or '.join(named)}]" if named else "")
    yield _total([result.verdict for result in results])
    yield from _of_class(results)


def _total(verdicts: Sequence[str]) -> str:
    """`4 marked: 1 agrees, 3 wrong; 5 could not be read`"""
    unread = verdicts.count("unreadable")
    words = {"agrees": "agree" if verdicts.count("agrees") > 1 else "agrees", "rounded": "rounded", "wrong": "wrong"}
    counts = [f"{verdicts.count(name)} {word}" for name, word in words.items() if name in verdicts]
    told = f"{len(verdicts) - unread} marked" + (f": {', '.join(counts)}" if counts else "")
    return f"{told}; {unread} could not be read" if unread else told


def _of_class(results: Sequence[CheckResult]) -> Iterator[str]:
    """In which steps the first slips are, and which mistakes were named, the most frequent first."""
    found = [result.first_wrong[0].step for result in results if result.first_wrong is not None]
    if len(found) < 2:
        return
    yield f"first slips: {_ranked(found)}"
    named = [result.diagnosis[0].mistake for result in results if result.diagnosis]
    if named:
        yield f"likely mistakes: {_ranked(named)}"


def _ranked(names: Sequence[str]) -> str:
    """`scaled 12, weights 3`"""
    from collections import Counter

    return ", ".join(f"{name} {count}" for name, count in Counter(names).most_common())


def rows(results: Sequence[CheckResult], points: Points | None = None) -> list[list[str]]:
    """The header and one row a file, for csv and tsv."""
    header = ["file", "verdict", "step", "at", "row", "column", "mistake", "reason"]
    found = [header if points is None else [*header, *points.worth, "points", "of"]]
    for result in results:
        cell = ["", "", "", ""]
        if result.first_wrong is not None:
            step, wrong = result.first_wrong
            cell = [step.step, " ".join(map(str, wrong.at)), shown(wrong.row), shown(wrong.column)]
        mistakes = " ".join(diagnosis.mistake for diagnosis in result.diagnosis)
        row = [shown(result.file or ""), result.verdict, *cell, mistakes, shown(result.reason)]
        found.append(row if points is None else row + points.row(result))
    return found


def data(results: Sequence[CheckResult], format: str, points: Points | None = None) -> str:
    """The results as csv, tsv or json: a list with one object a file."""
    if format == "json":
        import json

        objects: list[dict[str, Any]] = [
            {**result.to_dict(), **_named(result), **(points.to_dict(result) if points is not None else {})}
            for result in results
        ]
        return json.dumps(objects, ensure_ascii=False, allow_nan=False) + "\n"
    import csv
    import io

    text = io.StringIO()
    csv.writer(text, delimiter="\t" if format == "tsv" else ",", lineterminator="\n").writerows(rows(results, points))
    return text.getvalue()


def _named(result: CheckResult) -> dict[str, str]:
    """The file's name, where it has one, as every reader of JSON takes it."""
    return {} if result.file is None else {"file": shown(result.file)}


def _mistakes(result: CheckResult) -> list[str]:
    """The sentences of the diagnosis, which may name labels."""
    exact = [diagnosis for diagnosis in result.diagnosis if diagnosis.exact_match]
    told = exact or result.diagnosis
    if not told:
        return []
    if len(told) == 1:
        all_of_them = exact or told[0].mistake == "coarser-type"  # which gives none exactly, but comes near to all
        some = "" if all_of_them else ", which explains some of the numbers"
        return [f"likely: {told[0].text} ({told[0].mistake}){some}"]
    return ["these explain the numbers alike:", *(f"- {diagnosis.text} ({diagnosis.mistake})" for diagnosis in told)]


def _cell(arrays: list[Array], i: int, j: int, any_wrong: bool) -> str:
    hand, unit, codes = (array[i, j] for array in arrays)
    mark = "!" if codes == WRONG else " " if any_wrong else ""
    return ("~" if codes == BLANK else spelled(float(hand), float(unit))) + mark


def _written(step: StepMark, cell: CellMark) -> str:
    return spelled(cell.hand, cell.unit)


def _right(step: StepMark, cell: CellMark, look: Look) -> str:
    return _spelled_exactly(cell.exact, step, cell, look)


def _spelled_exactly(x: float, step: StepMark, cell: CellMark, look: Look) -> str:
    """A computed number with two places more than the hand wrote, at least those of --precision."""
    return spell_one(x, held(x, max(look.precision, places_of(cell.unit) + 2)), look.rounding)


def _follows(step: StepMark, cell: CellMark, look: Look) -> str:
    """What follows from the hand's numbers: one number, or from where to where."""
    low, high = (_spelled_exactly(end, step, cell, look) for end in cell.from_hand)
    return low if low == high else f"{low} to {high}"


def _indices(leading: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    from itertools import product

    return product(*(range(size) for size in leading))


def _shown(count: int) -> list[int | None]:
    return [*range(count)] if count <= MANY else [*range(ENDS), None, *range(count - ENDS, count)]


def _lines(lines: Iterator[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
