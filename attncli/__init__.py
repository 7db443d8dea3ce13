"""attncli: an attention calculator for the command line and for Python."""

import os
import sys

_program = sys.argv[0] if sys.argv else ""
if _program.endswith(("/attncli", "attncli.exe")) or (_program == "-m" and "-m attncli" in " ".join(sys.orig_argv)):
    import _signal  # type: ignore[import-not-found]  # `signal` takes its time, during which Ctrl-C would show a traceback

    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:  # a shell's `&` has it ignored
        _signal.signal(_signal.SIGINT, lambda *_: os.write(2, b"attncli: interrupted\n") and os._exit(130))
    from attncli.ending import install

    install()

TYPE_CHECKING = False  # as typing has it, which takes its time
if TYPE_CHECKING:
    from typing import Any

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


def __getattr__(name: str) -> "Any":
    """Names are imported when they are first asked for, so that `import attncli` costs nothing."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES.get(name, "attncli.api")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
