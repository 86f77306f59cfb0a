"""A bound of one connection, within that of all."""

from __future__ import annotations

from amqproxy.taps.trace.budget import Budget


class PartialBudget(Budget):
    """What one may hold; what it holds counts for the `whole`, too."""

    __slots__ = ("_whole",)

    def __init__(self, most: int, whole: Budget) -> None:
        super().__init__(most)
        self._whole = whole

    def take(self, amount: int) -> bool:
        """Take this much, if it is there, of both."""
        if amount > self.left or not self._whole.take(amount):
            return False
        return super().take(amount)

    def give(self, amount: int) -> None:
        """Give back what was taken, to both."""
        super().give(amount)
        self._whole.give(amount)
