"""Quotas per user and virtual host for objects that outlive a connection, so that no user exhausts a virtual host."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple


class UserQuotas(NamedTuple):
    """Bounds for one user in one virtual host, on named sessions and what they leave behind.

    `branches` are branches of distributed transactions, `interrupted` partially received messages (`interrupted_bytes`
    in total), and `detached` sessions without a client.
    """

    branches: int = 10_000
    interrupted: int = 1000
    interrupted_bytes: int = 64 * 1024 * 1024
    detached: int = 1000


class Quota:
    """Usage of one resource by each user, at most `most`."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._used: Counter[str] = Counter()

    def used(self, user: str) -> int:
        """Return the amount that a user holds."""
        return self._used[user]

    def take(self, user: str, amount: int = 1) -> bool:
        """Add to a user's amount; return False without any change if that exceeds the quota."""
        if self._used[user] + amount > self.most:
            return False
        self._used[user] += amount
        return True

    def give_back(self, user: str, amount: int = 1) -> None:
        """Deduct from a user's amount."""
        self._used[user] -= amount
        if not self._used[user]:
            del self._used[user]


class VhostQuotas:
    """The quotas of one virtual host with each user's usage."""

    def __init__(self, most: UserQuotas) -> None:
        self.branches = Quota(most.branches)
        self.interrupted = Quota(most.interrupted)
        self.interrupted_bytes = Quota(most.interrupted_bytes)
        self.detached = Quota(most.detached)
