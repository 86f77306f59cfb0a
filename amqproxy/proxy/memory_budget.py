"""Bytes that are kept for many owners, sessions or mirrors, with a bound for each of them and one for all."""

from __future__ import annotations

MEMORY = 512 * 1024 * 1024
SESSION_MEMORY = 64 * 1024 * 1024
"""Bytes for all sessions, and for one, unless the config has others."""


class MemoryBudget:
    """`limit` bounds the bytes that all owners keep together, `share_limit` those of each; `used` are kept now.

    No owner may keep more than is left free for the others. So those who keep much cannot take the last of it, and
    one who comes later finds room.
    """

    __slots__ = ("limit", "share_limit", "used")

    def __init__(self, limit: int = MEMORY, share_limit: int | None = None) -> None:
        self.limit = limit
        self.share_limit = limit if share_limit is None else share_limit
        self.used = 0

    @property
    def free(self) -> int:
        return max(0, self.limit - self.used)


class MemoryShare:
    """What one owner keeps of a `MemoryBudget`: `used` bytes."""

    __slots__ = ("memory", "used")

    def __init__(self, memory: MemoryBudget) -> None:
        self.memory = memory
        self.used = 0

    def add(self, size: int) -> None:
        self.used += size
        self.memory.used += size

    def remove(self, size: int) -> None:
        self.used -= size
        self.memory.used -= size

    def clear(self) -> None:
        """The owner is no more, and keeps nothing."""
        self.remove(self.used)

    def has_room(self, size: int) -> bool:
        """May the owner keep so many bytes more?"""
        used = self.used + size
        return used <= self.memory.share_limit and used <= self.memory.free - size

    @property
    def is_over(self) -> bool:
        """Does the owner keep more than it may?"""
        return not self.has_room(0)
