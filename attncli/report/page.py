"""A page of its own: every step as a table coloured by value, with the arithmetic behind each cell.

The template beside this module has all that draws; this gives it the numbers and the words, as JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from attncli.lazy import Array, np
from attncli.pipeline.trace import NAMED_STEPS, Trace, parse_address
from attncli.report.explanation import Writing, equation, words_beside
from attncli.report.html import escape_html
from attncli.report.look import Look
from attncli.report.notation import TEXT
from attncli.report.sheet import sheet

if TYPE_CHECKING:
    from attncli.working.lines import Line

WHOLE = 128  # tokens up to which every row and column stands in the page
_MOST_TOLD = 20_000  # cells whose arithmetic is told: some megabytes, and some seconds to write
_SHARES = ("weights", "weights_back")

Told = dict[tuple[str, tuple[int, ...]], str]


def page(trace: Trace, steps: Sequence[str], look: Look) -> bytes:
    """The page of these steps: one file, which needs no other and no network; the same bytes for the same trace."""
    from importlib.resources import files
    from json import dumps

    problem = trace.problem
    title = look.label(problem.title or problem.name or "Attention") if problem is not None else "Attention"
    told, formulas, notes = _arithmetic(trace, look)
    names = list(dict.fromkeys(parse_address(step)[0] for step in steps))
    data = {
        "queries": [look.label(label) for label in trace.query_labels[:WHOLE]],
        "steps": [_step(trace, name, formulas.get(name, ""), told, look) for name in names],
        "notes": [look.label(note) for note in [*trace.notes, *notes]],
    }
    # Neither `</script>` nor `<!--` of a label may end or change the element that the data stand in.
    text = dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c").replace(">", "\\u003e")
    template = files("attncli.report").joinpath("page.html").read_text(encoding="utf-8")
    head, _, rest = template.partition("{{data}}")
    return f"{head.replace('{{title}}', escape_html(title))}{text}{rest}".encode()


def _step(trace: Trace, name: str, formula: str, told: Told, look: Look) -> dict[str, Any]:
    """A step with each of its matrices; single: which label names a number of a step with one a query (1 the row's)."""
    entry = NAMED_STEPS[name]
    is_single = entry.shape.endswith("x 1")
    return {
        "name": name,
        "told_as": entry.told_as or name,
        "formula": formula,
        "axes": trace.axes(name),
        "share": name in _SHARES,
        "single": (2 if trace.layout == "columns" else 1) if is_single else 0,
        "parts": [_part(trace, address, told, look) for address in trace.parts(name)],
    }


def _part(trace: Trace, address: str, told: Told, look: Look) -> dict[str, Any]:
    """One matrix as it is displayed: labels, numbers as tables show them and in full, and the arithmetic of each."""
    array, name = trace[address], parse_address(address)[0]
    drawn = sheet(trace, address, look, elide=max(array.shape, default=0) > WHOLE)
    leading = trace.part(address)[1] or ()
    counts = dict(zip(trace.leading_names(name), leading, strict=True)) if len(leading) < 3 else {}
    hidden = trace.hidden(address)

    def cells(of: Any) -> list[list[Any]]:
        """What `of(row, column)` gives, None where rows or columns are left out."""
        return [[None if r is None or c is None else of(r, c) for c in drawn.columns] for r in drawn.rows]

    def arithmetic(r: int, c: int) -> str | None:
        at = (c, r) if trace.layout == "columns" else (r, c)
        return told.get((name, (*leading, *at)))

    covered = [] if hidden is None else cells(lambda r, c: bool(hidden[r, c]) and look.hidden)
    words = cells(arithmetic) if told else []
    return {
        "name": drawn.title,
        "title": drawn.heading,
        "size": drawn.size,
        "caption": drawn.caption,
        "left_out": drawn.left_out() or "",
        **{axis: at + 1 for axis, at in counts.items()},
        "rows": drawn.row_labels,
        "columns": drawn.column_labels,
        "row_at": drawn.rows,
        "column_at": drawn.columns,
        "shown": drawn.cells,
        "values": cells(lambda r, c: _number(array, r, c)),
        "hidden": [[c for c, is_hidden in enumerate(row) if is_hidden] for row in covered],
        "told": words if any(text is not None for row in words for text in row) else [],
    }


def _number(array: Array, row: int, column: int) -> float | str:
    """A number as JSON holds it, infinities and NaN as words."""
    number = float(array[row, column])
    return number if np.isfinite(number) else str(number)


# -- the arithmetic --------------------------------------------------------------------------------------------------


def _arithmetic(trace: Trace, look: Look) -> tuple[Told, dict[str, str], list[str]]:
    """What `explain` writes of each number, the formulas of the steps, and notes of what is not told."""
    problem = trace.problem
    if problem is None:
        return {}, {}, []
    if max(len(trace.query_labels), len(trace.key_labels)) > WHOLE:
        return {}, {}, [f"of more than {WHOLE} tokens the arithmetic is told by `attncli explain`, not here"]
    from attncli.pipeline.steps import STEPS
    from attncli.working.explanation import Explanation
    from attncli.working.hands import Expected
    from attncli.working.reading import Whole

    whole_trace, at = replace(problem, round_steps=None).solve_whole()
    at.in_columns, at.weights_turned = problem.layout == "columns", problem.weight_layout == "out-in"
    expected = Expected(problem, whole_trace)
    writing = Writing(Explanation(problem, whole_trace, None, [], expected), TEXT, look, rounded=problem.round_steps)
    told: Told = {}
    with np.errstate(all="ignore"):
        formulas = {name: STEPS.find(name).formulas(at)[0] for name in trace.names(on_request=True)
                    if STEPS.find(name).told_as and name not in at.inputs}  # fmt: skip
        notes = _tell_all(Whole(at), writing, told, trace)
    return told, formulas, notes


def _tell_all(whole: Any, writing: Writing, told: Told, trace: Trace) -> list[str]:
    """Put what is told of each number into `told`, head by head, as long as there are not too many."""
    from attncli.working.explanation import Section
    from attncli.working.lines import every_given_line, every_line
    from attncli.working.reading import Row

    def tell(row: Row, lines: Iterable[Line]) -> None:
        section = Section("", row, [])
        for line in lines:
            place = tuple(at for _, at in line.places) + (0,) * (2 - len(line.places))
            words = words_beside(writing, section, line)
            text = equation(writing, section, line) + (f"   ({words})" if words else "")
            told[line.cell.step, (*line.leading, *place)] = text

    plain = whole.plain
    rows = {sequence: [Row(whole, sequence, i) for i in range(plain.shape.n)]
            for sequence in np.ndindex(*plain.shape.batch)}  # fmt: skip
    first = next((each[0] for each in rows.values() if each), None)
    if first is None:
        return []
    shapes = {name: trace.rows(name).shape for name in trace.names(on_request=True)}
    whole_ones = {name: shape for name, shape in shapes.items() if max(shape[-2:]) <= WHOLE}
    given = {name for name, shape in whole_ones.items() if np.prod(shape) <= _MOST_TOLD}
    size = sum(shape[-2] * shape[-1] for shape in whole_ones.values())  # of one head
    for part, (sequence, head) in enumerate(_parts(rows, plain.heads)):
        if part and len(told) + size > _MOST_TOLD:
            return [f"the arithmetic is told of the first {part} heads; of the others by `attncli explain`"]
        for row in rows[sequence]:
            tell(row, every_line(row, head, whole_ones))
        if part == 0:
            tell(first, every_given_line(first, given))
    return []


def _parts(sequences: Iterable[tuple[int, ...]], heads: int) -> Iterator[tuple[tuple[int, ...], int]]:
    return ((sequence, head) for sequence in sequences for head in range(heads))
