"""The streams: results go to standard output, notes and errors to standard error, and each end has its exit status."""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, TextIO

from attncli import extensions, ledger, machine
from attncli.errors import AttnError, MachineError, UsageError, nearest
from attncli.escapes import shown

_PIECE = 1 << 26  # bytes of standard input at a time
DONE, DIFFERENT, WRONG, MACHINE, FAULT, INTERRUPTED, CLOSED = 0, 1, 2, 3, 70, 130, 141


def prepare() -> None:
    """Make the streams take every character, one that the encoding lacks as an escape, and write all of it or fail."""
    for number, mode in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_RDONLY)):
        try:
            os.fstat(number)
        except OSError:  # closed: no file of ours may get its number; whoever uses it gets an error as before
            os.open(os.devnull, mode)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(getattr(stream, "buffer", None), io.RawIOBase):
            # PYTHONUNBUFFERED: what a full disk or a closed pipe takes only half of would be lost without an error.
            stream = io.TextIOWrapper(io.BufferedWriter(stream.buffer), stream.encoding, line_buffering=True)
            setattr(sys, name, stream)
        if stream is not None and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def write(result: str | bytes) -> None:
    """Write a result, text or the bytes of a file, to standard output. Raises MachineError where that is closed."""
    if not result:
        return
    if sys.stdout is None:
        raise MachineError("standard output is closed")
    if isinstance(result, str):
        sys.stdout.write(result if result.endswith("\n") else result + "\n")
        return
    binary = getattr(sys.stdout, "buffer", None)
    if binary is None:  # a stream of text alone, such as a notebook's
        sys.stdout.write(result.decode())
        return
    sys.stdout.flush()
    binary.write(result)


def write_data(text: str) -> None:
    """Write what a program is to read: UTF-8 wherever it goes; bytes of names that are none stand as escapes."""
    write(text.encode("utf-8", "backslashreplace"))


def flush() -> None:
    """Hand on what was written to standard output, to a reader who waits for each line."""
    if sys.stdout is not None:
        sys.stdout.flush()


def notes(texts: Iterable[str]) -> None:
    """Write notes to standard error, each once."""
    for text in dict.fromkeys(texts):
        _say("note: ", text)


def error(problem: AttnError) -> None:
    """Write an error to standard error: what is wrong, where, and indented below it what mends it."""
    for inner in problem.errors():
        _say("attncli: ", inner.head(), inner.hint)


def tell(problem: BaseException) -> int:
    """Say what ended the program, and give its exit status."""
    if isinstance(problem, SystemExit):
        if isinstance(problem.__context__, BrokenPipeError):  # met by Click, which makes it a 1
            return tell(problem.__context__)
        return problem.code if isinstance(problem.code, int) else DONE
    if isinstance(problem, AttnError):
        error(problem)
        return MACHINE if any(isinstance(inner, MachineError) for inner in problem.errors()) else WRONG
    if hasattr(problem, "format_message"):
        error(_usage(problem))
        return WRONG
    if isinstance(problem, KeyboardInterrupt):
        _say("attncli: ", "interrupted")
        return INTERRUPTED
    if isinstance(problem, BrokenPipeError):
        _discard(sys.stdout)
        return CLOSED
    if machine.is_to_blame(problem):
        _say("attncli: ", "not enough threads" if "thread" in str(problem) else "not enough memory", str(problem))
        return MACHINE
    if isinstance(problem, OSError):
        _discard(sys.stdout)
        import errno

        where = problem.filename or ("standard output" if problem.errno in (errno.ENOSPC, errno.EFBIG) else None)
        _say("attncli: ", ": ".join(os.fsdecode(part) for part in (where, problem.strerror or str(problem)) if part))
        return MACHINE
    theirs = extensions.fault(problem)
    if theirs is not None:
        error(theirs)
        return WRONG
    return _fault(problem)


def finish(status: int) -> int:
    """Empty the buffer of standard output while errors can still be told; gives the final exit status."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, KeyboardInterrupt) as problem:
        status = tell(problem)
    return status


def colour(stream: TextIO | None = None, said: str | None = None) -> bool:
    """Whether to write colours: on a terminal, unless NO_COLOR is set; elsewhere only if FORCE_COLOR says so.

    said: what --color says, `always` or `never`, which wins over the environment.
    """
    if said in ("always", "never"):
        return said == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return is_terminal(stream) and os.environ.get("TERM") != "dumb"


def many_colours() -> bool:
    """Whether whoever reads has 256 colours, as TERM or COLORTERM say."""
    return os.environ.get("TERM", "").endswith(("256color", "-direct")) or bool(os.environ.get("COLORTERM"))


def is_terminal(stream: TextIO | None = None) -> bool:
    """Whether somebody looks at the stream, standard output unless another is named."""
    stream = stream or sys.stdout
    return stream is not None and stream.isatty()


def width(stream: TextIO | None = None) -> int | None:
    """How many columns standard output (or another stream) has.

    COLUMNS if it is a positive number, else the terminal's; None: no end.
    """
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns) > 0:
        return int(columns)
    if is_terminal(stream):
        try:
            return os.get_terminal_size((stream or sys.stdout).fileno()).columns or None
        except OSError:
            return None
    return None


def encoding() -> str:
    """The encoding of standard output."""
    return getattr(sys.stdout, "encoding", None) or "utf-8"


def read_stdin() -> bytes:
    """All of standard input. Raises UsageError for a device, MachineError where it fills the memory."""
    if sys.stdin is None:
        raise UsageError("standard input is closed")
    with suppress(OSError, ValueError):  # a stream without a file
        status = os.fstat(sys.stdin.fileno())
        if stat.S_ISREG(status.st_mode):
            ledger.remember(status)
        if stat.S_ISCHR(status.st_mode) and not sys.stdin.isatty() and not _is_null(status):
            raise UsageError("standard input is a device, not a file or a pipe")
    from attncli.engine.memory import memory_available

    pieces, size = list[bytes](), 0
    while piece := sys.stdin.buffer.read(_PIECE):
        pieces.append(piece)
        size += len(piece)
        free = memory_available() if size > _PIECE else None
        if free is not None and 2 * size > free:  # it is joined, and then read
            raise MachineError("not enough memory for standard input, which does not end", hint="is that meant?")
    return b"".join(pieces)


def _is_null(status: os.stat_result) -> bool:
    return os.path.samestat(status, os.stat(os.devnull))


def _say(prefix: str, text: str, hint: str | None = None) -> None:
    """One message on standard error; the lines of the hint are indented."""
    lines = [prefix + text, *(hint.split("\n") if hint else ())]
    message = "\n  ".join(map(shown, lines))
    if sys.stderr is None:
        return
    if is_terminal(sys.stderr):  # which would break a long line within a word
        message = _folded(message, width(sys.stderr))
    try:
        if sys.stdout is not None:
            sys.stdout.flush()  # a note that follows a table stands below it, also where both go to one file
    except OSError:
        pass  # told by `finish`
    try:
        sys.stderr.write(message + "\n")
        sys.stderr.flush()
    except OSError:
        pass  # nobody is there to read it


def _folded(message: str, width: int | None) -> str:
    """The message with lines that fit, broken at blanks alone."""
    if width is None or all(len(line) <= width for line in message.split("\n")):
        return message
    from textwrap import wrap

    folded = (
        wrap(line, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False) or [line]
        for line in message.split("\n")
    )
    return "\n".join(line for lines in folded for line in lines)


def _usage(problem: BaseException) -> UsageError:
    """An error of Typer's in our words."""
    context = getattr(problem, "ctx", None)
    command = context.command_path if context else "attncli"
    see = f"`{command} --help` tells what there is"
    option = getattr(problem, "option_name", None)
    if type(problem).__name__ == "NoSuchOption" and option:
        known = [name for parameter in context.command.params for name in parameter.opts] if context else []
        known = [name for name in known if name.startswith("-")]
        see = see.replace("--help", "--help-all") if context and context.parent else see
        close = nearest(option, [*known, "--help"])
        # Asking every command takes as long as all need to start: only for an option that some of them may have.
        others = _commands_with(option, context) if close is None or option in _flags() else []
        if others:
            hint = f"{', '.join(others)} {'has' if len(others) == 1 else 'have'} it; {see}"
            return UsageError(f"`{command}` has no option {option}", hint=hint)
        return UsageError(f"no such option: {option}", hint=f"did you mean {close}? {see}" if close else see)
    message = problem.format_message().rstrip(".")  # type: ignore[attr-defined]
    return UsageError(message[:1].lower() + message[1:], hint=see)


def _flags() -> list[str]:
    """The options of the table of settings."""
    from attncli.problem.settings import FIELDS

    return [field.flag for field in FIELDS.values() if field.flag]


def _commands_with(option: str, context: Any) -> list[str]:
    """The commands that have an option, as `attncli NAME`."""
    commands = getattr(context.find_root().command, "commands", {}) if context else {}
    found = []
    for name, lazy in commands.items():
        command = lazy.make_context(name, [], resilient_parsing=True).command
        if any(option in parameter.opts for parameter in command.params):
            found.append(f"`attncli {name}`")
    return found


def _fault(problem: BaseException) -> int:
    """A mistake of attncli itself: one line, and the traceback only for those who ask for it."""
    if os.environ.get("ATTNCLI_DEBUG"):
        import traceback

        traceback.print_exception(problem)
    _say(
        "attncli: ",
        f"this is a fault of attncli itself: {type(problem).__name__}: {problem}".rstrip(": "),
        "please report it, with the command and its files; ATTNCLI_DEBUG=1 shows where it happened",
    )
    return FAULT


def _discard(stream: TextIO | None) -> None:
    """Let what is still in the buffer go nowhere, so that Python does not complain of it at exit."""
    try:
        if stream is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):
        pass
