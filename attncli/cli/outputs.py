"""`-o [STEP=]PATH` and `--save-problem`: what goes into which file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from attncli.errors import AttnError, UsageError, nearest, raise_all
from attncli.pipeline.trace import NAMED_STEPS, parse_address
from attncli.problem.formats import format_of, writer
from attncli.problem.values import placed
from attncli.report.drawn import DOCUMENTS, PICTURES, check_pictures, document, drawn_suffixes, look_of_files, picture

if TYPE_CHECKING:
    from attncli.pipeline.trace import Trace
    from attncli.problem.formats.files import Content
    from attncli.problem.problem import Problem


_LETTERS = 4  # from which on a name is long enough to be told from a slip


class Output(NamedTuple):
    """A file to write, and the step that it is to hold; None leaves that to its format."""

    path: Path
    step: str | None

    @property
    def several(self) -> bool:
        """Whether its format holds several steps."""
        return not self.is_picture and (self.is_drawn or bool(format_of(self.path.name).several))

    @property
    def suffix(self) -> str:
        """The end of its name, which tells the format."""
        return self.path.suffix.lower()

    @property
    def is_picture(self) -> bool:
        """Whether it is a picture of a step."""
        return self.suffix in PICTURES

    @property
    def is_drawn(self) -> bool:
        """Whether it is a picture or a document, and not read again."""
        return self.is_picture or self.suffix in DOCUMENTS

    @property
    def is_page(self) -> bool:
        """Whether it is a page of all steps; of several stages, and of one step, there is but the document."""
        return self.suffix == ".html" and self.step is None


class Outputs:
    """The files that a problem is to leave. Raises UsageError for paths that name no file, or the same one twice."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.saved = problem.options.get("save_problem")
        self.files = parse_outputs(problem.options.get("output") or (), self.saved)

    def steps(self, ends: list[str]) -> list[str] | None:
        """The steps that the files need, of which `ends` are the results; None means all."""
        show = self.problem.options.get("show")
        needed: list[str] = []
        for output in self.files:
            if output.step is not None:
                needed.append(output.step)
            elif output.is_picture:
                needed.append("weights")
            elif not output.several:
                needed.append("output" if "output" in ends else ends[0])
            elif output.is_drawn and not output.is_page and show is None:
                needed += ends
            elif show is None or "all" in show:
                return None
            else:
                needed += show
        return needed

    def check(self) -> None:
        """Whether the files may be written, before anything is computed. Raises InputError."""
        if not self.files and self.saved is None:
            return
        from attncli.problem.formats.files import check_all

        check_pictures((output.suffix for output in self.files), self.problem.options)
        names = [str(output.path) for output in self.files]
        names += [self.saved] if self.saved is not None and self.saved != "-" else []
        check_all(names, force=bool(self.problem.options.get("force")))

    def write(self, trace: Trace) -> list[str]:
        """Write all files, or none; gives notes that name them. Raises InputError and MachineError."""
        from attncli.report.data import meta, parts

        contents: dict[str, Content] = {}
        notes: list[str] = []
        written = {output: self.steps_of(output, trace) for output in self.files}
        for output, steps in written.items():
            if output.is_page:
                from attncli.report.page import page

                contents[str(output.path)] = page(trace, steps, look_of_files(self.problem.options))
                continue
            with placed(f"-o {output.path}"):
                if output.is_drawn:
                    contents[str(output.path)], told_of_it = drawn(output, trace, steps, self.problem)
                    notes += told_of_it
                    continue
                told = meta(trace) if output.several else self.problem.options  # labels are many
                contents[str(output.path)] = writer(output.path.name, parts(trace, steps), told)
        return self.write_contents(contents, written) + notes

    def write_contents(self, contents: dict[str, Content], written: Mapping[Output, Sequence[str]]) -> list[str]:
        """Write what is to be in each file, and the problem, all or none; gives notes that name them."""
        from attncli.problem.formats.files import write_all

        told = [f"wrote {', '.join(steps)} to {output.path}" for output, steps in written.items()]
        if self.saved is not None and self.saved != "-":
            from attncli.problem.save import saved_problem

            files = saved_problem(self.problem, Path(self.saved))
            contents |= {str(path): content for path, content in files.items()}
            told.append(f"wrote the problem to {' and '.join(map(str, files))}")
        if contents:
            write_all(contents, force=bool(self.problem.options.get("force")))
        return told

    def steps_of(self, output: Output, trace: Trace) -> list[str]:
        """The steps that a file holds."""
        from attncli.report.renderers import default_steps

        show = self.problem.options.get("show")
        if output.step is not None:
            return [output.step]
        if output.is_picture:
            return ["weights"]
        if not output.several:
            return ["output" if "output" in trace else "weights"]
        if output.is_drawn and not output.is_page and show is None:
            return default_steps(trace)
        return trace.names(on_request=True) if show is None or "all" in show else show


def drawn(output: Output, trace: Trace, steps: Sequence[str], problem: Problem) -> tuple[bytes, list[str]]:
    """The bytes of a picture or a document of some steps, and what is to be told of it."""
    if output.is_picture:
        return picture(trace, steps[0], output.suffix, problem.title, problem.options)
    return document(trace, steps, output.suffix, problem.title, problem.options), []


def parse_outputs(
    texts: Iterable[str], saved: str | None = None, stages: Callable[[str], object] | None = None
) -> list[Output]:
    """The files of all `-o`; saved: the path of --save-problem. Raises UsageError, and InputError for a bad suffix.

    stages: raises for what is no address of a stage's step, where there are stages.
    """
    outputs: list[Output] = []
    errors: list[AttnError] = []
    named = {Path(saved)} if saved is not None else set()
    for text in texts:
        try:
            output = _parse(text, stages or parse_address)
        except UsageError as error:
            errors.append(error)
            continue
        path = str(output.path)
        if path in (".", "-") or text.endswith("/"):
            hint = "without -o results go to standard output; --format names the format" if path == "-" else None
            hint = hint if text else "is a variable of the shell not set?"
            errors.append(UsageError(f"{text!r} names no file", place="-o", hint=hint))
        elif output.path in named:
            errors.append(UsageError(f"{path} is named twice", place="-o", hint="each output needs a file of its own"))
        else:
            try:
                if not output.is_drawn:
                    format_of(output.path.name, place=f"-o {text}")
            except AttnError as error:
                error.hint = f"{error.hint}; to look at: {', '.join(drawn_suffixes())}"
                errors.append(error)
        named.add(output.path)
        outputs.append(output)
    raise_all(errors)
    return outputs


def _parse(text: str, address: Callable[[str], object]) -> Output:
    """`weights[2]=w.csv` names a step; what is before the `=` of `a=b.csv` is none, so that this is a file's name.

    Raises UsageError where that is a slip away from the name of a step.
    """
    step, equals, path = text.partition("=")
    if equals:
        try:
            address(step)
        except AttnError as error:
            name = step.partition("[")[0].strip()
            if address is not parse_address:
                name = name.rpartition(".")[2]  # of `encoder.weights`
            meant = nearest(name, NAMED_STEPS) if len(name) >= _LETTERS and "/" not in step else None
            if meant is None:
                return Output(Path(text), None)
            what, hint = f"unknown step {step!r}", f"did you mean {step.replace(name, meant)}?"
            if meant == name:  # it is something else that is wrong
                what, hint = error.what, f"{error.hint};"
            raise UsageError(what, place=f"-o {text}", hint=f"{hint} for a file of that name write ./{text}") from None
        return Output(Path(path), step.strip())
    return Output(Path(text), None)
