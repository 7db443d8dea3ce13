"""The manual page: made of the tables of today, with every command and option, and drawn by man."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.calling import ROOT, Result
from tests.inside import COMMANDS

PAGE = ROOT / "attncli" / "man" / "attncli.1"


def test_it_is_fresh() -> None:
    """Else: python -m attncli.cli.manual > attncli/man/attncli.1"""
    made = subprocess.run([sys.executable, "-m", "attncli.cli.manual"], capture_output=True, text=True, check=True)
    assert made.stdout == PAGE.read_text(encoding="utf-8")


def test_man_draws_every_command_option_and_exit_status(cli: Callable[..., Result]) -> None:
    if shutil.which("man") is None or shutil.which("groff") is None:
        pytest.skip("there is no man")
    environment = {**os.environ, "MANWIDTH": "80", "LC_ALL": "C.UTF-8", "MANROFFOPT": "-ww"}
    drawn = subprocess.run(["man", "-l", str(PAGE)], capture_output=True, text=True, check=True, env=environment)
    assert drawn.stderr == ""
    page = re.sub(r".\x08", "", drawn.stdout)
    for name in COMMANDS:
        assert re.search(rf"^   attncli {name}\b", page, re.MULTILINE), name
        for option in re.findall(r"^  (?:-\w, )?(--[a-z-]+)", cli(name, "--help-all").out, re.MULTILINE):
            assert option in ("--help", "--help-all") or re.search(rf"^ .*{option}\b", page, re.MULTILINE), option
    for status in ("0", "1", "2", "3", "70"):
        assert re.search(rf"^       {status} ", page, re.MULTILINE)


def test_the_wheel_has_it_where_man_looks() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert '"share/man/man1" = ["attncli/man/attncli.1"]' in text
