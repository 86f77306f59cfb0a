"""Log lines about the broker's clients, limited per address and interval, with the number of omitted lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio

from amqproxy.process.log import logger

MOST_LINES = 100
"""Lines logged about one address in an interval; of further lines, only the number is logged."""

INTERVAL = 10.0
"""Length of an interval in seconds."""

MOST_ADDRESSES = 1000
"""Addresses that are counted separately in an interval; all others count as one."""

OTHERS = "other addresses"


class ConnectionLog:
    """Lines about connections, so bounded that no client can flood the log. Lines at debug are not counted.

    `now` is a steady clock, in seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._windows: dict[str, _AddressWindow] = {}
        self._has_more = trio.Event()

    def write(self, level: str, event: str, address: str, **fields: Any) -> None:
        """Log a line about a client at an address, unless there were many."""
        if level == "debug" or self._is_one_of_few(address):
            getattr(logger(), level)(event, **fields)

    def _is_one_of_few(self, address: str) -> bool:
        if address not in self._windows and len(self._windows) >= MOST_ADDRESSES:
            self.flush()
            if len(self._windows) >= MOST_ADDRESSES:
                address = OTHERS
        window = self._windows.get(address)
        if window is None or self._now() >= window.until:
            self._end(address, window)
            window = self._windows[address] = _AddressWindow(self._now() + INTERVAL)
        window.count += 1
        if window.count <= MOST_LINES:
            return True
        self._has_more.set()
        return False

    def flush(self) -> None:
        """Log the number of omitted lines of the elapsed intervals."""
        now = self._now()
        for address, window in list(self._windows.items()):
            if now >= window.until:
                self._end(address, window)
                del self._windows[address]

    def _end(self, address: str, window: _AddressWindow | None) -> None:
        if window is not None and window.count > MOST_LINES:
            logger().warning("more lines about connections", address=address or None, count=window.count - MOST_LINES)

    async def run(self) -> None:
        """Log the numbers of omitted lines after each interval, until cancelled."""
        while True:
            await self._has_more.wait()
            self._has_more = trio.Event()
            await trio.sleep(INTERVAL)
            self.flush()


class _AddressWindow:
    """The lines about one address until a time."""

    __slots__ = ("count", "until")

    def __init__(self, until: float) -> None:
        self.count = 0
        self.until = until
