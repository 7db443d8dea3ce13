"""Make a case smaller for as long as it does the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cases import Case
from running import findings, run


def shrunk(case: Case, name: str) -> Case:
    """The smallest case on the way that still has the finding of that name."""
    going = True
    while going:
        going = False
        for smaller in _smaller(case):
            if any(finding.name == name for finding in findings(smaller, run(smaller))):
                case, going = smaller, True
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    """The case without a file, an option, an option's value, a line, or a few characters."""
    for file in case.files:
        yield replace(case, files={name: data for name, data in case.files.items() if name != file})
    for count in (2, 1):
        for at in range(1, len(case.arguments) - count + 1):
            yield replace(case, arguments=case.arguments[:at] + case.arguments[at + count :])
    for at, argument in enumerate(case.arguments):
        for text in _less(argument):
            yield replace(case, arguments=[*case.arguments[:at], text, *case.arguments[at + 1 :]])
    for file, data in case.files.items():
        try:
            text = data.decode()
        except UnicodeDecodeError:
            continue
        lines = text.splitlines(keepends=True)
        for at in range(len(lines)):
            yield replace(case, files={**case.files, file: "".join(lines[:at] + lines[at + 1 :]).encode()})
        for less in _less(text):
            yield replace(case, files={**case.files, file: less.encode()})


def _less(text: str) -> Iterator[str]:
    for size in (64, 16, 4, 1):
        for at in range(0, len(text) - size + 1, max(1, size // 2)):
            yield text[:at] + text[at + size :]
