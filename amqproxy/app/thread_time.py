"""The CPU time of one thread, for other threads to ask."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable


def own_thread_time() -> Callable[[], float]:
    """What returns how many seconds of CPU time the calling thread has used, for as long as it runs.

    Where a system does not have that for other threads, as macOS, it is the time of the process.
    """
    if sys.platform != "linux":
        return time.process_time
    clock = time.pthread_getcpuclockid(threading.get_ident())
    return lambda: time.clock_gettime(clock)
