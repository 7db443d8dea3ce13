"""Which inputs are known to their written places only."""

from __future__ import annotations

from attncli.lazy import Array, np
from attncli.problem.matrix import Matrix
from attncli.problem.problem import Problem
from attncli.verify.frame import Frame
from attncli.verify.written import as_written


def half_units(problem: Problem, frame: Frame) -> dict[str, Array]:
    """Half a unit of the last place of each number that was written with a decimal point, by the input's name.

    Shaped as the arrays of `Frame.inputs`; inputs without any such number are left out.
    """
    found = {}
    for name, matrix in problem.inputs.items():
        if not isinstance(matrix, Matrix) or matrix.spelling is None or name not in frame.inputs:
            continue
        written = as_written(matrix.array, matrix.spelling())
        pointed = written.unit < 1
        if not pointed.any():
            continue
        half = np.where(pointed, written.unit / 2, 0)
        turned = problem.weight_layout == "out-in" if name.startswith("W_") else problem.layout == "columns"
        if turned and half.ndim >= 2 and not name.startswith("b_"):
            half = half.mT
        if half.size == frame.inputs[name].size:
            found[name] = half.reshape(frame.inputs[name].shape)
    return found
