"""What the machine leaves us where somebody has set a limit, `ulimit -v` say; and which errors are the machine's."""

from __future__ import annotations

import errno

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

# Address space that libraries take, measured: up to the first command, and NumPy with the buffers of its BLAS.
START, NUMPY = 24 * 2**20, 144 * 2**20
_FOR_THREADS = 4 * 2**30  # from which on each thread of BLAS may have buffers of its own


def has_room(size: int) -> bool:
    """Whether so many bytes of address space are left; where no limit is set, nothing is tried."""
    try:
        import resource
    except (ImportError, MemoryError, OSError) as error:
        return type(error) is ModuleNotFoundError  # a system without limits
    limits = (resource.RLIMIT_AS, resource.RLIMIT_DATA)
    if all(resource.getrlimit(limit)[0] == resource.RLIM_INFINITY for limit in limits):
        return True
    try:
        import mmap

        mmap.mmap(-1, size).close()
    except (ImportError, MemoryError, OSError, ValueError):
        return False
    return True


def is_to_blame(error: BaseException) -> bool:
    """Whether the error means that memory, address space or threads were not to be had."""
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    text = str(error)
    if isinstance(error, ImportError):
        return "failed to map" in text or "cannot allocate" in text.lower() or not has_room(START)
    return isinstance(error, RuntimeError | SystemError) and ("start new thread" in text or not has_room(START))


def import_numpy() -> ModuleType:
    """NumPy. Where there is little room, its BLAS gets one thread, and takes its buffers now.

    Raises MachineError where there is no room for it: BLAS would end the program, with a status of its own.
    """
    from attncli.errors import MachineError

    little = not has_room(_FOR_THREADS)
    if little:
        import os

        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        if not has_room(NUMPY):
            what = f"not enough memory: NumPy needs {NUMPY >> 20} MiB of address space"
            raise MachineError(what, hint="ulimit -v tells the limit, in KiB")
    try:
        import numpy
    except KeyboardInterrupt:  # which OpenBLAS sends where it cannot start its threads
        if _can_start_a_thread():
            raise
        raise MachineError("no more threads can be started", hint="ulimit -u tells the limit") from None
    if little:
        large = numpy.ones((256, 256))
        large @ large
    return numpy


def _can_start_a_thread() -> bool:
    import _thread

    try:
        _thread.start_new_thread(int, ())
    except RuntimeError:
        return False
    return True
