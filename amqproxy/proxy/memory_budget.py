"""Byte budgets shared by many owners, sessions or mirrors, with a limit for each of them and one for all."""

from __future__ import annotations

MEMORY = 512 * 1024 * 1024
SESSION_MEMORY = 64 * 1024 * 1024
"""Default limits in bytes for all sessions, and for one."""


class MemoryBudget:
    """A byte budget: `limit` is for all owners together, `share_limit` for each of them; `used` is the current total.

    No owner may keep more than is left free for the others. Large owners therefore cannot exhaust the budget, and new
    ones find room.
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
    """One owner's share of a `MemoryBudget`: `used` bytes."""

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
        """Release the whole share, when the owner ends."""
        self.remove(self.used)

    def has_room(self, size: int) -> bool:
        """Whether the owner may keep `size` more bytes."""
        used = self.used + size
        return used <= self.memory.share_limit and used <= self.memory.free - size

    @property
    def is_over(self) -> bool:
        """Whether the owner keeps more than it may."""
        return not self.has_room(0)
