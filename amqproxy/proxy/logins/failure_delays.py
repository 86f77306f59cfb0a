"""Delays of refused logins, which slow down guesses."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b

MAX_DELAY = 30.0
"""Longest delay, in seconds, unless the first one is longer."""

MEMORY = 600.0
"""Time in seconds after which the failures of an address and a user are forgotten, if none was added."""

MAX_ENTRIES = 16_384
"""Maximum number of pairs of address and user; beyond it, the one that failed longest ago is forgotten: 3 MiB."""

Key = tuple[str, bytes]


class FailureDelays:
    """Delays by client network and user: the first one, then twice as long each time.

    `clock` is in seconds. Only refused logins are delayed: one with the right password never waits for others.
    """

    def __init__(self, first: float, clock: Callable[[], float]) -> None:
        self.first = first
        self._clock = clock
        self._failures: OrderedDict[Key, tuple[int, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._failures)

    def fail(self, network: str, user: str) -> float:
        """Count a failure; return the time in seconds after which it is answered."""
        now, key = self._clock(), _key(network, user)
        count, last = self._failures.pop(key, (0, now))
        if now - last > MEMORY:
            count = 0
        self._failures[key] = count + 1, now
        if len(self._failures) > MAX_ENTRIES:
            self._failures.popitem(last=False)
        return min(self.first * 2.0 ** min(count, 64), max(MAX_DELAY, self.first))

    def forget(self, network: str, user: str) -> None:
        """Forget the failures of a pair that has logged in."""
        self._failures.pop(_key(network, user), None)


def _key(network: str, user: str) -> Key:
    """Return a key of bounded size, however long the name is that a client sends."""
    return network, blake2b(user.encode("utf-8", "surrogatepass"), digest_size=16).digest()
