"""Turns for counting the reach of policies: one of each client, as a count may take a minute."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary


class ReachTurns:
    """Turns by client address."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def turn(self, address: str) -> asyncio.Lock:
        """Return the lock that a count of the client holds."""
        return self._locks.setdefault(address, asyncio.Lock())
