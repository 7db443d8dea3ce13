"""Explanations: the lines that lead to one weight, or to the whole row of one query up to its output."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from attncli.errors import InputError
from attncli.lazy import np
from attncli.pipeline.masking import Masks, ScoreShape
from attncli.pipeline.trace import Trace
from attncli.problem.problem import Problem
from attncli.working.parts import workings
from attncli.working.terms import Cell, Op, Term
from attncli.working.working import LOGIT_STEPS, Working

_LINES = 12  # of one step; of more, the first and the number of the others are told
_FIRST = 3


@dataclass
class Line:
    """One number: its cell, the term it comes from (None where none can be told), and words instead of, or besides."""

    cell: Cell
    term: Term | None
    words: str = ""


@dataclass
class Group:
    """The lines of one step. left_out: how many more there are of the same kind."""

    step: str
    lines: list[Line]
    left_out: int = 0


@dataclass
class Section:
    """The groups of one head of one sequence; title is empty where there is only one."""

    title: str
    working: Working
    groups: list[Group]


@dataclass
class Explanation:
    """What is explained, of which query (and key), and how."""

    problem: Problem
    trace: Trace
    query: int
    key: int | None
    sections: list[Section] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def explain(problem: Problem, query: str, key: str | None = None) -> Explanation:
    """Explain the weight of a key for a query, or without a key the whole row of the query.

    query, key: positions from 1, or labels (`the#2` is the second `the`). Raises InputError for one that is not there.
    """
    trace = problem.solve()
    i = find_token(query, trace.query_labels, "query")
    j = None if key is None else find_token(key, trace.key_labels, "key")
    explanation = Explanation(problem, trace, i, j, notes=list(trace.notes))
    for index, working in workings(problem, trace):
        names = trace.leading_names("weights")
        title = ", ".join(f"{name} {at + 1}" for name, at in zip(names, index, strict=True))
        groups = _cell_groups(working, i, j) if j is not None else _row_groups(working, i)
        explanation.sections.append(Section(title, working, groups))
        if j is None and "V" in working.arrays and working.several and working is working.siblings[-1]:
            sequence = ", ".join([*title.split(", ")[:-1], "all heads"])
            explanation.sections.append(Section(sequence, working, [_joined(working, i)]))
    return explanation


def find_token(name: str, labels: Sequence[str], kind: str) -> int:
    """The position (from 0) of a label, of `label#2`, or of a number counted from 1. Raises InputError."""
    places = [at for at, label in enumerate(labels) if label == name]
    if len(places) == 1:
        return places[0]
    if places:
        told = ", ".join(str(at + 1) for at in places)
        raise InputError(
            f"the label {name!r} stands {len(places)} times among the {kind} labels: at {told}",
            place=f"--{kind}",
            hint=f"write {name}#2 for the second, or a position",
        )
    label, mark, number = name.rpartition("#")
    places = [at for at, other in enumerate(labels) if mark and other == label]
    if places and number.isdecimal() and 1 <= int(number) <= len(places):
        return places[int(number) - 1]
    if name.strip().isdecimal() and 1 <= int(name) <= len(labels):
        return int(name) - 1
    shown = ", ".join(labels[:12]) + (", ..." if len(labels) > 12 else "")
    raise InputError(
        f"there is no {kind} {name!r}", place=f"--{kind}", hint=f"a position in 1..{len(labels)}, or one of: {shown}"
    )


def _cell_groups(working: Working, i: int, j: int) -> list[Group]:
    groups = []
    if working.problem.begins is None:
        groups += [_projection(working, "Q", [i]), _projection(working, "K", [j])]
    return [group for group in [*groups, *_weight_groups(working, i, [j])] if group.lines]


def _row_groups(working: Working, i: int) -> list[Group]:
    keys = list(range(working.counted.shape[1]))
    groups = []
    if working.problem.begins is None:
        groups += [_projection(working, "Q", [i]), _projection(working, "K", keys)]
    groups += _weight_groups(working, i, keys)
    if "V" in working.arrays:
        groups += [_projection(working, "V", working.keys_of(i)), *_output(working, i)]
    return [group for group in groups if group.lines]


def _projection(working: Working, name: str, tokens: Iterable[int]) -> Group:
    """The numbers of Q, K or V that are computed; where they are the data themselves, nothing is to be told."""
    cells = [cell for token in tokens for cell in working.row(name, token)]
    return _group(name, [line for cell in cells if isinstance((line := _line(working, cell)).term, Op)])


def _weight_groups(working: Working, i: int, keys: list[int]) -> list[Group]:
    groups = [
        _group(step, [_score_line(working, Cell(step, (i, j))) for j in keys if _is_told(working, step, i, j)])
        for step in ("kernel", *LOGIT_STEPS)
        if step in working.arrays and step not in working.problem.inputs
    ]
    if working.problem.begins == "weights":
        return groups
    seen = [j for j in keys if working.counted[i, j]]
    if not working.counted[i].any():
        rule = working.problem.empty_rows
        words = f"sees no key (--empty-rows {rule})"
        return [*groups, _group("weights", [Line(Cell("weights", (i, j)), None, words) for j in keys])]
    if working.trace.normalizer == "softmax":
        groups.append(_group("exp", [_line(working, Cell("exp", (i, j))) for j in working.keys_of(i)]))
        groups.append(_group("sum", [_line(working, Cell("sum", (i, 0)))]))
    if working.trace.normalizer == "sparsemax":
        groups.append(_group("tau", [_line(working, Cell("tau", (i, 0)))]))
    lines = [
        _line(working, Cell("weights", (i, j))) if j in seen else Line(Cell("weights", (i, j)), None, "hidden")
        for j in keys
    ]
    return [*groups, _group("weights", lines)]


def _is_told(working: Working, step: str, i: int, j: int) -> bool:
    """A mask is told where it hides something; a cell that it leaves alone is only repeated."""
    return step != "masked" or not isinstance(working.term(Cell(step, (i, j))), Cell)


def _score_line(working: Working, cell: Cell) -> Line:
    line = _line(working, cell)
    if cell.step == "masked":
        line.term, line.words = None, f"hidden by {' and '.join(_hiding(working, *cell.index)) or 'the mask'}"
    return line


def _hiding(working: Working, i: int, j: int) -> list[str]:
    """The masks that hide a key from a query."""
    rules, weights = working.problem.rules(), working.trace.rows("weights")
    batch = weights.shape[:-2] if working.trace.heads is None else weights.shape[:-3]
    n, m = weights.shape[-2:]
    extent = ScoreShape(tuple(batch), working.trace.heads, n, m, working.past)
    alignment = Masks(rules.masks, extent, rules.alignment).alignment
    hiding = []
    index = (..., 0, i, j) if working.trace.heads is None else (..., i, j)
    for spec in rules.masks:
        shown = np.broadcast_to(Masks([spec], extent, alignment).visible(), extent.shape)
        if not shown[index].all():
            hiding.append(spec.text)
    return hiding


def _output(working: Working, i: int) -> list[Group]:
    """The weighted sum; where it is one of several heads, or goes through W_O, under the name of heads."""
    apart = working.several or "W_O" in working.arrays or "b_O" in working.arrays
    groups = []
    if apart:
        groups.append(_group("heads", [_line(working, Cell("heads", (i, c))) for c in range(working.widths["V"])]))
    if not working.several:
        groups.append(_joined(working, i))
    return groups


def _joined(working: Working, i: int) -> Group:
    """The output: of several heads the heads side by side, through W_O where there is one."""
    width = working.arrays["output"].shape[1]
    return _group("output", [_line(working, Cell("output", (i, c))) for c in range(width)])


def _line(working: Working, cell: Cell) -> Line:
    return Line(cell, working.term(cell))


def _group(step: str, lines: list[Line]) -> Group:
    if len(lines) <= _LINES:
        return Group(step, lines)
    return Group(step, lines[:_FIRST], len(lines) - _FIRST)
