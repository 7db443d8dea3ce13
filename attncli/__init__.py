"""attncli: an attention calculator for the command line and for Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attncli.api import (
        assert_close,
        attend,
        check,
        cross_attention,
        diff,
        explain,
        load,
        run,
        self_attention,
    )
    from attncli.errors import AttnError
    from attncli.pipeline.trace import Trace

__version__ = "0.1.0"
__all__ = [
    "AttnError",
    "Trace",
    "__version__",
    "assert_close",
    "attend",
    "check",
    "cross_attention",
    "diff",
    "explain",
    "load",
    "run",
    "self_attention",
]

_HOMES = {"AttnError": "attncli.errors", "Trace": "attncli.pipeline.trace"}


def __getattr__(name: str) -> Any:
    """Names are imported when they are first asked for, so that `import attncli` costs nothing."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES.get(name, "attncli.api")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
