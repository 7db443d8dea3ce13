"""Every worked case with a hand: the whole verdict, the steps' verdicts and the first wrong cell that it states."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from attncli import check

CASES = Path(__file__).parent.parent / "data" / "worked_cases.yaml"


def spelled(text: str) -> list[tuple[str, str]]:
    """Each case with a hand as (id, text): cut from the file's own text, so that 0.50 stays 0.50."""
    found = []
    for block in re.split(r"(?m)^- id: ", text.partition("\nleft_out:")[0])[1:]:
        if "\n  hand:\n" in block:
            found.append((block.partition("\n")[0], block))
    return found


def problem_text(block: str) -> str:
    """The problem file: the case's problem, with its hand under expect:."""
    lines, kept, part = block.splitlines(), [], ""
    for line in lines[1:]:
        key = re.match(r"  (\w+):", line)
        if key:
            part = key[1]
            if part == "hand":
                kept.append("expect:")
        elif part == "problem":
            kept.append(line[4:])
        elif part == "hand":
            kept.append(line[2:])
    return "\n".join(kept) + "\n"


BLOCKS = spelled(CASES.read_text(encoding="utf-8"))
STATED: dict[str, Any] = {case["id"]: case for case in yaml.safe_load(CASES.read_text(encoding="utf-8"))["cases"]}


@pytest.mark.parametrize(("name", "block"), BLOCKS, ids=[name for name, _ in BLOCKS])
def test_case(name: str, block: str, tmp_path: Path) -> None:
    path = tmp_path / "case.yaml"
    path.write_text(problem_text(block), encoding="utf-8")
    result = check(path)
    case = STATED[name]
    assert {mark.step: mark.verdict for mark in result.steps} == case["steps"]
    assert result.verdict == case["verdict"]
    first = result.to_dict()["first_wrong"]
    stated = case.get("first_wrong")
    assert (first and {"step": first["step"], "at": first["at"]}) == stated


def test_all_cases_are_marked() -> None:
    assert len(BLOCKS) == sum("hand" in case for case in STATED.values()) > 30
