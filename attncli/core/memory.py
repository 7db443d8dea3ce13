"""How much memory a problem needs, before it starts, and how much there is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attncli.core.attend import Rules
from attncli.core.blocks import Large
from attncli.core.tiled import STREAMED, is_large
from attncli.core.trace import STEPS, wanted
from attncli.core.workers import thread_count
from attncli.errors import MachineError
from attncli.lazy import Array, np

# What blocks take on each thread, measured; and the program itself.
_THREAD = 32 * 2**20
_ASIDE = 32 * 2**20
# Arrays of n x m that the definition holds at once besides the steps, measured: of softmax, of one that sorts.
_PASSING, _SORTING = 2, 6


def memory_needed(inputs: Mapping[str, Array], rules: Rules, steps: Iterable[str] | None = None) -> int:
    """About how many bytes computing these steps (None: all) takes, besides the inputs."""
    return sum(memory_by_step(inputs, rules, steps).values())


def memory_by_step(inputs: Mapping[str, Array], rules: Rules, steps: Iterable[str] | None = None) -> dict[str, int]:
    """The bytes that each step takes, and under "blocks", "passing" and "aside" what is held besides."""
    large = Large(_empty_copies(inputs), rules)
    size = large.dtype.itemsize
    scores = int(np.prod((*large.lead, large.extent.n, large.extent.m), dtype=int))
    width = 0 if large.parts.v is None else large.parts.v.shape[-1]
    output = int(np.prod((*large.lead, large.extent.n, width), dtype=int))
    needed = {name: int(array.size) * size for name, array in large.steps.items() if name not in inputs}
    keep = wanted(steps)
    if keep is not None and is_large(inputs, rules, keep):
        return needed | {"output": output * size, "blocks": _THREAD * thread_count() + _ASIDE}
    for name in _steps_of(large):
        needed[name] = (scores if STEPS[name].columns == "key" else output) * size
    if keep is not None:
        needed |= {name: scores * size for name in keep if name in ("exp",)}
    passing = _PASSING if large.normalizer.name == "softmax" else _SORTING
    return needed | {"passing": passing * scores * size, "aside": _ASIDE}


def _steps_of(large: Large) -> list[str]:
    """The steps of n rows that the definition holds."""
    rules = large.rules
    kernel = large.score is not None and large.score.kernel is not None
    exists = {
        "kernel": kernel or large.begin == "kernel",
        "scores": large.begin not in ("scaled", "masked", "weights"),
        "scaled": large.has_scale,
        "capped": rules.softcap is not None,
        "biased": large.bias is not None,
        "masked": bool(rules.masks),
        "weights": True,
        "heads": (large.extent.heads or 1) > 1,
        "output": large.parts.v is not None,
    }
    return [name for name, there in exists.items() if there]


def _empty_copies(inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Arrays of the same shapes and dtypes that take no memory, for asking what would come out."""
    return {name: np.broadcast_to(np.zeros((), array.dtype), array.shape) for name, array in inputs.items()}


def check_memory(inputs: Mapping[str, Array], rules: Rules, steps: Iterable[str] | None = None) -> None:
    """Refuse, with the number and the way out, what would not fit. Raises MachineError."""
    needed, there = memory_needed(inputs, rules, steps), memory_available()
    if there is not None and needed > there:
        raise MachineError(
            f"this needs {in_words(needed)} of memory, but {in_words(there)} are free",
            hint="--show output, or -o weights=FILE.npy, holds one block at a time"
            if not STREAMED.issuperset(wanted(steps) or STEPS)
            else "--dtype float32 halves it",
        )


def memory_available() -> int | None:
    """The bytes that we may still take: free memory, and what a control group or a limit leaves; None if unknown."""
    return min((size for size in (_free(), _control_group(), _address_space()) if size is not None), default=None)


def in_words(size: int) -> str:
    """3221225472 as `3.0 GiB`."""
    number, unit = float(size), "bytes"
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if number < 1024 or unit == "TiB":
            break
        number /= 1024
    return f"{number:.0f} {unit}" if unit == "bytes" else f"{number:.1f} {unit}"


def _free() -> int | None:
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def _control_group() -> int | None:
    """What the control group of this process, or one above it, leaves (version 2, then version 1)."""
    left = []
    for limit, used in _group_files():
        try:
            with open(limit, encoding="ascii") as most, open(used, encoding="ascii") as now:
                left.append(int(most.read()) - int(now.read()))
        except (OSError, ValueError):  # "max": no limit
            continue
    return max(0, min(left)) if left else None


def _group_files() -> list[tuple[str, str]]:
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as lines:
            entries = [line.rstrip("\n").split(":", 2) for line in lines]
    except OSError:
        return []
    files = []
    for _, controllers, path in entries:
        if controllers and "memory" not in controllers.split(","):
            continue
        root = "/sys/fs/cgroup" if not controllers else "/sys/fs/cgroup/memory"
        limit, used = ("memory.max", "memory.current") if not controllers else _VERSION_1
        parts = path.strip("/").split("/") if path.strip("/") else []
        for depth in range(len(parts) + 1):
            folder = "/".join([root, *parts[:depth]])
            files.append((f"{folder}/{limit}", f"{folder}/{used}"))
    return files


_VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes")


def _address_space() -> int | None:
    """What `ulimit -v` leaves."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return None
        with open("/proc/self/statm", encoding="ascii") as sizes:
            return max(0, int(limit) - int(sizes.read().split()[0]) * resource.getpagesize())
    except (ImportError, OSError):
        return None
