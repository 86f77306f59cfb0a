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
    """A common limit on the share of a busy loop for all work that is done in turns.

    Work is measured by `spent`, the thread's processor time: a busy machine may suspend the process within a turn, and
    observers would otherwise rest for four times as long as other processes ran. Turns end by `clock`, which costs
    less to read.
    """

    def __init__(
        self, clock: Callable[[], float] = time.perf_counter, spent: Callable[[], float] = time.thread_time
    ) -> None:
        self._lock = trio.Lock()
        self._clock = clock
        self._spent = spent
        self._turn = TURN

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Callable[[], bool]]:
        """Run the block as one turn; it must end once the yielded function returns True, so that other tasks run."""
        async with self._lock:
            ends, before = self._clock() + self._turn, self._spent()
            yield lambda: self._clock() >= ends
            after = self._spent()
            worked = after - before
            for _ in range(2):  # in each pass of the loop the order of tasks is random: in two, all others have run
                await trio.lowlevel.checkpoint()
            others = self._spent() - after
            self._turn = min(max(TURN, others / REST), LONGEST_TURN)
            if others > BUSY * worked:
                await trio.sleep(max(0.0, REST * worked - others))
