"""A bound that the channels of one connection share."""

from __future__ import annotations


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
