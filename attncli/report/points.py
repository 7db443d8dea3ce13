"""Points for the steps of a hand calculation, as `--points scores=2,weights=3` asks for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from attncli.errors import UsageError
from attncli.pipeline.trace import parse_address
from attncli.problem.values import placed
from attncli.verify.verdicts import BLANK, WRONG, CheckResult, StepMark


@dataclass(frozen=True)
class Points:
    """What each step is worth: all its points unless it is wrong, none where nothing of it was written.

    partial: a wrong step counts by the share of its written cells that are not wrong.
    """

    worth: dict[str, float]
    partial: bool = False

    @classmethod
    def read(cls, text: str, *, partial: bool = False) -> Points:
        """From `scores=2,weights=3`. Raises UsageError for what is no step or no number, InputError for no step."""
        worth: dict[str, float] = {}
        for part in text.split(","):
            step, equals, number = part.partition("=")
            try:
                points = float(number)
            except ValueError:
                points = -1.0
            if not equals or not 0 <= points < float("inf"):
                raise UsageError(f"{part.strip()!r} is not STEP=POINTS", place="--points", hint="scores=2,weights=3")
            with placed("--points"):
                parse_address(step)
            if step.strip() in worth:
                raise UsageError(f"{step.strip()} is named twice", place="--points")
            worth[step.strip()] = points
        return cls(worth, partial)

    @property
    def most(self) -> float:
        """The points of a calculation without a slip."""
        return sum(self.worth.values())

    def earned(self, result: CheckResult) -> dict[str, float]:
        """The points of each step."""
        return {step: round(points * self._share(step, result), 2) for step, points in self.worth.items()}

    def total(self, result: CheckResult) -> float:
        """All points together."""
        return sum(self.earned(result).values())

    def row(self, result: CheckResult) -> list[str]:
        """The points of each step, all together, and the most; none of them where nothing could be marked."""
        earned = [*self.earned(result).values(), self.total(result)]
        return [*("" if result.reason else f"{points:g}" for points in earned), f"{self.most:g}"]

    def sentence(self, result: CheckResult) -> str:
        """`points: scores 2 of 2, weights 0 of 3, together 2 of 5 (...)`."""
        steps = ", ".join(f"{step} {points:g} of {self.worth[step]:g}" for step, points in self.earned(result).items())
        return (
            f"points: {steps}; together {self.total(result):g} of {self.most:g} "
            f"({'a step counts by its cells' if self.partial else 'a step counts in full unless it is wrong'}, "
            "and nothing where it was not written)"
        )

    def to_dict(self, result: CheckResult) -> dict[str, Any]:
        """Beside the JSON of the contract, where points were asked for; null where nothing could be marked."""
        earned = {**self.earned(result), "total": self.total(result)}
        return {"points": {**(dict.fromkeys(earned) if result.reason else earned), "of": self.most}}

    def _share(self, step: str, result: CheckResult) -> float:
        """How much of its points a step gets: nothing where nothing was checked by it."""
        marks = [mark for mark in result.steps if mark.step == step or parse_address(mark.step)[0] == step]
        if not any(mark.is_checked for mark in marks):
            return 0.0
        if not self.partial:
            return float(all(mark.verdict != "wrong" for mark in marks))
        wrong, cells = (sum(each) for each in zip(*map(_counts, marks), strict=True))
        return float(1 - wrong / cells)


def _counts(mark: StepMark) -> tuple[int, int]:
    """How many cells of a step are wrong, and how many were marked; blank ones count as if they were wrong."""
    if mark.array is not None:
        return mark.array.outside, mark.array.size
    return int(((mark.codes == WRONG) | (mark.codes == BLANK)).sum()), mark.codes.size
