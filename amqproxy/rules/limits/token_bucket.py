"""Token buckets, which limit the long-term rate and the burst."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable

from amqproxy.amqp091.pass_cache import Credit

MAX_BUCKETS = 10_000
"""Maximum number of buckets per rule."""

FORGOTTEN_AT_ONCE = 4
"""Number of buckets that are checked, and dropped if full, when a new one is made."""


class TokenBucket(Credit):
    """A bucket that starts full and gains `rate` tokens a second, up to `burst`; it can go into debt.

    `now` is in seconds of a monotonic clock; if it goes back, no time has passed. Tokens that others spent are
    subtracted at the next look at the bucket: later than they were spent, so that the bucket never allows too much.
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
        """Return the number of tokens, negative for a debt."""
        if now > self._at:
            level = self.left + self.spent + (now - self._at) * self.rate
            self.left = (level if level < self.burst else self.burst) - self.spent
            self._at = now
        self.spent = 0.0
        return self.left

    def is_full(self, now: float) -> bool:
        """Whether the bucket is in its initial state."""
        return self.level(now) >= self.burst

    def wait(self, amount: float, now: float) -> float:
        """Return the seconds from `now` until `amount` can be spent; spend nothing.

        An amount larger than the bucket waits for a full bucket and leaves a debt, since it could never be spent
        otherwise.
        """
        burst = self.burst
        missing = (amount if amount < burst else burst) - self.level(now)
        return missing / self.rate if missing > 0 else 0.0

    def take(self, amount: float, now: float, patience: float) -> float:
        """Spend `amount` if the wait is at most `patience`; return the seconds to wait, or -1."""
        wait = self.wait(amount, now)
        if wait > patience:
            return -1.0
        self.left -= amount
        return wait

    def spend(self, amount: float, now: float) -> None:
        """Spend `amount` unconditionally."""
        self.left = self.level(now) - amount

    def until(self, level: float, now: float) -> float:
        """Return the seconds from `now` until the bucket holds `level` tokens; infinite if it never does."""
        if level > self.burst:
            return math.inf
        return max(0.0, (level - self.level(now)) / self.rate)


class Buckets:
    """One bucket per recently active group; a full bucket is like a new one, and is dropped.

    Above `most` buckets, further groups share one; a group that gets its own bucket later starts with the level of the
    shared one, from which it may have spent.
    """

    __slots__ = ("_buckets", "_burst", "_common", "_most", "_rate")

    def __init__(self, rate: float, burst: float, most: int = MAX_BUCKETS) -> None:
        self._rate = rate
        self._burst = burst
        self._most = most
        self._buckets: OrderedDict[Hashable, TokenBucket] = OrderedDict()  # in the order of the last check
        self._common: TokenBucket | None = None

    def __len__(self) -> int:
        return len(self._buckets)

    def of(self, group: Hashable, now: float) -> TokenBucket:
        """Return the bucket of the group, which may be the shared one."""
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
        """Return the bucket of the group; `None` if it is the shared one."""
        bucket = self.of(group, now)
        return None if bucket is self._common else bucket

    def _forget(self, now: float) -> None:
        """Check a few buckets in turn, and drop those that are full."""
        for _ in range(min(FORGOTTEN_AT_ONCE, len(self._buckets))):
            group, bucket = next(iter(self._buckets.items()))
            if bucket.is_full(now):
                bucket.end()
                del self._buckets[group]
            else:
                self._buckets.move_to_end(group)
