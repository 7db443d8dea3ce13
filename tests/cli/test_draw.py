"""`list masks --draw`: each picture is what the mask shows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from attncli import attend
from tests.calling import Result, attncli, names


@pytest.mark.parametrize(("n", "m"), [(6, 6), (3, 7), (5, 2)])
def test_each_picture_is_what_is_seen(n: int, m: int) -> None:
    done = attncli("list", "masks", "--draw", f"{n}x{m}")
    assert done.status == 0, done.err
    parts = [part.splitlines() for part in done.out.split("\n\n")]
    # Those that may be aligned to the last real key are drawn so, too.
    assert list(dict.fromkeys(lines[0].partition(":")[0].split(" ")[0] for lines in parts)) == names("masks")
    drawn = 0
    for spec, _, *rows in parts:
        if rows:
            weights = attend(np.ones((n, 1)), np.ones((m, 1)), mask=spec).weights
            assert [row.split() for row in rows] == [["■" if w > 0 else "·" for w in row] for row in weights], spec
            drawn += 1
    assert drawn == len(parts) - 2  # keep and block are tables


@pytest.mark.parametrize(
    "options", [["masks", "--draw", "6"], ["masks", "--draw", "1x99"], ["scores", "--draw", "6x6"]]
)
def test_what_is_refused(options: list[str]) -> None:
    done = attncli("list", *options)
    assert done.status == 2
    assert "6x6" in done.err


def test_in_a_process_of_its_own(process: Callable[..., Result]) -> None:
    assert process("list", "masks", "--draw", "3x3").out.startswith("causal:top-left\n  j <= i\n  ■ · ·\n  ■ ■ ·\n")
