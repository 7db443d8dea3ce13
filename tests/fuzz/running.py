"""Run a case in this process, and tell what it did that nothing may do."""

from __future__ import annotations

import io
import json
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from cases import Case

SECONDS = 10  # of computing, whatever else the machine does
MEMORY = 1 << 30  # bytes beyond what the program itself takes
_FAULT = "a fault of attncli itself"
_DIFFERENT = ("check", "diff", "batch")


class Finding(NamedTuple):
    """What a case did: its kind, where it happened as far as is known, and what it said."""

    kind: str
    where: str
    told: str

    @property
    def name(self) -> str:
        """What tells it from other findings."""
        return f"{self.kind} {self.where}"


@dataclass
class Outcome:
    """What a run left."""

    status: int
    out: str
    err: str
    warned: list[str]
    seconds: float
    fault: str


class _TooLong(Exception):
    """The run took more than its seconds."""


def prepare() -> None:
    """Make the program quick to call again and again, and give it no more memory than a run may take."""
    from attncli.cli import app

    make, known = app.typer.main.get_command, dict[str, Any]()

    def made_once(each: Any) -> Any:
        """The parser of a command, or of the program, of which Typer makes a new one for each call."""
        name = each.registered_commands[0].callback.__module__ if each.registered_commands else "attncli"
        return known.get(name) or known.setdefault(name, make(each))

    app.typer.main.get_command = made_once
    warm_up = Case(["self", "[[1,2],[3,4]]", "--heads", "2", "--expect", "weights=[[1,0],[0,1]]"])
    run(warm_up)
    used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))


def run(case: Case) -> Outcome:
    """The command in an empty folder with the case's files."""
    from attncli.cli import call

    with _folder(case), _watched() as warned:
        streams = sys.stdin, sys.stdout, sys.stderr
        out, err = io.BytesIO(), io.BytesIO()
        texts = [io.TextIOWrapper(each, encoding="utf-8", write_through=True) for each in (out, err)]
        sys.stdin = io.TextIOWrapper(io.BytesIO(case.stdin), encoding="utf-8")
        sys.stdout, sys.stderr = texts
        started, fault = time.process_time(), ""
        try:
            status = call(list(case.arguments))
            for stream in texts:
                stream.flush()
        except BaseException:
            status, fault = 70, traceback.format_exc()
        finally:
            sys.stdin, sys.stdout, sys.stderr = streams
        told = [each.getvalue().decode("utf-8", "replace") for each in (out, err)]
    return Outcome(status, *told, warned, time.process_time() - started, fault)


@contextmanager
def _folder(case: Case) -> Iterator[None]:
    home, folder = os.getcwd(), tempfile.mkdtemp(prefix="fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    try:
        os.chdir(folder)
        for name, data in case.files.items():
            path = Path(os.fsdecode(name))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        yield
    finally:
        os.chdir(home)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _watched() -> Iterator[list[str]]:
    """Warnings that come up, and an end to what takes too long."""

    def too_long(*_: Any) -> None:
        raise _TooLong("it took more than its seconds")

    before = signal.signal(signal.SIGPROF, too_long)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        told: list[str] = []
        try:
            yield told
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)
            told += [f"{Path(each.filename).name}:{each.lineno}: {each.message}" for each in caught]


def findings(case: Case, outcome: Outcome) -> list[Finding]:
    """What no run may do."""
    command = case.arguments[0] if case.arguments else ""
    found = []
    if outcome.status == 70 or _FAULT in outcome.err or outcome.fault:
        kind = "endless" if "_TooLong" in outcome.err else "exit 70"
        found.append(Finding(kind, _where(case), (outcome.err or outcome.fault)[-600:]))
    elif outcome.status not in (0, 1, 2, 3):
        found.append(Finding("status", str(outcome.status), outcome.err[-600:]))
    elif outcome.status == 1 and command not in _DIFFERENT and not any("--expect" in each for each in case.arguments):
        found.append(Finding("status", f"1 of {command}", outcome.err[-600:]))
    if "Traceback (most recent" in outcome.err:
        found.append(Finding("traceback", "", outcome.err[-600:]))
    if "not enough memory" in outcome.err:
        found.append(Finding("memory", _where(case), outcome.err[-600:]))
    found += [Finding("warning", each.partition(": ")[0], each) for each in dict.fromkeys(outcome.warned)]
    coloured = "--color always" in " ".join(case.arguments).replace("=", " ")
    for stream, text in (("out", outcome.out), ("err", outcome.err)):
        text = re.sub(r"\x1b\[[0-9;]*m", "", text) if coloured else text
        if re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u200b\u2060]", text.replace("\r\n", "\n")):
            found.append(Finding("raw control character", f"{command} {stream}", repr(text[:300])))
    if outcome.seconds > SECONDS:
        found.append(Finding("slow", command, f"{outcome.seconds:.1f} s"))
    if outcome.status == 2 and not outcome.err.strip():
        found.append(Finding("silent", command, ""))
    if _untold(case, outcome):
        found.append(Finding("NaN without a note", command, outcome.out[-400:] + outcome.err[-300:]))
    return found


def _untold(case: Case, outcome: Outcome) -> bool:
    """Whether weights or output hold NaN, and no note says so."""
    asked = [
        each
        for each in case.arguments
        if each in ("--quiet", "--dry-run", "--show", "--format", "--top", "--stats", "--save-problem")
    ]
    if outcome.status != 0 or not case.arguments or case.arguments[0] not in ("attend", "self", "cross", "run"):
        return False
    if re.search("nan|infin|overflow", outcome.err, re.IGNORECASE):
        return False
    if not asked:
        # Among the cells of a table: a row or a column may have that label.
        return re.search(r"^│ *[^│\s][^│]*│[^\n]*(?<![\w.])nan(?![\w.])", outcome.out, re.MULTILINE) is not None
    if {"--quiet", "--dry-run"} & {*asked} or not outcome.out.startswith("{"):
        return False
    try:
        steps = json.loads(outcome.out).get("steps", {})
    except ValueError:
        return False
    return any('"nan"' in json.dumps(steps.get(name)) for name in ("weights", "output"))


def _where(case: Case) -> str:
    """The innermost lines of attncli where the exception was raised, by running the case once more."""
    os.environ["ATTNCLI_DEBUG"] = "1"
    try:
        again = run(case)
    finally:
        del os.environ["ATTNCLI_DEBUG"]
    frames = re.findall(r'File "[^"]*/(attncli/[^"]*)", line (\d+), in (\w+)', again.err + again.fault)
    last = [
        line
        for line in (again.err + again.fault).splitlines()
        if re.match(r"\w*(Error|Exception|_TooLong|Interrupt)", line)
    ]
    place = " < ".join(f"{file}:{name}" for file, _, name in reversed(frames[-2:]))
    return f"{(last or [''])[-1].partition(':')[0]} in {place}"
