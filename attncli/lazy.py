"""NumPy that is imported at its first use, so that --help, completion and usage errors do not pay for it."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any


class _Lazy(ModuleType):
    """Stands for a module until an attribute is asked for.

    It is not in sys.modules, as importlib's LazyLoader would have it: there, whoever imports a submodule first
    (numpy.linalg, or a library in C) gets a package that is imported twice.
    """

    def __getattr__(self, name: str) -> Any:
        module = import_module(self.__name__)
        vars(self).update(vars(module))  # the next look-up is a plain one
        return getattr(module, name)


def lazy_module(name: str) -> ModuleType:
    """The module, whose code runs when an attribute of it is first asked for."""
    return sys.modules.get(name) or _Lazy(name)


if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[Any]
else:
    np = lazy_module("numpy")
    Array = Any

__all__ = ["Array", "lazy_module", "np"]
