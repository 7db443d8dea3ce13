"""Explanations: the lines that lead to one weight, or to the whole row of one query up to its output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from attncli.errors import InputError
from attncli.lazy import np
from attncli.pipeline.state import State
from attncli.pipeline.trace import Trace
from attncli.problem.problem import Problem
from attncli.working.hands import Expected
from attncli.working.lines import Group, joined_groups, output_groups, weight_groups
from attncli.working.reading import Row, Whole

ALL = "all"  # every query


@dataclass
class Section:
    """The groups of one head of one sequence; title is empty where there is only one."""

    title: str
    row: Row
    groups: list[Group]


@dataclass
class Asked:
    """One query and what is told of it."""

    query: int
    sections: list[Section]


@dataclass
class Explanation:
    """What is explained, of which queries (and which key), and the numbers that the problem expects."""

    problem: Problem
    trace: Trace
    key: int | None
    asked: list[Asked]
    expected: Expected
    notes: list[str] = field(default_factory=list)


def explain(problem: Problem, query: str, key: str | None = None, head: int | None = None) -> Explanation:
    """Explain the weight of a key for a query, or without a key the whole row of the query.

    query, key: positions from 1, or labels (`the#2` is the second `the`); of queries "all". head: only that one.
    Raises InputError for what is not there.
    """
    trace, at = replace(problem, round_steps=None).solve_whole()
    every = query == ALL and query not in trace.query_labels
    queries = range(at.shape.n) if every else [find_token(query, trace.query_labels, "query")]
    j = None if key is None else find_token(key, trace.key_labels, "key")
    heads = _heads(at, head)
    at.in_columns, at.weights_turned = problem.layout == "columns", problem.weight_layout == "out-in"
    whole = Whole(at)
    with np.errstate(all="ignore"):
        asked = [Asked(i, _sections(whole, i, j, heads)) for i in queries]
    expected = Expected(problem, trace)
    return Explanation(problem, trace, j, asked, expected, notes=[*trace.notes, *expected.notes])


def _heads(at: State, head: int | None) -> range:
    """The heads that are asked about, from 0. Raises InputError for one that is not there."""
    if head is None:
        return range(at.heads)
    if at.layout.heads is None:
        raise InputError(f"there is no head {head}: this problem has no heads", place="--head", hint="leave --head out")
    if not 1 <= head <= at.heads:
        raise InputError(f"there is no head {head}", place="--head", hint=f"a number in 1..{at.heads}")
    return range(head - 1, head)


def _sections(whole: Whole, i: int, j: int | None, heads: range) -> list[Section]:
    """One for each head of each sequence; another for what is made of all heads of a sequence."""
    at, sections = whole.plain, []
    for sequence in np.ndindex(*at.shape.batch):
        row = Row(whole, sequence, i)
        of_sequence = [f"sequence {place + 1}" for place in sequence]
        to_output = j is None and row.name_latest("output") is not None
        for head in heads:
            title = of_sequence if at.layout.heads is None else [*of_sequence, f"head {head + 1}"]
            groups = weight_groups(row, head, j)
            groups += output_groups(row, head) if to_output else []
            groups += joined_groups(row) if to_output and at.heads == 1 else []
            sections.append(Section(", ".join(title), row, groups))
        if to_output and len(heads) == at.heads > 1:
            sections.append(Section(", ".join([*of_sequence, "all heads"]), row, joined_groups(row)))
    return sections


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
