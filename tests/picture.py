"""The picture of the README: what a terminal shows of some commands, as an SVG.

python -m tests.picture > samples/terminal.svg
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

from tests.calling import ROOT

COMMANDS = (
    "attncli run samples/07-causal-self-attention.yaml --show weights",
    "attncli check samples/hand/homework.yaml --quiet | tail -n 5",
)
_COLUMNS = "90"


def typed() -> str:
    """What the terminal shows, with its colours."""
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    environment = {
        **os.environ,
        "PATH": path,
        "FORCE_COLOR": "1",
        "TERM": "xterm-256color",
        "COLUMNS": _COLUMNS,
        "LC_ALL": "C.UTF-8",
    }
    environment.pop("NO_COLOR", None)
    shown = []
    for command in COMMANDS:
        done = subprocess.run(["bash", "-c", command], cwd=ROOT, env=environment, capture_output=True, text=True)
        shown.append(f"$ {command}\n{done.stdout.rstrip()}\n")
    return "\n".join(shown)


def picture() -> str:
    """The SVG, which asks for no font of another place."""
    import io

    from rich._export_format import CONSOLE_SVG_FORMAT
    from rich.console import Console
    from rich.text import Text

    console = Console(record=True, width=int(_COLUMNS), file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(typed()), end="")
    form = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return console.export_svg(title="attncli", code_format=form, unique_id="attncli")


if __name__ == "__main__":
    print(picture(), end="")
