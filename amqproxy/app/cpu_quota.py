"""CPU quota of the process, besides its number of cores."""

from __future__ import annotations

import math
from pathlib import Path


def cpu_quota(root: Path = Path("/")) -> float:
    """Return the quota of its control groups (version 2) in cores, infinite without a limit.

    `docker run --cpus`, `resources.limits.cpu` in Kubernetes and systemd's `CPUQuota` set such a limit; it does not
    change the number of visible cores.
    """
    try:
        groups = (root / "proc/self/cgroup").read_text()
    except OSError:
        return math.inf
    quota = math.inf
    for line in groups.splitlines():
        if line.startswith("0::/"):
            below = Path(line.removeprefix("0::/"))
            # In a container, the path may be that of the host, and only the root of it may exist.
            for group in (below, *below.parents):
                quota = min(quota, _limit(root / "sys/fs/cgroup" / group / "cpu.max"))
    return quota


def _limit(file: Path) -> float:
    try:
        most, period = file.read_text().split()
        return int(most) / int(period)
    except (OSError, ValueError, ZeroDivisionError):  # no quota, or "max"
        return math.inf
