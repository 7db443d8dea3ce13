"""What is made at its first use, so that --help, completion and small problems do not pay for it: NumPy, patterns."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from attncli.machine import import_numpy


class _Lazy(ModuleType):
    """Stands for a module until an attribute is asked for.

    It is not in sys.modules, as importlib's LazyLoader would have it: there, whoever imports a submodule first
    (numpy.linalg, or a library in C) gets a package that is imported twice.
    """

    def __getattr__(self, name: str) -> Any:
        module = import_numpy() if self.__name__ == "numpy" else import_module(self.__name__)
        vars(self).update(vars(module))  # the next look-up is a plain one
        return getattr(module, name)


def lazy_module(name: str) -> ModuleType:
    """The module, whose code runs when an attribute of it is first asked for."""
    return sys.modules.get(name) or _Lazy(name)


class _Pattern:
    """A regular expression that is compiled when something is first matched."""

    def __init__(self, text: str, flags: int = 0) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        import re

        compiled = re.compile(self._text, self._flags)
        found = getattr(compiled, name)
        setattr(self, name, found)  # the next look-up is a plain one
        return found


if TYPE_CHECKING:
    from re import compile as pattern

    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[Any]
else:
    np = lazy_module("numpy")
    pattern = _Pattern
    Array = Any

__all__ = ["Array", "lazy_module", "np", "pattern"]
