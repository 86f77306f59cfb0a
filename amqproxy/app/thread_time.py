"""CPU time of one thread, readable by other threads."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable


def own_thread_time() -> Callable[[], float]:
    """Return a function that returns the CPU seconds of the calling thread, for as long as it runs.

    On systems without that for other threads, such as macOS, it returns the time of the process.
    """
    if sys.platform != "linux":
        return time.process_time
    clock = time.pthread_getcpuclockid(threading.get_ident())
    return lambda: time.clock_gettime(clock)
