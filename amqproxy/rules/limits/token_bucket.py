"""Token buckets: so much a second in the long run, and so much at once."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable

from amqproxy.amqp091.pass_cache import Credit

MAX_BUCKETS = 10_000
"""Buckets that one rule keeps at a time."""

FORGOTTEN_AT_ONCE = 4
"""Buckets that are looked at when a new one is made, and let go if they are full."""


class TokenBucket(Credit):
    """Full at first. `rate` tokens a second come in, up to `burst`; more may be owed than there are.

    `now` is in seconds of a steady clock; where it goes back, no time has passed. What others have spent counts as
    spent when the bucket is looked at next: later than it was, if at all, and so never more than it allows.
    """

    __slots__ = ("_at", "burst", "rate")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        super().__init__(burst)
        self.rate = rate
        self.burst = burst
        self._at = now

    def settle(self, now: float) -> None:
        self.level(now)

    def level(self, now: float) -> float:
        """The tokens that are there; below zero, those that are owed."""
        if now > self._at:
            level = self.left + self.spent + (now - self._at) * self.rate
            self.left = (level if level < self.burst else self.burst) - self.spent
            self._at = now
        self.spent = 0.0
        return self.left

    def is_full(self, now: float) -> bool:
        """Is it as if it had never been used?"""
        return self.level(now) >= self.burst

    def wait(self, amount: float, now: float) -> float:
        """Seconds from `now` until `amount` may be spent, which takes nothing yet.

        What is more than the bucket holds has to wait for a full one, and is then owed: else it never could be spent.
        """
        burst = self.burst
        missing = (amount if amount < burst else burst) - self.level(now)
        return missing / self.rate if missing > 0 else 0.0

    def take(self, amount: float, now: float, patience: float) -> float:
        """Spend `amount`, if that need not be waited for longer than `patience`: the seconds to wait, or -1."""
        wait = self.wait(amount, now)
        if wait > patience:
            return -1.0
        self.left -= amount
        return wait

    def spend(self, amount: float, now: float) -> None:
        """Take `amount`, whether it is there or has been waited for."""
        self.left = self.level(now) - amount

    def until(self, level: float, now: float) -> float:
        """Seconds from `now` until there are so many tokens; infinite where there never are."""
        if level > self.burst:
            return math.inf
        return max(0.0, (level - self.level(now)) / self.rate)


class Buckets:
    """One bucket for each group that has used its own lately: a full one is as good as none, and is forgotten.

    When `most` are in use at a time, those who come then share one more; a group that gets its own after that begins it
    with what the shared one has, since it may have spent from that.
    """

    __slots__ = ("_buckets", "_burst", "_common", "_most", "_rate")

    def __init__(self, rate: float, burst: float, most: int = MAX_BUCKETS) -> None:
        self._rate = rate
        self._burst = burst
        self._most = most
        self._buckets: OrderedDict[Hashable, TokenBucket] = OrderedDict()  # the one looked at last is last
        self._common: TokenBucket | None = None

    def __len__(self) -> int:
        return len(self._buckets)

    def of(self, group: Hashable, now: float) -> TokenBucket:
        """The group's bucket, which may be one that it shares."""
        bucket = self._buckets.get(group)
        if bucket is not None:
            return bucket
        self._forget(now)
        if self._common is not None and self._common.is_full(now):
            self._common = None
        if len(self._buckets) < self._most:
            bucket = self._buckets[group] = TokenBucket(self._rate, self._burst, now)
            if self._common is not None:
                bucket.spend(self._burst - self._common.level(now), now)
            return bucket
        if self._common is None:
            self._common = TokenBucket(self._rate, self._burst, now)
        return self._common

    def own(self, group: Hashable, now: float) -> TokenBucket | None:
        """The group's bucket, unless it is one that it shares."""
        bucket = self.of(group, now)
        return None if bucket is self._common else bucket

    def _forget(self, now: float) -> None:
        """Look at a few buckets, in turn, and forget those that are full."""
        for _ in range(min(FORGOTTEN_AT_ONCE, len(self._buckets))):
            group, bucket = next(iter(self._buckets.items()))
            if bucket.is_full(now):
                bucket.end()
                del self._buckets[group]
            else:
                self._buckets.move_to_end(group)
