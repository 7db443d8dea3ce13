"""What tests take from inside attncli: the kinds of errors, and the registries to which they add at run time.

Everything else is called from outside: `from attncli import ...`, the command line, `tests/inner` aside.
"""

from __future__ import annotations

from attncli.cli.app import COMMANDS
from attncli.errors import InputError, MachineError, Place, Several, ShapeError, UsageError, nearest
from attncli.pipeline.maskargs import whole_numbers
from attncli.pipeline.masks import MASKS
from attncli.pipeline.normalizers import NORMALIZERS
from attncli.pipeline.scores import SCORES

__all__ = [
    "COMMANDS",
    "MASKS",
    "NORMALIZERS",
    "SCORES",
    "InputError",
    "MachineError",
    "Place",
    "Several",
    "ShapeError",
    "UsageError",
    "nearest",
    "whole_numbers",
]
