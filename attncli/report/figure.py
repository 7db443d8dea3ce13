"""A figure that a notebook shows by itself, whether or not pyplot was loaded there."""

from __future__ import annotations

import io

from matplotlib.figure import Figure


class Drawing(Figure):
    """A Figure of matplotlib with the picture that notebooks ask for."""

    def _repr_png_(self) -> bytes:
        stream = io.BytesIO()
        self.savefig(stream, format="png")
        return stream.getvalue()
