"""A factor that nobody asked for: all numbers of a step, or all scores before it, multiplied by the same number.

An entry as in `mistakes.py`; the factor is fitted to the hand's numbers, and told as simply as they allow.
"""

from __future__ import annotations

from attncli.lazy import Array, np
from attncli.verify.given import Given
from attncli.verify.mistakes import Change, Changes, mistake, number

_SURE = 0.05  # of a number: what half its last place may be, for it to show a factor


@mistake(
    "constant-factor", at=("scaled", "Q", "K", "V", "scores", "weights", "heads", "output"), simplicity=7, late=True
)
def constant_factor(given: Given) -> Changes:
    """All numbers of a step differ by one factor, which none of the known mistakes gives."""
    if given.wrong.sum() < 2:
        return
    for step, base in _factored(given):
        start = given.logits if step == "masked" else given[base]
        if step != given.target and not _is_shown(start):
            continue
        if step not in given.factors:
            fit = _ratio if step == given.target else _fit
            given.factors[step] = list(dict.fromkeys(fit(given, step, start, at) for at in range(len(start))))
        for factor in given.factors[step]:
            if np.isfinite(factor) and abs(factor - 1) > 1e-9 and (step != "masked" or factor > 0):
                told = "weights" if step == "masked" and step != given.target else step
                yield Change({step: start * factor}, _factor_text(given, step, factor), told)


def _factored(given: Given) -> list[tuple[str, str]]:
    """The steps that a factor is looked for in, and of what it is one: the wrong step, and the scores before it."""
    found = [(given.target, given.target)]
    if given.target in ("exp", "sum", "weights", "heads", "output"):
        if "scaled" in given.open:
            found.append(("scaled", "scores"))
        elif "weights" in given.open:
            found.append(("masked", "masked"))
    elif given.target == "scaled":
        found = [("scaled", "scores")]
    elif "scaled" in given.open and given.target not in ("Q", "K", "V", "kernel", "scores"):
        found.append(("scaled", "scores"))
    return [(step, base) for step, base in found if base in given or step == "masked"]


def _is_shown(logits: Array) -> bool:
    """Whether a factor of scores shows in several numbers: a softmax sees only what lies between those of a row."""
    finite = np.where(np.isneginf(logits), np.nan, logits)
    with np.errstate(all="ignore"):
        apart = np.nanmax(np.where(np.isnan(finite), -np.inf, finite), axis=-1, keepdims=True) - finite
    return len(np.unique(np.round(apart[apart > 1e-9], 9))) > 1


def _factor_text(given: Given, step: str, factor: float) -> str:
    unexplained = "a factor that nothing in this problem explains"
    if step == "scaled":
        right = f", not by {number(given.scale)}" if given.has_scale else ""
        divided = f" (divided by {number(1 / factor)})" if factor else ""
        return f"the scores were multiplied by about {number(factor)}{divided}{right}: {unexplained}"
    if step == "masked" and step != given.target:
        return f"the scores were multiplied by about {number(factor)} before the softmax: {unexplained}"
    what = {"output": "outputs", "heads": "heads' results", "scaled": "scaled scores"}.get(step, step)
    return f"all {what} are multiplied by about {number(factor)}, {unexplained}"


def _ratio(given: Given, step: str, start: Array, at: int) -> float:
    """The factor between the hand's numbers and the right ones (those at `at`): the simplest that fits all cells."""
    x, h, u = given.as_exact(start)[at], given.numbers.value, given.numbers.unit
    if given.numbers.whole and np.array_equal(x, np.rint(x)):
        u = np.zeros(u.shape)  # whole numbers of whole ones are no rounded ones
    # Rounded, h stands for half a unit to either side; cut, for what follows up to the next one.
    beyond = np.where(h == 0, 1, np.sign(h)) * u * (1 - 1e-9)
    for below, above in ((h - u / 2, h + u / 2), (np.where(h == 0, -beyond, h), h + beyond)):
        ends = np.stack([below / x, above / x])
        usable = np.isfinite(ends).all(axis=0) & (x != 0) & ~given.numbers.blank
        if (usable & (u / 2 <= _SURE * np.abs(h))).sum() < 2:  # too few digits to show that it is one factor
            return float("nan")
        low, high = float(ends.min(axis=0)[usable].max()), float(ends.max(axis=0)[usable].min())
        if low <= high:
            return simplest(low, high)
    return float("nan")


def simplest(low: float, high: float) -> float:
    """The number of fewest digits between the two, of itself or of its inverse."""
    for digits in range(7):
        unit = 10.0**-digits
        for candidate in (round((low + high) / 2 / unit) * unit, np.ceil(low / unit) * unit):
            if candidate and low <= candidate <= high:
                return float(candidate)
        if low > 0:
            inverse = round(2 / (low + high) / unit) * unit
            if inverse and low <= 1 / inverse <= high:
                return float(1 / inverse)
    return (low + high) / 2


def _fit(given: Given, step: str, start: Array, at: int) -> float:
    """The factor of an earlier step that comes closest to the hand's numbers, by a search that closes in."""
    numbers = given.numbers
    factors = np.concatenate([2.0 ** np.arange(-6, 6.01, 0.25), -(2.0 ** np.arange(-3, 3.01, 0.5))])
    best, width = 1.0, None
    unit = np.where(numbers.unit > 0, numbers.unit, 1e-9)
    for _ in range(5):
        stack = start[None] * factors.reshape(-1, *(1,) * start.ndim)
        made = given.as_exact(given.run({step: stack}))
        if len(made) != len(factors):  # nothing comes of this step
            return 1.0
        off = np.abs(made[:, at] - numbers.value) / unit
        worst = np.where(numbers.blank, 0, np.nan_to_num(off, nan=np.inf)).reshape(len(factors), -1).max(axis=1)
        best = float(factors[worst.argmin()])
        width = 0.19 * abs(best) if width is None else width / 6
        near = np.flatnonzero(worst <= 0.5)
        if len(near) >= 3 and near[-1] - near[0] == len(near) - 1:
            return simplest(float(factors[near[0]]), float(factors[near[-1]]))
        factors = best + width * np.linspace(-1, 1, 17)
    return best
