"""kill -9 at random moments, and two runs at once: every file is old or new, inputs stay, and nothing is left behind.

A handful of runs each here; the hundreds are marked: `pytest -m faults tests/faults -n 2 -s` tells how many there were.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from faulty import JOURNAL, contents, litter, run, start

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
FORMATS = ("json", "yaml", "npz", "csv", "tsv", "npy", "markdown", "jsonl")


def killed(folder: Path, chance: random.Random, longest: float, *arguments: object) -> bool:
    """Kill a run at some moment, every second time one in which it writes; gives whether it was still going."""
    running = start(folder, *arguments)
    if chance.random() < 0.5:
        while running.poll() is None and not litter(folder):
            time.sleep(0.001)
        time.sleep(chance.uniform(0, longest / 20))
    else:
        time.sleep(chance.uniform(0, longest))
    running.kill()
    return running.wait() == -9


def kill_a_large_output(folder: Path, count: int, seed: int) -> None:
    chance = random.Random(seed)
    np.save(folder / "x.npy", np.random.default_rng(seed).normal(size=(2500, 4)))
    inputs = contents(folder)
    command = ("self", "x.npy", "-o", "weights=big.npy", "-o", "small.npy", "--force")
    allowed: dict[str, set[str]] = {"big.npy": set(), "small.npy": set()}
    longest = 0.0
    for scale in ("1", "2"):
        since = time.perf_counter()
        assert run(folder, *command, "--scale", scale).returncode == 0
        longest = time.perf_counter() - since
        for name, digest in contents(folder, [*inputs]).items():
            allowed[name].add(digest)
    hit = left = 0
    for number in range(count):
        hit += killed(folder, chance, longest, *command, "--scale", str(number % 2 + 1))
        left += bool(litter(folder))
        names = litter(folder)
        found = contents(folder, names)
        assert {name: found.pop(name) for name in inputs} == inputs
        assert found.keys() == allowed.keys()
        assert all(found[name] in allowed[name] for name in found)
        assert len(names) <= 4  # of this run: those of the one before are gone, if it came to writing
    assert run(folder, "self", "[[1]]", "-o", "other.csv").returncode == 0
    assert litter(folder) == []
    print(f"large outputs: {count} kills, {hit} before the end, {left} left something that the next run cleared")


def kill_a_batch(folder: Path, format: str, count: int, seed: int) -> None:
    chance = random.Random(seed)
    (folder / "in").mkdir()
    numbers = np.random.default_rng(seed)
    for i in range(25):
        np.save(folder / "in" / f"x{i}.npy", numbers.normal(size=(60, 4)))
        (folder / "in" / f"p{i:02}.yaml").write_text(f"X: x{i}.npy\n")
    inputs = contents(folder / "in")
    out, stream = folder / "out", format == "jsonl"
    command = ["batch", "in", "-o", "out/r.jsonl" if stream else "out", "--format", format]
    out.mkdir()
    since = time.perf_counter()
    assert run(folder, *command).returncode == 0
    longest = time.perf_counter() - since
    apart = ["summary.csv", JOURNAL]
    whole = contents(out, apart)
    hit = left = 0
    for number in range(count):
        if number % 2 and not stream:
            shutil.rmtree(out)
            out.mkdir()
        hit += killed(folder, chance, longest, *command, "--force" if stream or number % 4 < 2 else "--resume")
        names = litter(folder)
        left += bool(names)
        assert contents(out, [*apart, *names]).items() <= whole.items()
        assert stream is False or contents(out, names) == whole
        assert contents(folder / "in") == inputs
    assert run(folder, *command, "--force" if stream else "--resume").returncode == 0
    assert litter(folder) == []
    assert contents(out, apart) == whole
    assert contents(folder / "in") == inputs
    print(f"batch, {format}: {count} kills, {hit} before the end, {left} left something that the next run cleared")


def two_at_once(folder: Path, count: int, seed: int) -> None:
    """Pairs upon the same files, single runs and batches; of every third pair one is killed, and the other goes on."""
    chance = random.Random(seed)
    np.save(folder / "x.npy", np.random.default_rng(seed).normal(size=(1200, 4)))
    (folder / "in").mkdir()
    for i in range(12):
        (folder / "in" / f"p{i:02}.yaml").write_text(f"X: ../x.npy\nW_Q: {[[i + 1] * 4] * 4}\n")
    single = ("self", "x.npy", "-o", "weights=big.npy", "-o", "small.csv", "--force")
    many = ("batch", "in", "-o", "out", "--format", "npy", "--force")
    ways = [(*single, "--scale", "1"), (*single, "--scale", "2"), (*many, "--scale", "1"), (*many, "--scale", "2")]
    inputs = contents(folder)
    allowed: dict[str, set[str]] = {}
    for way in ways:
        assert run(folder, *way).returncode == 0
        for name, digest in contents(folder, ["summary.csv", JOURNAL]).items():
            allowed.setdefault(name, set()).add(digest)
    for number in range(count):
        pair = ways[:2] if number % 2 else ways[2:]
        running = [start(folder, *way) for way in chance.sample(pair, 2)]
        if number % 3 == 0:
            time.sleep(chance.uniform(0.2, 0.8))
            running[0].kill()
        statuses = [each.wait(60) for each in running]
        assert statuses[1] == 0
        assert statuses[0] == 0 or (number % 3 == 0 and statuses[0] == -9)
        found = contents(folder, ["summary.csv", JOURNAL, *litter(folder)])
        assert found.keys() == allowed.keys()
        assert all(found[name] in allowed[name] for name in found)
        assert {name: found[name] for name in inputs} == inputs
    for way in ways[::2]:
        assert run(folder, *way).returncode == 0
    assert litter(folder) == []
    print(f"two at once: {count} pairs, every third with a kill")


def test_some_kills_of_a_large_output(tmp_path: Path) -> None:
    kill_a_large_output(tmp_path, 6, seed=1)


@pytest.mark.parametrize("format", ["json", "csv", "jsonl"])
def test_some_kills_of_a_batch(tmp_path: Path, format: str) -> None:
    kill_a_batch(tmp_path, format, 4, seed=2)


def test_some_pairs_at_once(tmp_path: Path) -> None:
    two_at_once(tmp_path, 4, seed=3)


@pytest.mark.faults
def test_three_hundred_kills_of_a_large_output(tmp_path: Path) -> None:
    kill_a_large_output(tmp_path, 300, seed=int(time.time()))


@pytest.mark.faults
@pytest.mark.parametrize("format", FORMATS)
def test_a_hundred_kills_of_a_batch(tmp_path: Path, format: str) -> None:
    kill_a_batch(tmp_path, format, 100, seed=int(time.time()))


@pytest.mark.faults
def test_fifty_pairs_at_once(tmp_path: Path) -> None:
    two_at_once(tmp_path, 50, seed=int(time.time()))
