"""Large steps into files block by block, none of them ever held as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from attncli.problem.formats.base import ByRows

if TYPE_CHECKING:
    from attncli.engine.blocks import Index
    from attncli.engine.stream import Stream


class Target(NamedTuple):
    """A file for a step, or, with a part (*batch, H) from 0, for the matrix of one sequence and head."""

    step: str
    part: Index | None
    file: BinaryIO
    how: ByRows


def write_blocks(stream: Stream, targets: Iterable[Target], progress: Callable[[float], None] | None = None) -> None:
    """Write the steps of a stream, each to its files; afterwards `stream.trace()` has the steps that are small."""
    targets = list(targets)
    for target in targets:
        target.file.write(target.how.head)
    with closing(iter(stream)) as blocks:  # its threads end with it
        for done, (unit, found) in enumerate(blocks, start=1):
            for step, part, file, how in targets:
                if part in (None, unit.index):
                    file.writelines(how.rows(found[step], unit.start))
            if progress is not None:
                progress(done / len(stream))
