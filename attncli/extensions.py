"""Code of the user's own: files given by `--load`, and packages that are installed with an entry point of ours.

Both bring entries by importing what registers them. Installed ones are looked up where a name is unknown or all names
are told, since asking what is installed takes as long as a small problem.
"""

from __future__ import annotations

import os
import sys
from types import CodeType, ModuleType

from attncli.errors import AttnError, InputError, Place, UsageError

GROUP = "attncli"
_SECTION = f"[{GROUP}]".encode()
_ABOUT = (".dist-info", ".egg-info", "EGG-INFO")  # the folders in which packages tell of themselves

# What was loaded: the files of --load with their bytes, and the entry points by name with the code's version.
_files: dict[str, bytes] = {}
_installed: dict[str, str] | None = None
_homes: set[str] = set()  # files and folders whose faults are told as theirs


def load(file: str) -> None:
    """Run a Python file, once, so that it registers what it adds.

    Its module is called as the file, so that other processes find what it defines. Raises InputError with the line of
    what is wrong in it.
    """
    path = os.path.abspath(file)
    if path in _files:
        return
    try:
        with open(path, "rb") as stream:
            source = stream.read()
    except OSError as error:
        what = f"could not read it: {error.strerror}"
        raise InputError(what, place=Place(file), hint="--load takes a Python file") from None
    name = os.path.splitext(os.path.basename(path))[0]
    if name in sys.modules or name in sys.stdlib_module_names:
        raise UsageError(f"there is a module {name!r} already", place=Place(file), hint="give the file another name")
    module = ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module
    _homes.add(file)
    try:
        exec(_compiled(source, file), vars(module))
    except AttnError:
        del sys.modules[name]
        raise
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise fault(error) or InputError(_said(error), place=Place(file)) from None
    _files[path] = source


def load_sources(sources: dict[str, bytes]) -> None:
    """The files that another process has loaded, here; from their bytes where this machine has not got them."""
    for path, source in sources.items():
        name = os.path.splitext(os.path.basename(path))[0]
        if path not in _files:
            module = sys.modules[name] = ModuleType(name)
            module.__file__ = path
            exec(_compiled(source, path), vars(module))
            _files[path] = source
            _homes.add(path)


def installed() -> bool:
    """Import what installed packages bring by entry points of the group `attncli`; gives whether that is new.

    Raises InputError where one of them cannot be imported.
    """
    global _installed
    if _installed is not None:
        return False
    _installed = {}
    if not _is_mentioned():
        return False
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP):
        try:
            point.load()
        except (Exception, SystemExit) as error:
            package = point.dist.name if point.dist else point.value
            raise InputError(
                f"the extension {point.name!r} of the package {package!r} cannot be imported: {_said(error)}",
                hint=f"pip uninstall {package}, or mend it: {_last_line(error)}",
            ) from None
        _installed[point.name] = f"{point.value} {point.dist.version if point.dist else ''}"
        home = getattr(sys.modules[point.module], "__file__", None)
        if home:
            _homes.add(os.path.dirname(home) + os.sep if os.path.basename(home) == "__init__.py" else home)
    return bool(_installed)


def _is_mentioned() -> bool:
    """Whether some package may name our group: a look at their files takes a tenth of what importlib.metadata does."""
    for folder in map(os.fspath, sys.path):
        if os.path.isfile(folder):
            return True  # an archive, into which importlib.metadata looks
        try:
            names = [name for name in os.listdir(folder or ".") if name.endswith(_ABOUT)]
        except OSError:
            continue
        for name in names:
            try:
                with open(os.path.join(folder, name, "entry_points.txt"), "rb") as stream:
                    if _SECTION in stream.read():
                        return True
            except OSError:
                continue
    return False


def sources() -> dict[str, bytes]:
    """The files that were loaded, by path, with what they held."""
    return dict(_files)


def versions() -> list[str]:
    """What a result depends on besides attncli: the bytes of loaded files, the versions of installed extensions."""
    return [repr(source) for source in _files.values()] + sorted((_installed or {}).values())


def fault(error: BaseException) -> AttnError | None:
    """An error that happened in code of the user's own, with its line there; None where none of that took part."""
    if isinstance(error, SyntaxError) and error.filename in _homes:
        return InputError(f"{error.msg}", place=Place(error.filename, error.lineno or 1, error.offset))
    trace, place = error.__traceback__, None
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file in _homes or any(home.endswith(os.sep) and file.startswith(home) for home in _homes):
            place = Place(file, trace.tb_lineno)
        trace = trace.tb_next
    return InputError(_said(error), place=place) if place else None


def _compiled(source: bytes, path: str) -> CodeType:
    return compile(source, path, "exec", dont_inherit=True)


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")


def _last_line(error: BaseException) -> str:
    """Where it happened."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else ""
