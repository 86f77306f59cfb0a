"""Memory of the clients that were pinned or quarantined."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import NamedTuple

from amqproxy.proxy.amqp091.pools.sharing import PinReason
from amqproxy.rules.context import Client

MOST_KNOWN = 10_000
"""Largest number of clients that are remembered."""

LONGEST_PRODUCT = 100
"""Number of characters by which products are distinguished."""

WATCHED = 5
PINNED = 3
"""A client that was pinned in `PINNED` of its last `WATCHED` connections begins with a connection of its own."""

REMEMBERED_FOR = 600.0
"""Seconds for which a pin counts, so that a client that has changed its ways shares again."""


class _ClientKey(NamedTuple):
    user: str
    address: str
    product: str


class _Habit:
    def __init__(self) -> None:
        self.pins: deque[tuple[float, bool]] = deque(maxlen=WATCHED)
        """Ends of connections, each with whether the client was pinned by what it did."""
        self.quarantined_until = 0.0


class ClientHabits:
    """The last connections of clients, by user, address and product."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: OrderedDict[_ClientKey, _Habit] = OrderedDict()

    def _habit(self, client: Client) -> _Habit:
        key = _ClientKey(client.user, client.address, str(client.properties.get("product", ""))[:LONGEST_PRODUCT])
        habit = self._known.pop(key, None) or _Habit()
        self._known[key] = habit
        while len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)
        return habit

    def must_pin(self, client: Client) -> PinReason | None:
        """Return why a client begins with a connection of its own, if it does."""
        habit = self._habit(client)
        if self._clock() < habit.quarantined_until:
            return PinReason.QUARANTINE
        since = self._clock() - REMEMBERED_FOR
        return PinReason.HABIT if sum(was_pinned for at, was_pinned in habit.pins if at > since) >= PINNED else None

    def note_connection(self, client: Client, *, was_pinned: bool) -> None:
        """Note whether a client that leaves was pinned by what it did itself."""
        self._habit(client).pins.append((self._clock(), was_pinned))

    def quarantine(self, client: Client, seconds: float) -> None:
        self._habit(client).quarantined_until = self._clock() + seconds
