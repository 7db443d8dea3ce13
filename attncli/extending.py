"""What code of one's own registers with: `from attncli.extending import score, mask, step`.

A file that is given by `--load`, a module that an entry point names, or a script that imports attncli uses the same
decorators as attncli itself. Each is imported when it is asked for, so that a mask does not pay for mistakes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attncli import registry
    from attncli.pipeline import biases, maskargs, masks, normalizers, scores, steps
    from attncli.problem import formats, matrix, profiles
    from attncli.report import renderers
    from attncli.verify import mistakes

    PROFILES, Profile = profiles.PROFILES, profiles.Profile
    Change, Matrix, Setting = mistakes.Change, matrix.Matrix, registry.Setting
    bias, mask, mistake, normalizer = biases.BIASES, masks.MASKS, mistakes.MISTAKES, normalizers.NORMALIZERS
    score, step = scores.SCORES, steps.STEPS
    file_format, output_format = formats.FORMATS, renderers.RENDERERS
    whole_numbers = maskargs.whole_numbers

_HOMES = {
    "bias": ("attncli.pipeline.biases", "BIASES"),
    "whole_numbers": ("attncli.pipeline.maskargs", "whole_numbers"),
    "mask": ("attncli.pipeline.masks", "MASKS"),
    "normalizer": ("attncli.pipeline.normalizers", "NORMALIZERS"),
    "score": ("attncli.pipeline.scores", "SCORES"),
    "step": ("attncli.pipeline.steps", "STEPS"),
    "file_format": ("attncli.problem.formats", "FORMATS"),
    "Matrix": ("attncli.problem.matrix", "Matrix"),
    "PROFILES": ("attncli.problem.profiles", "PROFILES"),
    "Profile": ("attncli.problem.profiles", "Profile"),
    "Setting": ("attncli.registry", "Setting"),
    "output_format": ("attncli.report.renderers", "RENDERERS"),
    "mistake": ("attncli.verify.mistakes", "MISTAKES"),
    "Change": ("attncli.verify.mistakes", "Change"),
}

__all__ = [
    "PROFILES",
    "Change",
    "Matrix",
    "Profile",
    "Setting",
    "bias",
    "file_format",
    "mask",
    "mistake",
    "normalizer",
    "output_format",
    "score",
    "step",
    "whole_numbers",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, registered = _HOMES[name]
    return getattr(import_module(module), registered)
