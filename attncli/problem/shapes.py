"""The shape of every step of a problem, told from the shapes of its matrices: nothing is computed.

Letters: n queries, m keys, d_k, d_v widths, H query heads, G key heads; leading axes are sequences. Tokens are rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from attncli.errors import InputError
from attncli.lazy import np
from attncli.pipeline.scores import SCORES
from attncli.pipeline.trace import NAMED_STEPS
from attncli.problem.problem import Problem

Shape: TypeAlias = tuple[int, ...]

# What brings a step about that not every problem has.
_COMES_OF = {
    "X": "`self X` and `cross X Y` begin at data", "Y": "`cross X Y` has it",
    "V": "V is missing: give it", "output": "V is missing: give it", "heads": "it comes of V and --heads, 2 or more",
    "kernel": "it comes of a kernel, such as --score gaussian", "scaled": "it comes of --scale",
    "capped": "it comes of --softcap", "biased": "it comes of --bias", "masked": "it comes of --mask",
    "exp": "it comes of --normalizer softmax", "sum": "it comes of --normalizer softmax",
    "lse": "it comes of --normalizer softmax",
    "weights_back": "it comes of `cross X Y --both-ways`", "output_back": "it comes of `cross X Y --both-ways`",
}  # fmt: skip


def step_shapes(problem: Problem) -> dict[str, Shape]:
    """The shapes of all steps that the problem has. Its sizes must fit (`size_errors` finds nothing)."""
    shapes = {name: _two_axes(name, array.shape) for name, array in problem.arrays().items()}
    steps: dict[str, Shape] = {name: shapes[name] for name in ("X", "Y") if name in shapes}
    steps |= _projected(problem, shapes)
    several = any(len(shapes[name]) >= 4 for name in ("Q", "K", "V", *filter(None, [problem.begins])) if name in shapes)
    scores, heads = _of_scores(problem, shapes, steps, several)
    steps |= dict.fromkeys(_score_steps(problem), scores)
    if problem.normalizer == "softmax" and problem.begins != "weights":
        steps |= {"exp": scores, "sum": (*scores[:-1], 1), "lse": (*scores[:-1], 1)}
    steps["weights"] = scores
    if "V" in steps:
        steps |= _outputs(problem, shapes, steps["V"], scores, heads, several)
    if problem.both_ways and problem.begins is None:
        weight, x = shapes.get("W_V"), steps["X"]
        width = weight[-1] if weight is not None else x[-1]
        lead = scores[:-2] if heads is None or several else scores[:-3]
        steps["weights_back"] = (*scores[:-2], scores[-1], scores[-2])
        steps["output_back"] = (*lead, scores[-1], width)
    return steps


def check_steps(problem: Problem, names: Iterable[str]) -> None:
    """Raise InputError where the problem does not have a step, before anything is computed."""
    steps, order = step_shapes(problem), list(NAMED_STEPS)
    for name in names:
        if name not in steps:
            begins = problem.begins
            before = begins is not None and order.index(name) < order.index(begins) and name != "V"
            mended = f"it begins at {begins}" if before else _COMES_OF.get(name, "")
            hint = f"it has: {', '.join(step for step in order if step in steps)}"
            raise InputError(f"this problem has no step {name!r}", hint=f"{mended}; {hint}" if mended else hint)


def _two_axes(name: str, shape: Shape) -> Shape:
    return (1, *shape) if len(shape) == 1 and not name.startswith("b_") else shape


def _projected(problem: Problem, shapes: dict[str, Shape]) -> dict[str, Shape]:
    """Q, K and V, past ones in front."""
    x, y = shapes.get("X"), shapes.get("Y", shapes.get("X"))
    sources = {"V": y} if problem.begins else {"Q": x, "K": y, "V": y}
    steps: dict[str, Shape] = {}
    for name, source in sources.items():
        weight = shapes.get(f"W_{name}")
        if name in shapes:
            steps[name] = shapes[name]
        elif source is not None:
            steps[name] = (*source[:-1], weight[-1] if weight is not None else source[-1])
    for name, past in (("K", shapes.get("past_k")), ("V", shapes.get("past_v"))):
        if name in steps and past is not None:
            now = steps[name]
            split = len(past) == len(now) + 1
            lead = np.broadcast_shapes(past[:-3] if split else past[:-2], now[:-2])
            steps[name] = (*lead, past[-2] + now[-2], now[-1])
    return steps


def _of_scores(
    problem: Problem, shapes: dict[str, Shape], steps: dict[str, Shape], several: bool
) -> tuple[Shape, int | None]:
    """(*batch, H, n, m), and H where there are heads."""
    if problem.begins:
        scores = shapes[problem.begins]
        heads = scores[-3] if several and len(scores) >= 3 else problem.heads
        return scores, heads
    q, k = steps["Q"], steps["K"]
    tail = (q[-2], k[-2])
    if not several:
        lead = np.broadcast_shapes(q[:-2], k[:-2])
        return (*lead, *((problem.heads,) if problem.heads else ()), *tail), problem.heads
    parts = [(1, *shape) if len(shape) == 2 else shape for shape in (q, k)]
    heads = max(shape[-3] for shape in (*parts, steps.get("V", parts[0])) if len(shape) >= 3)
    own = max(shape[-3] for shape in parts)  # values alone may have more heads
    return (*np.broadcast_shapes(*(shape[:-3] for shape in parts)), own, *tail), heads


def _score_steps(problem: Problem) -> list[str]:
    """The steps from the kernel to the mask that exist; the rules of `core.attend`, without the numbers."""
    begins, score = problem.begins, problem.score
    entry = SCORES.find(score.score) if score is not None and isinstance(score.score, str) else None
    scaled = problem.scale is not None or problem.temperature is not None
    scaled = scaled or (entry is not None and entry.scaled) or (begins == "scores" and score is None and problem.d_k is not None)
    has = {
        "kernel": begins == "kernel" or (begins is None and entry is not None and entry.kernel is not None),
        "scores": begins in (None, "kernel", "scores"),
        "scaled": begins == "scaled" or (scaled and begins in (None, "kernel", "scores")),
        "capped": problem.softcap is not None and begins not in ("masked", "weights"),
        "biased": "bias" in problem.inputs and begins not in ("masked", "weights"),
        "masked": begins == "masked" or (bool(problem.masks) and begins != "weights"),
    }
    return [name for name, exists in has.items() if exists]


def _outputs(
    problem: Problem, shapes: dict[str, Shape], v: Shape, scores: Shape, heads: int | None, several: bool
) -> dict[str, Shape]:
    """`heads` where there are several, and `output`."""
    weight, n = shapes.get("W_O"), scores[-2]
    steps: dict[str, Shape] = {}
    if heads is None:
        lead, width = np.broadcast_shapes(scores[:-2], v[:-2]), v[-1]
    else:
        width = v[-1] if several else v[-1] // (problem.kv_heads or heads)
        lead = np.broadcast_shapes(scores[:-3], v[:-3] if several else v[:-2])
        steps = {"heads": (*lead, heads, n, width)} if heads > 1 else {}
        width *= heads
    return {**steps, "output": (*lead, n, weight[-1] if weight is not None else width)}
