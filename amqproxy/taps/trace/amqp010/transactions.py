"""Transactions of one session: the accepts that take effect with tx.commit. Section 10.3."""

from __future__ import annotations

from typing import NamedTuple

from amqproxy.taps.trace.amqp010.open_transfers import TransferRun
from amqproxy.taps.trace.budget import Budget
from amqproxy.taps.trace.events import DeliveriesSettled

MAX_TRANSACTIONS = 1024
"""Limit on the uncompleted commits and rollbacks of one session."""


class Accepted(NamedTuple):
    """Deliveries accepted in a transaction, and the event that reports them once it is committed."""

    event: DeliveriesSettled
    runs: list[TransferRun]


class SessionTransactions:
    """Accepts of the current transaction, and of those whose end the server has not completed."""

    __slots__ = ("_accepted", "_ending", "_spans")

    def __init__(self, spans: Budget) -> None:
        self._spans = spans
        self._accepted: list[Accepted] = []
        self._ending: dict[int, list[Accepted]] = {}

    @property
    def are_too_many(self) -> bool:
        """Whether more commits and rollbacks are uncompleted than `MAX_TRANSACTIONS`."""
        return len(self._ending) > MAX_TRANSACTIONS

    @property
    def is_idle(self) -> bool:
        """Whether nothing is accepted in a transaction that has not ended."""
        return not (self._accepted or any(self._ending.values()))

    def add(self, accepted: Accepted) -> None:
        """Add the client's accept to the current transaction."""
        self._accepted.append(accepted)
        self._spans.left -= len(accepted.runs)

    def commit(self, position: int) -> None:
        """End the current transaction with the client's tx.commit at a position."""
        self._ending[position], self._accepted = self._accepted, []

    def roll_back(self, position: int) -> list[Accepted]:
        """End the current transaction with the tx.rollback at a position; return its accepts, which are void."""
        self._ending[position] = []
        return self.take()

    def take(self) -> list[Accepted]:
        """End the current transaction at an unknown position; return its accepts."""
        accepted, self._accepted = self._accepted, []
        self._give_back(accepted)
        return accepted

    def ended(self, position: int) -> list[Accepted]:
        """Remove and return the accepts of the transaction whose end at a position the server has completed."""
        accepted = self._ending.pop(position, [])
        self._give_back(accepted)
        return accepted

    def clear(self) -> list[Accepted]:
        """Forget the accepts that have not taken effect, and the uncompleted ends; return the accepts in order."""
        found = [each for accepted in self._ending.values() for each in accepted] + self._accepted
        self._give_back(found)
        self._ending.clear()
        self._accepted = []
        return found

    def give_up(self) -> list[Accepted]:
        """Like `clear`, but keep the uncompleted commits and rollbacks."""
        found = [each for accepted in self._ending.values() for each in accepted] + self._accepted
        self._give_back(found)
        self._ending = {position: [] for position in self._ending}
        self._accepted = []
        return found

    def _give_back(self, accepted: list[Accepted]) -> None:
        for each in accepted:
            self._spans.left += len(each.runs)
