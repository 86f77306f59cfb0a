"""What the broker uses of the machine: memory, and room on the disk."""

from __future__ import annotations

import os
from pathlib import Path

MEMORY_SHARE = 0.4
"""Of all memory: what a broker may use before publishers are blocked, as with RabbitMQ."""


def memory_in_use() -> int | None:
    """Bytes of this process that are in memory; None if the system does not report it."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def usual_memory_limit() -> int:
    """The default memory limit: publishers are blocked above this many bytes."""
    return int(MEMORY_SHARE * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def disk_free(directory: Path) -> int | None:
    """Bytes that we may still write where the directory is; None if the system does not report it."""
    try:
        found = os.statvfs(directory)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize
