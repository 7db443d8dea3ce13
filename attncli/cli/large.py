"""Large problems: steps of n x m go into files block by block, and tables show rows of which no others are computed.

Letters: n queries, m keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

from attncli.cli import shared
from attncli.cli.outputs import Output, Outputs
from attncli.engine.stream import VISIBLE, Stream
from attncli.lazy import Array, np
from attncli.pipeline.trace import NAMED_STEPS, Trace
from attncli.problem.formats import FORMATS, format_of, writer
from attncli.problem.formats.base import ByRows
from attncli.problem.large import placed_by, sample, stream
from attncli.problem.plan import blueprint, plan_of
from attncli.problem.values import placed
from attncli.report.data import meta, parts
from attncli.report.look import Look
from attncli.report.renderers import RENDERERS, default_steps, render, told
from attncli.report.sheet import ENDS, MANY

if TYPE_CHECKING:
    from attncli.engine.blocks import Index
    from attncli.problem.formats.files import Content
    from attncli.problem.problem import Problem

Progress = Callable[[float], None]


# The bytes that a number takes on its way to text, measured; arrays are written as they are.
_BYTES = {"csv": 40, "tsv": 40, "txt": 40, "json": 85, "yaml": 60, "plain": 110}


class ByBlocks:
    """A large problem, what is to be printed of it (if it prints) and what is to be written.

    shown: the steps of tables. data: the steps that are printed whole, in other formats; beside: what is told of them.
    """

    def __init__(self, problem: Problem, outputs: Outputs, prints: bool, progress: Progress) -> None:
        self.problem, self.outputs, self.progress = problem, outputs, progress
        self.plan = blueprint(problem)
        self.written = {output: self._addresses(output) for output in outputs.files}
        options = problem.options
        self.top = options.get("top") if prints else None
        self.stats = prints and bool(options.get("stats"))
        self.format = options.get("format", "table")
        entry = RENDERERS.find(self.format)
        steps: list[str] = []
        if self.top is not None:
            steps = shared.beside_top(options, self.plan)
        elif prints:
            steps = shared.shown(options, self.plan) or default_steps(self.plan, entry.shows)
        for address in steps:
            self.plan.part(address)  # one that does not exist is told now
        self.shown, self.data = (steps, []) if entry.elides else ([], steps)
        if entry.data and steps:
            writer(self.format, parts(self.plan, steps), {})  # what the format cannot hold is told now
        self.beside: Mapping[str, Any] = {}
        self.trace: Trace | None = None
        self.notes: list[str] = []

    def _addresses(self, output: Output) -> list[str]:
        steps = self.outputs.steps_of(output, self.plan)
        with placed(f"-o {output.path}"):
            writer(output.path.name, parts(self.plan, steps), {})  # what its format cannot hold is told now
        return steps

    def is_possible(self) -> bool:
        """Whether by blocks of rows there is something to gain, and no step of n x m has to be held as a whole."""
        big = [
            (output, address)
            for output, addresses in self.written.items()
            for address in addresses
            if self.is_big(address)
        ]
        printed = self.printed_by_rows()
        gains = big or printed or self.shown or self.top is not None or self.stats
        by_rows = all(self._by_rows(format_of(output.path.name).name, address) for output, address in big)
        by_rows = by_rows and all(self._by_rows(self.format, address) for address in printed)
        return bool(gains) and by_rows and not (self.data and self.stats)

    def printed_by_rows(self) -> list[str]:
        """The steps of n x m that are printed whole, as data: a block of rows after the other, if that is possible."""
        return [address for address in self.data if self.is_big(address)]

    def check_text(self) -> None:
        """Whether the steps and their text fit into memory. Raises MachineError."""
        texts = [(self.format, self.data)] if self.data else []
        texts += [(format_of(output.path.name).name, steps) for output, steps in self.written.items()]
        besides = [
            _BYTES.get(format, 0) * self.plan[address].size
            for format, addresses in texts
            for address in addresses
            if self.is_big(address)
        ]
        plan_of(self.problem).check_memory(besides=max(besides, default=0))

    def pieces(self) -> Iterator[str | bytes]:
        """What is printed."""
        look = shared.look_of(self.problem.options)
        if self.shown:
            yield from render(self._table(), self.shown, look, self.format)
            yield "\n" if self.top is not None else ""
        if self.top is not None:
            yield from told(self._top(self.top, look), self.format)
        elif self.shown:
            pass
        elif self.printed_by_rows():
            yield from self._printed_by_rows(self.data[0])
        elif self.data:
            yield from shared.results(self.problem, self._solve_small(), self.beside)
        if self.stats:
            yield "\n"
            yield from told(self._stats(look), self.format)

    def _by_rows(self, format: str, address: str) -> ByRows | None:
        """How a file of that format takes a step some rows at a time, if it can; in an .npz each step is an .npy."""
        entry = FORMATS.find("npy" if format == "npz" else format) if format in FORMATS else None
        by_rows = entry.by_rows if entry else None
        if by_rows is None:
            return None
        found: ByRows | None = by_rows(parts(self.plan, [address])[address], self.problem.layout, self.problem.options)
        return found

    def is_big(self, address: str) -> bool:
        """Whether it is a step of n x m. Raises InputError for one that the problem does not have."""
        return NAMED_STEPS[self.plan.part(address)[0]].columns == "key"

    def _printed_by_rows(self, address: str) -> Iterator[bytes]:
        """The text of a step of n x m, a block at a time."""
        how, (step, index) = self._by_rows(self.format, address), self.plan.part(address)
        assert how is not None
        if self.problem.empty_rows == "error":
            self._check_all_rows()
        found = stream(self.problem, [step], parts=None if index is None else {index})
        yield how.head
        with closing(iter(found)) as blocks:
            for unit, block in blocks:
                yield from map(bytes, how.rows(block[step], unit.start))
        self.notes += self.problem.dressed(found.trace()).notes

    def _small(self) -> list[str]:
        """The steps of n rows that are written or printed as data."""
        asked = [*self.data, *(address for addresses in self.written.values() for address in addresses)]
        return [address for address in dict.fromkeys(asked) if not self.is_big(address)]

    def _solve_small(self) -> Trace:
        """What is printed as data, and what else is small, before anything is written."""
        self.trace = self.problem.solve(self._small(), self.progress)
        return self.trace

    def _table(self) -> Trace:
        """The rows that tables show."""
        n = self.plan.rows("weights").shape[-2]
        if self.problem.empty_rows == "error":
            self._check_all_rows()
        rows = [slice(None)] if n <= MANY else [slice(ENDS), slice(-ENDS, None)]
        trace = sample(self.problem, self.shown, rows, self.progress)
        self.notes += trace.notes
        return trace

    def _check_all_rows(self) -> None:
        """Whether some query sees no key, which is an error: those that are not shown count too."""
        with placed_by(self.problem):
            for _ in self._blocks(["weights"]):
                pass

    def _blocks(self, addresses: Sequence[str]) -> Iterator[tuple[str, int, dict[str, Array], Array | None]]:
        """Steps row block by row block: (address of the weights, first row, steps, hidden cells)."""
        steps = [self.plan.part(address) for address in addresses]
        indices = {index for _, index in steps}
        wanted = None if None in indices else {index for index in indices if index is not None}
        found = stream(self.problem, [step for step, _ in steps], parts=wanted, visible=True)
        for done, (unit, block) in enumerate(found, start=1):
            visible = block.pop(VISIBLE)
            hidden = None if visible.all() else ~np.broadcast_to(visible, block["weights"].shape)
            address = f"weights[{','.join(str(i + 1) for i in unit.index)}]" if unit.index else "weights"
            yield address, unit.start, block, hidden
            self.progress(done / len(found))
        self.notes += self.problem.dressed(found.trace()).notes

    def _top(self, count: int, look: Look) -> list[str]:
        """The lines of --top."""
        from attncli.report.top import top_of_blocks

        asked = shared.listed(self.problem.options)
        rows = ((address, start, block["weights"], hidden) for address, start, block, hidden in self._blocks(asked))
        with placed_by(self.problem):
            return list(top_of_blocks(rows, self.plan, count, look))

    def _stats(self, look: Look) -> list[str]:
        """The lines of --stats."""
        from attncli.report.stats import SCORED, stats_of_blocks

        steps = [step for step in (*SCORED, "weights") if step in self.plan]
        rows = ((address, block, hidden) for address, _, block, hidden in self._blocks(steps))
        with placed_by(self.problem):
            return list(stats_of_blocks(rows, self.plan, look))

    def write(self) -> list[str]:
        """Write all files, or none; gives notes that name them."""
        contents = self._matrices()
        if self.trace is None and self._small() and not contents:
            self._solve_small()
        for output, addresses in self.written.items():
            if str(output.path) not in contents:
                contents[str(output.path)] = partial(self._write_one, output, addresses)
        with placed_by(self.problem):
            told = self.outputs.write_contents(contents, self.written)
        # What is told of all rows says more than what is told of those that are shown.
        self.notes = self.trace.notes if self.trace is not None else self.notes
        return told

    def _matrices(self) -> dict[str, Content]:
        """All big steps that go into files of one matrix, written in one pass, from which the small ones come too."""
        from attncli.problem.formats.by_rows import Target, write_blocks
        from attncli.problem.formats.files import Together

        big: dict[str, tuple[str, Index | None, ByRows]] = {}
        for output, addresses in self.written.items():
            format = format_of(output.path.name)
            if not format.several and self.is_big(addresses[0]):
                how = self._by_rows(format.name, addresses[0])
                assert how is not None
                big[str(output.path)] = *self.plan.part(addresses[0]), how
        if not big:
            return {}
        small = [] if self.trace is not None else self._small()
        indices = {index for _, index, _ in big.values()}
        wanted = None if small or None in indices else {index for index in indices if index is not None}
        found = stream(self.problem, [*(step for step, _, _ in big.values()), *small], parts=wanted)

        def fill(files: Mapping[str, BinaryIO]) -> None:
            targets = [Target(step, index, files[name], how) for name, (step, index, how) in big.items()]
            write_blocks(found, targets, self.progress)
            self.trace = self.trace or self.problem.dressed(found.trace())

        return dict.fromkeys(big, Together(fill))

    def _write_one(self, output: Output, addresses: list[str], file: BinaryIO) -> None:
        """A file of small steps; or an .npz, each big step of which is a pass of its own."""
        from attncli.problem.formats.npz import write_members

        trace = self.trace or self.plan
        if not any(map(self.is_big, addresses)):
            told = meta(trace) if output.several else self.problem.options
            writer(output.path.name, parts(trace, addresses), told)(file)
            return
        write_members(file, {address: partial(self._write_member, address) for address in addresses})

    def _write_member(self, address: str, file: BinaryIO) -> None:
        from attncli.problem.formats.by_rows import Target, write_blocks
        from attncli.problem.formats.npy import write_array

        if not self.is_big(address):
            assert self.trace is not None
            write_array(file, self.trace[address])
            return
        (step, index), how = self.plan.part(address), self._by_rows("npy", address)
        assert how is not None
        found: Stream = stream(self.problem, [step], parts=None if index is None else {index})
        write_blocks(found, [Target(step, index, file, how)], self.progress)
        self.notes += self.problem.dressed(found.trace()).notes
