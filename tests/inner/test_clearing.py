"""Two runs in one folder: what one clears away is never what the other has only begun to write."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_CLEAR = """
import sys
from attncli import ledger
from attncli.problem.formats.temporary import clear
print("ready", flush=True)
while True:
    ledger.begin()
    clear(sys.argv[1])
"""


def test_files_are_replaced_while_another_run_clears(tmp_path: Path) -> None:
    from attncli.problem.formats.files import write_all

    target = tmp_path / "a.txt"
    target.write_text("old")
    target.chmod(0o640)
    other = subprocess.Popen([sys.executable, "-c", _CLEAR, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        for number in range(400):
            write_all({str(target): f"{number}".encode()}, force=True)
            assert target.read_text() == str(number)
    finally:
        other.kill()
        other.wait()
    assert target.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
