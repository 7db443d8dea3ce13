"""What a picture shows of a Trace, and of a step that was marked: a panel for each matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attncli.lazy import np
from attncli.pipeline.trace import NAMED_STEPS, Trace, parse_address
from attncli.report.look import Look
from attncli.report.marking import framed
from attncli.report.picture import Panel, Picture, check_look
from attncli.report.sheet import expand, part_name, sheet

if TYPE_CHECKING:
    from attncli.verify.verdicts import CheckResult, StepMark


def picture_of(trace: Trace, step: str, look: Look, title: str | None, options: Mapping[str, Any]) -> Picture:
    """A step of a Trace, or a part such as weights[2], every row and column of it.

    options: cmap, range and size, where they are chosen. Raises InputError for a step that the trace does not have.
    """
    look = look._replace(color=False, heat=False)
    panels = []
    for address in expand(trace, [step]):
        found = sheet(trace, address, look, elide=False)
        hidden = np.array([[cell == look.hidden for cell in row] for row in found.cells], dtype=bool)
        numbers = trace[address].astype(np.float64)
        labels = found.row_labels, found.column_labels
        panels.append(Panel(part_name(trace, address), *labels, found.cells, numbers, hidden.reshape(numbers.shape)))
    name = parse_address(step)[0]
    leading = trace.leading_names(name)
    several = len(leading) == 2 and len(panels) > 1
    across = trace.rows(name).shape[-3] if several else 1 if leading == ["sequence"] else None
    heading = f"{step}: {NAMED_STEPS[name].about}"
    return Picture(
        title=f"{look.label(title)}\n{heading}" if title else heading,
        bar=name, axes=trace.axes(step), panels=panels, across=across, **check_look(options),
    )  # fmt: skip


def picture_of_marks(
    result: CheckResult, step: str | None, look: Look, title: str | None, options: Mapping[str, Any]
) -> Picture:
    """The hand's numbers of a step with frames around those that are wrong or follow; of no step, the first wrong."""
    mark = _chosen(result, step)
    leading = mark.hand.shape[:-2]
    panels = []
    for index in np.ndindex(*leading):
        texts, frames, blank = framed(mark, index)
        name = f"{mark.step}[{','.join(str(i + 1) for i in index)}]" if index else ""
        rows, columns = [*map(look.label, mark.row_labels)], [*map(look.label, mark.column_labels)]
        panels.append(Panel(name, rows, columns, texts, mark.hand[index].astype(np.float64), blank, frames))
    told = f"{mark.step}, as written by hand: {mark.verdict}"
    title = "\n".join(filter(None, [look.label(title or result.file or ""), told]))
    return Picture(
        title=title, bar=mark.step, axes=(mark.rows, mark.columns), panels=panels, **check_look(options)
    )  # fmt: skip


def _chosen(result: CheckResult, step: str | None) -> StepMark:
    from attncli.errors import InputError

    if step is not None:
        for mark in result.steps:
            if mark.step == step:
                return mark
        hint = f"marked: {', '.join(mark.step for mark in result.steps)}"
        raise InputError(f"no number of {step} was marked", hint=hint)
    wrong = result.first_wrong
    return wrong[0] if wrong is not None else result.steps[-1]
