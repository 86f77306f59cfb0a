"""How much of what outlives a client's connection each user may have in a virtual host: so that none fills it alone."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple


class UserQuotas(NamedTuple):
    """Bounds for one user in one virtual host, on named sessions and what they leave behind.

    `branches` are those of distributed transactions, `interrupted` messages (and `interrupted_bytes` of them) those of
    which a part has come, and `detached` sessions those that wait for their clients.
    """

    branches: int = 10_000
    interrupted: int = 1000
    interrupted_bytes: int = 64 * 1024 * 1024
    detached: int = 1000


class Quota:
    """How much of one thing each user has: no more than `most`."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._used: Counter[str] = Counter()

    def used(self, user: str) -> int:
        """How much that user has."""
        return self._used[user]

    def take(self, user: str, amount: int = 1) -> bool:
        """Let a user have more; False, and nothing is changed, where that is too much."""
        if self._used[user] + amount > self.most:
            return False
        self._used[user] += amount
        return True

    def give_back(self, user: str, amount: int = 1) -> None:
        """A user has less."""
        self._used[user] -= amount
        if not self._used[user]:
            del self._used[user]


class VhostQuotas:
    """The quotas of one virtual host, with what each user has of them."""

    def __init__(self, most: UserQuotas) -> None:
        self.branches = Quota(most.branches)
        self.interrupted = Quota(most.interrupted)
        self.interrupted_bytes = Quota(most.interrupted_bytes)
        self.detached = Quota(most.detached)
