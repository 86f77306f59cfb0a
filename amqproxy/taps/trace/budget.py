"""Budgets that the channels of one connection share."""

from __future__ import annotations

from typing import NamedTuple

MAX_MEMORY = 8 << 20
"""Limit in bytes on the requests, consumers and recent methods of one connection; what exceeds it is not remembered.

Ranges of open tags have a separate limit, `open_tags.MAX_SPANS`."""

SPAN_COST = 200
"""Approximate memory of a range of open tags, in bytes."""


class Budget:
    """Remaining amount that the channels of one connection may hold, all together.

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
        """Take `amount` from the budget if as much is left; return whether it was."""
        if amount > self.left:
            return False
        self.left -= amount
        return True

    def give(self, amount: int) -> None:
        """Return `amount` to the budget."""
        self.left += amount


class Budgets(NamedTuple):
    """Budgets that the channels of one connection share: ranges of open tags, and bytes of all other state."""

    spans: Budget
    memory: Budget

    @property
    def bytes_used(self) -> int:
        """Approximate memory of all open state, in bytes."""
        return self.memory.used + SPAN_COST * self.spans.used
