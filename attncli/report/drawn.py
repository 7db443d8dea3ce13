"""Files for people to look at: pictures, and documents of what `--format` would print."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attncli.report.look import Look

if TYPE_CHECKING:
    from attncli.pipeline.trace import Trace
    from attncli.report.points import Points
    from attncli.verify.verdicts import CheckResult

PICTURES = {".svg": "svg", ".png": "png", ".pdf": "pdf"}
DOCUMENTS = {".md": "markdown", ".tex": "latex", ".html": "html"}


def drawn_suffixes() -> list[str]:
    """The suffixes of pictures and documents."""
    return [*PICTURES, *DOCUMENTS]


def look_of_files(options: Mapping[str, Any]) -> Look:
    """How numbers look in files, whatever the terminal is like."""
    return Look(precision=options.get("precision", 4), rounding=options.get("rounding", "half-even"))


def picture(
    trace: Trace, step: str, suffix: str, title: str | None, options: Mapping[str, Any]
) -> tuple[bytes, list[str]]:
    """The bytes of a picture of a step, and what is to be told of it."""
    from attncli.report.panels import picture_of
    from attncli.report.picture import drawn

    made = picture_of(trace, step, look_of_files(options), title, options)
    return drawn(made, PICTURES[suffix]), made.notes


def picture_of_check(
    result: CheckResult, step: str | None, suffix: str, title: str | None, options: Mapping[str, Any]
) -> tuple[bytes, list[str]]:
    """The same of a step that was marked, with its verdicts."""
    from attncli.report.panels import picture_of_marks
    from attncli.report.picture import drawn

    made = picture_of_marks(result, step, look_of_files(options), title, options)
    return drawn(made, PICTURES[suffix]), made.notes


def check_pictures(suffixes: Iterable[str], options: Mapping[str, Any]) -> None:
    """Whether pictures can be made as the options want them, before anything is computed. Raises UsageError."""
    if any(suffix in PICTURES for suffix in suffixes):
        from attncli.report.picture import check_look, require

        require()
        check_look(options)


def document(trace: Trace, steps: Sequence[str], suffix: str, title: str | None, options: Mapping[str, Any]) -> bytes:
    """A document of some steps: the rules in a sentence, the tables, and the notes."""
    from attncli.report.document import of_trace

    return of_trace(trace, steps, DOCUMENTS[suffix], title, look_of_files(options))


def marks_document(
    result: CheckResult,
    format: str,
    title: str | None,
    look: Look,
    points: Points | None = None,
    more: Sequence[str] = (),
) -> bytes:
    """A document of what a check says: each step with its verdicts, the wrong cells, and the mistake.

    more: sentences that follow the verdict.
    """
    from attncli.report.document import whole
    from attncli.report.marking import marks

    about = "Each step as it was written by hand: ! marks what is wrong, ~ what was left out."
    tables = "".join(marks(result, look, format, points, more))
    return whole(format, title or result.file or "Marks", [about, tables], result.notes, look)


def explanation_document(lines: Sequence[str], format: str, title: str | None) -> bytes:
    """A document of an explanation. lines: as the format writes them; for html, as text."""
    from attncli.report.document import whole
    from attncli.report.renderers import told

    text = "".join(told(lines, format))
    return whole(format, title or "Attention, step by step", ["", text], [], Look())
