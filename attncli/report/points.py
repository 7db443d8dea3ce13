"""Points for the steps of a hand calculation, as `--points scores=2,weights=3` asks for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from attncli.errors import UsageError
from attncli.pipeline.trace import parse_address
from attncli.problem.values import placed
from attncli.verify.verdicts import CheckResult


@dataclass(frozen=True)
class Points:
    """What each step is worth: all its points unless it is wrong, none where nothing of it was written."""

    worth: dict[str, float]

    @classmethod
    def read(cls, text: str) -> Points:
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
        return cls(worth)

    @property
    def most(self) -> float:
        """The points of a calculation without a slip."""
        return sum(self.worth.values())

    def earned(self, result: CheckResult) -> dict[str, float]:
        """The points of each step."""
        return {step: points * self._is_right(step, result) for step, points in self.worth.items()}

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
            "(a step counts in full unless it is wrong, and nothing where it was not written)"
        )

    def to_dict(self, result: CheckResult) -> dict[str, Any]:
        """Beside the JSON of the contract, where points were asked for; null where nothing could be marked."""
        earned = {**self.earned(result), "total": self.total(result)}
        return {"points": {**(dict.fromkeys(earned) if result.reason else earned), "of": self.most}}

    def _is_right(self, step: str, result: CheckResult) -> bool:
        """Whether the step, or every part of it, was written and is not wrong, and anything was checked by it."""
        marks = [mark for mark in result.steps if mark.step == step or parse_address(mark.step)[0] == step]
        return any(mark.is_checked for mark in marks) and all(mark.verdict != "wrong" for mark in marks)
