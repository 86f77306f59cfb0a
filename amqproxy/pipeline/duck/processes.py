"""Work spread over processes, one per core: decoding is Python code, of which a process runs one thread at a time.

The processes do not inherit the threads and locks of this one, as those of a fork would. They end with it, however it
ends.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context, parent_process
from threading import Thread

from amqproxy.pipeline.engine import Work
from amqproxy.pipeline.source import CapturePartition


def cores() -> int:
    """Return the number of cores that this process may use."""
    return getattr(os, "process_cpu_count", os.cpu_count)() or 1


def spread(work: Work, tasks: Sequence[CapturePartition], processes: int) -> Iterator[list[str]]:
    """Yield the files of each task in order, which one of these processes works on.

    Where processes can share no lock, this one does the work.

    Raise the error of a task; `BrokenProcessPool` if a process ends early, as for lack of memory.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload(["amqproxy.pipeline.source", "amqproxy.pipeline.frame_files"])
    try:
        pool = ProcessPoolExecutor(processes, context, _begin)
    except OSError:  # /dev/shm, where its locks are, is missing, full or read-only
        yield from map(partial(_files, work), tasks)
        return
    try:
        yield from pool.map(partial(_files, work), tasks)
        pool.shutdown()
    except BaseException:
        for each in list((pool._processes or {}).values()):  # otherwise each would first complete its task
            each.terminate()
        pool.shutdown(wait=False, cancel_futures=True)
        raise


def _files(work: Work, task: CapturePartition) -> list[str]:
    return list(work([task]))


def _begin() -> None:
    """Leave Ctrl-C to the parent, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)
