"""Budget of one connection, within that of all."""

from __future__ import annotations

from amqproxy.taps.trace.budget import Budget


class PartialBudget(Budget):
    """Budget of one holder, whose amounts are charged to the `whole` as well."""

    __slots__ = ("_whole",)

    def __init__(self, most: int, whole: Budget) -> None:
        super().__init__(most)
        self._whole = whole

    def take(self, amount: int) -> bool:
        """Take `amount` from both budgets if both have as much left; return whether they had."""
        if amount > self.left or not self._whole.take(amount):
            return False
        return super().take(amount)

    def give(self, amount: int) -> None:
        """Return `amount` to both budgets."""
        super().give(amount)
        self._whole.give(amount)
