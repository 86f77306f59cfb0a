"""How much processor time the system lets this process have, beside how many cores it sees."""

from __future__ import annotations

import math
from pathlib import Path


def cpu_quota(root: Path = Path("/")) -> float:
    """Cores' worth of time that its control groups (version 2) allow it together, infinite where they set no limit.

    A container has such a limit by `docker run --cpus`, `resources.limits.cpu` of Kubernetes, and a service by
    `CPUQuota` of systemd; the cores that it may run on are as many as without.
    """
    try:
        groups = (root / "proc/self/cgroup").read_text()
    except OSError:
        return math.inf
    quota = math.inf
    for line in groups.splitlines():
        if line.startswith("0::/"):
            below = Path(line.removeprefix("0::/"))
            # In a container the path may be that of the machine, and only the last, the root, be there.
            for group in (below, *below.parents):
                quota = min(quota, _limit(root / "sys/fs/cgroup" / group / "cpu.max"))
    return quota


def _limit(file: Path) -> float:
    try:
        most, period = file.read_text().split()
        return int(most) / int(period)
    except (OSError, ValueError, ZeroDivisionError):  # none, or "max"
        return math.inf
