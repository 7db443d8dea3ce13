"""What memory a problem needs, told from shapes before anything is computed; what would not fit is refused.

Letters: n queries, m keys.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from math import prod

from attncli.engine.memory import in_words, memory_available
from attncli.engine.plan import SMALL as STREAMED
from attncli.errors import MachineError
from attncli.lazy import Array, np
from attncli.pipeline.dtypes import common_dtype
from attncli.pipeline.trace import NAMED_STEPS
from attncli.problem.matrix import Matrix
from attncli.problem.problem import Problem
from attncli.problem.shapes import step_shapes

# What blocks take on each thread, measured; and the program itself.
THREAD = 32 * 2**20
ASIDE = 32 * 2**20
# Arrays of n x m that the definition holds at once besides the steps, measured: of softmax, of one that sorts.
_PASSING, _SORTING = 2, 6
# So few scores fit anywhere, and what they need is not counted.
_FEW = 2**22


def computed_dtype(problem: Problem) -> np.dtype:
    """What the problem is computed in, by the rule of dtypes."""
    parameters = problem.score.parameters if problem.score else {}
    given = {name: value.array for name, value in parameters.items() if isinstance(value, Matrix)}
    return common_dtype(problem.arrays() | given, problem.dtype)


def memory_by_step(problem: Problem, keep: Collection[str] | None, *, by_blocks: bool) -> dict[str, int]:
    """The bytes that each step takes besides the inputs; under "blocks", "passing" and "aside" what is held besides.

    keep: the steps asked for, None for all but those that are computed on request. by_blocks: no n x m is held.
    """
    shapes, size = step_shapes(problem), computed_dtype(problem).itemsize
    held = [name for name, step in NAMED_STEPS.items() if name in shapes and name not in problem.inputs]
    if by_blocks:
        held = [name for name in held if name in {"Q", "K", "V", "output"} or (name == "lse" and name in (keep or ()))]
    else:
        held = [name for name in held if not NAMED_STEPS[name].on_request or (keep is not None and name in keep)]
    needed = {name: prod(shapes[name]) * size for name in held}
    if by_blocks:
        return needed | {"blocks": THREAD * (os.cpu_count() or 1), "aside": ASIDE}
    arrays = problem.arrays().values()
    converted = sum(array.size * size for array in arrays if _is_copied(array, size))
    passing = _PASSING if problem.normalizer == "softmax" else _SORTING
    return needed | {"passing": passing * prod(shapes["weights"]) * size + converted, "aside": ASIDE}


def _is_copied(array: Array, size: int) -> bool:
    """Whether it is computed with a copy, of numbers of that many bytes: of another type, or of rows that overlap."""
    other = array.dtype.itemsize != size or array.dtype.kind != "f"
    return other or not (array.flags.c_contiguous or array.flags.f_contiguous or array.base is None)


def check_memory(problem: Problem, keep: Collection[str] | None, *, by_blocks: bool, besides: int = 0) -> None:
    """Refuse, with the number and the way out, what would not fit. Raises MachineError.

    besides: bytes that are needed for what becomes of the steps, such as their text.
    """
    arrays = [matrix.array for matrix in problem.inputs.values() if isinstance(matrix, Matrix)]
    numbers = sum(array.size for array in arrays)
    few = numbers**2 * (problem.heads or 1) < _FEW and all(array.size for array in arrays)
    if few or all(prod(shape) < _FEW for shape in step_shapes(problem).values()):
        return  # there are no more queries, and no more keys, than numbers, unless an axis of size 0 hides them
    needed, there = sum(memory_by_step(problem, keep, by_blocks=by_blocks).values()) + besides, memory_available()
    if there is not None and needed > there:
        whole = not by_blocks or not STREAMED.issuperset(keep or NAMED_STEPS)
        raise MachineError(
            f"this needs {in_words(needed)} of memory, but {in_words(there)} are free",
            hint="--show output, or -o weights=FILE.npy, holds one block at a time"
            if whole
            else "--dtype float32 halves it",
        )
