"""The numbers that a problem expects, to stand beside the right ones in an explanation."""

from __future__ import annotations

from attncli.errors import AttnError
from attncli.lazy import Array, np
from attncli.pipeline.trace import Trace
from attncli.problem.problem import Problem
from attncli.problem.values import Hand
from attncli.working.lines import Line


class Expected:
    """What is written under `expect:`, cell by cell. notes: what of it does not fit its step."""

    def __init__(self, problem: Problem, trace: Trace) -> None:
        self.notes: list[str] = []
        self._parts: dict[str, list[tuple[tuple[int, ...] | None, Array]]] = {}
        for address, hand in problem.expect.items():
            try:
                step, leading = trace.part(address)
                shape = trace[address].shape
            except AttnError as error:
                self.notes.append(f"expect: {address} is not shown: {error.what}")
                continue
            texts = _texts(hand)
            if [size for size in texts.shape if size != 1] != [size for size in shape if size != 1]:
                sizes = [" x ".join(map(str, each)) or "one number" for each in (texts.shape, shape)]
                self.notes.append(f"expect: {address} is not shown: it is {sizes[0]}, but the step is {sizes[1]}")
                continue
            texts = texts.reshape(shape)
            rows = np.swapaxes(texts, -1, -2) if trace.layout == "columns" else texts
            self._parts.setdefault(step, []).append((leading, rows))

    def of(self, line: Line) -> str | None:
        """The number of a line as it was written; None where nothing was."""
        row, column = [at for _, at in line.places] + [0] * (2 - len(line.places))
        for part, rows in self._parts.get(line.cell.step, ()):
            sizes = rows.shape[:-2] if part is None else ()
            own = line.leading[len(line.leading) - len(sizes) :]
            cell = rows[(*(min(at, size - 1) for at, size in zip(own, sizes, strict=True)), row, column)]
            if part in (None, line.leading) and cell is not None:
                return str(cell)
        return None


def _texts(hand: Hand) -> Array:
    """The numbers as they were written, None where there is none."""
    array = hand.matrix.array
    if hand.matrix.spelling is not None:
        return np.array(hand.matrix.spelling(), dtype=object).reshape(array.shape)
    found = np.array([None if np.isnan(x) else f"{x:.12g}" for x in array.ravel().tolist()], dtype=object)
    return found.reshape(array.shape)
