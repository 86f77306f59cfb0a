"""Turns at a bounded resource, shared fairly among the networks of clients."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


class FairTurns:
    """At most `at_once` turns at the same time, of which one key has half at most, and at least one.

    Those that wait get their turn by key, round robin: 1,000 guesses of one address delay the login of another one by
    the end of one turn.
    """

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._share = max(1, at_once // 2)
        self._held: Counter[str] = Counter()
        self._waiting: OrderedDict[str, OrderedDict[trio.Event, None]] = OrderedDict()

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[None]:
        """Wait for a turn, which lasts for the block."""
        if self._free and self._held[key] < self._share:
            self._take(key)
        else:
            await self._wait(key)
        try:
            yield
        finally:
            self._release(key)

    def _take(self, key: str) -> None:
        self._free -= 1
        self._held[key] += 1

    async def _wait(self, key: str) -> None:
        granted = trio.Event()
        self._waiting.setdefault(key, OrderedDict())[granted] = None
        try:
            await granted.wait()
        except trio.Cancelled:
            if granted.is_set():  # in the same turn of the loop
                self._release(key)
            else:
                waiting = self._waiting[key]
                del waiting[granted]
                if not waiting:
                    del self._waiting[key]
            raise

    def _release(self, key: str) -> None:
        self._free += 1
        self._held[key] -= 1
        if not self._held[key]:
            del self._held[key]  # the table holds no client that is gone
        # A key that has its share is passed over; there are two of them at most.
        chosen = next((each for each in self._waiting if self._held[each] < self._share), None)
        if chosen is None:
            return
        waiting = self._waiting.pop(chosen)
        granted, _ = waiting.popitem(last=False)
        if waiting:
            self._waiting[chosen] = waiting  # behind the others
        self._take(chosen)
        granted.set()
