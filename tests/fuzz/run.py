"""A fuzzer: cases at random, run in one process, and every one that does what nothing may do kept as a file.

    python tests/fuzz/run.py --seconds 120 --seed 1 --cases 9000
    python tests/fuzz/run.py --replay tests/fuzz/regressions
    python tests/fuzz/run.py --hostile

With a number of cases a seed comes to no others on a faster machine, so that what passes once passes again.
Nothing may: exit with 70, a traceback, a warning of Python or NumPy, NaN in an output without a note, a raw control
character, more than 10 seconds or 1 GiB.
"""

from __future__ import annotations

import argparse
import faulthandler
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from cases import Case

_FOUND = 3  # exit status of a worker
_STUCK = 60  # seconds after which a run that listens to no alarm is ended


def main() -> int:
    """Fuzz, or run again what was kept; 1 where something was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--cases", type=int, default=sys.maxsize, help="no more than so many; one seed then")
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "attncli-fuzz")
    parser.add_argument("--replay", type=Path, nargs="+", help="cases, or folders of them")
    parser.add_argument("--hostile", action="store_true", help="files of 1 MB that are hard to read")
    parser.add_argument("--shrink", type=Path, nargs="+", help="cases, to be made smaller where they lie")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.replay:
        return replay(
            [path for each in given.replay for path in (sorted(each.glob("*.json")) if each.is_dir() else [each])]
        )
    if given.hostile:
        return hostile()
    if given.shrink:
        return shrink(given.shrink)
    given.keep.mkdir(parents=True, exist_ok=True)
    return (work if given.worker else fuzz)(given.seed, given.seconds, given.cases, given.keep)


def fuzz(seed: int, seconds: float, cases: int, keep: Path) -> int:
    """One worker after another: one that dies leaves its case, and the next goes on with another seed."""
    end, found = time.monotonic() + seconds, 0
    while (left := end - time.monotonic()) > 1:
        current = keep / "current.json"
        done = subprocess.run(
            [sys.executable, __file__, "--worker", "--seed", str(seed), "--seconds", str(left), "--cases", str(cases),
             "--keep", str(keep)]
        )  # fmt: skip
        found |= done.returncode != 0
        if done.returncode not in (0, _FOUND):
            if not current.exists():
                return 1
            current.rename(keep / f"died-{done.returncode}-{seed}.json")
            print(f"the worker died with {done.returncode}: {keep}/died-{done.returncode}-{seed}.json")
        if cases < sys.maxsize:
            break
        seed += 1
    return int(found)


def work(seed: int, seconds: float, cases: int, keep: Path) -> int:
    """Cases until the time is over, or there were so many."""
    from making import Maker
    from running import findings, prepare, run

    prepare()
    maker, known, count, start = Maker(seed), dict[str, int](), 0, time.monotonic()
    statuses: dict[int, int] = {}
    while count < cases and time.monotonic() < start + seconds:
        case = maker.case()
        (keep / "current.json").write_text(case.to_json(), encoding="utf-8")
        faulthandler.dump_traceback_later(_STUCK, exit=True)
        outcome = run(case)
        for finding in findings(case, outcome):
            known[finding.name] = known.get(finding.name, 0) + 1
            if known[finding.name] == 1:
                path = keep / f"{finding.kind.replace(' ', '-')}-{seed}-{count}.json"
                path.write_text(case.to_json(kind=finding.name, told=finding.told), encoding="utf-8")
                print(f"{finding.name}\n  {path}", flush=True)
        faulthandler.cancel_dump_traceback_later()
        statuses[outcome.status] = statuses.get(outcome.status, 0) + 1
        count += 1
    took = time.monotonic() - start
    print(f"seed {seed}: {count} cases, {count / took:.0f} a second, exit status {dict(sorted(statuses.items()))}; "
          f"{len(known)} kinds of findings")  # fmt: skip
    return _FOUND if known else 0


def replay(paths: list[Path]) -> int:
    """Run cases again, and tell which still do what they did."""
    from running import findings, prepare, run

    prepare()
    bad = 0
    for path in paths:
        case = Case.from_json(path)
        found = findings(case, run(case))
        bad += bool(found)
        for finding in found:
            print(f"{path}: {finding.name}\n  {finding.told.strip()[:300]}")
    print(f"{len(paths)} cases, {bad} of them with findings")
    return int(bad > 0)


def hostile() -> int:
    """Read the hard files, and tell how long the slowest took."""
    from hostile import cases
    from running import findings, prepare, run

    prepare()
    took, bad = {}, 0
    for name, case in cases():
        outcome = run(case)
        took[name] = outcome.seconds
        for finding in findings(case, outcome):
            bad += 1
            print(f"{name}: {finding.name}\n  {finding.told.strip()[:300]}")
    slowest = max(took, key=lambda name: took[name])
    print(f"{len(took)} files of 1 MB, {bad} findings; the slowest: {slowest}, {took[slowest]:.1f} s")
    return int(bad > 0)


def shrink(paths: list[Path]) -> int:
    """Make cases smaller; those that do nothing wrong any more stay as they are."""
    from running import findings, prepare, run
    from shrinking import shrunk

    prepare()
    for path in paths:
        case = Case.from_json(path)
        found = findings(case, run(case))
        if found:
            small = shrunk(case, found[0].name)
            path.write_text(small.to_json(kind=found[0].name, told=found[0].told), encoding="utf-8")
        print(f"{path}: {found[0].name if found else 'nothing'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
