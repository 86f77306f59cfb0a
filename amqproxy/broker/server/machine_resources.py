"""Memory in use, open files and free disk space."""

from __future__ import annotations

import os
from pathlib import Path

MEMORY_SHARE = 0.4
"""Share of the physical memory that a broker may use before publishers are blocked, as in RabbitMQ."""


def memory_in_use() -> int | None:
    """Bytes of this process that are in memory; None if the system does not report it."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def open_files() -> int:
    """Number of this process's open file descriptors; 0 if the system does not report it."""
    try:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())
    except OSError:
        return 0


def usual_memory_limit() -> int:
    """The default memory limit: publishers are blocked above this many bytes."""
    return int(MEMORY_SHARE * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def disk_free(directory: Path) -> int | None:
    """Return the bytes that may still be written in the directory; `None` if the system does not report it."""
    try:
        found = os.statvfs(directory)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize
