"""A sheet to fill in: what is given as tables, and an empty table for each step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from attncli.exercises.keys import Key
from attncli.exercises.workbook import workbook
from attncli.pipeline.trace import Trace
from attncli.problem.matrix import Matrix
from attncli.problem.numbers import shortest
from attncli.problem.problem import Problem
from attncli.registry import Entry, Registry
from attncli.report.look import Look
from attncli.report.markup import escape_latex, escape_markdown, latex, markdown
from attncli.report.sheet import Sheet, sheet

SHEETS: Registry[Entry] = Registry("format of a sheet", Entry)  # function(key, trace, look) gives its bytes


def _given(problem: Problem, trace: Trace) -> Iterator[Sheet]:
    """The matrices of the problem."""
    score = problem.score.parameters if problem.score else {}
    for name, matrix in {**problem.inputs, **score}.items():
        if not isinstance(matrix, Matrix):
            continue
        array = matrix.array if matrix.array.ndim > 1 else matrix.array[None]
        for at, table in _tables(array):
            rows, columns = table.shape
            labels = trace.labels(name) if name in trace and array.ndim == 2 else ([], [])
            yield Sheet(
                title=f"{name}{at}",
                size=f"{rows} x {columns}",
                caption="given",
                row_labels=labels[0] or [str(i + 1) for i in range(rows)],
                column_labels=labels[1] or [str(j + 1) for j in range(columns)],
                cells=[[shortest(x).removesuffix(".0") for x in row] for row in table.tolist()],
                rows=list(range(rows)),
                columns=list(range(columns)),
                of=(rows, columns),
            )


def _tables(array: Any, at: tuple[int, ...] = ()) -> Iterator[tuple[str, Any]]:
    if array.ndim == 2:
        yield (f"[{','.join(map(str, at))}]" if at else ""), array
        return
    for i, part in enumerate(array, start=1):
        yield from _tables(part, (*at, i))


def _blank(key: Key, trace: Trace, look: Look) -> Iterator[tuple[str, Sheet]]:
    """An empty table for each matrix of the steps, by its address."""
    for address in key.steps:
        for part in [address] if "[" in address else trace.parts(address):
            filled = sheet(trace, part, look, elide=False)
            empty = [["" for _ in row] for row in filled.cells]
            yield part, filled._replace(cells=empty, caption=f"to {key.places} places", styles={}, heat={})


def _rules(problem: Problem, trace: Trace) -> str:
    """What is not told by the matrices: score, scale, mask."""
    told = [f"score {trace.score['name']}", f"normalizer {trace.normalizer}"]
    told += [f"scale {shortest(trace.scale)}"] if isinstance(trace.scale, float) and trace.scale != 1 else []
    told += [f"mask {', '.join(trace.mask)}"] if trace.mask else []
    told += [f"{trace.heads} heads"] if trace.heads else []
    return f"{problem.attention}: {'; '.join(told)}"


@SHEETS("md")
def _markdown(key: Key, trace: Trace, look: Look) -> bytes:
    """Tables as Markdown."""
    return _joined(_markdown_lines(key, trace, look))


@SHEETS("tex")
def _latex(key: Key, trace: Trace, look: Look) -> bytes:
    """A document that LaTeX sets."""
    return _joined(_latex_lines(key, trace, look))


@SHEETS("xlsx")
def _workbook(key: Key, trace: Trace, look: Look) -> bytes:
    """A workbook, whose filled cells `check` reads."""
    return workbook(key, _given(key.problem, trace), _blank(key, trace, look))


def _joined(lines: Iterator[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _markdown_lines(key: Key, trace: Trace, look: Look) -> Iterator[str]:
    yield f"# {escape_markdown(look.label(key.problem.title or 'Exercise'))}\n"
    yield f"{escape_markdown(_rules(key.problem, trace))}\n"
    for part in (*_given(key.problem, trace), *(table for _, table in _blank(key, trace, look))):
        yield from markdown(part)
        yield ""


def _latex_lines(key: Key, trace: Trace, look: Look) -> Iterator[str]:
    yield "\\documentclass{article}\n\\usepackage{amsmath}\n\\begin{document}"
    yield f"\\section*{{{escape_latex(look.label(key.problem.title or 'Exercise'))}}}"
    yield f"{escape_latex(_rules(key.problem, trace))}\n"
    for part in (*_given(key.problem, trace), *_wide(table for _, table in _blank(key, trace, look))):
        yield from latex(part, look)
    yield "\\end{document}"


def _wide(parts: Iterable[Sheet]) -> Iterator[Sheet]:
    """Cells with room for a number."""
    for part in parts:
        yield part._replace(cells=[[r"\hspace{3em}" for _ in row] for row in part.cells])


def write_sheet(key: Key, format: str) -> bytes:
    """The sheet of an exercise. Raises InputError for a format that is not there."""
    write: Callable[[Key, Trace, Look], bytes] = SHEETS.find(format, place="--sheet").function
    return write(key, key.problem.solve(), Look())
