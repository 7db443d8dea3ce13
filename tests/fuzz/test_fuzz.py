"""The fuzzer itself: what it found stays mended, it knows a fault when it sees one, and a seed gives the same cases."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.calling import Result

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from cases import Case  # noqa: E402
from making import COMMANDS, FIELDS, Maker  # noqa: E402
from options import NOT_FUZZED, own_options  # noqa: E402
from running import Outcome, findings, run  # noqa: E402

REGRESSIONS = sorted((HERE / "regressions").glob("*.json"))


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda path: path.stem)
def test_what_was_found_stays_mended(path: Path) -> None:
    case = Case.from_json(path)
    outcome = run(case)
    assert outcome.status in (0, 1, 2, 3)
    assert findings(case, outcome) == []


def test_a_seed_gives_the_same_cases_and_each_survives_its_file(tmp_path: Path) -> None:
    first, second = Maker(7), Maker(7)
    for _ in range(30):
        case = first.case()
        assert second.case() == case
        path = tmp_path / "case.json"
        path.write_text(case.to_json(kind="none"), encoding="utf-8")
        assert Case.from_json(path) == case


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        (Outcome(70, "", "this is a fault of attncli itself: KeyError", [], 0, ""), "exit 70"),
        (Outcome(1, "", "", [], 0, ""), "status"),
        (Outcome(2, "", "", [], 0, ""), "silent"),
        (Outcome(0, "\x1b[31m", "", [], 0, ""), "raw control character"),
        (Outcome(0, "", "", ["a.py:3: overflow"], 0, ""), "warning"),
        (Outcome(0, "│ q1 │ nan │", "", [], 0, ""), "NaN without a note"),
        (Outcome(0, "", "", [], 11, ""), "slow"),
    ],
)
def test_what_nothing_may_do_is_found(outcome: Outcome, kind: str) -> None:
    case = Case(["self", "[[1]]"])
    assert [finding.kind for finding in findings(case, outcome)] == [kind]
    assert findings(case, Outcome(0, "q1  1.0", "note: nothing", [], 1, "")) == []


def test_the_command_runs_and_keeps_nothing_where_nothing_is_found(tmp_path: Path) -> None:
    """Some cases in a process of its own: every one that it keeps says what it did."""
    command = [sys.executable, str(HERE / "run.py"), "--cases", "40", "--seed", "11", "--keep", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1)
    assert "seed 11: 40 cases, " in done.stdout
    for path in tmp_path.glob("*-11-*.json"):
        assert json.loads(path.read_text(encoding="utf-8"))["kind"]


@pytest.mark.parametrize("command", [*COMMANDS])
def test_every_option_that_help_tells_is_fuzzed(cli: Callable[..., Result], command: str) -> None:
    told = {*re.findall(r"--[a-z][a-z-]*", cli(command, "--help-all").out)} - {"--help", "--help-all"}
    of_the_table = {field.flag for field in FIELDS.values()}
    assert "-o" in of_the_table
    switched = {f"--no-{field.name}" for field in FIELDS.values() if field.kind == "switch"}
    known = of_the_table | switched | {"--output"} | {flag for flag, _ in own_options(command)} | {*NOT_FUZZED}
    options = {each for each in told if cli(command, each, "--help").err.find("no such option") < 0}
    assert options <= known


def test_every_kind_of_setting_has_values_of_its_own() -> None:
    """Of twenty values each, some are taken, and some are not."""
    maker = Maker(3)
    for name, field in FIELDS.items():
        if field.flag and field.kind not in ("flag", "choice", "switch"):
            assert len({maker.value(name) for _ in range(20)}) > 2, name
