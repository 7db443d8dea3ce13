"""Large steps into .npy and .npz files block by block, none of them ever held as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from attncli.errors import ShapeError
from attncli.lazy import np

if TYPE_CHECKING:
    from attncli.core.streamed import Stream
    from attncli.core.visibility import Index


class Target(NamedTuple):
    """A file for a step, or, with a part (*batch, H) from 0, for the matrix of one sequence and head."""

    step: str
    part: Index | None
    file: BinaryIO


def can_stream(shape: tuple[int, ...], layout: str) -> bool:
    """Whether a step of that shape (or a part of it) can be written block by block.

    In columns a step is m x n, which is the same bytes with the axes named the other way round; not so with sequences
    or heads in front.
    """
    return layout == "rows" or len(shape) <= 2


def write_npy(
    stream: Stream,
    targets: Iterable[Target],
    *,
    layout: str = "rows",
    progress: Callable[[float], None] | None = None,
) -> None:
    """Write the steps of a stream, each to its files; afterwards `stream.trace()` has the steps that are small.

    Raises ShapeError for columns with sequences or heads in front.
    """
    targets = list(targets)
    for target in targets:
        _write_header(stream, target, layout)
    with closing(iter(stream)) as blocks:  # its threads end with it
        for done, (unit, found) in enumerate(blocks, start=1):
            for step, part, file in targets:
                if part in (None, unit.index):
                    file.write(np.ascontiguousarray(found[step]).data)
            if progress is not None:
                progress(done / len(stream))


def _write_header(stream: Stream, target: Target, layout: str) -> None:
    shape = stream.shape if target.part is None else stream.shape[-2:]
    if not can_stream(shape, layout):
        raise ShapeError("columns with sequences or heads cannot be written block by block", hint="--layout rows")
    turned = layout == "columns"
    header = {
        "descr": np.lib.format.dtype_to_descr(stream.dtype),
        "fortran_order": turned,
        "shape": shape[::-1] if turned else shape,
    }
    np.lib.format.write_array_header_1_0(target.file, header)
