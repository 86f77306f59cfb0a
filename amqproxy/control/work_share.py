"""Limit on the share of the event loop's time that observers may use."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio

TURN = 0.001
"""Minimum seconds of observers' work before all other tasks have their turn."""

LONGEST_TURN = 0.004
"""Seconds of a turn where the other tasks take long: with shorter ones, observers would not come to their share."""

REST = 4.0
"""Time of a busy loop without observers, as a multiple of their working time: that of other tasks, and a rest."""

BUSY = 0.1
"""The loop is busy if other tasks then take more than this fraction of the observers' working time."""


class WorkShare:
    """A common limit on the share of a busy loop for all work that is done in turns."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._lock = trio.Lock()
        self._clock = clock
        self._turn = TURN

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Callable[[], bool]]:
        """Run the block as one turn; it must end once the yielded function returns True, so that other tasks run."""
        async with self._lock:
            began, turn = self._clock(), self._turn
            yield lambda: self._clock() - began >= turn
            worked = self._clock() - began
            for _ in range(2):  # in each pass of the loop the order of tasks is random: in two, all others have run
                await trio.lowlevel.checkpoint()
            others = self._clock() - began - worked
            self._turn = min(max(TURN, others / REST), LONGEST_TURN)
            if others > BUSY * worked:
                await trio.sleep(max(0.0, REST * worked - others))
