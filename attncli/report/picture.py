"""A step as a picture: a heat map for each of its matrices, heads side by side, sequences one under the other."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from attncli.errors import UsageError, unknown
from attncli.lazy import Array, np
from attncli.report.fonts import families
from attncli.report.look import fold

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SEQUENTIAL, DIVERGING = "viridis", "PuOr_r"  # both are read by those who tell red and green not apart
_ACROSS = 4  # heads in a row, where there is one sequence
_MOST_PANELS = 144
_WIDEST, _HIGHEST = 16.0, 20.0  # inches, unless --size says so
_DIGIT, _LINE = 0.072, 0.17  # inches of a character and of a line of 8 points
_FOLDED, _LINES = 24, 3  # characters and lines of a label
_FRAMES = {"wrong": ("#d7191c", "-", "wrong (!)"), "follows": ("#e6a100", "--", "follows")}
_METADATA: dict[str, dict[str, Any]] = {  # without dates and versions the same picture has the same bytes
    "svg": {"Date": None, "Creator": "attncli"},
    "pdf": {"CreationDate": None, "Creator": "attncli", "Producer": None},
    "png": {"Software": None},
}


@dataclass
class Panel:
    """One matrix: labels and texts of its cells as they are shown, its numbers, and which cells are hidden.

    frames: cells to frame, by what is said of them: wrong or follows.
    """

    title: str
    row_labels: list[str]
    column_labels: list[str]
    texts: list[list[str]]
    numbers: Array
    hidden: Array
    frames: Mapping[tuple[int, int], str] = field(default_factory=dict)


@dataclass
class Picture:
    """What is to be drawn. title: above all; bar: beside the colours; axes: what rows and columns count.

    across: how many panels stand side by side, None for as many as look well.
    """

    title: str
    bar: str
    axes: tuple[str, str]
    panels: list[Panel]
    across: int | None = None
    cmap: str | None = None
    limits: tuple[float, float] | None = None
    size: tuple[float, float] | None = None
    notes: list[str] = field(default_factory=list)


def drawn(picture: Picture, format: str) -> bytes:
    """The bytes of the picture as svg, png or pdf, the same for the same numbers. Raises as `figure` does."""
    stream = io.BytesIO()
    with _style(picture):
        figure(picture).savefig(stream, format=format, dpi=150, metadata=_METADATA[format])
    return stream.getvalue()


def figure(picture: Picture) -> Figure:
    """The picture as a Figure. Raises UsageError without matplotlib, and for too many matrices."""
    require()
    if len(picture.panels) > _MOST_PANELS:
        raise UsageError(f"{len(picture.panels)} matrices are too many for a picture", hint="name one, as weights[1]")
    from attncli.report.figure import Drawing

    with _style(picture):
        rows, across = _grid(picture)
        made: Figure = Drawing(figsize=picture.size or _size(picture, rows, across), layout="constrained")
        grid = made.subplots(rows, across, squeeze=False)
        colours, low, high = _colours(picture)
        from matplotlib.colors import Normalize

        norm = Normalize(low, high)
        places = list(grid.flat)
        for place in places[len(picture.panels) :]:
            place.remove()
        for axes, panel in zip(places, picture.panels, strict=False):
            _draw(axes, panel, picture, colours, norm)
        from matplotlib.cm import ScalarMappable

        bar = made.colorbar(ScalarMappable(norm, colours), ax=places[: len(picture.panels)], pad=0.02)
        bar.set_label(picture.bar, parse_math=False)
        made.suptitle("\n".join(fold(picture.title, 90)[:_LINES]), parse_math=False, fontsize=10)
        _legend(made, picture)
        made.draw_without_rendering()
        made.set_layout_engine("none")
        for axes, panel in zip(places, picture.panels, strict=False):
            _number(axes, panel, lambda x: tuple(colours(norm(x))))
    return made


def require() -> None:
    """Raise UsageError where matplotlib is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        hint = "python3 -m pip install 'attncli[plot]'"
        raise UsageError("pictures need matplotlib, which is not installed", hint=hint) from None


def check_look(options: Mapping[str, Any]) -> dict[str, Any]:
    """--cmap, --range and --size in the words of Picture. Raises UsageError and InputError."""
    told: dict[str, Any] = {}
    if options.get("cmap"):
        require()
        from matplotlib import colormaps

        if options["cmap"] not in colormaps:
            known = ["viridis", "cividis", "magma", "Blues", "Greys", "PuOr", "RdBu"]
            raise unknown("colour map", options["cmap"], known, place="--cmap")
        told["cmap"] = options["cmap"]
    if options.get("range"):
        low, high = _two("range", options["range"], ",", "--range 0,1")
        if not low < high:
            raise UsageError(f"{options['range']!r} holds no numbers", place="--range", hint="LOW,HIGH, LOW first")
        told["limits"] = (low, high)
    if options.get("size"):
        size = _two("size", options["size"], "x", "--size 8x6, in inches")
        if not all(0.5 <= side <= 100 for side in size):
            raise UsageError(f"{options['size']!r} is no size", place="--size", hint="from 0.5 to 100 inches a side")
        told["size"] = size
    return told


def _two(name: str, text: str, between: str, example: str) -> tuple[float, float]:
    import math

    try:
        first, second = (float(part) for part in text.lower().split(between))
        if not (math.isfinite(first) and math.isfinite(second)):
            raise ValueError
    except ValueError:
        raise UsageError(f"{text!r} is not two numbers", place=f"--{name}", hint=f"as in {example}") from None
    return first, second


@contextmanager
def _style(picture: Picture) -> Iterator[None]:
    """A context in which no settings of the user's own, nor of the time, change the picture."""
    require()
    import matplotlib.style

    texts = [picture.title, picture.bar]
    for panel in picture.panels:
        texts += [panel.title, *panel.row_labels, *panel.column_labels]
    found, missing = families("".join(texts))
    if missing:
        picture.notes = [f"no font here has {' '.join(missing)}: a box stands for each"]
    own = {"font.family": found, "font.size": 8, "svg.hashsalt": "attncli", "hatch.linewidth": 0.5}
    with matplotlib.style.context(["default", own]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing|constrained_layout not applied")  # the first a note tells
        yield


def _grid(picture: Picture) -> tuple[int, int]:
    count = len(picture.panels)
    across = picture.across or min(count, _ACROSS)
    return -(-count // across), across


def _size(picture: Picture, rows: int, across: int) -> tuple[float, float]:
    """Inches that hold every number, unless that would be too large a sheet."""
    n = max(len(panel.row_labels) for panel in picture.panels)
    m = max(len(panel.column_labels) for panel in picture.panels)
    longest = max((len(text) for panel in picture.panels for row in panel.texts for text in row), default=1)
    labels = max(
        (len(line) for panel in picture.panels for text in panel.row_labels for line in _folded(text)), default=1
    )
    width = across * (m * (longest * _DIGIT + 0.1) + labels * _DIGIT + 0.5) + 1.2
    height = rows * (n * (_LINE + 0.12) + 1.0) + 0.6
    return min(max(width, 4.0), _WIDEST), min(max(height, 2.5), _HIGHEST)


def _colours(picture: Picture) -> tuple[Any, float, float]:
    """The colour map, and the numbers at its ends: from 0 on, or as far below 0 as above where some are negative."""
    from matplotlib import colormaps

    seen = [panel.numbers[np.isfinite(panel.numbers) & ~panel.hidden] for panel in picture.panels]
    numbers = np.concatenate([each.ravel() for each in seen]) if seen else np.zeros(1)
    lowest, highest = (float(numbers.min()), float(numbers.max())) if numbers.size else (0.0, 1.0)
    signed = lowest < 0
    reach = max(-lowest, highest)
    low, high = picture.limits or ((-reach, reach) if signed else (0.0, highest))
    if not low < high:
        low, high = low, low + 1.0
    return colormaps[picture.cmap or (DIVERGING if signed else SEQUENTIAL)].with_extremes(bad="#ffffff"), low, high


def _folded(label: str) -> list[str]:
    lines = fold(label, _FOLDED)
    return lines if len(lines) <= _LINES else [*lines[: _LINES - 1], lines[_LINES - 1][:-1] + "…"]


def _draw(axes: Axes, panel: Panel, picture: Picture, colours: Any, norm: Any) -> None:
    """The colours, hatches, frames and labels of one matrix."""
    numbers = np.ma.masked_where(panel.hidden | ~np.isfinite(panel.numbers), panel.numbers)
    n, m = numbers.shape
    small = n * m <= 1 << 14  # of more, single cells of a vector picture would take long to show
    draw: Callable[..., Any] = axes.pcolormesh if small else axes.imshow
    how = {"edgecolors": "face", "linewidth": 0.1} if small else {"aspect": "auto", "interpolation": "nearest"}
    draw(numbers, cmap=colours, norm=norm, **how)
    start = 0.0 if small else -0.5
    axes.set_xlim(start, start + m)
    axes.set_ylim(start + n, start)
    if panel.hidden.any():
        from matplotlib.collections import PolyCollection

        corners = [[(j, i), (j + 1, i), (j + 1, i + 1), (j, i + 1)] for i, j in np.argwhere(panel.hidden) + start]
        axes.add_collection(
            PolyCollection(corners, facecolor="#f2f2f2", edgecolor="#8c8c8c", hatch="////", linewidth=0)
        )
    from matplotlib.patches import Rectangle

    for (i, j), verdict in panel.frames.items():
        colour, line, _ = _FRAMES[verdict]
        inset = 0.06
        corner, side = (j + start + inset, i + start + inset), 1 - 2 * inset
        axes.add_patch(Rectangle(corner, side, side, fill=False, edgecolor=colour, linestyle=line, linewidth=2))
    _label(axes, panel, picture, start + 0.5)


def _label(axes: Axes, panel: Panel, picture: Picture, middle: float) -> None:
    """The labels of rows and columns, of many only so many as have room."""
    figure: Any = axes.figure
    width, height = figure.get_size_inches()
    rows, across = _grid(picture)
    n, m = len(panel.row_labels), len(panel.column_labels)
    down = max(1, round(n * _LINE / max(height / rows - 1.0, 0.5)))
    right = max(1, round(m * _LINE / max(width / across - 1.0, 0.5)))
    labels = ["\n".join(_folded(label)) for label in panel.column_labels]
    longest = max((len(line) for label in labels for line in label.split("\n")), default=0)
    turned = longest * _DIGIT > max(width / across - 1.2, 0.5) / max(m, 1)
    axes.set_xticks(np.arange(0, m, right) + middle, labels[::right], rotation=90 if turned else 0, parse_math=False)
    names = ["\n".join(_folded(label)) for label in panel.row_labels]
    axes.set_yticks(np.arange(0, n, down) + middle, names[::down], parse_math=False)
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.tick_params(length=0)
    axes.set_ylabel(picture.axes[0])
    axes.set_xlabel(picture.axes[1])
    if panel.title:
        axes.set_title(panel.title, fontsize=9, parse_math=False)


def _number(axes: Axes, panel: Panel, colour: Callable[[float], tuple[float, ...]]) -> None:
    """The numbers in the cells, if all of them fit."""
    n, m = panel.numbers.shape
    longest = max((len(text) for row in panel.texts for text in row), default=0)
    box = axes.get_window_extent()
    dpi = axes.figure.dpi
    if not n * m or longest * _DIGIT > box.width / dpi / m or box.height / dpi / n < _LINE * 0.8:
        return
    start = min(axes.get_xlim()) + 0.5
    for (i, j), number in np.ndenumerate(panel.numbers):
        if panel.hidden[i, j]:
            continue
        shade = colour(number)[:3] if np.isfinite(number) else (1.0, 1.0, 1.0)
        ink = "black" if 0.299 * shade[0] + 0.587 * shade[1] + 0.114 * shade[2] > 0.5 else "white"
        axes.text(
            j + start, i + start, panel.texts[i][j], ha="center", va="center", color=ink, fontsize=8, parse_math=False
        )


def _legend(made: Figure, picture: Picture) -> None:
    """What frames and hatches mean, where there are any."""
    from matplotlib.patches import Patch

    verdicts: Sequence[str] = [
        each for each in _FRAMES if any(each in panel.frames.values() for panel in picture.panels)
    ]
    handles = [
        Patch(fill=False, edgecolor=_FRAMES[each][0], linestyle=_FRAMES[each][1], linewidth=2, label=_FRAMES[each][2])
        for each in verdicts
    ]
    if any(panel.hidden.any() for panel in picture.panels):
        handles.append(Patch(facecolor="#f2f2f2", edgecolor="#8c8c8c", hatch="////", linewidth=0, label="hidden"))
    if handles:
        made.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8, frameon=False)
