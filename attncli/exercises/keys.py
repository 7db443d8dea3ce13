"""The key of an exercise: its steps as a person calculates them who rounds each one, and the blanks to fill in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from attncli.lazy import Array, np
from attncli.pipeline.trace import NAMED_STEPS, Trace, parse_address
from attncli.problem.document import document_of
from attncli.problem.problem import Problem
from attncli.problem.save import problem_text
from attncli.verify.check import check

BLANK = "_"


@dataclass(frozen=True)
class Key:
    """The numbers of a hand, as text. steps: by address, nested lists of spelled numbers. places: of the rounding."""

    problem: Problem
    steps: dict[str, Any]
    places: int

    @property
    def digits(self) -> int:
        """How many digits have to be written."""
        return sum(sum(map(str.isdigit, text)) for told in self.steps.values() for text in _flat(told))

    def text(self) -> str:
        """The key as a problem file."""
        head = f"# The key: each step is rounded to {self.places} places before the next one is made of it.\n"
        return head + problem_text(self.problem) + self._expected(lambda text: text)

    def exercise(self) -> str:
        """The same with a blank in place of each number."""
        head = f"# Replace each {BLANK} by your number to {self.places} places; what is left {BLANK} is not marked.\n"
        return head + problem_text(self.problem) + self._expected(lambda _: BLANK)

    def _expected(self, cell: Callable[[str], str]) -> str:
        lines = [f"  {address}: {_nested(told, cell)}" for address, told in self.steps.items()]
        return "expect:\n" + "\n".join(lines) + "\n"

    def is_right(self) -> bool:
        """Whether nothing in it is wrong for those who mark it."""
        return check(document_of(self.text().encode(), "key", None).problem()).verdict != "wrong"


def key_of(problem: Problem, trace: Trace, asked: Sequence[str]) -> Key:
    """The key of a problem that was calculated with rounded steps. asked: addresses of steps, or all that there are."""
    places = trace.problem.round_steps
    addresses = list(asked) or [
        name for name in trace.names() if name not in problem.inputs and NAMED_STEPS[name].line != "data"
        and not _is_copy(name, problem)
    ]  # fmt: skip
    steps = {address: _spelled(trace[parse_address(address)[0]] if not parse_address(address)[1] else trace[address],
                               places) for address in addresses}  # fmt: skip
    return Key(replace(problem, round_steps=None, expect={}), steps, places)


def _is_copy(name: str, problem: Problem) -> bool:
    return name in ("Q", "K", "V") and problem.inputs.keys().isdisjoint((f"W_{name}", f"b_{name}"))


def _spelled(array: Array, places: int) -> Any:
    """Numbers with so many places; whole ones where all are."""
    finite = array[np.isfinite(array)]
    decimals = 0 if (finite == np.rint(finite)).all() else places

    def spelled(x: Any) -> Any:
        return [spelled(each) for each in x] if isinstance(x, list) else _one(x, decimals)

    return spelled(array.tolist())


def _one(x: float, decimals: int) -> str:
    return f"{x:z.{decimals}f}" if np.isfinite(x) else str(x)


def _nested(told: Any, cell: Callable[[str], str]) -> str:
    return f"[{', '.join(_nested(each, cell) for each in told)}]" if isinstance(told, list) else cell(told)


def _flat(told: Any) -> list[str]:
    return [text for each in told for text in _flat(each)] if isinstance(told, list) else [told]
