"""Random hands: one without an error is never called wrong, and a slip is called wrong at its place."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hands import HandWork, Way, calculate, random_problem, random_steps, random_way

from attncli import check


def marked(work: HandWork, path: Path) -> Any:
    path.write_text(work.yaml(), encoding="utf-8")
    return check(path)


def work_of(seed: int, **changes: object) -> HandWork:
    rng = random.Random(seed)
    inputs, d_k, causal = random_problem(rng)
    way = random_way(rng)
    # What is rounded on the way is rounded as everything else that this hand writes.
    way.p, way.p_mode = way.places, way.mode
    for name, value in changes.items():
        setattr(way, name, value)
    work = HandWork(inputs, d_k, causal, way, random_steps(rng, causal))
    try:
        calculate(work)
    except ArithmeticError:  # exponentials that overflow, or are all rounded to 0: nobody calculates like that
        way.rounds = ""
    return work


@pytest.mark.parametrize("seed", range(250))
def test_no_false_alarm(seed: int, tmp_path: Path) -> None:
    """Steps written or kept in full, rounded or cut; terms, exponentials, the scale or its root rounded on the way."""
    assert marked(calculate(work_of(seed)), tmp_path / "p.yaml").first_wrong is None


@pytest.mark.parametrize("seed", range(5000, 5060))
def test_no_false_alarm_where_rows_were_made_to_sum_to_1(seed: int, tmp_path: Path) -> None:
    work = calculate(work_of(seed, adjusts=True, mode="half-even", p_mode="half-even"))
    assert marked(work, tmp_path / "p.yaml").first_wrong is None


def test_slips_are_found(tmp_path: Path) -> None:
    """Slips of 3 to 12 units in one cell: in the right step nearly always (a few follow by some habit), and there in
    the right cell, alone, where nothing else was rounded on the way."""
    found, places, tried = 0, 0, 0
    for seed in range(300, 450):
        rng = random.Random(seed)
        work = work_of(seed, rounds="")
        step = rng.choice([name for name in work.written if name != "masked"] or ["output"])
        grid = calculate(work_of(seed, rounds="")).steps[step]
        i, j = rng.randrange(len(grid)), rng.randrange(len(grid[0]))
        if step not in work.written or (work.causal and step == "weights" and j > i):
            continue
        tried += 1
        slip = (step, i, j, rng.choice([-1, 1]) * rng.randint(3, 12) * 10.0**-work.way.places)
        result = marked(calculate(work, slip), tmp_path / "p.yaml")
        found += result.first_wrong is not None and result.first_wrong[0].step == step
        cells = [cell for mark in result.steps if mark.step == step for cell in mark.cells]
        wrong = [cell.at for cell in cells if cell.verdict == "wrong"]
        places += wrong == [(i + 1, j + 1)]
    assert tried > 100
    assert found >= 0.97 * tried
    assert places >= 0.95 * tried


def test_the_generator_makes_wrong_hands() -> None:
    """A test of the test: a hand with a large slip is not the hand without it."""
    way = Way(2)
    inputs = {"X": [[1, 0], [0, 1]], "W_Q": [[1, 0], [0, 1]], "W_K": [[1, 0], [0, 1]], "W_V": [[1, 2], [3, 4]]}
    right = calculate(HandWork(inputs, 2, False, way, ["weights"])).steps["weights"]
    slipped = calculate(HandWork(inputs, 2, False, way, ["weights"]), ("weights", 0, 0, 0.5)).steps["weights"]
    assert right == [[0.67, 0.33], [0.33, 0.67]]
    assert slipped[0][0] == 1.17
