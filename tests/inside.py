"""What tests take from inside attncli: the kinds of errors, and the registries to which they add at run time.

Everything else is called from outside: `from attncli import ...`, the command line, `tests/inner` aside.
"""

from __future__ import annotations

from attncli.cli.app import COMMANDS
from attncli.core.maskargs import whole_numbers
from attncli.core.masks import MASKS
from attncli.core.normalizers import NORMALIZERS
from attncli.core.scores import SCORES
from attncli.errors import InputError, MachineError, Place, Several, ShapeError, UsageError, nearest
from attncli.verify.mistakes import MISTAKES, Change, mistake

__all__ = [
    "COMMANDS",
    "MASKS",
    "MISTAKES",
    "NORMALIZERS",
    "SCORES",
    "Change",
    "InputError",
    "MachineError",
    "Place",
    "Several",
    "ShapeError",
    "UsageError",
    "mistake",
    "nearest",
    "whole_numbers",
]
