"""Limit on the share of the event loop's time that observers may use."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio

TURN = 0.001
"""Seconds of observers' work before all other tasks have their turn."""

REST = 4.0
"""Rest of observers on a busy loop, as a multiple of their working time."""

BUSY = 0.1
"""The loop is busy if other tasks then take more than this fraction of the observers' working time."""


class WorkShare:
    """A common limit on the share of a busy loop for all work that is done in turns."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._lock = trio.Lock()
        self._clock = clock

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Callable[[], bool]]:
        """Run the block as one turn; it must end once the yielded function returns True, so that other tasks run."""
        async with self._lock:
            began = self._clock()
            yield lambda: self._clock() - began >= TURN
            worked = self._clock() - began
            for _ in range(2):  # in each pass of the loop the order of tasks is random: in two, all others have run
                await trio.lowlevel.checkpoint()
            if self._clock() - began - worked > BUSY * worked:
                await trio.sleep(REST * worked)
