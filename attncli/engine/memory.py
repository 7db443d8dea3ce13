"""How much memory there is."""

from __future__ import annotations


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
