"""Large steps into .npy files block by block, none of them ever held as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import BinaryIO

from attncli.core.streamed import Stream
from attncli.core.trace import Trace
from attncli.errors import ShapeError
from attncli.lazy import np


def write_npy(
    stream: Stream,
    files: Mapping[str, BinaryIO],
    *,
    layout: str = "rows",
    progress: Callable[[float], None] | None = None,
) -> Trace:
    """Write the steps of a stream, each to its file, and return the steps that are small.

    layout columns: a step is m x n, which is the same bytes with the axes named the other way round.
    Raises ShapeError for columns with sequences or heads in front, whose bytes lie otherwise.
    """
    turned = layout == "columns"
    if turned and len(stream.shape) > 2:
        raise ShapeError("columns with sequences or heads cannot be written block by block", hint="--layout rows")
    header = {
        "descr": np.lib.format.dtype_to_descr(stream.dtype),
        "fortran_order": turned,
        "shape": stream.shape[::-1] if turned else stream.shape,
    }
    for file in files.values():
        np.lib.format.write_array_header_1_0(file, header)
    for done, (_, found) in enumerate(stream, start=1):
        for step, file in files.items():
            file.write(np.ascontiguousarray(found[step]).data)
        if progress is not None:
            progress(done / len(stream))
    return stream.trace()
