"""Queue in which clients wait for their turn to connect, at a limited rate, fair by their addresses.

Pure: times are arguments, in seconds.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from enum import Enum, auto

BURST = 0.1
"""Seconds of the rate that may pass at once after a pause, so that single clients never wait."""


class QueueFull(Exception):
    """The client is refused, since too many wait already."""


class Departed(Exception):
    """The client has hung up while it waited."""


class Outcome(Enum):
    """Ways in which a wait ends."""

    ADMITTED = auto()
    REFUSED = auto()
    """Another client had to have its place, since the queue was full."""
    DEPARTED = auto()
    """The client had hung up when its turn came, which the next one got."""


class Waiting:
    """A client in the queue, and the outcome of its wait, once there is one.

    `wake` is called when there is, and may be called before; `is_gone` tells whether the client has hung up.
    """

    __slots__ = ("address", "is_gone", "outcome", "wake")

    def __init__(
        self, address: str, wake: Callable[[], object] = lambda: None, is_gone: Callable[[], bool] = lambda: False
    ) -> None:
        self.address = address
        self.wake = wake
        self.is_gone = is_gone
        self.outcome: Outcome | None = None


class AdmissionQueue:
    """At most `most` clients that wait to be admitted at a `rate`, in clients a second.

    Addresses take turns, and the clients of one address are admitted in their order. Where the rate is that of one
    broker, `times` is their number.

    If it is full, the newest client of the address with the most clients is refused, so that one address cannot keep
    the others out.
    """

    def __init__(self, rate: float, most: int) -> None:
        self.rate = rate
        self.most = most
        self.timekeeper: Waiting | None = None
        """The client whose task admits the others when they are due."""
        self.admitted = 0
        """Number of clients that have been let through."""
        self.refused = 0
        """Number of clients that were refused, since the queue was full."""
        self.seconds = 0.0
        """Waits of admitted clients, in seconds, all together."""
        self._by_address: dict[str, deque[Waiting]] = {}
        self._size = 0
        self._free_at = -math.inf

    def __len__(self) -> int:
        return self._size

    def admits(self, now: float, times: int = 1) -> bool:
        """Admit a client that has just come, unless it has to wait."""
        if self._size or self.due_at(times) > now:
            return False
        self._admit(now, times)
        return True

    def due_at(self, times: int = 1) -> float:
        """Return the time from which on the next client may pass."""
        interval = 1 / (self.rate * times)
        return self._free_at - max(BURST, interval) + interval

    def enter(self, client: Waiting) -> None:
        """Append a client; raise `QueueFull` if it is refused."""
        if self._size >= self.most:
            self._refuse_one(client.address)
        self._by_address.setdefault(client.address, deque()).append(client)
        self._size += 1

    def leave(self, client: Waiting) -> None:
        """Remove a client that does not wait any longer, unless it is out already."""
        waiting = self._by_address.get(client.address, ())
        if client in waiting:
            self._remove(client)

    def take(self, now: float, times: int = 1) -> Waiting | None:
        """Admit or dismiss the next client, and return it; `None` if none waits, or if it is not due."""
        if not self._size or self.due_at(times) > now:
            return None
        address = next(iter(self._by_address))
        waiting = self._by_address.pop(address)
        client = waiting.popleft()
        self._size -= 1
        if waiting:
            self._by_address[address] = waiting  # behind the other addresses
        if client.is_gone():
            client.outcome = Outcome.DEPARTED
        else:
            client.outcome = Outcome.ADMITTED
            self._admit(now, times)
        client.wake()
        return client

    def any(self) -> Waiting | None:
        """Return a client that waits; `None` if there is none."""
        return next(iter(self._by_address.values()))[0] if self._size else None

    def _admit(self, now: float, times: int) -> None:
        self._free_at = max(self._free_at, now) + 1 / (self.rate * times)
        self.admitted += 1

    def _refuse_one(self, address: str) -> None:
        """Free a place for a client of an address, or raise `QueueFull`."""
        self.refused += 1
        largest = max(self._by_address.values(), key=len, default=deque[Waiting]())
        if len(largest) <= len(self._by_address.get(address, ())) + 1:
            raise QueueFull
        refused = largest[-1]
        refused.outcome = Outcome.REFUSED
        self._remove(refused)
        refused.wake()

    def _remove(self, client: Waiting) -> None:
        waiting = self._by_address[client.address]
        waiting.remove(client)
        self._size -= 1
        if not waiting:
            del self._by_address[client.address]
