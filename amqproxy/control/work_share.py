"""How much of the time may be spent on those who only watch."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio

TURN = 0.001
"""Seconds of work after which all other tasks have their turn."""

REST = 4.0
"""How many times as long as they have worked, those who watch rest where there are others that have work to do."""

BUSY = 0.1
"""Others have work to do if they need more than this part of the time that was just worked."""


class WorkShare:
    """Lets the work that is done in turns have its share of a busy loop, all that do such work together."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._lock = trio.Lock()
        self._clock = clock

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Callable[[], bool]]:
        """Work within the block until the function that it is given is true; then all others have their turn."""
        async with self._lock:
            began = self._clock()
            yield lambda: self._clock() - began >= TURN
            worked = self._clock() - began
            for _ in range(2):  # in each pass of the loop the order of tasks is random: in two, all others have run
                await trio.lowlevel.checkpoint()
            if self._clock() - began - worked > BUSY * worked:
                await trio.sleep(REST * worked)
