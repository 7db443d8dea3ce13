"""NumPy that is imported at its first use, so that --help, completion and usage errors do not pay for it."""

from __future__ import annotations

import sys
from importlib.util import LazyLoader, find_spec, module_from_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any


def lazy_module(name: str) -> ModuleType:
    """The module, whose code runs when an attribute of it is first asked for."""
    if name in sys.modules:
        return sys.modules[name]
    spec = find_spec(name)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(name)
    spec.loader = LazyLoader(spec.loader)
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[Any]
else:
    np = lazy_module("numpy")
    Array = Any

__all__ = ["Array", "lazy_module", "np"]
