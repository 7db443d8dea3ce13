"""`-o` of `check` and `explain`: documents of what they print, and pictures of a step that was marked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attncli.cli.outputs import Output, parse_outputs
from attncli.errors import UsageError
from attncli.problem.values import placed
from attncli.report.drawn import DOCUMENTS, check_pictures, look_of_files, marks_document, picture_of_check

if TYPE_CHECKING:
    from attncli.problem.formats.files import Content
    from attncli.problem.problem import Problem
    from attncli.report.points import Points
    from attncli.verify.verdicts import CheckResult

_DATA = {".csv": "csv", ".tsv": "tsv", ".json": "json"}


class Files:
    """The files of -o, which are looked at before anything is read, and written all or none.

    suffixes: those that the command can write.
    """

    def __init__(self, flags: dict[str, Any], suffixes: list[str]) -> None:
        self.flags = flags
        self.outputs = parse_outputs(flags["output"] or ())
        for output in self.outputs:
            if output.suffix not in suffixes:
                hint = f"here: {', '.join(suffixes)}"
                raise UsageError(f"{output.suffix} is not written here", place=f"-o {output.path}", hint=hint)
            if output.step is not None and not output.is_picture:
                raise UsageError("only pictures are of one step", place=f"-o {output.path}")
        if self.outputs:
            from attncli.problem.formats.files import check_all

            check_pictures((output.suffix for output in self.outputs), flags)
            check_all([str(output.path) for output in self.outputs], force=bool(flags["force"]))

    @property
    def prints(self) -> bool:
        """Whether the result is also printed: where there are no files, or a format is named."""
        return not self.outputs or bool(self.flags["format"])

    def write(self, contents: dict[Output, bytes]) -> list[str]:
        """Write them, and give notes that name them."""
        if not contents:
            return []
        from attncli.problem.formats.files import write_all

        files: dict[str, Content] = {str(output.path): content for output, content in contents.items()}
        write_all(files, force=bool(self.flags["force"]))
        return [f"wrote {output.path}" for output in contents]


def write_marks(files: Files, marked: list[tuple[Problem | None, CheckResult]], points: Points | None) -> list[str]:
    """Write what was marked; gives notes. Raises UsageError for a picture of several problems."""
    from attncli.report.marking import data

    results = [result for _, result in marked]
    problem = marked[0][0]
    options = problem.options if problem is not None else {}
    contents: dict[Output, bytes] = {}
    notes: list[str] = []
    for output in files.outputs:
        with placed(f"-o {output.path}"):
            if output.suffix in _DATA:
                contents[output] = data(results, _DATA[output.suffix], points).encode("utf-8", "backslashreplace")
                continue
            if len(results) > 1 or results[0].reason:
                raise UsageError("this holds one problem that was marked", hint=f"for several: {', '.join(_DATA)}")
            title = problem.title if problem is not None else None
            if output.is_picture:
                made = picture_of_check(results[0], output.step, output.suffix, title, options)
                contents[output], told = made
                notes += told
            else:
                look = look_of_files(options)
                contents[output] = marks_document(results[0], DOCUMENTS[output.suffix], title, look, points)
    return [*files.write(contents), *notes]
