"""Bounds that the channels of one connection share."""

from __future__ import annotations

from typing import NamedTuple

MAX_MEMORY = 8 << 20
"""Bytes that one connection may hold for what is not a range: requests, consumers and recent methods. What goes beyond
it is not remembered."""

SPAN_COST = 200
"""Bytes that a range of open tags takes, about."""


class Budget:
    """How much more of something the channels of one connection may hold, all together.

    `left` is below 0 while a channel holds more than it may, until it has forgotten something.
    """

    __slots__ = ("left", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self.left = most

    @property
    def used(self) -> int:
        return self.most - self.left

    def take(self, amount: int) -> bool:
        """Take this much, if it is there."""
        if amount > self.left:
            return False
        self.left -= amount
        return True

    def give(self, amount: int) -> None:
        """Give back what was taken."""
        self.left += amount


class Budgets(NamedTuple):
    """What the channels of one connection may hold, all together: ranges of open tags, and bytes of all else."""

    spans: Budget
    memory: Budget

    @property
    def bytes_used(self) -> int:
        """The bytes that what is open takes, about."""
        return self.memory.used + SPAN_COST * self.spans.used
