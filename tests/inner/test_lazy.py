"""NumPy is imported late, and then as any other program would import it."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest


@pytest.mark.parametrize("first", ["numpy.linalg", "numpy.testing", "ml_dtypes", "numpy"])
def test_whoever_imports_numpy_first_gets_it_whole(first: str) -> None:
    code = (
        "import sys; from attncli.lazy import np; assert 'numpy' not in sys.modules; "
        f"import {first}; import numpy.testing; numpy.testing.assert_array_equal(np.eye(2), numpy.eye(2)); "
        "print(np.ndarray is numpy.ndarray, isinstance(numpy.eye(2), np.ndarray))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("True True\n", "")


def test_a_pattern_is_compiled_when_it_is_first_used() -> None:
    from attncli.lazy import pattern

    broken = pattern("(")
    with pytest.raises(re.error):
        broken.match("x")
    word = pattern("[a-z]+", re.IGNORECASE)
    assert word.fullmatch("Ab")
    assert word.sub("-", "a1b") == "-1-"
    assert word.pattern == "[a-z]+"
